"""SentencePiece's models: byte-pair encoding by score, Unigram, characters and words.

A vocabulary has two tables (``PieceTables``): pieces that segmentation may make (NORMAL,
USER_DEFINED, UNUSED) and reserved ones (CONTROL, UNKNOWN, BYTE), whose spelling in a text is
unknown like any other. To ``ScoreBPE`` UNUSED pieces are steps on the way to longer ones: what is
left of them is split again the way it was last found to merge, and unknown where it cannot be
split.

``Unigram`` finds the segmentation with the highest sum of scores, from left to right. ``best[i]``
is the best sum of a segmentation of the first i bytes. From each place that a segmentation can
reach, every piece that begins there offers a sum for the place where it ends; it wins when it is
strictly greater (so the earliest start, the longest last piece, keeps a tie). With ``precision``
f32 every sum is rounded to float32 before it is compared, so ties are common; where a sum has grown
beyond ``SUM_RESET``, the sums from there on are counted from it.

``Characters`` and ``Words`` have no segmentation: every character, or every word, is a token or
unknown.

Source: google/sentencepiece 0.2.3, bpe_model.cc (``SampleEncode``; what is left at the end:
measured), unigram_model.cc (``EncodeOptimized``), char_model.cc,
word_model.cc, model_interface.cc (``SplitIntoWords``); huggingface/tokenizers 0.23,
models/unigram/model.rs (``encode_optimized``, ``tokenize``); karpathy/llama2.c, run.c (``encode``);
ggml-org/llama.cpp, ``llm_tokenizer_spm_session``.
"""

from __future__ import annotations

from array import array
from math import inf

from mtkit.pipeline.models import MergeStep, WordTrace
from mtkit.pipeline.models.bpe import merge_symbols
from mtkit.pipeline.models.words import (
    Prefixes,
    character_size,
    in_characters,
    lay_out,
    no_token,
    piece_steps,
    spell_unknown,
)
from mtkit.spec import TokenType
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS, SEGMENTED
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.pipeline.models.bpe import More, Rank
    from mtkit.spec import TokenizerSpec, Vocabulary
    from mtkit.spec import models as spec_models


