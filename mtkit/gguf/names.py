"""Names and strings of a GGUF file: reading them, and showing them in messages."""

from __future__ import annotations

from mtkit.base.escape import as_text, printable
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf.array_reader import ArrayReader

MAX_STRING_BYTES = 1 << 30
"""llama.cpp's limit for one key, name or value."""

_SHOWN = 80


def shown(name: str) -> str:
    """Return a name for a message: one line, not too long."""
    text = printable(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read_name(reader: ArrayReader, field: str) -> str:
    """Read a string as text with surrogate escapes."""
    at = reader.offset
    size = reader.size(field)
    if size > MAX_STRING_BYTES:
        raise FormatError(
            f"is {size} bytes long, the limit is {MAX_STRING_BYTES}", field=field, offset=at
        )
    return as_text(reader.take(size, field))
