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
from mtkit.pipeline.models.words import BYTE_PIECES, piece_steps
from mtkit.pipeline.utf8 import to_bytes
from mtkit.spec import TokenType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec

SCALE = 10_000
UNKNOWN_COST = 10_000_000
TOO_MUCH = 20_000_000
"""A piece of this cost is never taken."""
BYTE_ORDER_MARK = "\ufeff"


class ShortestPath:
    """Encoder of ``spec.models.ShortestPath``."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.vocabulary = vocabulary = spec.vocabulary
        scores = vocabulary.scores or [0.0] * len(vocabulary)
        self.costs: dict[str, tuple[int, int]] = {}
        """Text -> (cost, id)."""
        bytes_found: dict[bytes, int] = {}
        for token_id, piece in enumerate(vocabulary.pieces):
            role = vocabulary.type_of(token_id)
            if role is TokenType.BYTE:
                bytes_found.setdefault(piece, token_id)
            elif role is not TokenType.ABSENT and piece:
                cost = _cost(scores[token_id])
                if cost < TOO_MUCH:
                    text = piece.decode("utf-8", "surrogateescape")
                    self.costs.setdefault(text, (cost, token_id))
        missing = [piece for piece in BYTE_PIECES if piece not in bytes_found]
        if missing:
            raise FormatError(f"has no BYTE token {missing[0].decode()}", field="vocabulary")
        self.byte_ids = [bytes_found[piece] for piece in BYTE_PIECES]
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


def _cost(score: float) -> int:
    if not math.isfinite(score):
        return TOO_MUCH
    scaled = score * SCALE
    rounded = math.floor(abs(scaled) + 0.5)
    return rounded if scaled <= 0 else -rounded
