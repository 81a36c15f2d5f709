"""The first eight bytes of a GGUF file, and what a file is that begins otherwise."""

from __future__ import annotations

import struct

from mtkit.base.rules import TRUNCATED, BrokenRule, Finding, Rule

MAGIC = b"GGUF"
HEAD_BYTES = 128
"""Enough to tell what a file is."""

_WEIGHTS = "give its folder: mtkit convert FOLDER --to gguf converts the model"
_PICKLE = "is a Python pickle, as written by PyTorch"
# Beginnings that people meet in files called .gguf -> what it is, what to do.
_OTHERS = (
    (b"FUGG", "has its magic bytes reversed", ""),
    (b"lmgg", "is a GGML file, older than GGUF", "convert the original model again"),
    (b"fmgg", "is a GGMF file, older than GGUF", "convert the original model again"),
    (b"tjgg", "is a GGJT file, older than GGUF", "convert the original model again"),
    (b"version https://git-lfs", "is a Git LFS pointer, not the file", "run git lfs pull"),
    (b"# xet version", "is a Xet pointer, not the file", "run hf download, or git xet"),
    (b"\xef\xbb\xbf", "begins with a UTF-8 byte order mark", "a text editor has changed it"),
    (b"\x1f\x8b", "is compressed with gzip", "unpack it first"),
    (b"\xfd7zXZ\0", "is compressed with xz", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd", "unpack it first"),
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19", "is a PyTorch checkpoint", _WEIGHTS),
    (b"\x80\x02}", _PICKLE, _WEIGHTS),
    (b"\x80\x02c", _PICKLE, _WEIGHTS),
    (b"\x80\x04\x95", _PICKLE, _WEIGHTS),
    (b"\x80\x05\x95", _PICKLE, _WEIGHTS),
    (b"\x93NUMPY", "is a numpy array", ""),
    (b"\x89HDF", "is an HDF5 file, as written by Keras", _WEIGHTS),
    (b"%PDF-", "is a PDF document", ""),
)
_SAFETENSORS_HEAD = 100_000_000
"""Bytes of the JSON at the beginning of a safetensors file, at most.

Source: huggingface/safetensors, tensor.rs (MAX_HEADER_SIZE).
"""


def _magic(head: bytes) -> str:
    return "" if head[:4] == MAGIC else _refusal(head)[0]


def _version(little: int, big: int) -> str:
    if little in VERSIONS or big == BIG_ENDIAN_VERSION:
        return ""
    if big in VERSIONS:
        return f"is {big} in big-endian order, which begins with version {BIG_ENDIAN_VERSION}"
    return f"is {little}, not 1, 2 or 3"


VERSIONS = (1, 2, 3)
BIG_ENDIAN_VERSION = 3
MAGIC_RULE = Rule("magic", "error", "gguf.md", "magic", _magic)
VERSION_RULE = Rule("version", "error", "gguf.md", "version", _version)


def read_version(data: memoryview) -> tuple[int, bool]:
    """Return the version and whether the file is big-endian.

    Raises:
        BrokenRule: It is not a GGUF, or of a version that is not known.
    """
    head = bytes(data[:HEAD_BYTES])
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
    if head.startswith(b"PK\x03\x04"):
        # torch.save stores what it writes and begins with data.pkl, in a folder of the file's name.
        if head[8:10] == b"\0\0" and b"/data.pkl" in head:
            return "the file is a PyTorch checkpoint", _WEIGHTS
        return "the file is a zip archive", "unpack it first"
    length = int.from_bytes(head[:8], "little")
    if head[8:10] in (b'{"', b"{}", b"{ ") and 2 <= length <= _SAFETENSORS_HEAD:
        return "the file is weights in the safetensors format", _WEIGHTS
    if _is_onnx(head):
        return "the file is an ONNX model", _WEIGHTS
    if head[4:8] == b"TFL3":
        return "the file is a TensorFlow Lite model", ""
    if head.lstrip()[:5].lower().startswith((b"<!doc", b"<html", b"<?xml")):
        if b'name="generator" content="mtkit' in head:
            return "the file is a page of mtkit report", "open it in a browser"
        return "the file is a web page", "download it again: the server sent an error page"
    return None


def _is_onnx(head: bytes) -> bool:
    """Tell by ir_version, a small number, and the name of the producer or what may follow it.

    Source: onnx/onnx, onnx.proto (ModelProto).
    """
    if len(head) < 12 or head[0] != 8 or not 3 <= head[1] <= 20:
        return False
    name = head[4 : 4 + min(head[3], 8)]
    return head[2] in b":B" or (head[2] == 0x12 and name.isascii() and name.isalpha())


def _refusal(head: bytes) -> tuple[str, str]:
    if not head:
        return "the file is empty", ""
    if head.lstrip()[:1] == b"{":
        return "the file is JSON, such as a tokenizer", "this is not a GGUF file"
    begins = f'"{head[:4].decode()}"' if _is_print(head[:4]) else head[:4].hex(" ")
    what = f'the file begins with {begins}, not "{MAGIC.decode()}"'
    return other_kind(head) or (what, "this is not a GGUF file")


def _is_print(data: bytes) -> bool:
    return data.isascii() and data.decode().isprintable()
