"""Models that look for the best path through all pieces: MNN's lattice, PLaMo-2's shortest path.

``LatticeUnigram`` is the best segmentation of a word over its bytes, byte tokens being pieces like
any other. ``best[i]`` is the best sum of a segmentation of the first i bytes; every piece that
begins at a place offers a sum where it ends and wins when it is not smaller, so the latest start,
the shortest last piece, keeps a tie. A place at the end of a character that no piece reaches is
reached by the unknown token, at its own score, which can be the best score of all.

``ShortestPath`` is the path of least cost through the characters of a text, found from its end. A
piece costs its score times -10000, rounded half away from zero; a character that is left over costs
10,000,000 and is spelled with the BYTE tokens of its UTF-8 form. At each place the longest piece is
tried first, and a later one wins only when it is strictly cheaper. One U+FEFF at the start of a
text is dropped. Every token but the BYTE ones can be found, control tokens too.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``UnigramModel::encode``), by its
behavior; pfnet/plamo-2, tokenization_plamo.py; ggml-org/llama.cpp, ``llm_tokenizer_plamo2``.
"""

from __future__ import annotations

import math

from mtkit.errors import FormatError
from mtkit.pipeline.models import PieceStep, WordTrace
from mtkit.pipeline.models.words import Prefixes, in_characters, piece_steps
from mtkit.spec import TokenType
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec, Vocabulary
    from mtkit.spec import models as spec_models


NO_BYTE = -1
"""Id of a byte that has no token."""


class LatticeUnigram:
    """Encoder of ``spec.models.LatticeUnigram``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.LatticeUnigram) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        ids = dict(spec.vocabulary.ids)
        ids.pop(b"", None)
        self.prefixes = Prefixes(ids)
        scores = spec.vocabulary.scores
        self.scores = [0.0] * len(spec.vocabulary) if scores is None else scores.view.tolist()
        self.byte_ids = [ids.get(piece, NO_BYTE) for piece in BYTE_TOKENS]

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a word."""
        return in_characters(word, self._segment(to_bytes(word), _character_starts(word)))

    def trace(self, word: str) -> WordTrace:
        """Return the tokens of a word with their scores."""
        pieces = self.vocabulary.pieces
        steps = [
            PieceStep(
                token_id,
                pieces[token_id] if token_id >= 0 else b"",
                self.scores[token_id] if token_id >= 0 else None,
                start,
                end,
            )
            for token_id, start, end in self.encode(word)
        ]
        return WordTrace((), (), tuple(steps))

    def _segment(self, data: bytes, ends: list[int]) -> list[Symbol]:
        """Return (id, start, end) in bytes; ``ends[i]``: start of the character ending at i."""
        unk, scores = self.model.unk, self.scores
        size = len(data)
        best = [0.0] * (size + 1)
        came_from = [-1] * (size + 1)
        ids = [NO_BYTE] * (size + 1)

        def offer(start: int, end: int, token_id: int, value: float) -> None:
            if came_from[end] < 0 or value >= best[end]:
                best[end], came_from[end], ids[end] = value, start, token_id

        for start in range(size):
            if start and came_from[start] < 0:
                if self.model.byte_fallback:
                    offer(start - 1, start, NO_BYTE, best[start - 1])
                elif ends[start] >= 0:
                    offer(ends[start], start, unk, best[ends[start]] + scores[unk])
                else:
                    continue
            here = best[start]
            byte_id = self.byte_ids[data[start]] if self.model.byte_fallback else NO_BYTE
            if byte_id >= 0:
                offer(start, start + 1, byte_id, here + scores[byte_id])
            for end, token_id in self.prefixes.at(data, start):
                offer(start, end, token_id, here + scores[token_id])
        if size and came_from[size] < 0:
            start = size - 1 if self.model.byte_fallback else ends[size]
            came_from[size], ids[size] = start, NO_BYTE if self.model.byte_fallback else unk
        return self._path(came_from, ids)

    def _path(self, came_from: list[int], ids: list[int]) -> list[Symbol]:
        path: list[Symbol] = []
        end = len(ids) - 1
        while end > 0:
            start, token_id = came_from[end], ids[end]
            if path and token_id == path[-1][0] == self.model.unk:
                path[-1] = token_id, start, path[-1][2]
            else:
                path.append((token_id, start, end))
            end = start
        path.reverse()
        return path


