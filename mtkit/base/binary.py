"""Where bytes come from: a bounds-checked reader, and files, folders and pipes.

``Reader`` is the Python twin of native/base/reader.hpp and the only code that turns file offsets
into values. ``Source`` is a file (mapped), a folder's file or standard input, with the files that
lie beside it. Where bytes go to: ``files``.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import struct
import sys
from _weakref import ref
from contextlib import contextmanager

from mtkit.errors import FormatError, ResourceError, UnsupportedError, UsageError, system_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, BinaryIO, Union

    from mtkit.base.native import native

    Buffer = Union[bytes, bytearray, memoryview, mmap.mmap]

UNMAPPED_BYTES = 1 << 28
"""A pipe or a device cannot be mapped: what is longer is refused instead of filling memory.
Ten times the longest tokenizer.json in use."""
_WRITER_SECONDS = 2.0
"""How long a named pipe may have no writer before it is taken to have none."""
_HELD_BYTES, _LEAST_BYTES = 1 << 24, 1 << 20
"""Read of a mapping until its pages go back; what is worth it at the end."""

_PROGRAMS, _MARK_BYTES = (b"MZqFpD", b"jartsr", b"\x7fELF"), 6
"""First bytes of a llamafile: a program of Cosmopolitan Libc, the last one once it was assimilated.
"""
_SCALARS = {
    order: {code: struct.Struct(order + code) for code in "BbHhIiQqfd"} for order in ("<", ">")
}


class Reader:
    """A position in a buffer, moved forward by reading fields.

    Sizes may come from the file: they are compared with what is left, never added to the offset
    first, so no value of them can overflow or allocate.
    """

    def __init__(self, data: Buffer, *, big_endian: bool = False, offset: int = 0) -> None:
        self.data = memoryview(data).cast("B")
        self.offset = offset
        self.scalars = _SCALARS[">" if big_endian else "<"]

    @property
    def left(self) -> int:
        """Number of bytes not read yet."""
        return len(self.data) - self.offset

    def view(self, size: int, field: str) -> memoryview:
        """Return the next ``size`` bytes without copying."""
        start = self.offset
        if size > len(self.data) - start:
            from mtkit.base.rules import TRUNCATED

            TRUNCATED.demand(size, self.left, field=field, offset=start)
        self.offset = start + size
        return self.data[start : self.offset]

    def take(self, size: int, field: str) -> bytes:
        """Return the next ``size`` bytes as a copy."""
        return bytes(self.view(size, field))

    def scalar(self, code: str, field: str) -> int | float:
        """Read one number; ``code`` is a struct letter (B b H h I i Q q f d)."""
        layout = self.scalars[code]
        value: int | float = layout.unpack(self.view(layout.size, field))[0]
        return value

    def u8(self, field: str) -> int:
        """Read an unsigned byte."""
        return self.view(1, field)[0]

    def u16(self, field: str) -> int:
        """Read an unsigned 16-bit integer."""
        return int(self.scalar("H", field))

    def u32(self, field: str) -> int:
        """Read an unsigned 32-bit integer."""
        value: int = self.scalars["I"].unpack(self.view(4, field))[0]
        return value

    def i32(self, field: str) -> int:
        """Read a signed 32-bit integer."""
        return int(self.scalar("i", field))

    def u64(self, field: str) -> int:
        """Read an unsigned 64-bit integer."""
        value: int = self.scalars["Q"].unpack(self.view(8, field))[0]
        return value

    def f32(self, field: str) -> float:
        """Read a 32-bit float; every float32 is exact as a Python float."""
        return float(self.scalar("f", field))

    def f64(self, field: str) -> float:
        """Read a 64-bit float."""
        return float(self.scalar("d", field))

    def count(self, value: int, element_bytes: int, field: str, at: int) -> int:
        """Check a count of elements read from the file against the bytes that are left."""
        if value > self.left // element_bytes:
            from mtkit.base.rules import COUNT

            COUNT.demand(value, element_bytes, self.left, field=field, offset=at)
        return value


class Source:
    """One input: its bytes, its name, and the files beside it.

    Attributes:
        name: What to call it in messages ("-" for standard input).
    """

    def __init__(
        self,
        name: str,
        data: Buffer,
        *,
        folder: str | None = None,
        siblings: Mapping[str, bytes] | None = None,
    ) -> None:
        self.name = name
        self.data = data
        self._folder = folder
        self._siblings = siblings or {}

    @classmethod
    def open(cls, path: str, *, guard: bool = False) -> Source:
        """Map a file, or read standard input for "-".

        Args:
            guard: What is read of it stays in use. To read a mapping that somebody truncates ends
                the process, unless the native core guards it; where that cannot, the file is read.
        """
        if path == "-":
            return cls("-", _read(standard_input(), "-"))
        data = map_file(path, guard=guard)
        if bytes(data[:_MARK_BYTES]).startswith(_PROGRAMS):
            from mtkit.base.llamafile import model_in

            data = model_in(path, memoryview(data)) or data
        return cls(path, data, folder=os.path.dirname(path) or ".")

    def require_whole(self) -> None:
        """Raise where a guarded file is not what it was, after something was read of it."""
        origin = self.data.obj if isinstance(self.data, memoryview) else self.data
        if isinstance(origin, MappedFile) and origin.guard is not None:
            origin.guard.require_whole()

    def beside(self, name: str) -> bytes | None:
        """Return the content of a file in the same folder, or None where there is none."""
        if name in self._siblings:
            return self._siblings[name]
        if self._folder is None:
            return None
        return read_beside(os.path.join(self._folder, name))

    def folder_beside(self, name: str, suffix: str) -> dict[str, bytes]:
        """Return file name -> content of a folder beside the file, those that end in ``suffix``."""
        if self._folder is None:
            return {}
        path = os.path.join(self._folder, name)
        if not os.path.isdir(path):
            return {}
        contents = {}
        for entry in sorted(os.listdir(path)):
            content = read_beside(os.path.join(path, entry)) if entry.endswith(suffix) else None
            if content is not None:
                contents[entry] = content
        return contents


_read_already: list[object] = []


def package_file(name: str) -> str:
    """Return the path of a file that ships with mtkit, in its folder ``data``."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", name)


