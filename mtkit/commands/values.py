"""Rows of metadata and tensors, and choosing some by name."""

from __future__ import annotations

from mtkit.commands.output import Escaped
from mtkit.inspection.value_text import shape_text, shortened, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtkit.gguf import Metadata, Tensor


def chosen(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that a pattern selects: part of the name, or with ``*?[`` the whole."""
    return list(names) if pattern is None else [*filter(matcher(pattern), names)]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a text has a pattern in it, or with ``*?[`` is matched by it."""
    if not set(pattern) & set("*?["):
        return lambda text: pattern in text
    import re
    from fnmatch import translate

    fits = re.compile(translate(pattern)).match
    return lambda text: fits(text) is not None


def metadata_rows(
    metadata: Metadata, keys: Iterable[str], *, is_whole: bool
) -> Iterable[tuple[str, str, Escaped]]:
    """Give rows of key, type and value."""
    for key in keys:
        value = metadata[key]
        name = metadata.type_name(key)
        text = whole(value, name) if is_whole else shortened(value, name)
        yield key, name, Escaped(text)


def tensor_row(tensor: Tensor) -> tuple[object, ...]:
    """Return name, shape, type, offset and bytes."""
    return tensor.name, shape_text(tensor), tensor.type.name, tensor.offset, tensor.n_bytes
