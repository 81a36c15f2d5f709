"""The first eight bytes of a GGUF file, and what a file is that begins otherwise."""

from __future__ import annotations

import struct

from mtkit.base.rules import TRUNCATED, BrokenRule, Finding, Rule

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


def _magic(head: bytes) -> str:
    return "" if head[:4] == MAGIC else _refusal(head)[0]


def _version(little: int, big: int) -> str:
    if little in VERSIONS or big == BIG_ENDIAN_VERSION:
        return ""
    if big in VERSIONS:
        return f"is {big} in big-endian order, which begins with version {BIG_ENDIAN_VERSION}"
    return f"is {little}, known are 1, 2 and 3"


VERSIONS = (1, 2, 3)
BIG_ENDIAN_VERSION = 3
MAGIC_RULE = Rule("magic", "error", "gguf.md", "magic", _magic)
VERSION_RULE = Rule("version", "error", "gguf.md", "version", _version)


def read_version(data: memoryview) -> tuple[int, bool]:
    """Return the version and whether the file is big-endian.

    Raises:
        BrokenRule: It is not a GGUF, or of a version that is not known.
    """
    head = bytes(data[:24])
    what = _magic(head)
    if what:
        raise BrokenRule(Finding(MAGIC_RULE, "magic", what, 0, _refusal(head)[1]))
    TRUNCATED.demand(4, len(data) - 4, field="version", offset=4)
    little, big = (struct.unpack_from(order, head, 4)[0] for order in ("<I", ">I"))
    VERSION_RULE.demand(little, big, field="version", offset=4)
    return (little, False) if little in VERSIONS else (big, True)


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
