"""Walking over a specification: the components of nested sequences, the pieces of one type."""

from __future__ import annotations

from mtkit.spec.vocabulary import TokenType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.spec import TokenizerSpec


def flat(component: Any) -> Iterator[Any]:
    """Yield the components of a stage in order, those of a ``Sequence`` in its place."""
    if component is None:
        return
    if type(component).__name__ != "Sequence":
        yield component
        return
    for step in component.steps:
        yield from flat(step)


def user_defined(spec: TokenizerSpec) -> tuple[bytes, ...]:
    """Return the user-defined pieces of the vocabulary."""
    pieces = spec.vocabulary.pieces
    return tuple(pieces[number] for number in spec.vocabulary.of_type(TokenType.USER_DEFINED))
