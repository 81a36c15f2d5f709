"""The first eight bytes of a GGUF file, and what a file is that begins otherwise."""

from __future__ import annotations

import struct

from mtkit.errors import FormatError

MAGIC = b"GGUF"

# Beginnings that people meet in files called .gguf -> what it is, what to do.
_OTHERS = (
    (b"FUGG", "has its magic bytes reversed", ""),
    (b"lmgg", "is a GGML file, older than GGUF", "convert the original model again"),
    (b"fmgg", "is a GGMF file, older than GGUF", "convert the original model again"),
    (b"tjgg", "is a GGJT file, older than GGUF", "convert the original model again"),
    (b"version https://git-lfs", "is a Git LFS pointer, not the file", "git lfs pull fetches it"),
    (b"\xef\xbb\xbf", "begins with a UTF-8 byte order mark", "an editor has rewritten it"),
    (b"\x1f\x8b", "is compressed with gzip", "unpack it first"),
    (b"\xfd7zXZ\0", "is compressed with xz", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd", "unpack it first"),
    (b"PK\x03\x04", "is a zip archive", "unpack it first"),
)


def check_magic(data: memoryview) -> tuple[int, bool]:
    """Return the version and whether the file is big-endian.

    Raises:
        FormatError: It is not a GGUF, or of a version that is not known.
    """
    head = bytes(data[:24])
    if head[:4] != MAGIC:
        raise FormatError(*_refusal(head)[:1], field="magic", offset=0, hint=_refusal(head)[1])
    if len(head) < 8:
        raise FormatError(
            f"needs 4 bytes, the file has {len(head) - 4} left",
            field="version",
            offset=4,
            hint="the file is probably cut",
        )
    version: int = struct.unpack_from("<I", head, 4)[0]
    if version in {1, 2, 3}:
        return version, False
    swapped: int = struct.unpack_from(">I", head, 4)[0]
    if swapped == 3:
        return swapped, True
    if swapped in {1, 2}:
        what = f"is {swapped} in big-endian order, which begins with version 3"
    else:
        what = f"is {version}, known are 1, 2 and 3"
    raise FormatError(what, field="version", offset=4)


def other_kind(head: bytes) -> tuple[str, str] | None:
    """Return what a file is that is often taken for a model, and what to do; None: not known."""
    for begin, what, hint in _OTHERS:
        if head.startswith(begin):
            return f"the file {what}", hint
    if head.lstrip()[:5].lower().startswith((b"<!doc", b"<html", b"<?xml")):
        return "the file is a web page", "download it again: the server sent an error page"
    return None


def _refusal(head: bytes) -> tuple[str, str]:
    if not head:
        return "the file is empty", ""
    return other_kind(head) or (f"is {head[:4]!r}, not {MAGIC!r}", "this is not a GGUF file")
