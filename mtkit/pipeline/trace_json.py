"""A trace as plain JSON values."""

from __future__ import annotations

from mtkit.escape import byte_escapes
from mtkit.record import Record, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.pipeline.trace import Word


def word_values(word: Word) -> dict[str, object]:
    """Return a word with its merges, without values that are None."""
    values: dict[str, object] = {
        "word": byte_escapes(word.part.text),
        "offsets": [word.part.start, word.part.end],
        "added_token": word.model is None,
    }
    if word.model is not None:
        values["start"] = plain(word.model.start)
        values["steps"] = [
            {name: value for name, value in plain(merge).items() if value is not None}
            for merge in word.model.merges
        ]
        values["pieces"] = plain(word.model.pieces)
    return {**values, "ids": list(word.ids)}


def plain(value: object) -> Any:
    r"""Return records as JSON values, bytes that are no UTF-8 as ``\xNN``."""
    if isinstance(value, Record):
        return {name: plain(getattr(value, name)) for name in fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return byte_escapes(value) if isinstance(value, str) else value
