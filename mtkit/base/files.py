"""Files that appear whole or not at all, bytes copied into them, and the text files of a folder.

A file is written beside its place as ``NAME.PID.COUNT.part``, locked meanwhile, and gets its name
once the disk has all of it, whatever ends the process that writes it. What was killed leaves its
part, which the next writer of that file removes.

Bytes that lie in another file that is mapped are copied by the system, without passing through
this process; it shares them where the file system can (Btrfs, XFS), and holes of sparse files stay
holes.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
from codecs import getincrementaldecoder
from contextlib import contextmanager, suppress

from mtkit.base import binary
from mtkit.base.binary import MappedFile, read_head
from mtkit.base.process import Closeable
from mtkit.base.watch import tell
from mtkit.errors import ResourceError, UsageError, wording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, BinaryIO

    from mtkit.base.binary import Buffer


LEAST_COPIED_BYTES = 1 << 20
"""Less is written as it is."""
_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Every other error means that the system does not copy between these two files."""


def write_bytes(piece: Buffer, file: BinaryIO) -> None:
    """Write bytes where a new file ends; whoever writes the last ones truncates it there."""
    view = memoryview(piece)
    origin = view.obj
    if (
        view.nbytes < LEAST_COPIED_BYTES
        or not isinstance(origin, MappedFile)
        or not view.contiguous
    ):
        file.write(view)
        return
    source = origin.opened()
    if source < 0:
        file.write(view)
        return
    try:
        _copy_part(view.cast("B"), _offset_in_file(view, origin), source, file)
    finally:
        os.close(source)


def _offset_in_file(view: memoryview, origin: MappedFile) -> int:
    import numpy as np

    at, whole = (np.frombuffer(buffer, np.uint8) for buffer in (view, memoryview(origin)))
    return at.ctypes.data - whole.ctypes.data


def _copy_part(view: memoryview, offset: int, source: int, file: BinaryIO) -> None:
    began = file.tell()
    for start, stop in _data_ranges(source, offset, offset + len(view)):
        file.seek(began + start - offset)  # writes what was kept back, too
        copied = _copy_by_system(source, start, stop, file)
        file.write(view[copied - offset : stop - offset])
    file.seek(began + len(view))
    _check_length(source, offset + len(view))  # behind its end everything looks like a hole


