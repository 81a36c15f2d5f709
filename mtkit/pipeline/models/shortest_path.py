"""PLaMo-2: the path of least cost through the characters of a text, found from its end.

A piece costs its score times -10000, rounded half away from zero; a character that is left over
costs 10,000,000 and is spelled with the BYTE tokens of its UTF-8 form. At each place the longest
piece is tried first, and a later one wins only when it is strictly cheaper. One U+FEFF at the start
of a text is dropped. Every token but the BYTE ones can be found, control tokens too.

Source: pfnet/plamo-2, tokenization_plamo.py; ggml-org/llama.cpp, ``llm_tokenizer_plamo2``.
"""

from __future__ import annotations

import math

from mtkit.errors import FormatError
from mtkit.pipeline.models import WordTrace
from mtkit.pipeline.models.words import piece_steps
from mtkit.spec import TokenType
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec, Vocabulary
    from mtkit.spec import models as spec_models

SCALE = 10_000
UNKNOWN_COST = 10_000_000
TOO_MUCH = 20_000_000
"""A piece of this cost is never taken."""
LEAST = -(1 << 31)
"""Costs have 32 bits."""
BYTE_ORDER_MARK = "\ufeff"


class ShortestPath:
    """Encoder of ``spec.models.ShortestPath``."""

    def __init__(self, spec: TokenizerSpec, _: spec_models.ShortestPath) -> None:
        self.vocabulary = vocabulary = spec.vocabulary
        self.costs: dict[str, tuple[int, int]] = {}
        """Text -> (cost, id)."""
        for token_id, cost in costs(vocabulary).items():
            text = vocabulary.pieces[token_id].decode("utf-8", "surrogateescape")
            if text:
                self.costs.setdefault(text, (cost, token_id))
        self.byte_ids = byte_tokens(vocabulary)
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
                found = costs.get(word[at : at + size])
                if found is not None and (least is None or found[0] + best[at + size] < least):
                    least = found[0] + best[at + size]
                    choice[at] = size, found[1]
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


def byte_tokens(vocabulary: Vocabulary) -> list[int]:
    """Return the BYTE token of each byte.

    Raises:
        FormatError: One is missing.
    """
    found: dict[bytes, int] = {}
    for token_id, piece in enumerate(vocabulary.pieces):
        if vocabulary.type_of(token_id) is TokenType.BYTE:
            found.setdefault(piece, token_id)
    missing = [piece for piece in BYTE_TOKENS if piece not in found]
    if missing:
        raise FormatError(f"has no BYTE token {missing[0].decode()}", field="vocabulary")
    return [found[piece] for piece in BYTE_TOKENS]


def costs(vocabulary: Vocabulary) -> dict[int, int]:
    """Return what the pieces that can be taken cost, by id."""
    never = TokenType.BYTE, TokenType.ABSENT
    hidden = frozenset(vocabulary.hidden)
    scores = vocabulary.scores or [0.0] * len(vocabulary)
    priced = enumerate(map(cost_of, scores))
    return {
        i: cost
        for i, cost in priced
        if cost < TOO_MUCH and i not in hidden and vocabulary.type_of(i) not in never
    }


def cost_of(score: float) -> int:
    """Return the cost of a piece with a score."""
    if not math.isfinite(score):
        return TOO_MUCH
    scaled = score * SCALE
    rounded = math.floor(abs(scaled) + 0.5)
    return rounded if scaled <= 0 else max(-rounded, LEAST)
