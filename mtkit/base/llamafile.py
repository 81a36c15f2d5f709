"""The GGUF inside a llamafile: a program with a zip behind it, which holds the model unpacked.

Source: Mozilla-Ocho/llamafile, README (zipalign); PKWARE, APPNOTE.TXT (the header of an entry).
"""

from __future__ import annotations

from mtkit.errors import FormatError

_MODEL = ".gguf"
_LOCAL_BYTES, _LENGTHS = 30, slice(26, 30)


def model_in(path: str, view: memoryview) -> memoryview | None:
    """Return the GGUF in a llamafile, a part of its bytes; None where there is none.

    Raises:
        FormatError: There are several, or it is compressed.
    """
    import struct
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            models = [info for info in archive.infolist() if info.filename.endswith(_MODEL)]
    except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError):
        return None
    if not models:
        return None
    names = ", ".join(info.filename for info in models)
    if len(models) > 1:
        raise FormatError(f"holds several models: {names}", source=path, hint="unzip one of them")
    (info,) = models
    if info.compress_type or info.flag_bits & 1:
        what = f"holds {names} compressed"
        raise FormatError(what, source=path, hint=f"unzip {path} {names}")
    head = bytes(view[info.header_offset : info.header_offset + _LOCAL_BYTES])
    if len(head) < _LOCAL_BYTES or head[:4] != b"PK\x03\x04":
        raise FormatError(f"does not hold {names} where its zip says", source=path)
    name_bytes, extra_bytes = struct.unpack("<HH", head[_LENGTHS])
    start = info.header_offset + _LOCAL_BYTES + name_bytes + extra_bytes
    if start + info.file_size > len(view):
        raise FormatError(f"is truncated: {names} goes beyond its end", source=path)
    return view[start : start + info.file_size]
