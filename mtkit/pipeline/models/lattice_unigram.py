"""The best segmentation of a word over its bytes, byte tokens being pieces like any other.

``best[i]`` is the best sum of a segmentation of the first i bytes; every piece that begins at a
place offers a sum where it ends and wins when it is not smaller, so the latest start, the shortest
last piece, keeps a tie. A place at the end of a character that no piece reaches is reached by the
unknown token, at its own score, which can be the best score of all.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``UnigramModel::encode``), by its
behavior.
"""

from __future__ import annotations

from mtkit.pipeline.models import PieceStep, WordTrace
from mtkit.pipeline.models.words import Prefixes, in_characters
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
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
        return in_characters(word, self._segment(to_bytes(word), _ends(word)))

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


def _ends(word: str) -> list[int]:
    """Return for each place in the bytes where the character that ends there begins, or -1."""
    starts = [-1]
    at = 0
    for character in word:
        size = len(to_bytes(character))
        starts += [-1] * (size - 1) + [at]
        at += size
    return starts
