"""Where two specifications differ, field by field."""

from __future__ import annotations

from mtkit.base.record import Record, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mtkit.spec import TokenizerSpec


def unlike_fields(
    left: TokenizerSpec, right: TokenizerSpec, named: Collection[str]
) -> tuple[str, ...]:
    """Return the fields that differ and are not named, dotted; the name does not count.

    ``model.merges`` names that field of the model alone, and the whole model where the two are of
    different classes: then there is no field to tell apart.
    """
    return tuple(_unlike(left, right, "", named))


def _unlike(left: object, right: object, path: str, named: Collection[str]) -> Iterator[str]:
    if path in named or left == right:
        return
    inside = path + "." if path else ""
    if type(left) is type(right) and isinstance(left, Record):
        for name in fields(left):
            if inside or name != "name":
                values = getattr(left, name), getattr(right, name)
                yield from _unlike(*values, inside + name, named)
    elif not any(name.startswith(inside) for name in named):
        yield path