def _data_ranges(source: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield what is not a hole of a part of a file: from, to."""
    while start < stop:
        try:
            start = os.lseek(source, start, os.SEEK_DATA)
            end = min(os.lseek(source, start, os.SEEK_HOLE), stop)
        except (OSError, AttributeError) as error:
            if getattr(error, "errno", 0) == errno.ENXIO:  # nothing but a hole
                return
            end = stop
        if start < end:
            yield start, end
        start = end


def _copy_by_system(source: int, start: int, stop: int, file: BinaryIO) -> int:
    """Copy as much of a part of a file as the system does; return where that ends."""
    target = file.tell()
    at = start
    while at < stop and hasattr(os, "copy_file_range"):
        try:
            size = os.copy_file_range(source, file.fileno(), stop - at, at, target + at - start)
        except OSError as error:
            if error.errno in _FATAL:
                raise
            break
        if not size:
            _check_length(source, stop)
            break
        at += size
    file.seek(target + at - start)
    return at


def _check_length(source: int, stop: int) -> None:
    if os.fstat(source).st_size < stop:
        raise OSError(errno.ESTALE, _SHORTER)


_counter = itertools.count()
_live_parts: set[str] = set()
"""Parts that this process writes."""
_PATIENCE = 10.0
"""Seconds to wait for another process that renames files in the same folder."""
_LOCKED = 0x7FFF_FFFE
"""The byte of a file that is locked on Windows, which keeps others from reading it."""
_LINKS = 40
"""That lead from one to the next; as many as Linux follows."""


def _replace() -> str:
    return f"choose another name, or replace it with {wording('--force', 'force=True')}"


def check_target(path: str, *, force: bool = False) -> None:
    """Check that a file may be written at a path."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise UsageError(
            "no such folder", source=folder, hint="create it first, or choose another one"
        )
    if _is_descriptor(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise UsageError("is a folder or a device, not a file", source=path)
    if os.path.lexists(path) and not force:
        raise UsageError("already exists", source=path, hint=_replace())


def _is_descriptor(path: str) -> bool:
    """Whether a path leads through the open files of a process."""
    for _ in range(_LINKS):
        folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
        if folder == "/dev/fd" or (folder.startswith("/proc/") and folder.endswith("/fd")):
            return True
        if not os.path.islink(path):
            return False
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return False


class WholeFiles(Closeable):
    """Files on their way; what has not appeared when this is closed is gone.

    SIGTERM and SIGHUP end the process in an orderly way meanwhile, where nothing else is set.
    """

    def __init__(self, paths: Iterable[str], *, force: bool = False) -> None:
        """Check where they are to be."""
        for path in paths:
            check_target(path, force=force)
        self._force = force
        self._parts: dict[str, tuple[str, int]] = {}  # part -> where it is to be, its descriptor
        self._signals = list(_orderly())

    def close(self) -> None:
        """Remove what has not appeared."""
        for part, (_, file) in self._parts.items():
            if file >= 0:
                os.close(file)
            if os.path.exists(part):
                os.unlink(part)
            _live_parts.discard(part)
        self._parts.clear()
        for signal, number in self._signals:
            signal.signal(number, signal.SIG_DFL)
        self._signals.clear()

    def part(self, path: str) -> str:
        """Begin a file; return the path of its part, which is empty."""
        target = os.path.realpath(path) if os.path.islink(path) else path
        # unique among the threads of this process, too: its number is followed by a count
        part = f"{target}.{os.getpid()}.{next(_counter)}.part"
        _live_parts.add(part)
        self._parts[part] = target, -1  # before it is there: a signal may end this at any place
        try:
            _remove_dead_parts(target)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            file = os.open(part, flags, 0o666)
        except OSError as error:
            _live_parts.discard(part)
            del self._parts[part]
            raise _unwritable(error, path) from None
        self._parts[part] = target, file
        tell("part", os.path.abspath(part))
        lock(file)
        return part

    def write(self, path: str, content: bytes | Iterable[Buffer]) -> str:
        """Begin a file and write it, whole or in pieces; return the path of its part."""
        part = self.part(path)
        try:
            with open(self._parts[part][1], "wb", closefd=False) as file:
                for piece in (content,) if isinstance(content, bytes) else content:
                    write_bytes(piece, file)
                file.truncate()
        except OSError as error:
            raise _unwritable(error, path) from None
        return part

    def appear(self) -> None:
        """Give the files their names in their order: the last is what others look for."""
        binary.require_whole()
        placed: list[str] = []
        path = ""
        try:
            for part, (path, file) in self._parts.items():
                os.fsync(file)
                os.close(file)  # Windows renames no open file
                self._parts[part] = path, -1
            folders = sorted({_folder(path) for path, _ in self._parts.values()})
            locks = [_locked_folder(folder) for folder in folders]
            try:
                self._rename(placed)
            finally:
                for folder, file in zip(folders, locks, strict=True):
                    sync_folder(folder)
                    if file >= 0:
                        os.close(file)
        except OSError as error:
            for path in placed:
                os.unlink(path)
            path, _ = self._parts.get(error.filename, (path, -1))
            raise _unwritable(error, path) from None

    def _rename(self, placed: list[str]) -> None:
        """Rename the parts; without force ``placed`` gets what is to be taken back."""
        moves = [(part, path) for part, (path, _) in self._parts.items()]
        last = moves[-1][1]
        if self._force and len(moves) > 1 and os.path.exists(last):
            os.unlink(last)  # it would stand beside files of another set
        for part, path in moves:
            if self._force:
                os.replace(part, path)
                continue
            try:
                os.link(part, path)
            except FileExistsError:
                for earlier in placed:
                    os.unlink(earlier)
                raise UsageError(
                    "already exists: another process made it", source=path,
                    hint=_replace(),
                ) from None  # fmt: skip
            except OSError:  # a file system without links
                os.replace(part, path)
            else:
                os.unlink(part)
            placed.append(path)


def write_files(files: Mapping[str, bytes | Iterable[Buffer]], *, force: bool = False) -> None:
    """Write files so that each appears whole or not at all.

    Every file is written beside its place and flushed to the disk before the first one is renamed;
    nothing is left behind when one fails.

    Args:
        files: Path -> content, whole or in pieces (for files too long for memory); the last file is
            the one without which others do not look at the rest.
    """
    with WholeFiles(files, force=force) as new:
        for path, content in files.items():
            new.write(path, content)
        new.appear()


@contextmanager
def temporary_folder(*, above: str | None = None) -> Iterator[str]:
    """Make a folder that is gone in the end, also where a signal or a library ends the process."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="mtkit-", dir=above) as folder:
        tell("part", folder)
        signals = list(_orderly())
        try:
            yield folder
        finally:
            for signal, number in signals:
                signal.signal(number, signal.SIG_DFL)


@contextmanager
def folder_for(path: str) -> Iterator[None]:
    """Make a folder and those that it lies in; what was made leaves when there is an error."""
    if os.path.isfile(path):
        raise UsageError("is a file, not a folder", source=path, hint="name a folder")
    folders = []
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        folders.append(above)
        above = os.path.dirname(above)
    try:
        os.makedirs(path, exist_ok=True)
        yield
    except BaseException:
        for folder in folders:
            try:
                os.rmdir(folder)
            except OSError:  # it was not made, or holds what others wrote
                break
        raise


def lock(file: int) -> bool:
    """Lock an open file or folder; return whether no other process has."""
    try:
        import fcntl
    except ImportError:
        return _lock_byte(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _lock_byte(file: int) -> bool:
    """Lock a file as Windows does it: a byte, where the file is read from."""
    from importlib import import_module

    msvcrt = import_module("msvcrt")
    before = os.lseek(file, 0, os.SEEK_CUR)
    os.lseek(file, _LOCKED, os.SEEK_SET)
    try:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    finally:
        os.lseek(file, before, os.SEEK_SET)
    return True


def sync_folder(folder: str) -> None:
    """Let a file that appeared or left be on the disk before what follows."""
    try:
        file = os.open(folder or ".", os.O_RDONLY)
    except OSError:  # not a file on Windows
        return
    try:
        os.fsync(file)
    except OSError:  # some file systems refuse it
        return
    finally:
        os.close(file)


def _folder(path: str) -> str:
    """Return the one name of the folder of a file: to lock a folder twice would wait for ever."""
    return os.path.realpath(os.path.dirname(path))


def _locked_folder(folder: str) -> int:
    """Wait until no other process renames files of a set there; -1 where that cannot be told.

    Whoever keeps a folder locked for longer than ``_PATIENCE`` does not rename files.
    """
    try:
        file = os.open(folder, os.O_RDONLY)
    except OSError:  # not a file on Windows
        return -1
    end = time.monotonic() + _PATIENCE
    while not lock(file) and time.monotonic() < end:
        time.sleep(0.01)
    return file


def _remove_dead_parts(path: str) -> None:
    """Remove what processes left that were killed while they wrote this file."""
    folder, name = os.path.split(path)
    try:
        entries = os.listdir(folder or ".")
    except PermissionError:  # such a folder can be written all the same
        return
    for entry in entries:
        middle = entry.removeprefix(name + ".").removesuffix(".part")
        middle, _, count = middle.partition(".")  # a part of an earlier version has no count
        if not (middle + count).isdecimal() or entry not in _part_names(name, middle, count):
            continue
        part = os.path.join(folder, entry)
        if os.name == "nt":  # which removes no open file; os.kill(…, 0) would be Ctrl-C there
            with suppress(OSError):
                os.unlink(part)
            continue
        if middle == str(os.getpid()):  # a killed one's number again, as of a container's first
            if part not in _live_parts:  # of another thread
                _remove_unlocked(part)
            continue
        if not _is_running(int(middle)):
            _remove_unlocked(part)


def _is_running(number: int) -> bool:
    """Whether a process runs, or may; a dead one that nobody has waited for does not."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    with suppress(OSError), open(f"/proc/{number}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[:1] != [b"Z"]
    return True


def _part_names(name: str, number: str, count: str) -> tuple[str, str]:
    return f"{name}.{number}.part", f"{name}.{number}.{count}.part"


def _remove_unlocked(part: str) -> None:
    """Remove a file that no process writes, of another machine either."""
    try:
        file = os.open(part, os.O_RDWR)
    except OSError:
        return
    try:
        if lock(file):
            os.unlink(part)
    finally:
        os.close(file)


def _orderly() -> Iterator[tuple[Any, int]]:
    """Let signals that end a process end it as an exception does; yield those."""
    import signal

    def leave(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # to end in order takes a moment; once is enough
        raise SystemExit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) != signal.SIG_DFL:
            continue
        try:
            signal.signal(number, leave)
        except ValueError:  # not the main thread
            return
        yield signal, number


_SHORTER = "the file that it is copied from became shorter"


def _unwritable(error: OSError, path: str) -> Exception:
    kind = UsageError if isinstance(error, (FileNotFoundError, NotADirectoryError)) else None
    what = _SHORTER if error.errno == errno.EFAULT else error.strerror  # of a mapping
    return (kind or ResourceError)(f"cannot be written: {what}", source=path)


_HEAD_BYTES = 8000
"""As git looks at, to tell binary files from text."""


def visible_files(folder: str) -> Iterator[str]:
    """Yield the files in and below a folder in the order of their names; hidden ones are left."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(here, name) for name in sorted(names) if not name.startswith("."))


def is_text_file(path: str) -> bool:
    """Tell whether a file is text: its beginning is UTF-8 without NUL, and not empty."""
    head = read_head(path, _HEAD_BYTES)
    try:
        getincrementaldecoder("utf-8")().decode(head)  # which may end within a character
    except UnicodeDecodeError:
        return False
    return bool(head) and b"\0" not in head