def standard_input() -> BinaryIO:
    """Return standard input, which can be read once."""
    if sys.stdin in _read_already:
        raise UsageError(
            "standard input is wanted twice",
            source="-",
            hint="use a different file for one of them",
        )
    _read_already[:] = [sys.stdin]
    return sys.stdin.buffer


class MappedFile(mmap.mmap):
    """A mapping that knows its file.

    Attributes:
        guard: Makes an error of what would otherwise end the process; ends before the mapping.
        others: All files of the ``guard_all`` in which it was mapped.
    """

    path: str
    status: os.stat_result
    guard: native.Guard | None = None
    others: list[ref[MappedFile]] | None = None

    def close(self) -> None:
        """Unmap the file."""
        self.note_cut()
        super().close()
        self.guard = None

    def __del__(self) -> None:
        self.note_cut()

    def note_cut(self) -> None:
        """Remember for ``require_whole`` whether the file was truncated."""
        try:
            if self.guard is not None and self.others is not None and self.others is _guarded:
                self.guard.require_whole()
        except FormatError:
            _cut.append(self.path)

    def opened(self) -> int:
        """Open the file again and return its descriptor; -1 where its name is another's by now."""
        try:
            flags = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe by now?
            file = os.open(self.path, os.O_RDONLY | flags)
        except OSError:
            return -1
        if os.path.samestat(os.fstat(file), self.status):
            return file
        os.close(file)
        return -1


def read_beside(path: str) -> bytes | None:
    """Return the content of a file that lies beside another, or None where there is no such file.

    A pipe or a device in a folder is nobody's file: to open one may wait for ever.

    Raises:
        ResourceError: It is longer than ``UNMAPPED_BYTES``, as a sparse file may be.
    """
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            size = status.st_size
            data = file.read(UNMAPPED_BYTES + 1) if size <= UNMAPPED_BYTES else b""
    except OSError as error:
        raise UsageError(system_message(error), source=path) from None
    if max(size, len(data)) > UNMAPPED_BYTES:
        raise ResourceError(f"has more than {UNMAPPED_BYTES} bytes, the limit", source=path)
    return data


def read_head(path: str, size: int) -> bytes:
    """Return the first bytes of a file in a folder; none of what is no file or cannot be read."""
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb", opener=_open_at_once) as file:
            return file.read(size) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, ValueError):
        return b""


def open_input(path: str) -> BinaryIO:
    """Open a file to read it, without waiting for a writer where a named pipe has none."""
    try:
        file = _Input(path, opener=_open_at_once)
        try:
            if hasattr(os, "O_NONBLOCK"):  # not Windows, where ``set_blocking`` is of pipes alone
                if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                    file.await_writer(path)
                os.set_blocking(file.fileno(), True)
            return io.BufferedReader(file)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise UsageError(system_message(error), source=path) from None


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class _Input(io.FileIO):
    """A file, or a pipe of which a byte may have been read already."""

    _first = b""

    def await_writer(self, path: str) -> None:
        """Return once somebody writes to this pipe, or has written."""
        import select
        import time

        until = time.monotonic() + _WRITER_SECONDS
        while not select.select([self], [], [], 0)[0]:  # nobody has written, not even nothing
            first = super().read(1)
            if first or first is None:  # somebody has by now, or is about to
                self._first = first or b""
                return
            if time.monotonic() > until:
                raise UsageError("is a pipe that nobody writes to", source=path)
            time.sleep(0.01)

    def readinto(self, buffer: Any) -> int | None:
        """Read into a buffer, what was read already first."""
        if self._first:
            buffer[:1], self._first = self._first, b""
            return 1
        return super().readinto(buffer)

    def readall(self) -> bytes:
        """Read the rest."""
        first, self._first = self._first, b""
        return first + super().readall()


