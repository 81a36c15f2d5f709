"""Tokens with places from the core, as the pipeline's post-processing takes them."""

from __future__ import annotations

from mtkit.pipeline.tokens import Tokens
from mtkit.spec import post_processors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.post_processors import PostProcessor

    Columns = tuple[list[int], list[tuple[int, int]], list[tuple[int, bytes]]]
    """ids, offsets, and (place, text) of the tokens that are not spelled as their pieces."""


class Spelling(dict[int, str]):
    """Id -> how the vocabulary spells it, read when it is first asked for."""

    def __init__(self, spec: TokenizerSpec) -> None:
        super().__init__()
        self._pieces = spec.vocabulary.pieces

    def __missing__(self, token_id: int) -> str:
        known = 0 <= token_id < len(self._pieces)
        piece = self._pieces[token_id] if known else b""
        text = self[token_id] = str(piece, "utf-8", "surrogateescape")
        return text


class Builder:
    """Makes ``Tokens`` of what the core gives for a text.

    Attributes:
        kept: Whether no post-processor changes the offsets.
    """

    def __init__(self, spec: TokenizerSpec) -> None:
        self.spec = spec
        self._spelling = Spelling(spec)
        self._prefix = list(spec.prefix_ids)
        self.kept = not _trims(spec.post_processor)

    def tokens(self, columns: Columns, number: int) -> Tokens:
        """Return the tokens of the first (0) or second (1) text."""
        ids, offsets, spelled = columns
        spelling = self._spelling
        values = [spelling[token_id] for token_id in ids]
        for at, text in spelled:
            values[at] = str(text, "utf-8", "surrogateescape")
        if self._prefix and number == 0:
            ids = self._prefix + ids
            values = [spelling[token_id] for token_id in self._prefix] + values
            offsets = [(0, 0)] * len(self._prefix) + offsets
        return Tokens(ids, values, offsets, number, number)


def _trims(component: PostProcessor | None) -> bool:
    if isinstance(component, post_processors.Sequence):
        return any(map(_trims, component.steps))
    trimming = (post_processors.Roberta, post_processors.ByteLevel)
    return isinstance(component, trimming) and component.trim_offsets