class PieceTables:
    """Pieces by text: those that segmentation makes, the reserved ones, user-defined ones."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.segmented: dict[bytes, int] = {}
        self.reserved: dict[bytes, int] = {}
        self.unused: set[int] = set()
        user_defined: dict[bytes, int] = {}
        types, hidden = vocabulary.types, frozenset(vocabulary.hidden)
        for token_id, piece in enumerate(vocabulary.pieces):
            kind = TokenType.NORMAL if types is None else types[token_id]
            if kind in {TokenType.ABSENT, TokenType.UNKNOWN} or token_id in hidden:
                continue  # the text of the unknown token is as unknown as any other
            table = self.segmented if kind in SEGMENTED else self.reserved
            table.setdefault(piece, token_id)
            if kind == TokenType.UNUSED:
                self.unused.add(token_id)
            elif kind == TokenType.USER_DEFINED:
                user_defined[piece] = token_id
        self.user_defined = Prefixes(user_defined)

    def find(self, text: bytes) -> int | None:
        """Return the id of a text; reserved and UNUSED pieces are never found."""
        token_id = self.segmented.get(text)
        return None if token_id in self.unused else token_id

    def byte_ids(self, *, singles: bool = False) -> dict[int, int]:
        """Return byte -> id of its ``<0xHH>`` token, or with ``singles`` of the byte itself."""
        ids: dict[int, int] = {}
        for byte, piece in enumerate(BYTE_TOKENS):
            for text in (piece, bytes((byte,)))[: 1 + singles]:
                token_id = self.reserved.get(text, self.segmented.get(text))
                if token_id is not None:
                    ids.setdefault(byte, token_id)
        return ids

    def cut(self, data: bytes) -> tuple[list[bytes], set[int]]:
        """Cut into user-defined pieces and characters; also tell which are user-defined."""
        parts: list[bytes] = []
        whole: set[int] = set()
        at = 0
        while at < len(data):
            match = self.user_defined.longest(data, at)
            if match is not None:
                whole.add(len(parts))
            end = at + character_size(data[at]) if match is None else match[0]
            parts.append(data[at:end])
            at = end
        return parts, whole


class ScoreBPE:
    """Encoder of ``spec.models.ScoreBPE``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.ScoreBPE) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        self.tables = PieceTables(spec.vocabulary)
        scores = spec.vocabulary.scores
        self.scores = [0.0] * len(spec.vocabulary) if scores is None else list(scores)
        takes_all = self.model.mergeable == "any"
        if takes_all:
            self.union_ids = spec.vocabulary.ids
            self.byte_ids = self.tables.byte_ids(singles=True)
        else:
            self.union_ids = self.tables.segmented
            self.byte_ids = self.tables.byte_ids()

    def find(self, text: bytes) -> int | None:
        """Return the id of a symbol."""
        return self.union_ids.get(text) if self.model.mergeable == "any" else self.tables.find(text)

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a text."""
        return self._run(word, None)[1]

    def trace(self, word: str) -> WordTrace:
        """Return the merges of a text in order."""
        steps: list[MergeStep] = []
        start, symbols = self._run(word, steps)
        return WordTrace(tuple(start), tuple(steps), piece_steps(self.vocabulary, symbols))

    def _run(self, word: str, steps: list[MergeStep] | None) -> tuple[list[bytes], list[Symbol]]:
        """Return the start symbols and the tokens; with ``steps``, append each merge."""
        model, ids, scores = self.model, self.union_ids, self.scores
        unused = self.tables.unused if model.mergeable == "listed" else set()
        floor = model.score_above
        halves: dict[bytes, tuple[bytes, bytes]] = {}

        def candidate(left: bytes, right: bytes) -> tuple[float, bytes] | None:
            union = left + right
            token_id = ids.get(union)
            if token_id is None or (floor is not None and not scores[token_id] > floor):
                return None
            if token_id in unused:
                halves[union] = left, right
            return -scores[token_id], union

        def observe(rank: Rank, left: bytes, right: bytes, after: list[bytes], more: More) -> None:
            assert steps is not None
            steps.append(MergeStep((left, right), None, -rank, tuple(after), more))

        start, sizes, whole = self._start(to_bytes(word))
        merged = merge_symbols(
            start,
            sizes,
            candidate,
            lambda left, right: left + right,
            fixed=whole,
            observe=None if steps is None else observe,
        )
        if model.missing == "before":
            return start, lay_out(word, [(ids[text], size) for text, size in merged])
        parts = [part for text, _ in merged for part in self._split(text, halves)]
        byte_ids = self.byte_ids if model.byte_fallback else None
        spans = spell_unknown(parts, unk=model.unk, byte_ids=byte_ids)
        return start, in_characters(word, spans)

    def _start(self, data: bytes) -> tuple[list[bytes], list[int], set[int]]:
        """Return the start symbols, their sizes, and which of them never merge."""
        whole: set[int] = set()
        if self.model.symbols == "continuation":
            parts = cut_at_continuations(data)
        elif self.model.whole:
            parts, whole = self.tables.cut(data)
        else:
            parts, at = [], 0
            while at < len(data):
                parts.append(data[at : at + character_size(data[at])])
                at += len(parts[-1])
        if self.model.missing == "after":
            return parts, [len(part) for part in parts], whole
        start: list[bytes] = []
        sizes: list[int] = []
        pieces = self.vocabulary.pieces
        for part in parts:
            if part in self.union_ids:
                start.append(part)
                sizes.append(len(part))
            elif self.model.byte_fallback:
                for byte in part:
                    if byte not in self.byte_ids:
                        raise no_token(part)
                    start.append(pieces[self.byte_ids[byte]])
                    sizes.append(1)
            elif self.model.unk is not None:
                start.append(pieces[self.model.unk])
                sizes.append(len(part))
            else:
                raise no_token(part)
        return start, sizes, whole

    def _split(
        self, text: bytes, halves: dict[bytes, tuple[bytes, bytes]]
    ) -> list[tuple[bytes, int | None]]:
        """Split an UNUSED piece into the halves it was made of, again and again."""
        parts: list[tuple[bytes, int | None]] = []
        waiting = [text]
        while waiting:
            text = waiting.pop()
            token_id = self.find(text)
            if token_id is None and text in halves:
                left, right = halves[text]
                waiting += [right, left]
            else:
                parts.append((text, token_id))
        return parts


def cut_at_continuations(data: bytes) -> list[bytes]:
    """Cut into a byte and the continuation bytes behind it, at most four together."""
    parts: list[bytes] = []
    start = 0
    for at in range(1, len(data) + 1):
        if at == len(data) or data[at] & 0xC0 != 0x80 or at - start == 4:
            parts.append(data[start:at])
            start = at
    return parts


UNKNOWN_PENALTY = 10.0
"""What an unknown character costs below the lowest score (kUnkPenalty)."""
USER_DEFINED_BONUS = 0.1
"""What a preferred piece counts for each byte after its first (sentencepiece 0.2.3, measured)."""
SUM_RESET = 100_000.0
"""Float32 sums beyond it begin again (kScoreResetThreshold)."""
FLOAT_MAX = (2.0 - 2.0**-23) * 2.0**127


def round_to_f32(value: float) -> float:
    """Round to float32."""
    return array("f", (value,))[0]


class Unigram:
    """Encoder of ``spec.models.Unigram``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.Unigram) -> None:
        self.model = model
        self.vocabulary = vocabulary = spec.vocabulary
        tables = PieceTables(vocabulary)
        self.ids = tables.segmented
        if model.candidates == "any":
            self.ids = vocabulary.last_ids
        tried = dict(self.ids)
        tried.pop(b"", None)
        if model.candidates == "used":
            tried = {piece: i for piece, i in tried.items() if i not in tables.unused}
        self.byte_ids = tables.byte_ids() if model.byte_fallback else None
        self.prefixes = Prefixes(tried)
        self.path_scores = self._path_scores()

    def _path_scores(self) -> list[float]:
        """Return what each id counts as a piece; also set ``unk_offer``."""
        model, vocabulary = self.model, self.vocabulary
        size = len(vocabulary)
        path_scores = [0.0] * size if vocabulary.scores is None else list(vocabulary.scores)
        kinds = vocabulary.all_types()
        if model.candidates == "any":
            assigned = [s for s, kind in zip(path_scores, kinds, strict=True) if kind != 255]
        else:
            assigned = [s for s, kind in zip(path_scores, kinds, strict=True) if kind == 1]
        lowest = min(assigned, default=FLOAT_MAX) - UNKNOWN_PENALTY
        self.unk_offer = lowest if model.candidates == "any" else round_to_f32(lowest)
        if model.user_defined != "score":
            for token_id, kind in enumerate(kinds):
                if kind == TokenType.USER_DEFINED:
                    length = len(vocabulary.pieces[token_id])
                    preferred = round_to_f32(USER_DEFINED_BONUS * (length - 1))
                    path_scores[token_id] = preferred if model.user_defined == "preferred" else 0.0
        return path_scores

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a text."""
        data = to_bytes(word)
        return in_characters(word, self._spell(self._segment(data)))

    def trace(self, word: str) -> WordTrace:
        """Return the tokens of a text with their scores."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))

    def _segment(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return the pieces of the best segmentation as (bytes, id)."""
        model, path_scores, unk = self.model, self.path_scores, self.model.unk
        size = len(data)
        rounded, reset = (round_to_f32, SUM_RESET) if model.precision == "f32" else (float, inf)
        best = [0.0] * (size + 1)
        came_from = [-1] * (size + 1)
        ids = [-1] * (size + 1)
        start = reached = 0
        while start < size:
            if abs(best[start]) > reset:
                here = best[start]
                for place in range(start, reached + 1):
                    if place == start or came_from[place] >= 0:
                        best[place] = rounded(best[place] - here)
            here = best[start]
            next_start = min(start + character_size(data[start]), size)
            single = False
            for end, token_id in self.prefixes.at(data, start):
                reached = max(reached, end)
                offer = rounded(path_scores[token_id] + here)
                if came_from[end] < 0 or offer > best[end]:
                    best[end], came_from[end], ids[end] = offer, start, token_id
                single = single or end == next_start
            if not single:
                reached = max(reached, next_start)
                offer = rounded(self.unk_offer + here)
                if came_from[next_start] < 0 or offer > best[next_start]:
                    if unk is None:
                        raise no_token(data[start:next_start])
                    best[next_start], came_from[next_start], ids[next_start] = offer, start, unk
            start = next_start
        path: list[tuple[bytes, int]] = []
        end = size
        while end > 0:
            path.append((data[came_from[end] : end], ids[end]))
            end = came_from[end]
        path.reverse()
        return path

    def _spell(self, path: list[tuple[bytes, int]]) -> list[Symbol]:
        """Fuse unknown pieces and spell them; return (id, start, end) in bytes."""
        unk, last = self.model.unk, self.model.byte_places == "last"
        parts: list[tuple[bytes, int | None]] = []
        for text, token_id in path:
            fuses = token_id == unk and self.model.fuse_unk and not last
            if fuses and parts and parts[-1][1] is None:
                parts[-1] = parts[-1][0] + text, None
            else:
                parts.append((text, None if token_id == unk else token_id))
        if self.model.candidates == "any":
            # The reference looks the joined text up again: it can be a piece after all.
            parts = [
                (text, self.ids.get(text) if token_id is None else token_id)
                for text, token_id in parts
            ]
        fuse = self.model.fuse_unk
        return spell_unknown(parts, unk=unk, byte_ids=self.byte_ids, fuse=fuse, last=last)


class Characters:
    """Encoder of ``spec.models.Characters``."""

    def __init__(
        self, spec: TokenizerSpec, model: spec_models.Characters | spec_models.Words
    ) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        self.tables = PieceTables(spec.vocabulary)
        self.byte_ids = self.tables.byte_ids() if self.model.byte_fallback else None

    def parts(self, data: bytes) -> list[bytes]:
        """Cut a text into what is looked up."""
        return self.tables.cut(data)[0]

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a text."""
        parts = [(part, self.tables.find(part)) for part in self.parts(to_bytes(word))]
        spans = spell_unknown(parts, unk=self.model.unk, byte_ids=self.byte_ids)
        return in_characters(word, spans)

    def trace(self, word: str) -> WordTrace:
        """Return the tokens of a text."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))


class Words(Characters):
    """Encoder of ``spec.models.Words``."""

    def parts(self, data: bytes) -> list[bytes]:
        """Cut in front of every mark."""
        head, *rest = data.split(MARK_BYTES)
        return [head] * bool(head) + [MARK_BYTES + part for part in rest]
