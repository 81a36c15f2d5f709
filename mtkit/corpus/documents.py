"""The documents of a unit, in blocks."""

from __future__ import annotations

import json
from itertools import accumulate, count
from operator import add

from mtkit.base.record import Record
from mtkit.corpus.files import decompressed, opened, parquet_file
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from mtkit.corpus.files import Reading, Unit

_LONGEST = 1 << 30
"""Bytes of a document: memory goes with it."""
_BLOCK_BYTES = 1 << 18
"""Bytes of lines that are taken apart together: few enough that a block of blank ones is small."""
_BLOCK_ROWS = 256


class Block(Record):
    """Documents that lie behind each other.

    Attributes:
        places: A number for each, ascending, that ``place`` makes words of.
        texts: The documents.
        bad: Places that should hold a document and do not, each with the reason.
    """

    places: Sequence[int]
    texts: Sequence[str | bytes]
    bad: Sequence[tuple[int, str]] = ()


def place(unit: Unit, at: int) -> str:
    """Return where a document is in its file, for messages."""
    if unit.kind == "parquet":
        return f"row {at} of group {unit.start}"
    return "" if unit.kind == "text" else f"line at offset {at}"


def documents(unit: Unit, reading: Reading) -> Iterator[Block]:
    """Yield the documents of a unit.

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
                yield Block((0,), [_limited(content.read(_LONGEST + 1), unit, "")])
            else:
                yield from _lines(unit, reading, content)
        except FormatError:
            raise
        except Exception as error:
            if not unit.compression:
                raise
            what = f"is damaged or not {unit.compression}: {error}"  # zlib.error, LZMAError …
            raise FormatError(what, source=unit.path) from None


def _lines(unit: Unit, reading: Reading, content: BinaryIO) -> Iterator[Block]:
    """Yield the lines that begin in the unit's range; blank ones are none of a JSON Lines file."""
    at = 0
    if unit.start:
        content.seek(unit.start - 1)
        at = unit.start - 1 + len(content.readline())
    end = 1 << 63 if unit.compression else unit.end
    while at < end:
        data = content.read(min(_BLOCK_BYTES, end - at))
        if not data:
            return
        if not data.endswith(b"\n"):
            data += content.readline(_LONGEST + 1)
        lines = data.removesuffix(b"\n").split(b"\n")
        begins = accumulate(map(len, lines), initial=at)
        places = [begin for begin, _ in zip(map(add, begins, count()), lines, strict=False)]
        if len(data) > _LONGEST:  # only the last may be too long
            _limited(lines[-1], unit, place(unit, places[-1]))
        if unit.kind == "lines":
            if b"\r" in data:
                lines = [line.removesuffix(b"\r") for line in lines]
            yield Block(places, lines)
        else:
            yield _fields(places, lines, data, reading.field)
        at += len(data)


def _limited(content: bytes, unit: Unit, where: str) -> bytes:
    if len(content) > _LONGEST:
        hint = "" if where else "--lines takes each line as a document"
        raise FormatError("a document longer than 1 GiB", source=unit.path, field=where, hint=hint)
    return content


def _fields(places: list[int], lines: list[bytes], data: bytes, name: str) -> Block:
    """Return a field of each line of JSON.

    The data is decoded once: json.loads looks for the encoding of each line and for white space
    around it, which takes longer than the JSON.
    """
    try:
        whole: Sequence[str] = data.decode().split("\n")
    except UnicodeDecodeError:
        whole = [""] * len(lines)
    parse = json.JSONDecoder().raw_decode
    found: list[int] = []
    texts: list[str | bytes] = []
    bad: list[tuple[int, str]] = []
    for at, line, decoded in zip(places, lines, whole, strict=False):
        try:
            value, end = parse(decoded)
        except (ValueError, RecursionError):
            end = -1
        if end != len(decoded):  # space around it, another encoding, or no JSON
            if not line or line.isspace():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                bad.append((at, "is not JSON"))
                continue
        text = value.get(name) if isinstance(value, dict) else None
        if isinstance(text, str):
            found.append(at)
            texts.append(text)
        elif isinstance(value, dict) and name in value:
            bad.append((at, f"its field {name!r} is not a text"))
        else:
            bad.append((at, f"has no field {name!r}"))
    return Block(found, texts, bad)


def _rows(unit: Unit, reading: Reading, file: BinaryIO) -> Iterator[Block]:
    groups = list(range(unit.start, unit.end))
    at = 0
    with parquet_file(unit.path, file) as table:
        for batch in table.iter_batches(_BLOCK_ROWS, row_groups=groups, columns=[reading.field]):
            rows = list(enumerate(batch.column(0).to_pylist(), at))
            texts = {row: value for row, value in rows if isinstance(value, str)}
            other = f"column {reading.field!r} is not a text"
            bad = [(row, "is null" if value is None else other)
                   for row, value in rows if row not in texts]  # fmt: skip
            yield Block(list(texts), list(texts.values()), bad)
            at += len(rows)
