"""Byte-pair encoding by a merge list.

Two orders of events, by ``missing``:

* ``before``: characters become ids first (unknown ones the unknown token or byte tokens), then
  pairs of ids merge. Of a pair that is listed twice the later rank counts; a pair that makes no
  token never merges.
* ``after``: characters merge as text, token or not; what is not a token in the end is spelled with
  the tokens of its bytes, bytes without one being dropped. Of a pair listed twice the first counts.

Source: huggingface/tokenizers 0.23, models/bpe/model.rs (``merge_word``) and word.rs
(``merge_all``); ggml-org/llama.cpp, llama-vocab.cpp (``llm_tokenizer_bpe_session``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.pipeline.models import MergeStep, WordTrace
from mtkit.pipeline.models.merging import merge
from mtkit.pipeline.models.words import lay_out, no_token, piece_steps
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.pipeline.models import Symbol
    from mtkit.pipeline.models.merging import More, Rank
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models


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
            made = ids.get(pieces[left] + pieces[right][cut:])
            if made is not None:
                self.by_id[left, right] = rank, made

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
            found = by_id.get((left, right))
            return None if found is None else found[1]

        if steps is not None:
            steps.append(tuple(pieces[token_id] for token_id, _ in tokens))
        return merge(
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
                found = [self.byte_ids[byte] for byte in text]
                spelled = [token for token in found if token is not None]
                if len(spelled) == len(found):
                    tokens += [(token, 1) for token in spelled]
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
        merged = merge(
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
