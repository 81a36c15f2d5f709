"""Metadata and tensors as text; values whole, or shortened with their true length."""

from __future__ import annotations

from mtkit.base.escape import escape
from mtkit.commands.output import Escaped, cell, float32_text
from mtkit.gguf import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtkit.gguf import Metadata, Tensor

FIRST = 6
"""Elements shown of a long array."""


def whole(value: object, type_name: str = "") -> str:
    """Return a value as one line: ``3``, ``text``, ``[1, 2]``, ``["a", "b"]``."""
    if isinstance(value, GgufArray):
        return f"[{', '.join(_elements(value))}]"
    if type_name == "f32" and isinstance(value, float):
        return float32_text(value)
    return cell(value)


def shortened(value: object, type_name: str = "") -> str:
    """Return a value as one line; of a long array its true length and the first elements."""
    if not isinstance(value, GgufArray) or len(value) <= FIRST:
        return whole(value, type_name)
    from itertools import islice

    return f"{len(value)}: {' '.join(islice(_elements(value), FIRST))} …"


def _elements(value: GgufArray) -> Iterable[str]:
    if value.element.name == "string":
        return (f'"{escape(text).replace(chr(34), chr(92) + chr(34))}"' for text in value)
    if value.element.name == "array":
        return (whole(inner) for inner in value)
    return map(float32_text if value.element.name == "f32" else cell, value)


def chosen(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that a pattern selects: part of the name, or with ``*?[`` the whole."""
    return list(names) if pattern is None else [*filter(matcher(pattern), names)]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a text has a pattern in it, or with ``*?[`` is matched by it."""
    if not set(pattern) & set("*?["):
        return lambda text: pattern in text
    import re
    from fnmatch import translate

    whole = re.compile(translate(pattern)).match
    return lambda text: whole(text) is not None


def metadata_rows(
    metadata: Metadata, keys: Iterable[str], *, is_whole: bool
) -> Iterable[tuple[str, str, Escaped]]:
    """Give rows of key, type and value."""
    for key in keys:
        value = metadata[key]
        name = metadata.type_name(key)
        text = whole(value, name) if is_whole else shortened(value, name)
        yield key, name, Escaped(text)


def shape_text(tensor: Tensor, times: str = "x") -> str:
    """Return a shape, fastest axis first: ``256x512``; ``1`` without an axis."""
    return times.join(map(str, tensor.shape)) or "1"


def tensor_row(tensor: Tensor) -> tuple[object, ...]:
    """Return name, shape, type, offset and bytes."""
    return tensor.name, shape_text(tensor), tensor.type.name, tensor.offset, tensor.n_bytes
