"""Files of slots: what one remembers, in llama-server's layout with a checksum behind it.

llama.cpp ends the process on a state that is cut, and takes one of other weights of the same shape
without a word; what is behind its state it does not read. So 8 bytes ``MTKITSLT`` and 32 bytes
SHA-256 follow: of parts of the model's file, and of the state.
"""

from __future__ import annotations

import hashlib
import os
import struct

from mtkit.base.binary import map_file
from mtkit.base.whole_files import WholeFiles
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.llama import SlotContext

MAGIC = b"MTKITSLT"
_SUM_BYTES = 32
_HEAD = struct.Struct("=III")
"""llama.cpp's magic and version, and how many words of tokens follow."""
_PARTS, _PART_BYTES = 16, 1 << 16


def save(context: SlotContext, slot: int, path: str, ids: Sequence[int]) -> int:
    """Write what a slot remembers into a file, which is replaced; returns the bytes.

    Args:
        context: Whose slot.
        slot: Which.
        path: The file.
        ids: The tokens that it remembers.

    Raises:
        UsageError, ResourceError: It cannot be written there.
        UnsupportedError: llama.cpp does not do it.
    """
    with WholeFiles([path], force=True) as files:
        part = files.part(path)
        size = context.save_slot(slot, part, ids)
        digest = _digest(context, memoryview(map_file(part)))
        with open(part, "ab") as file:
            file.write(MAGIC + digest)
        files.appear()
    return size + len(MAGIC) + _SUM_BYTES


def restore(context: SlotContext, slot: int, path: str) -> tuple[list[int], int]:
    """Set a slot, which is empty, to what ``save`` wrote; returns its tokens and the bytes.

    Raises:
        UsageError: There is no such file.
        FormatError: It does not fit; the slot is empty then.
    """
    data = memoryview(map_file(path))
    end = len(data) - _SUM_BYTES
    start = end - len(MAGIC)
    if start < _HEAD.size or data[start:end] != MAGIC:
        raise FormatError("is not a slot of this server, or cut", source=path)
    if _digest(context, data[:start]) != data[end:]:
        raise FormatError("is damaged, or of another model", source=path)
    return context.restore_slot(slot, path), len(data)


def _digest(context: SlotContext, data: memoryview) -> bytes:
    """Return the checksum of a state, which is that of a model."""
    with open(context.model.path, "rb") as model:
        size = os.fstat(model.fileno()).st_size
        found = hashlib.sha256(b"%d" % size)
        for number in range(_PARTS):
            model.seek(number * size // _PARTS)
            found.update(model.read(_PART_BYTES))
    words = _HEAD.unpack_from(data)[2]
    found.update(data[_HEAD.size + 4 * words :])
    return found.digest()