def _character_starts(word: str) -> list[int]:
    """Return for each place in the bytes where the character that ends there begins, or -1."""
    starts = [-1]
    at = 0
    for character in word:
        size = len(to_bytes(character))
        starts += [-1] * (size - 1) + [at]
        at += size
    return starts


COST_SCALE = 10_000
UNKNOWN_COST = 10_000_000
TOO_HIGH_COST = 20_000_000
"""A piece of this cost is never taken."""
LEAST_COST = -(1 << 31)
"""Costs have 32 bits."""
BYTE_ORDER_MARK = "\ufeff"


class ShortestPath:
    """Encoder of ``spec.models.ShortestPath``."""

    def __init__(self, spec: TokenizerSpec, _: spec_models.ShortestPath) -> None:
        self.vocabulary = vocabulary = spec.vocabulary
        self.costs: dict[str, tuple[int, int]] = {}
        """Text -> (cost, id)."""
        for token_id, cost in piece_costs(vocabulary).items():
            text = vocabulary.pieces[token_id].decode("utf-8", "surrogateescape")
            if text:
                self.costs.setdefault(text, (cost, token_id))
        self.byte_ids = byte_token_ids(vocabulary)
        self.longest = max(map(len, self.costs), default=0)

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a text."""
        start = 1 if word.startswith(BYTE_ORDER_MARK) else 0
        best = [0] * (len(word) + 1)
        choice: list[tuple[int, int | None]] = [(0, None)] * len(word)
        costs = self.costs
        for at in range(len(word) - 1, start - 1, -1):
            least = None
            for size in range(min(self.longest, len(word) - at), 0, -1):
                row = costs.get(word[at : at + size])
                if row is not None and (least is None or row[0] + best[at + size] < least):
                    least = row[0] + best[at + size]
                    choice[at] = size, row[1]
            if least is None or UNKNOWN_COST + best[at + 1] < least:
                least = UNKNOWN_COST + best[at + 1]
                choice[at] = 1, None
            best[at] = least
        symbols: list[Symbol] = []
        at = start
        while at < len(word):
            size, token_id = choice[at]
            if token_id is None:
                symbols += [(self.byte_ids[byte], at, at + 1) for byte in to_bytes(word[at])]
            else:
                symbols.append((token_id, at, at + size))
            at += size
        return symbols

    def trace(self, word: str) -> WordTrace:
        """Return the pieces of a text."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))


def byte_token_ids(vocabulary: Vocabulary) -> list[int]:
    """Return the BYTE token of each byte."""
    ids: dict[bytes, int] = {}
    for token_id, piece in enumerate(vocabulary.pieces):
        if vocabulary.type_of(token_id) is TokenType.BYTE:
            ids.setdefault(piece, token_id)
    missing = [piece for piece in BYTE_TOKENS if piece not in ids]
    if missing:
        raise FormatError(f"has no BYTE token {missing[0].decode()}", field="vocabulary")
    return [ids[piece] for piece in BYTE_TOKENS]


def piece_costs(vocabulary: Vocabulary) -> dict[int, int]:
    """Return what the pieces that can be taken cost, by id."""
    never = TokenType.BYTE, TokenType.ABSENT
    hidden = frozenset(vocabulary.hidden)
    scores = vocabulary.scores or [0.0] * len(vocabulary)
    priced = enumerate(map(cost_of_score, scores))
    return {
        i: cost
        for i, cost in priced
        if cost < TOO_HIGH_COST and i not in hidden and vocabulary.type_of(i) not in never
    }


def cost_of_score(score: float) -> int:
    """Return the cost of a piece with a score."""
    if not math.isfinite(score):
        return TOO_HIGH_COST
    scaled = score * COST_SCALE
    rounded = math.floor(abs(scaled) + 0.5)
    return rounded if scaled <= 0 else max(-rounded, LEAST_COST)
