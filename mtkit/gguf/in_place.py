"""Changing the header of a GGUF in its file: ``mtkit edit --in-place``.

What is to be written lies in a journal beside the file before the file is touched, and leaves when
the disk has it. A process that ends in between leaves the journal, with which the next one that
opens the file for editing finishes the write: the file is the old one, the new one, or has a
journal that says how it becomes the new one. One process at a time: the file is locked.

The journal: magic, size of the file, offset, what stands there before and after (a length and the
bytes of both), SHA-256 of all of that.
"""

from __future__ import annotations

import os
import stat
import struct
from hashlib import sha256

from mtkit.base.binary import require_whole, unguard
from mtkit.base.files import check_target, lock, sync_folder, write_files
from mtkit.base.process import Closeable
from mtkit.errors import ResourceError, UsageError, wording
from mtkit.gguf.file import is_edit_unfinished, journal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mtkit.base.binary import Buffer
    from mtkit.gguf.draft import Draft
    from mtkit.gguf.file import GgufFile

_MAGIC = b"mtkit journal 1\n"
_HEAD = struct.Struct("<16sQQQ")


class InPlace(Closeable):
    """A file that is edited where it is; locked until it is closed.

    Attributes:
        finished: Whether an edit that another process had begun was finished.
    """

    def __init__(self, path: str) -> None:
        """Lock a file, and finish what was begun."""
        self.path = os.path.realpath(path)
        self._journal = journal_of(path)
        try:
            self._file = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise UsageError(f"cannot be edited: {error.strerror}", source=path) from None
        try:
            _lock(self._file, path)
            self.finished = os.path.exists(self._journal)
            if self.finished:
                self._finish()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unlock the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def write(self, file: GgufFile, draft: Draft) -> None:
        """Change the header of the file."""
        if os.fstat(self._file).st_size != len(file.data):
            what = "is a llamafile, of which the model is a part"
            hint = "-o writes the model as a file of its own"
            raise UsageError(what, source=self.path, hint=hint)
        new = check_header(file, draft)
        old = bytes(file.data[: len(new)])
        if old == new:
            return
        start = _common_length(old, new)
        end = len(new) - _common_length(old[::-1], new[::-1])
        old, new = old[start:end], new[start:end]
        body = _HEAD.pack(_MAGIC, len(file.data), start, len(new)) + old + new
        require_whole()
        unguard(file.data)
        write_files({self._journal: body + sha256(body).digest()})
        sync_folder(os.path.dirname(self.path))
        self._put(start, new)

    def _put(self, offset: int, data: bytes) -> None:
        try:
            os.lseek(self._file, offset, os.SEEK_SET)
            left = memoryview(data)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            raise ResourceError(
                f"cannot be written: {error.strerror}",
                source=self.path,
                hint=f"{self._journal} has what is missing: the next mtkit edit writes it",
            ) from None
        os.unlink(self._journal)
        sync_folder(os.path.dirname(self.path))

    def _finish(self) -> None:
        size, offset, old, new = _read_journal(self._journal)
        length = len(new)
        os.lseek(self._file, offset, os.SEEK_SET)
        now = os.read(self._file, length)
        half_written = all(byte in pair for byte, *pair in zip(now, old, new, strict=False))
        if os.fstat(self._file).st_size != size or len(now) != length or not half_written:
            raise _journal_error(self._journal, "belongs to another file than the one beside it")
        self._put(offset, new)


def _read_journal(path: str) -> tuple[int, int, bytes, bytes]:
    """Return size of the file, offset, and what stands there before and after."""
    if not os.path.isfile(path):  # opening a FIFO may never end
        raise _journal_error(path, "is not a journal of mtkit edit")
    try:
        with open(path, "rb") as journal:
            data = journal.read()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", source=path) from None
    body, digest = data[:-32], data[-32:]
    if sha256(body).digest() != digest or len(body) < _HEAD.size or body[:16] != _MAGIC:
        raise _journal_error(path, "is not a journal of mtkit edit")
    _, size, offset, length = _HEAD.unpack_from(body)
    if len(body) != _HEAD.size + 2 * length or offset + length > size:
        raise _journal_error(path, "is not a journal of mtkit edit")
    return size, offset, body[_HEAD.size : _HEAD.size + length], body[_HEAD.size + length :]


def _journal_error(path: str, what: str) -> UsageError:
    return UsageError(what, source=path, hint="remove it if the model is as you want it")


def check_header(file: GgufFile, draft: Draft) -> bytes:
    """Return the new header of a file."""
    head, offsets = draft.header()
    room = file.data_offset if file.tensors else file.metadata_end
    hint = wording("-o NEW.gguf writes a new file", "name a dst to write a new file")
    if len(head) != room:
        what = f"the new header needs {len(head)} bytes, but only {room} are available in place"
        if len(head) < room:
            what = f"the new header needs {len(head)} bytes and cannot fill the {room} in place"
        raise UsageError(what, source=file.name, hint=hint)
    if offsets != [tensor.offset for tensor in file.tensors]:
        what = "tensors would move, which is impossible in place"
        raise UsageError(what, source=file.name, hint=hint)
    return head


def _common_length(left: bytes, right: bytes) -> int:
    """Return the length of the common beginning of two different texts of one length."""
    low, high = 0, len(left)
    while low < high:
        middle = (low + high + 1) // 2
        same = left[low:middle] == right[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low


def _lock(file: int, path: str) -> None:
    """Lock a file, unless another one has its place by now."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise UsageError("is not a regular file", source=path)
    if not lock(file) or not os.path.samestat(os.fstat(file), os.stat(path)):
        raise UsageError("is being edited by another process", source=path)


def write_ggufs(files: Mapping[str, bytes | Iterable[Buffer]], *, force: bool = False) -> None:
    """Write files as ``write_files`` does, which may be in the place of one with a journal."""
    for path in files:
        settle_journal(path, force=force)
    write_files(files, force=force)


def settle_journal(path: str, *, force: bool) -> None:
    """Finish the edit of a file that is to be replaced: its journal would be the new file's."""
    check_target(path, force=force)
    if not is_edit_unfinished(path):
        return
    if os.path.exists(path):
        InPlace(path).close()
    else:
        _read_journal(journal_of(path))
        os.unlink(journal_of(path))
