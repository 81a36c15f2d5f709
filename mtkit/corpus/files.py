"""Which files a corpus has, and the units that its work is cut into.

A file of lines that lies open is cut into ranges of bytes; a line belongs to the range that it
begins in. A Parquet file is cut at its row groups. A compressed file and a text that is one
document are a unit each.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager

from mtkit.base.record import Record
from mtkit.base.text_files import visible
from mtkit.errors import (
    FormatError,
    MissingExtra,
    MtkitError,
    ResourceError,
    UsageError,
    system_says,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
        path: File or URL.
        kind: "text" (one document), "lines", "jsonl" or "parquet".
        compression: "gzip", "lzma", "bz2", "zstd", or "" for none.
        start: First byte, or first row group.
        end: One behind the last.
        size: Bytes of the file that the unit stands for: the measure of progress.
        modified: When the file was last changed, in nanoseconds; 0 where that is not known.
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
        paths: Files, folders (with what lies below them) and URLs that fsspec opens; what is named
            twice is read twice.
        reading: How documents are found.

    Raises:
        UsageError: There is no such file, or nothing to read.
        FormatError: A Parquet file is damaged or lacks the column.
        MissingExtra: A package for the format or the place is not installed.
    """
    files: list[str] = []
    left_out = 0
    for path in paths:
        if not is_url(path) and os.path.isdir(path):
            below = [*visible(path)]
            known = [name for name in below if os.path.splitext(_bare(name))[1] in _KINDS]
            left_out += len(below) - len(known)
            files += known
        else:
            files.append(path)
    units = [unit for path in files for unit in _cut(path, reading)]
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
    """Tell whether a path is one for fsspec: ``s3://bucket/name``."""
    return "://" in path


def _bare(path: str) -> str:
    """Return a path without the suffix of its compression."""
    bare, suffix = os.path.splitext(path)
    return bare if suffix in _COMPRESSED else path


def _cut(path: str, reading: Reading) -> Iterator[Unit]:
    size, modified = _measured(path)
    compression = _COMPRESSED.get(os.path.splitext(path)[1], "")
    kind = _KINDS.get(os.path.splitext(_bare(path))[1], "text")
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


def _measured(path: str) -> tuple[int, int]:
    """Return the size of a file and when it was changed."""
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
        found = os.stat(path) if path != "-" else None
    except OSError as error:
        raise UsageError(system_says(error), source=path) from None
    if found is None or not stat.S_ISREG(found.st_mode):
        raise UsageError("is not a file: a corpus cannot come from a pipe", source=path)
    return found.st_size, found.st_mtime_ns


def _row_groups(path: str, modified: int, reading: Reading) -> Iterator[Unit]:
    with opened(path) as file, parquet_file(path, file) as table:
        metadata = table.metadata
        columns = table.schema_arrow.names
        if reading.field not in columns:
            raise FormatError(
                f"has no column {reading.field!r}", source=path,
                hint=f"--field names one of: {', '.join(columns)}",
            )  # fmt: skip
        for at in range(metadata.num_row_groups):
            size = metadata.row_group(at).total_byte_size
            yield Unit(path, "parquet", "", at, at + 1, size, modified)


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file or URL for reading; what goes wrong there becomes an error of ours."""
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
def parquet_file(path: str, file: BinaryIO) -> Iterator[Any]:
    """Read a Parquet file with pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise _missing("pyarrow", path) from None
    try:
        with parquet.ParquetFile(file) as table:
            yield table
    except pyarrow.ArrowException as error:
        raise FormatError(f"is damaged: {error}", source=path) from None


def decompressed(file: BinaryIO, unit: Unit) -> BinaryIO:
    """Return what a unit's file holds; the file itself where it is not compressed."""
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
    return opener.open(file)  # type: ignore[no-any-return]


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
    return ResourceError(f"cannot be read: {error}", source=path)
