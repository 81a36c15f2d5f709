"""Byte-pair encoding: by a merge list, by rank, by pairs with ranks, and with sections.

``merge_symbols`` is the loop that they share: the best pair merges until no pair can. A heap of
candidates over a linked list of symbols: O(n log n) merges for a word of n symbols. Candidates that
a merge has overtaken stay in the heap and are recognized when they come up.

``BPE`` goes by a merge list, in two orders of events, by ``missing``:

* ``before``: characters become ids first (unknown ones the unknown token or byte tokens), then
  pairs of ids merge. Of a pair that is listed twice the later rank counts; a pair that makes no
  token never merges.
* ``after``: characters merge as text, token or not; what is not a token in the end is spelled with
  the tokens of its bytes, bytes without one being dropped. Of a pair listed twice the first counts.

``RankBPE`` has no merge list: a word that is a token is looked up whole; else the union with the
lowest id merges first, leftmost among equals. ``LooseBPE`` has pairs with ranks of their own, whose
results are looked up as they come. ``SectionBPE`` has sections of another alphabet: runs of six
bytes that are tokens. Encoding by score is in ``sentencepiece``.

Source: openai/tiktoken, src/lib.rs (``byte_pair_encode``); huggingface/tokenizers 0.23,
models/bpe/model.rs (``merge_word``) and word.rs
(``merge_all``); ggml-org/llama.cpp, llama-vocab.cpp (``llm_tokenizer_bpe_session``,
``llm_tokenizer_hybriddna_session``, held to it live); alibaba/MNN,
transformers/llm/engine/src/tokenizer (``BPEModel::bpe``), by its behavior (``LooseBPE``).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from mtkit.errors import UnsupportedError
from mtkit.pipeline.aligned_text import AlignedText
from mtkit.pipeline.models import MergeStep, WordTrace
from mtkit.pipeline.models.words import in_characters, lay_out, no_token, piece_steps
from mtkit.pipeline.pre_tokenizers import compile_pre_tokenizer
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import Any, TypeVar, Union

    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models

    Key = TypeVar("Key", int, bytes)

    Rank = Union[int, float]

    More = Union[tuple[bool, bool], None]


SYMBOLS_SHOWN = 128
"""Symbols of a word that is shown whole after each merge: of a longer one, which would take the
square of its length, ``SYMBOLS_NEAR`` on each side of the new symbol."""
SYMBOLS_NEAR = 8


def merge_symbols(
    keys: list[Key],
    sizes: list[int],
    candidate: Callable[[Key, Key], tuple[Rank, Key] | None],
    joins_to: Callable[[Key, Key], Key | None],
    *,
    fixed: Container[int] = (),
    observe: Callable[[Rank, Key, Key, list[Key], More], None] | None = None,
) -> list[tuple[Key, int]]:
    """Merge symbols, lowest rank first and leftmost among equals.

    Args:
        candidate: The rank of merging two neighbors and what they become, or None; asked once
            whenever two symbols become neighbors.
        joins_to: What two neighbors become now; tells whether a candidate still holds.

    Returns:
        (key, size) of the symbols that are left.
    """
    count = len(keys)
    keys, sizes = list(keys), list(sizes)
    following = list(range(1, count + 1))
    preceding = list(range(-1, count - 1))
    gone = [False] * count
    heap: list[tuple[Rank, int, Key]] = []
    for left in range(count - 1):
        if left not in fixed and left + 1 not in fixed:
            merge = candidate(keys[left], keys[left + 1])
            if merge is not None:
                heap.append((merge[0], left, merge[1]))
    heapify(heap)
    while heap:
        rank, left, joined = heappop(heap)
        right = following[left]
        if gone[left] or right >= count or joins_to(keys[left], keys[right]) != joined:
            continue
        pair = keys[left], keys[right]
        keys[left] = joined
        sizes[left] += sizes[right]
        gone[right] = True
        after = following[left] = following[right]
        before = preceding[left]
        if after < count:
            preceding[after] = left
        if observe is not None:
            observe(rank, *pair, *symbols_near(left, keys, preceding, following))
        if before >= 0 and before not in fixed:
            merge = candidate(keys[before], joined)
            if merge is not None:
                heappush(heap, (merge[0], before, merge[1]))
        if after < count and after not in fixed:
            merge = candidate(joined, keys[after])
            if merge is not None:
                heappush(heap, (merge[0], left, merge[1]))
    return [(keys[i], sizes[i]) for i in range(count) if not gone[i]]


def symbols_near(
    at: int, keys: list[Key], preceding: list[int], following: list[int]
) -> tuple[list[Key], More]:
    """Return the symbols of a word around one; also whether there are more on each side.

    Of a word of ``SYMBOLS_SHOWN`` or fewer all are returned, and None.

    Args:
        preceding: Place of the one in front of each; below 0: none.
    """
    count = len(keys)
    near = SYMBOLS_NEAR if count > SYMBOLS_SHOWN else count
    front, first = 0, at
    while front < near and preceding[first] >= 0:
        front, first = front + 1, preceding[first]
    near_keys: list[Key] = []
    place = first
    while place < count and len(near_keys) <= front + near:
        near_keys.append(keys[place])
        place = following[place]
    return near_keys, (preceding[first] >= 0, place < count) if count > SYMBOLS_SHOWN else None


class BPE:
    """Encoder of ``spec.models.BPE``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.BPE) -> None:
        if model.dropout:
            raise UnsupportedError(
                f"is {model.dropout}: merges are skipped at random",
                field="model.dropout",
                hint="set it to null to encode",
            )
        self.model = model
        self.vocabulary = spec.vocabulary
        self.pieces = list(spec.vocabulary.pieces)
        self.ids = spec.vocabulary.ids
        self.prefix = to_bytes(model.continuing_subword_prefix)
        self.suffix = to_bytes(model.end_of_word_suffix)
        self.byte_ids = [self.ids.get(piece) for piece in BYTE_TOKENS]
        self.by_id: dict[tuple[int, int], tuple[int, int]] = {}
        self.by_text: dict[tuple[bytes, bytes], int] = {}
        if model.missing == "before":
            self._index_ids()
        else:
            parts = self.pieces + list(model.merges.unlisted)
            for rank, (left, right) in enumerate(self.model.merges.pairs.pairs()):
                self.by_text.setdefault((parts[left], parts[right]), rank)

    def _index_ids(self) -> None:
        """Fill the table of id pairs."""
        pieces, ids, cut = self.pieces, self.ids, len(self.prefix)
        for rank, (left, right) in enumerate(self.model.merges.pairs.pairs()):
            token_id = ids.get(pieces[left] + pieces[right][cut:])
            if token_id is not None:
                self.by_id[left, right] = rank, token_id

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a word."""
        return self._run(word, None)

    def trace(self, word: str) -> WordTrace:
        """Return the merges of a word in order."""
        steps: list[Any] = []
        symbols = self._run(word, steps)
        start: tuple[bytes, ...] = steps[0] if steps else ()
        merges: tuple[MergeStep, ...] = tuple(steps[1:])
        return WordTrace(start, merges, piece_steps(self.vocabulary, symbols))

    def _run(self, word: str, steps: list[Any] | None) -> list[Symbol]:
        """Encode; with ``steps``, append the start symbols and each merge."""
        if not word:
            return []
        data = to_bytes(word)
        newlines = self.model.whole_newlines and not word.strip("\n")
        if (self.model.ignore_merges or newlines) and data in self.ids:
            if steps is not None:
                steps.append((data,))
            return [(self.ids[data], 0, len(word))]
        if self.model.missing == "after":
            return lay_out(word, self._by_text(word, steps))
        return lay_out(word, self._by_id(word, steps))

    def _by_id(self, word: str, steps: list[Any] | None) -> list[tuple[int, int]]:
        tokens = self._start(word)
        by_id, pieces = self.by_id, self.pieces

        def observe(rank: Rank, left: int, right: int, after: list[int], more: More) -> None:
            assert steps is not None
            texts = tuple(pieces[key] for key in after)
            steps.append(MergeStep((pieces[left], pieces[right]), int(rank), None, texts, more))

        def joins_to(left: int, right: int) -> int | None:
            merge = by_id.get((left, right))
            return None if merge is None else merge[1]

        if steps is not None:
            steps.append(tuple(pieces[token_id] for token_id, _ in tokens))
        return merge_symbols(
            [token_id for token_id, _ in tokens],
            [size for _, size in tokens],
            lambda left, right: by_id.get((left, right)),
            joins_to,
            observe=None if steps is None else observe,
        )

    def _start(self, word: str) -> list[tuple[int, int]]:
        """Return (id, size in bytes) of each character.

        An unknown token waits until a known character follows (to be fused), so byte tokens of a
        later character come before it; a character without any token leaves no gap.
        """
        model, ids = self.model, self.ids
        tokens: list[tuple[int, int]] = []
        waiting = 0
        for index, character in enumerate(word):
            text = to_bytes(character)
            size = len(text)
            if index:
                text = self.prefix + text
            if index == len(word) - 1:
                text += self.suffix
            token_id = ids.get(text)
            if token_id is not None:
                if waiting and model.unk is not None:
                    tokens.append((model.unk, waiting))
                    waiting = 0
                tokens.append((token_id, size))
                continue
            if model.byte_fallback:
                byte_tokens = [self.byte_ids[byte] for byte in text]
                bytes_ids = [token for token in byte_tokens if token is not None]
                if len(bytes_ids) == len(byte_tokens):
                    tokens += [(token, 1) for token in bytes_ids]
                    continue
            if model.unk is None and model.without_unk == "error":
                raise no_token(text)
            if model.unk is not None:
                if waiting and not model.fuse_unk:
                    tokens.append((model.unk, waiting))
                    waiting = 0
                waiting += size
        if waiting and model.unk is not None:
            tokens.append((model.unk, waiting))
        return tokens

    def _by_text(self, word: str, steps: list[Any] | None) -> list[tuple[int, int]]:
        by_text = self.by_text

        def candidate(left: bytes, right: bytes) -> tuple[int, bytes] | None:
            rank = by_text.get((left, right))
            return None if rank is None else (rank, left + right)

        def observe(rank: Rank, left: bytes, right: bytes, after: list[bytes], more: More) -> None:
            assert steps is not None
            steps.append(MergeStep((left, right), int(rank), None, tuple(after), more))

        start = [to_bytes(character) for character in word]
        if steps is not None:
            steps.append(tuple(start))
        merged = merge_symbols(
            start,
            [len(text) for text in start],
            candidate,
            lambda left, right: left + right,
            observe=None if steps is None else observe,
        )
        tokens: list[tuple[int, int]] = []
        for text, size in merged:
            token_id = self.ids.get(text)
            if token_id is not None:
                tokens.append((token_id, size))
                continue
            for byte in text:
                single = (
                    self.byte_ids[byte]
                    if self.model.byte_fallback
                    else self.ids.get(bytes((byte,)))
                )
                tokens.append((-1 if single is None else single, 1))
        return tokens


class RankBPE:
    """Encoder of ``spec.models.RankBPE``."""

    def __init__(self, spec: TokenizerSpec, _: spec_models.RankBPE) -> None:
        self.vocabulary = spec.vocabulary
        self.ids = spec.vocabulary.ids

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a word."""
        return self._run(word, None)[1]

    def trace(self, word: str) -> WordTrace:
        """Return the merges of a word in order."""
        steps: list[MergeStep] = []
        start, symbols = self._run(word, steps)
        return WordTrace(tuple(start), tuple(steps), piece_steps(self.vocabulary, symbols))

    def _run(self, word: str, steps: list[MergeStep] | None) -> tuple[list[bytes], list[Symbol]]:
        """Return the start symbols and the tokens; with ``steps``, append each merge."""
        ids = self.ids
        data = to_bytes(word)
        if not data:
            return [], []
        if data in ids:
            return [data], [(ids[data], 0, len(word))]

        def candidate(left: bytes, right: bytes) -> tuple[int, bytes] | None:
            joined = left + right
            token_id = ids.get(joined)
            return None if token_id is None else (token_id, joined)

        def observe(rank: Rank, left: bytes, right: bytes, after: list[bytes], more: More) -> None:
            assert steps is not None
            steps.append(MergeStep((left, right), int(rank), None, tuple(after), more))

        start = [to_bytes(character) for character in word]
        for text in start:
            if text not in ids:
                raise no_token(text)
        merged = merge_symbols(
            start,
            [len(text) for text in start],
            candidate,
            lambda left, right: left + right,
            observe=None if steps is None else observe,
        )
        return start, lay_out(word, [(ids[text], size) for text, size in merged])


