"""The files of a corpus, the units that its work is cut into, and the documents of a unit.

An uncompressed file of lines is cut into ranges of bytes; a line belongs to the range that it
begins in. A Parquet file is cut at its row groups. A compressed file and a text that is one
document are a unit each. Documents are read in blocks.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import contextmanager
from itertools import accumulate, count
from operator import add

from mtkit.base.files import visible_files
from mtkit.base.record import Record
from mtkit.errors import (
    FormatError,
    MissingExtra,
    MtkitError,
    ResourceError,
    UsageError,
    system_message,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, BinaryIO


_CODE = (
    ".c .h .cc .cpp .hpp .cu .cs .css .go .hs .html .java .jl .js .jsx .kt .lua .m .ml .php .pl .py"
    " .r .rb .rs .scala .sh .sql .swift .ts .tsx .zig"
)
_TEXTS = dict.fromkeys(f".txt .md .rst .tex {_CODE}".split(), "text")
_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", **_TEXTS}
"""Files with these suffixes are taken from a folder; a named file of another suffix is text."""
_COMPRESSED = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2", ".zst": "zstd"}
_UNIT_BYTES = 8 << 20
_PIECE_BYTES = 1 << 20
_MOST_TIMES, _ALWAYS_BYTES = 256, 64 << 20
"""What a compressed file may unpack to: so many times what was read of it, or so many bytes. Texts
reach 10 times, logs 100; .gz can reach 1,032 times, the others 6,000 and more."""


class Reading(Record):
    """How documents are found in files.

    Attributes:
        field: Name of the JSON field or Parquet column that holds the text.
        by_line: Each line of a text file is a document, not the file.
    """

    field: str = "text"
    by_line: bool = False


class Unit(Record):
    """Documents that are read, encoded and written together.

    Attributes:
        kind: "text" (one document), "lines", "jsonl" or "parquet".
        compression: "gzip", "lzma", "bz2", "zstd", or "" for none.
        size: Bytes of the file that the unit stands for: the measure of progress.
        modified: Time of the file's last change, in nanoseconds; 0 if unknown.
    """

    path: str
    kind: str
    compression: str
    start: int
    end: int
    size: int
    modified: int


def units_of(paths: Sequence[str], reading: Reading) -> tuple[list[Unit], int]:
    """Return the units of a corpus in a fixed order, and how many files of folders are left out.

    Args:
        paths: Files, folders (with their subfolders) and fsspec URLs; what is named twice is read
            twice.
    """
    files: list[str] = []
    left_out = 0
    for path in paths:
        if not is_url(path) and os.path.isdir(path):
            below = [*visible_files(path)]
            readable = [
                name for name in below if os.path.splitext(_without_compression(name))[1] in _KINDS
            ]
            left_out += len(below) - len(readable)
            files += readable
        else:
            files.append(path)
    units = [unit for path in files for unit in _split_file(path, reading)]
    if not units:
        if files:
            what = "is empty" if len(files) == 1 else f"is empty, as all {len(files)} files are"
            raise UsageError(what, source=files[0])
        what = f"no documents among {left_out} files" if left_out else "no documents"
        raise UsageError(
            what, source=paths[0] if paths else "",
            hint="in folders, mtkit reads .jsonl, .ndjson, .parquet, .txt, .md and source code,"
            " also compressed; to read other files, name them",
        )  # fmt: skip
    return units, left_out


def is_url(path: str) -> bool:
    """Tell whether fsspec opens a path, such as ``s3://bucket/name``."""
    return "://" in path


def _without_compression(path: str) -> str:
    bare, suffix = os.path.splitext(path)
    return bare if suffix in _COMPRESSED else path


def _split_file(path: str, reading: Reading) -> Iterator[Unit]:
    size, modified = _stat_file(path)
    compression = _COMPRESSED.get(os.path.splitext(path)[1], "")
    kind = _KINDS.get(os.path.splitext(_without_compression(path))[1], "text")
    if kind == "text" and reading.by_line:
        kind = "lines"
    if kind == "parquet":
        yield from _row_groups(path, modified, reading)
    elif kind == "text" or compression:
        yield Unit(path, kind, compression, 0, size, size, modified)
    else:
        for start in range(0, size, _UNIT_BYTES):
            end = min(start + _UNIT_BYTES, size)
            yield Unit(path, kind, compression, start, end, end - start, modified)


