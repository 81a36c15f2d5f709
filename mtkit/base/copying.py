"""Bytes into a file, by the system where they lie in another file that is mapped.

The system copies without the bytes passing through this process, shares them where the file system
can (Btrfs, XFS), and holes of sparse files stay holes.
"""

from __future__ import annotations

import errno
import os

from mtkit.base.binary import MappedFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from mtkit.base.binary import Buffer

LEAST_BYTES = 1 << 20
"""Less is written as it is."""
_FATAL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Every other error means that the system does not copy between these two files."""


def put(piece: Buffer, file: BinaryIO) -> None:
    """Write bytes where a new file ends; whoever writes the last ones truncates it there.

    Raises:
        OSError: The disk is full, or one of the files cannot be read or written.
    """
    view = memoryview(piece)
    origin = view.obj
    if view.nbytes < LEAST_BYTES or not isinstance(origin, MappedFile) or not view.contiguous:
        file.write(view)
        return
    source = origin.opened()
    if source < 0:
        file.write(view)
        return
    try:
        _copy(view.cast("B"), _offset(view, origin), source, file)
    finally:
        os.close(source)


def _offset(view: memoryview, origin: MappedFile) -> int:
    """Return where in its file a view begins."""
    import numpy as np

    at, whole = (np.frombuffer(one, np.uint8) for one in (view, memoryview(origin)))
    return at.ctypes.data - whole.ctypes.data


def _copy(view: memoryview, offset: int, source: int, file: BinaryIO) -> None:
    began = file.tell()
    for start, stop in _data(source, offset, offset + len(view)):
        file.seek(began + start - offset)  # writes what was kept back, too
        done = _copied(source, start, stop, file)
        file.write(view[done - offset : stop - offset])
    file.seek(began + len(view))
    _check_length(source, offset + len(view))  # behind its end everything looks like a hole


def _data(source: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
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


def _copied(source: int, start: int, stop: int, file: BinaryIO) -> int:
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
        raise OSError(errno.ESTALE, "the file that it is copied from became shorter")
