"""Models: a word to ids with their places in the word; a module for each family of algorithms.

``build`` gives the encoder of a specification. Every encoder has ``encode`` and ``trace``.
"""

from __future__ import annotations

from importlib import import_module

from mtkit.base.record import Record
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, cast

    from mtkit.spec import TokenizerSpec

    class ModelEncoder(Protocol):
        """A model ready to encode words."""

        def encode(self, word: str) -> list[Symbol]:
            """Return the tokens of a word, in order.

            Raises:
                UnsupportedError: The model has no token for a part of it, not even an unknown one.
            """

        def trace(self, word: str) -> WordTrace:
            """Return how the tokens come about; its ids are those of ``encode``."""


Symbol = tuple[int, int, int]
"""(id, start, end); start and end count code points of the word.

A token that reaches over the end of the word has ~start and ~end in bytes.
"""

MODULES = {
    "BPE": "bpe",
    "LooseBPE": "bpe",
    "RankBPE": "bpe",
    "SectionBPE": "bpe",
    "ScoreBPE": "sentencepiece",
    "Unigram": "sentencepiece",
    "Characters": "sentencepiece",
    "Words": "sentencepiece",
    "LatticeUnigram": "best_path",
    "ShortestPath": "best_path",
    "Trie": "longest_match",
    "WordPiece": "longest_match",
    "WordLevel": "longest_match",
}
"""Name of the record -> module here that has its encoder, a class of that name."""


class MergeStep(Record):
    """One merge.

    Attributes:
        rank: Position in the merge list or id of the token made; None where scores decide.
        score: Score of the token made; None where ranks decide.
        after: The symbols of the word afterwards; of a long one those around the new symbol.
        more: Whether a long word has more of them in front and behind; None of another.
    """

    pair: tuple[bytes, bytes]
    rank: int | None
    score: float | None
    after: tuple[bytes, ...]
    more: tuple[bool, bool] | None = None


class PieceStep(Record):
    """A token of the result.

    Attributes:
        score: Its score, or None where the model has none.
    """

    id: int
    piece: bytes
    score: float | None
    start: int
    end: int


class WordTrace(Record):
    """How a word became tokens.

    Attributes:
        start: Symbols before the first merge; empty for models that do not merge.
    """

    start: tuple[bytes, ...]
    merges: tuple[MergeStep, ...]
    pieces: tuple[PieceStep, ...]

    @property
    def ids(self) -> list[int]:
        """Ids of the tokens."""
        return [piece.id for piece in self.pieces]


def build(spec: TokenizerSpec) -> ModelEncoder:
    """Return the encoder of a specification's model."""
    name = type(spec.model).__name__
    if name not in MODULES:
        raise UnsupportedError(f"no encoder for the model {name}", field="model")
    module = import_module(f"mtkit.pipeline.models.{MODULES[name]}")
    encoder = getattr(module, name)(spec, spec.model)
    if TYPE_CHECKING:
        return cast("ModelEncoder", encoder)
    return encoder
