"""Byte-pair encoding by score, and how such vocabularies find a piece.

A vocabulary has two tables: pieces that segmentation may make (NORMAL, USER_DEFINED, UNUSED) and
reserved ones (CONTROL, UNKNOWN, BYTE), whose spelling in a text is unknown like any other. UNUSED
pieces are steps on the way to longer ones: what is left of them is split again the way it was last
found to merge, and unknown where it cannot be split.

Source: google/sentencepiece, bpe_model.cc (``SampleEncode``); what is left at the end: measured on
0.2.3;
karpathy/llama2.c, run.c (``encode``); ggml-org/llama.cpp, ``llm_tokenizer_spm_session``.
"""

from __future__ import annotations

from mtkit.pipeline.models import MergeStep, WordTrace
from mtkit.pipeline.models.merging import merge
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
from mtkit.spec.vocabulary import BYTE_TOKENS, SEGMENTED
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.pipeline.models.merging import More, Rank
    from mtkit.spec import TokenizerSpec, Vocabulary
    from mtkit.spec import models as spec_models


class Tables:
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
        found = self.segmented.get(text)
        return None if found in self.unused else found

    def byte_ids(self, *, singles: bool = False) -> dict[int, int]:
        """Return byte -> id of its ``<0xHH>`` token, or with ``singles`` of the byte itself."""
        found: dict[int, int] = {}
        for byte, piece in enumerate(BYTE_TOKENS):
            for text in (piece, bytes((byte,)))[: 1 + singles]:
                token_id = self.reserved.get(text, self.segmented.get(text))
                if token_id is not None:
                    found.setdefault(byte, token_id)
        return found

    def cut(self, data: bytes) -> tuple[list[bytes], set[int]]:
        """Cut into user-defined pieces and characters; also tell which are user-defined."""
        parts: list[bytes] = []
        whole: set[int] = set()
        at = 0
        while at < len(data):
            found = self.user_defined.longest(data, at)
            if found is not None:
                whole.add(len(parts))
            end = at + character_size(data[at]) if found is None else found[0]
            parts.append(data[at:end])
            at = end
        return parts, whole


class ScoreBPE:
    """Encoder of ``spec.models.ScoreBPE``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.ScoreBPE) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        self.tables = Tables(spec.vocabulary)
        scores = spec.vocabulary.scores
        self.scores = [0.0] * len(spec.vocabulary) if scores is None else list(scores)
        everything = self.model.mergeable == "any"
        if everything:
            self.made = spec.vocabulary.ids
            self.byte_ids = self.tables.byte_ids(singles=True)
        else:
            self.made = self.tables.segmented
            self.byte_ids = self.tables.byte_ids()

    def find(self, text: bytes) -> int | None:
        """Return the id of a symbol."""
        return self.made.get(text) if self.model.mergeable == "any" else self.tables.find(text)

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
        model, made, scores = self.model, self.made, self.scores
        unused = self.tables.unused if model.mergeable == "listed" else set()
        floor = model.score_above
        halves: dict[bytes, tuple[bytes, bytes]] = {}

        def candidate(left: bytes, right: bytes) -> tuple[float, bytes] | None:
            union = left + right
            token_id = made.get(union)
            if token_id is None or (floor is not None and not scores[token_id] > floor):
                return None
            if token_id in unused:
                halves[union] = left, right
            return -scores[token_id], union

        def observe(rank: Rank, left: bytes, right: bytes, after: list[bytes], more: More) -> None:
            assert steps is not None
            steps.append(MergeStep((left, right), None, -rank, tuple(after), more))

        start, sizes, whole = self._start(to_bytes(word))
        merged = merge(
            start,
            sizes,
            candidate,
            lambda left, right: left + right,
            fixed=whole,
            observe=None if steps is None else observe,
        )
        if model.missing == "before":
            return start, lay_out(word, [(made[text], size) for text, size in merged])
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
            if part in self.made:
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
