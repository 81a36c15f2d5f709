"""Values of keys as people type them: ``u32:128``, ``str:a name``, ``f32[]:[0.5, 1]``."""

from __future__ import annotations

import struct
from math import isinf

from mtkit.base.escape import quoted, shown
from mtkit.errors import UsageError
from mtkit.gguf.types import BY_NAME
from mtkit.gguf.writer import Key, key_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.gguf.file import Metadata

OTHER_NAMES = {
    "str": "string",
    "uint8": "u8",
    "int8": "i8",
    "uint16": "u16",
    "int16": "i16",
    "uint32": "u32",
    "int32": "i32",
    "uint64": "u64",
    "int64": "i64",
    "float": "f32",
    "float32": "f32",
    "float64": "f64",
}
"""Names of other tools -> ours."""
_TYPES = frozenset(BY_NAME) - {"array"}
_INTEGERS = frozenset({"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"})


def typed(name: str, text: str, metadata: Metadata) -> Key:
    """Return a key with a value; where no type is given, the one that it has.

    Args:
        name: Of the key.
        text: ``TYPE:VALUE`` or ``VALUE``; an array is ``TYPE[]:`` and JSON.
        metadata: Of the file as it is.

    Raises:
        UsageError: The value is not one of that type, or the type is not known.
    """
    head, colon, rest = text.partition(":")
    kind = OTHER_NAMES.get(head.removesuffix("[]"), head.removesuffix("[]"))
    if colon and kind in _TYPES:
        kind += "[]" * head.endswith("[]")
    elif name in metadata:
        kind, rest = metadata.type_name(name), text
    else:
        raise UsageError(
            "is new, so its type is needed",
            field=shown(name),
            hint=f"--set {shown(name)}=TYPE:VALUE, TYPE one of {' '.join(sorted(_TYPES))}",
        )
    key = Key(name, kind, _value(name, kind, rest))
    key_bytes(key)  # numbers in their range
    return key


def _value(name: str, kind: str, text: str) -> Any:
    if kind.endswith("[]"):
        return _array(name, kind.removesuffix("[]"), text)
    if kind == "string":
        return text
    if kind == "bool":
        if text not in ("true", "false"):
            raise _wrong(name, kind, text, "true or false")
        return text == "true"
    try:
        return int(text, 0) if kind in _INTEGERS else _stored(kind, float(text), text)
    except (ValueError, OverflowError):
        raise _wrong(name, kind, text, "a number in its range") from None


def _array(name: str, kind: str, text: str) -> list[Any]:
    import json

    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    wanted: tuple[type, ...] = (str,) if kind == "string" else (int, float)
    wanted = (bool,) if kind == "bool" else (int,) if kind in _INTEGERS else wanted
    if not isinstance(values, list) or not all(
        isinstance(value, wanted) and (kind == "bool") == isinstance(value, bool)
        for value in values
    ):
        raise _wrong(name, f"{kind}[]", text, "a JSON array of such values")
    if kind not in ("f32", "f64"):
        return values
    try:
        return [_stored(kind, value, text) for value in values]
    except OverflowError:
        raise _wrong(name, f"{kind}[]", text, "an array of numbers in its range") from None


def _stored(kind: str, value: float, text: str) -> float:
    """Return a number as it is read back; one that became infinite by itself is too large."""
    code = f"<{BY_NAME[kind].code}"
    (found,) = struct.unpack(code, struct.pack(code, value))
    if isinf(found) and "inf" not in text.lower():
        raise OverflowError
    return float(found)


def _wrong(name: str, kind: str, text: str, wanted: str) -> UsageError:
    what = f"is of type {kind}: {quoted(text)} is not {wanted}"
    return UsageError(what, field=shown(name), hint="write string:… to make it text")