class LooseBPE:
    """Encoder of ``spec.models.LooseBPE``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.LooseBPE) -> None:
        self.vocabulary = spec.vocabulary
        self.pieces = list(spec.vocabulary.pieces)
        self.ids = spec.vocabulary.ids
        self.ranks: dict[tuple[int, int], int] = {}
        for pair, rank in zip(model.pairs.pairs(), model.ranks, strict=True):
            self.ranks.setdefault(pair, rank)

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a word."""
        return lay_out(word, self._merge(*self._start(word), None))

    def trace(self, word: str) -> WordTrace:
        """Return the merges of a word in order."""
        steps: list[MergeStep] = []
        keys, sizes = self._start(word)
        symbols = lay_out(word, self._merge(list(keys), sizes, steps))
        start = tuple(self.pieces[key] for key in keys)
        return WordTrace(start, tuple(steps), piece_steps(self.vocabulary, symbols))

    def _start(self, word: str) -> tuple[list[int], list[int]]:
        """Return ids and sizes in bytes of what the word begins as.

        What is dropped counts as part of the token in front, so that the places behind it are
        right.
        """
        keys: list[int] = []
        sizes: list[int] = []
        for character in word:
            text = to_bytes(character)
            token_id = self.ids.get(text)
            parts = [(token_id, len(text))]
            if token_id is None:
                parts = [(self.ids.get(BYTE_TOKENS[byte]), 1) for byte in text]
            for key, size in parts:
                if key is not None:
                    keys.append(key)
                    sizes.append(size)
                elif sizes:
                    sizes[-1] += size
        return keys, sizes

    def _merge(
        self, keys: list[int], sizes: list[int], steps: list[MergeStep] | None
    ) -> list[tuple[int, int]]:
        """Merge the lowest rank, leftmost first, until no pair is left or one makes nothing."""
        count = len(keys)
        following = list(range(1, count + 1))
        preceding = list(range(-1, count - 1))
        heap = [
            (rank, left, keys[left], keys[left + 1])
            for left in range(count - 1)
            if (rank := self.ranks.get((keys[left], keys[left + 1]))) is not None
        ]
        heapify(heap)
        alive = [True] * count
        while heap:
            rank, at, left, right = heappop(heap)
            behind = following[at]
            if not alive[at] or behind >= count or (keys[at], keys[behind]) != (left, right):
                continue
            token_id = self.ids.get(self.pieces[left] + self.pieces[right])
            if token_id is None:
                break
            keys[at] = token_id
            sizes[at] += sizes[behind]
            alive[behind] = False
            after = following[at] = following[behind]
            if after < count:
                preceding[after] = at
            if steps is not None:
                near, more = symbols_near(at, keys, preceding, following)
                pair = self.pieces[left], self.pieces[right]
                texts = tuple(self.pieces[key] for key in near)
                steps.append(MergeStep(pair, rank, None, texts, more))
            for place in (preceding[at], at):
                if place >= 0 and following[place] < count:
                    pair_ids = keys[place], keys[following[place]]
                    pair_rank = self.ranks.get(pair_ids)
                    if pair_rank is not None:
                        heappush(heap, (pair_rank, place, *pair_ids))
        return [(keys[at], sizes[at]) for at in range(count) if alive[at]]


