"""The documents of a unit."""

from __future__ import annotations

import json

from mtkit.corpus.files import decompressed, opened, parquet_file
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from mtkit.corpus.files import Reading, Unit

_LONGEST = 1 << 30
"""Bytes of a document: memory goes with it."""


class Unusable:
    """A place that should hold a document and does not, with the reason."""

    def __init__(self, why: str) -> None:
        self.why = why


def place(unit: Unit, at: int) -> str:
    """Return where a document is in its file, for messages."""
    if unit.kind == "parquet":
        return f"row {at} of group {unit.start}"
    return "" if unit.kind == "text" else f"line at offset {at}"


def documents(unit: Unit, reading: Reading) -> Iterator[tuple[int, str | bytes | Unusable]]:
    """Yield each document of a unit with a number that ``place`` makes words of.

    Raises:
        FormatError: The file is damaged, or a document longer than 1 GiB.
    """
    with opened(unit.path) as file:
        if unit.kind == "parquet":
            yield from _rows(unit, reading, file)
            return
        content = decompressed(file, unit)
        try:
            if unit.kind == "text":
                yield 0, _limited(content.read(_LONGEST + 1), unit, "")
            else:
                yield from _lines(unit, reading, content)
        except FormatError:
            raise
        except Exception as error:
            if not unit.compression:
                raise
            what = f"is damaged or not {unit.compression}: {error}"  # zlib.error, LZMAError …
            raise FormatError(what, source=unit.path) from None


def _lines(
    unit: Unit, reading: Reading, content: BinaryIO
) -> Iterator[tuple[int, str | bytes | Unusable]]:
    """Yield the lines that begin in the unit's range; blank ones are none of a JSON Lines file."""
    at = 0
    if unit.start:
        content.seek(unit.start - 1)
        at = unit.start - 1 + len(content.readline())
    end = float("inf") if unit.compression else unit.end
    while at < end:
        line = content.readline(_LONGEST + 1)
        if not line:
            return
        began = at
        at += len(line)
        if len(line) > _LONGEST:
            _limited(line, unit, place(unit, began))
        if unit.kind == "lines":
            yield began, line.removesuffix(b"\n").removesuffix(b"\r")
        elif not line.isspace():
            yield began, _field(line, reading.field)


def _limited(content: bytes, unit: Unit, where: str) -> bytes:
    if len(content) > _LONGEST:
        hint = "" if where else "--lines takes each line as a document"
        raise FormatError("a document longer than 1 GiB", source=unit.path, field=where, hint=hint)
    return content


def _field(line: bytes, name: str) -> str | Unusable:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Unusable("is not JSON")
    if not isinstance(value, dict) or name not in value:
        return Unusable(f"has no field {name!r}")
    text = value[name]
    return text if isinstance(text, str) else Unusable(f"its field {name!r} is not a text")


def _rows(
    unit: Unit, reading: Reading, file: BinaryIO
) -> Iterator[tuple[int, str | bytes | Unusable]]:
    groups = list(range(unit.start, unit.end))
    at = 0
    with parquet_file(unit.path, file) as table:
        for batch in table.iter_batches(256, row_groups=groups, columns=[reading.field]):
            for value in batch.column(0).to_pylist():
                is_text = isinstance(value, str)
                what = "is null" if value is None else f"column {reading.field!r} is not a text"
                yield at, value if is_text else Unusable(what)
                at += 1
