"""Records of the specification, drawn by their types, as JSON data: any value that a field takes.

Most values are plain, so that several fit together by chance; some are beyond what makes sense.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from mtkit.spec import TokenizerSpec
from mtkit.spec.codec import field_types, has_default
from mutants.json_level import BYTE, LONE

if TYPE_CHECKING:
    from random import Random

    from mtkit.base.record import Record
    from mtkit.spec.codec import FieldType

DEEPEST = 4
NUMBERS = (0, 0, 0, 1, 1, 2, 3, 4, 5, 7, 12, 13, 100, 255)
ODD_NUMBERS = (-1, -2, 256, 300, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1,
               1 << 32, 1 << 63, 1 << 64, 10**30)  # fmt: skip
STRINGS = ("", " ", "a", "b", "ab", "\u2581", "##", "</w>", "<unk>", "15.0", "8.0", "16.0", "x\0",
           r"\s+", r"\p{L}+| ?\p{N}|[^\s]", "[a-c]", ".", "\U0001f389", "\u0130",
           "\u0120")  # fmt: skip
ODD_STRINGS = (LONE, BYTE, "(", "[", "(a*)*", r"\p{Nope}", "x" * 300, "\udfff\ud800", "17", "99.9")
FLOATS = (0.0, -1.0, -1.5, 0.1, 1.0)
ODD_FLOATS = (float("nan"), float("inf"), -float("inf"), 1e300, -3.5e38, 2)
CODES = "BbHhIiQqfd"
BYTES = (b"", b"a", b"ab", b" ", "\u2581".encode(), b"<0x41>", b"\xff", b"\xed\xa0\x80", b"\0",
         struct.pack("<I", 1024) + bytes(1024) + b"x\0", struct.pack("<I", 3) + b"abc")  # fmt: skip


def replaced(rng: Random, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a specification with one to three fields drawn anew."""
    kinds = field_types(TokenizerSpec)
    changed = {**spec}
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice([*kinds, "model", "normalizer", "pre_tokenizer", "decoder"])
        inside = changed.get(name)
        if isinstance(inside, dict) and rng.random() < 0.5:
            changed[name] = _one_field(rng, inside, kinds[name])
        else:
            changed[name] = value(rng, kinds[name], 0)
    return changed


def _one_field(rng: Random, data: dict[str, Any], kind: FieldType) -> dict[str, Any]:
    """Return the data of a record with one field drawn anew."""
    name = data.get("type", kind.classes[0].__name__ if kind.classes else "")
    for cls in kind.classes:
        types = field_types(cls)
        if cls.__name__ == name and types:
            field = rng.choice(list(types))
            return {**data, field: value(rng, types[field], 1)}
    return data


def value(rng: Random, kind: FieldType, depth: int) -> Any:
    """Return data of a type, one value in twelve an odd one."""
    is_odd = rng.random() < 1 / 12
    if kind.optional and rng.random() < 0.3:
        return None
    if kind.classes:
        shallow = [cls for cls in kind.classes if depth < DEEPEST or not _nests(cls)]
        return record(rng, rng.choice(shallow or kind.classes), kind, depth)
    if kind.item is not None:
        count = 0 if depth > DEEPEST else rng.choice((0, 1, 1, 2, 3))
        return [value(rng, kind.item, depth + 1) for _ in range(count)]
    if kind.items:
        return [value(rng, item, depth + 1) for item in kind.items]
    if kind.choices:
        return rng.choice(sorted(kind.choices))
    match kind.name:
        case "bool":
            return rng.random() < 0.5
        case "int":
            return rng.choice(ODD_NUMBERS if is_odd else NUMBERS)
        case "float":
            return rng.choice(ODD_FLOATS if is_odd else FLOATS)
        case "str":
            return rng.choice(ODD_STRINGS if is_odd else STRINGS)
        case "bytes":
            return {"base64": _base64(rng.choice(BYTES))}
        case "Numbers":
            return _numbers(rng)
        case "Pieces":
            return _pieces(rng)
    return rng.choice((None, 1, "a", LONE, [1, LONE], {"a": {"$bytes": "YQ=="}}, {LONE: 1}))


def record(rng: Random, cls: type[Record], kind: FieldType, depth: int) -> dict[str, Any]:
    """Return data of a record; half of the fields that may be left out are."""
    data: dict[str, Any] = {"type": cls.__name__} if len(kind.classes) > 1 else {}
    for name, inner in field_types(cls).items():
        if not has_default(cls, name) or rng.random() < 0.5:
            data[name] = value(rng, inner, depth + 1)
    return data


def _nests(cls: type[Record]) -> bool:
    return any(kind.item is not None or kind.classes for kind in field_types(cls).values())


def _numbers(rng: Random) -> dict[str, Any]:
    code = rng.choice((*CODES, *"IIIIIIBBff"))
    count = rng.choice((0, 1, 2, 2, 4, 7, 20))
    if code in "fd":
        values = [
            rng.choice((*FLOATS, *FLOATS, float("nan"), float("inf"), 1e30)) for _ in range(count)
        ]
    else:
        bits = {"b": 7, "h": 15, "i": 31, "q": 63}.get(code, struct.calcsize(code) * 8)
        drawn = rng.choice((NUMBERS, NUMBERS, range(count), ODD_NUMBERS))
        values = [rng.choice(drawn) & (1 << bits) - 1 for _ in range(count)]
        if rng.random() < 0.5:
            values.sort()
    return {"code": code, "base64": _base64(struct.pack(f"<{count}{code}", *values))}


def _pieces(rng: Random) -> dict[str, Any]:
    items = [rng.choice(BYTES[:9]) for _ in range(rng.choice((0, 1, 2, 2, 4, 7, 20)))]
    ends = [sum(map(len, items[: at + 1])) for at in range(len(items))]
    if ends and rng.random() < 0.1:
        ends[rng.randrange(len(ends))] = rng.choice((0, 1 << 31, ends[-1] + 1))
    return {
        "ends": _base64(struct.pack(f"<{len(ends)}I", *ends)),
        "base64": _base64(b"".join(items)),
    }


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
