"""Byte-pair encoding with sections of another alphabet: runs of six bytes that are tokens.

Source: ggml-org/llama.cpp, llama-vocab.cpp, ``llm_tokenizer_hybriddna_session``; held to it live.
"""

from __future__ import annotations

from mtkit.pipeline.models import WordTrace
from mtkit.pipeline.models.bpe import BPE
from mtkit.pipeline.models.words import in_characters, piece_steps
from mtkit.pipeline.normalizers.aligned import Aligned
from mtkit.pipeline.pre_tokenizers import compile_pre_tokenizer
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models

RUN_BYTES = 6
FILL = b"A"
MARK = "\ue000".encode()


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
        for part in self.cut(Aligned.of(word[first:last])):
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
        for at in range(0, len(data), RUN_BYTES):
            run = data[at : at + RUN_BYTES]
            found = ids.get(run.upper().ljust(RUN_BYTES, FILL) + MARK, self.model.unknown)
            spans.append((found, at, at + len(run)))
        for token_id, start, end in in_characters(section, spans):
            yield token_id, first + start, first + end