def expand_home(path: str | os.PathLike[str]) -> str:
    """Return a path with the home folder in place of ``~``."""
    name = os.fspath(path)
    try:
        return os.path.expanduser(name)
    except ValueError:  # no user's name holds a NUL or half a character
        return name


def map_file(path: str, *, guard: bool = False) -> Buffer:
    """Map a file read-only (an empty file or a pipe is read instead)."""
    try:
        with open_input(path) as file:
            try:
                mapped = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # an empty file cannot be mapped
                return b""
            except OSError as error:
                if error.errno == errno.ENOMEM:
                    what = "cannot be mapped: this process may not have more memory"
                    raise ResourceError(what, source=path) from None
                return _read(file, path)  # a pipe or a device cannot be mapped
            mapped.path = path
            if guard or _guarded is not None:
                mapped.guard = _guard(mapped)
                if guard and mapped.guard is None and len(mapped) <= UNMAPPED_BYTES:
                    return _read(file, path)
            mapped.status = os.fstat(file.fileno())
            if mapped.guard and mapped.status.st_size < len(mapped):  # it took what is left for all
                raise FormatError("is being truncated", source=path)
            mapped.others = _guarded
            if _guarded is not None:
                _guarded.append(ref(mapped))
            return mapped
    except OSError as error:
        raise UsageError(system_message(error), source=path) from None
    except ValueError:  # a NUL, or half a character
        raise UsageError("no such file", source=path) from None


_guarded: list[ref[MappedFile]] | None = None
"""Files in use; to keep them would keep a descriptor each."""
_cut: list[str] = []
"""Paths of those that were truncated."""


@contextmanager
def guard_all() -> Iterator[None]:
    """Guard all files that are mapped meanwhile; an error at the end where one was truncated."""
    global _guarded  # noqa: PLW0603
    before, _guarded = _guarded, []
    _cut.clear()
    try:
        yield
    finally:
        try:
            require_whole()
        finally:
            _guarded = before


def require_whole() -> None:
    """Raise where one of them is not what it was: zeros were read of it."""
    for reference in _guarded or ():
        mapped = reference()
        if mapped is not None:
            mapped.note_cut()
    if _guarded is not None and _cut:
        what, hint = "was truncated or overwritten while it was read", "run the command again"
        raise ResourceError(what, source=_cut[0], hint=hint)


def unguard(data: Buffer) -> None:
    """Let the file of which this is a part be changed: this process is about to do it."""
    origin = data.obj if isinstance(data, memoryview) else data
    if isinstance(origin, MappedFile):
        origin.guard = None


def _guard(mapped: MappedFile) -> native.Guard | None:
    try:
        from mtkit.base.native import native
    except ImportError:  # it is not built
        return None
    try:
        return native.Guard(mapped, mapped.path.encode("utf-8", "backslashreplace").decode())
    except UnsupportedError:  # another handler of SIGBUS would be asked first
        return None


def pieces(data: memoryview, size: int) -> Iterator[memoryview]:
    """Yield data that is read once, piece by piece.

    Pages of a mapped file that were read go back to the system, which can read them again: else
    they count as memory of the process, and a model seems to fill it.
    """
    end, first = len(data), 0  # first: where pages are still held
    for start in range(0, end, size):
        yield data[start : start + size]
        read = min(start + size, end)
        if read - first >= (_LEAST_BYTES if read == end else _HELD_BYTES):
            first = read
            give_back(data)


def give_back(data: memoryview) -> None:
    """Give the pages of the mapped file of which this is a part back to the system."""
    mapped = data.obj
    if isinstance(mapped, MappedFile) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _read(file: BinaryIO, name: str) -> bytes:
    data = file.read(UNMAPPED_BYTES + 1)
    if len(data) > UNMAPPED_BYTES:
        raise ResourceError(
            f"is longer than {UNMAPPED_BYTES} bytes and no file that could be mapped",
            source=name,
            hint="save it to a file first",
        )
    return data
