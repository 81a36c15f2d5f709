"""Records as plain JSON values."""

from __future__ import annotations

from mtkit.base.escape import byte_escapes
from mtkit.base.record import Record, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def plain(value: object) -> Any:
    r"""Return records as JSON values, bytes that are not valid UTF-8 as ``\xNN``."""
    if isinstance(value, Record):
        return {name: plain(getattr(value, name)) for name in fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return byte_escapes(value) if isinstance(value, str) else value