SECTION_RUN_BYTES = 6
SECTION_FILL = b"A"
SECTION_MARK = "\ue000".encode()


class SectionBPE:
    """Encoder of ``spec.models.SectionBPE``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.SectionBPE) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        self.bpe = BPE(spec, self.model.bpe)
        self.cut = compile_pre_tokenizer(self.model.words)
        pieces = spec.vocabulary.pieces
        self.begin = pieces[self.model.begin].decode("utf-8", "surrogateescape")
        self.end = pieces[self.model.end].decode("utf-8", "surrogateescape")

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a text."""
        symbols: list[Symbol] = []
        at = 0
        while at < len(word):
            start = word.find(self.begin, at)
            symbols += self._plain(word, at, len(word) if start < 0 else start)
            if start < 0:
                break
            inside = start + len(self.begin)
            symbols.append((self.model.begin, start, inside))
            stop = word.find(self.end, inside)
            symbols += self._runs(word, inside, len(word) if stop < 0 else stop)
            if stop < 0:
                break
            at = stop + len(self.end)
            symbols.append((self.model.end, stop, at))
        return symbols

    def trace(self, word: str) -> WordTrace:
        """Return the pieces of a text."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))

    def _plain(self, word: str, first: int, last: int) -> Iterator[Symbol]:
        """Encode the text between sections."""
        if first == last:
            return
        for part in self.cut(AlignedText.of(word[first:last])):
            most = len(part.text) - 1
            for token_id, start, end in self.bpe.encode(part.text):
                # What an affix adds lies beyond the word; only damaged files have one here.
                low = part.spans[min(max(start, 0), most)][0]
                high = part.spans[min(max(end - 1, 0), most)][1]
                yield token_id, first + low, first + high

    def _runs(self, word: str, first: int, last: int) -> Iterator[Symbol]:
        """Look the runs of a section up."""
        section = word[first:last]
        data, ids = to_bytes(section), self.vocabulary.ids
        spans = []
        for at in range(0, len(data), SECTION_RUN_BYTES):
            run = data[at : at + SECTION_RUN_BYTES]
            run_id = ids.get(
                run.upper().ljust(SECTION_RUN_BYTES, SECTION_FILL) + SECTION_MARK,
                self.model.unknown,
            )
            spans.append((run_id, at, at + len(run)))
        for token_id, start, end in in_characters(section, spans):
            yield token_id, first + start, first + end