def _stat_file(path: str) -> tuple[int, int]:
    """Return the size of a file and the time of its last change."""
    if is_url(path):
        fsspec = _fsspec()
        try:
            filesystem, name = fsspec.core.url_to_fs(path)
            return int(filesystem.size(name) or 0), 0
        except ImportError as error:  # the package for this kind of place, which it names
            raise MissingExtra(str(error), source=path) from None
        except ValueError as error:
            raise UsageError(str(error), source=path) from None
        except Exception as error:  # noqa: BLE001  each kind of place has its own
            raise _unreadable(path, error) from None
    try:
        status = os.stat(path) if path != "-" else None
    except OSError as error:
        raise UsageError(system_message(error), source=path) from None
    if status is None or not stat.S_ISREG(status.st_mode):
        raise UsageError("is not a file: a corpus cannot come from a pipe", source=path)
    return status.st_size, status.st_mtime_ns


def _row_groups(path: str, modified: int, reading: Reading) -> Iterator[Unit]:
    with open_source(path) as file, open_parquet(path, file) as table:
        metadata = table.metadata
        columns = table.schema_arrow.names
        if reading.field not in columns:
            raise FormatError(
                f"has no column {reading.field!r}", source=path,
                hint=f"--field names one of: {', '.join(columns)}",
            )  # fmt: skip
        if columns.count(reading.field) > 1:
            what = f"has {columns.count(reading.field)} columns {reading.field!r}"
            raise FormatError(what, source=path, hint="rename all but one of them")
        for at in range(metadata.num_row_groups):
            size = metadata.row_group(at).total_byte_size
            yield Unit(path, "parquet", "", at, at + 1, size, modified)


@contextmanager
def open_source(path: str) -> Iterator[BinaryIO]:
    """Open a file or URL for reading; errors of either become ours."""
    try:
        with _fsspec().open(path, "rb") if is_url(path) else open(path, "rb") as file:
            yield file
    except MtkitError:
        raise
    except Exception as error:
        if is_url(path) or isinstance(error, OSError):  # each kind of place has errors of its own
            raise _unreadable(path, error) from None
        raise


@contextmanager
def open_parquet(path: str, file: BinaryIO) -> Iterator[Any]:
    """Read a Parquet file with pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise _missing("pyarrow", path) from None
    try:
        with parquet.ParquetFile(file) as table:
            yield table
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # the last of a name
        if isinstance(error, OSError) and (error.errno or is_url(path)):  # pyarrow's has no number
            raise
        raise FormatError(f"is damaged: {_line(error)}", source=path) from None


class _Unpacked:
    """The content of a compressed file, which is refused where it grows beyond all measure."""

    def __init__(self, content: BinaryIO, file: BinaryIO, unit: Unit) -> None:
        self._content, self._file, self._unit, self._size = content, file, unit, 0

    def read(self, most: int) -> bytes:
        """Read so many bytes, or what is left."""
        return self._read(self._content.read, most)

    def readline(self, most: int) -> bytes:
        """Read a line, but no more of it than so many bytes."""
        return self._read(self._content.readline, most, b"\n")

    def _read(self, read: Callable[[int], bytes], most: int, end: bytes | None = None) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while size < most and not (end and pieces and pieces[-1].endswith(end)):
            piece = read(min(most - size, _PIECE_BYTES))
            size += len(piece)
            self._size += len(piece)
            if self._size > _ALWAYS_BYTES and self._size > _MOST_TIMES * self._file.tell():
                what = f"unpacks to more than {_MOST_TIMES} times its size, as no text does"
                raise ResourceError(what, source=self._unit.path, hint="unpack it first")
            if not piece:
                break
            pieces.append(piece)
        return b"".join(pieces)


def decompress(file: BinaryIO, unit: Unit) -> BinaryIO | _Unpacked:
    """Return the content of a unit's file as a stream."""
    if not unit.compression:
        return file
    import importlib

    module = unit.compression
    if module == "zstd":
        module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        opener = importlib.import_module(module)
    except ImportError:
        raise _missing(module, unit.path) from None
    return _Unpacked(opener.open(file), file, unit)


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError:
        raise _missing("fsspec", "") from None
    return fsspec


def _missing(package: str, path: str) -> MissingExtra:
    return MissingExtra(
        f"needs the package {package}", source=path, hint='pip install "mtkit[corpus]"'
    )


def _unreadable(path: str, error: Exception) -> MtkitError:
    if isinstance(error, FileNotFoundError):
        return UsageError("no such file", source=path)
    return ResourceError(f"cannot be read: {_line(error)}", source=path)


def _line(error: Exception) -> str:
    """Return what an error of another library says, as one line."""
    return " ".join(str(error).split()) or type(error).__name__


_LONGEST = 1 << 30
"""Bytes of a document, which is held in memory."""
_BLOCK_BYTES = 1 << 18
"""Bytes of lines in a block: few enough that even a block of blank lines is small."""
_BLOCK_ROWS = 256


class Block(Record):
    """Consecutive documents.

    Attributes:
        places: Of each, ascending; ``describe_place`` says what the number means.
        bad: Places that should hold a document and do not, each with the reason.
    """

    places: Sequence[int]
    texts: Sequence[str | bytes]
    bad: Sequence[tuple[int, str]] = ()


def describe_place(unit: Unit, at: int) -> str:
    """Return where a document is in its file, for messages."""
    if unit.kind == "parquet":
        return f"row {at} of group {unit.start}"
    return "" if unit.kind == "text" else f"line {_line_number(unit, at)}"


def _line_number(unit: Unit, at: int) -> int:
    """Return the number of the line that begins at an offset; the file is read up to there."""
    number = 1
    with open_source(unit.path) as file:
        content = decompress(file, unit)
        while at > 0:
            data = content.read(min(_BLOCK_BYTES, at))
            if not data:
                break
            number += data.count(b"\n")
            at -= len(data)
    return number


def read_documents(unit: Unit, reading: Reading) -> Iterator[Block]:
    """Yield the documents of a unit."""
    with open_source(unit.path) as file:
        if unit.kind == "parquet":
            yield from _read_rows(unit, reading, file)
            return
        content = decompress(file, unit)
        try:
            if unit.kind == "text":
                yield Block((0,), [_check_length(content.read(_LONGEST + 1), unit, "")])
            else:
                yield from _read_lines(unit, reading, content)
        except MtkitError:
            raise
        except Exception as error:
            if not unit.compression:
                raise
            what = (
                f"is damaged or not {unit.compression}: {_line(error)}"  # zlib.error, LZMAError …
            )
            raise FormatError(what, source=unit.path) from None


def _read_lines(unit: Unit, reading: Reading, content: BinaryIO | _Unpacked) -> Iterator[Block]:
    """Yield the lines that begin in the unit's range, without blank lines of a JSON Lines file."""
    at = 0
    if unit.start and not isinstance(content, _Unpacked):
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
            _check_length(lines[-1], unit, describe_place(unit, places[-1]))
        if unit.kind == "lines":
            if b"\r" in data:
                lines = [line.removesuffix(b"\r") for line in lines]
            yield Block(places, lines)
        else:
            yield _parse_fields(places, lines, data, reading.field)
        at += len(data)


def _check_length(content: bytes, unit: Unit, where: str) -> bytes:
    if len(content) > _LONGEST:
        hint = "" if where else "--lines takes each line as a document"
        raise FormatError("a document longer than 1 GiB", source=unit.path, field=where, hint=hint)
    return content


def _parse_fields(places: list[int], lines: list[bytes], data: bytes, name: str) -> Block:
    """Return a field of each line of JSON.

    The data is decoded once: json.loads detects the encoding of each line and strips white space,
    which takes longer than the JSON.
    """
    try:
        whole: Sequence[str] = data.decode().split("\n")
    except UnicodeDecodeError:
        whole = [""] * len(lines)
    parse = json.JSONDecoder().raw_decode
    begins: list[int] = []
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
            begins.append(at)
            texts.append(text)
        elif isinstance(value, dict) and name in value:
            bad.append((at, f"its field {name!r} is not a text"))
        else:
            bad.append((at, f"has no field {name!r}"))
    return Block(begins, texts, bad)


def _read_rows(unit: Unit, reading: Reading, file: BinaryIO) -> Iterator[Block]:
    groups = list(range(unit.start, unit.end))
    most = max(_ALWAYS_BYTES, _MOST_TIMES * file.seek(0, os.SEEK_END))
    at = size = 0
    with open_parquet(unit.path, file) as table:
        for batch in table.iter_batches(_BLOCK_ROWS, row_groups=groups, columns=[reading.field]):
            rows = list(enumerate(_values(batch.column(0)), at))
            texts = {row: value for row, value in rows if isinstance(value, str)}
            size += sum(map(len, texts.values()))
            if size > most:  # one value of a dictionary, again and again
                what = f"unpacks to more than {_MOST_TIMES} times its size, as no text does"
                raise ResourceError(what, source=unit.path, hint="unpack it first")
            bad = [(row, _fault(value, reading.field)) for row, value in rows if row not in texts]
            yield Block(list(texts), list(texts.values()), bad)
            at += len(rows)


def _values(column: Any) -> list[Any]:
    """Return the values of a column; what Python cannot hold is an error in its place.

    That is a text that is not UTF-8, which pyarrow does not check, or a date beyond the year 9999.
    """
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError) as error:
        return error


def _fault(value: object, name: str) -> str:
    if value is None:
        return "is null"
    what = "valid UTF-8" if isinstance(value, UnicodeDecodeError) else "a text"
    return f"column {name!r} is not {what}"
