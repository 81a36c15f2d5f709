"""The Unicode tables of ``data/unicode.bin``: read once a process, sliced, never parsed.

tools/unicode.py makes the file and describes its layout; docs/unicode.md says what each section
holds and which version each reference library uses.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from functools import lru_cache

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array

LIMIT = 0x110000
BASE = "16.0"


@lru_cache(maxsize=1)
def _sections() -> dict[str, memoryview]:
    from mtkit.base.binary import package_file

    with open(package_file("unicode.bin"), "rb") as file:
        blob = memoryview(file.read())
    magic, count = struct.unpack_from("<4sI", blob)
    assert magic == b"MTKU"
    out = {}
    for name, start, size in struct.iter_unpack("<16sII", blob[8 : 8 + 24 * count]):
        out[name.rstrip(b"\0").decode()] = blob[start : start + size]
    return out


def numbers(name: str) -> array[int]:
    """Return a section as unsigned 32-bit numbers."""
    import sys
    from array import array

    section = _sections().get(name)
    if section is None:
        raise UnsupportedError(f"the Unicode data {name!r} is not among those that mtkit has")
    out = array("I", bytes(section))
    if sys.byteorder == "big":
        out.byteswap()
    return out


def names(name: str) -> list[str]:
    """Return a section of names; a name's index is its value."""
    return bytes(_sections()[f"names.{name}"]).decode().split(" ")


@lru_cache(maxsize=8)
def ranges(name: str) -> dict[str, list[int]]:
    """Return, for a property with named values, the edges of each value's set.

    ``gc.VERSION`` is the general category, ``sc`` the script. Edges: start, end, start, end … with
    ends exclusive.
    """
    runs = numbers(name)
    values = names(name.partition(".")[0])
    out: dict[str, list[int]] = {value: [] for value in values}
    runs.append(LIMIT << 8)
    edges = [out[values[run & 0xFF]] for run in runs[:-1]]
    for at, run in enumerate(runs[:-1]):
        edges[at] += (run >> 8, runs[at + 1] >> 8)
    return out


def property_edges(name: str) -> list[int]:
    """Return the edges of a binary property's set (``Alphabetic``, ``White_Space`` …)."""
    return list(numbers(f"is.{name}"[:16]))


@lru_cache(maxsize=16)
def _runs(name: str) -> tuple[array[int], list[str] | None]:
    kind = name.partition(".")[0]
    return numbers(name), names(kind) if f"names.{kind}" in _sections() else None


def value(name: str, character: str) -> str:
    """Return a character's value of a property with named values.

    ``gc.VERSION``: general category; ``sc``: script; ``gcb``: part in a grapheme cluster.
    """
    runs, values = _runs(name)
    assert values is not None
    return values[runs[bisect_right(runs, ord(character) << 8 | 0xFF) - 1] & 0xFF]


def category(character: str, version: str = BASE) -> str:
    """Return the general category, ``Cn`` for what a version has not assigned."""
    return value(f"gc.{version}", character)


def script(character: str) -> str:
    """Return the script by its long name, ``Unknown`` where there is none."""
    return value("sc", character)


def combining_class(character: str, version: str = BASE) -> int:
    """Return the canonical combining class."""
    runs, _ = _runs("ccc")
    order = runs[bisect_right(runs, ord(character) << 8 | 0xFF) - 1] & 0xFF
    if order and version != BASE and category(character, version) == "Cn":
        return 0
    return order


@lru_cache(maxsize=8)
def _pairs(name: str) -> dict[int, int]:
    listed = numbers(name)
    return dict(zip(listed[::2], listed[1::2], strict=True))


def simple_lower(character: str, version: str = "17.0") -> str:
    """Return the lower case that is one character."""
    code = _pairs("lower").get(ord(character))
    if code is None or (version != "17.0" and category(character, version) == "Cn"):
        return character
    return chr(code)


def lower(character: str) -> str:
    """Return the full lower case of one character, apart from its neighbors (Unicode 17.0)."""
    return "i\u0307" if character == "\u0130" else simple_lower(character)


def decomposition(character: str, *, compatible: bool, version: str = BASE) -> str:
    """Return the full decomposition of one character, itself if it has none."""
    code = ord(character)
    if 0xAC00 <= code < 0xD7A4:
        first, last = divmod(code - 0xAC00, 28)
        lead, vowel = divmod(first, 21)
        parts = chr(0x1100 + lead) + chr(0x1161 + vowel)
        return parts + chr(0x11A7 + last) if last else parts
    place_and_length = _pairs("nfkd").get(code) if compatible else None
    place_and_length = place_and_length or _pairs("nfd").get(code)
    if place_and_length is None or (version != BASE and category(character, version) == "Cn"):
        return character
    place, length = place_and_length >> 8, place_and_length & 0xFF
    if length == 1:
        return chr(place)
    return "".join(map(chr, _forms_text()[place : place + length]))


@lru_cache(maxsize=1)
def _forms_text() -> array[int]:
    return numbers("forms.text")


@lru_cache(maxsize=1)
def _compositions() -> dict[tuple[int, int], int]:
    triples = numbers("nfc")
    pairs = zip(triples[::3], triples[1::3], strict=True)
    return dict(zip(pairs, triples[2::3], strict=True))


def composition(first: str, second: str, version: str = BASE) -> str | None:
    """Return the character that two neighbors compose to, if there is one."""
    a, b = ord(first), ord(second)
    if 0x1100 <= a < 0x1113 and 0x1161 <= b < 0x1176:
        return chr(0xAC00 + ((a - 0x1100) * 21 + b - 0x1161) * 28)
    if 0xAC00 <= a < 0xD7A4 and (a - 0xAC00) % 28 == 0 and 0x11A8 <= b < 0x11C3:
        return chr(a + b - 0x11A7)
    code = _compositions().get((a, b))
    if code is None or (version != BASE and category(chr(code), version) == "Cn"):
        return None
    return chr(code)


def clusters(text: str) -> list[str]:
    """Cut a text into extended grapheme clusters (Unicode 17.0, annex 29)."""
    out: list[str] = []
    before = ""
    # Whether a picture or an Indic consonant can be joined across what is between, and how many
    # regional indicators stand before this place.
    picture = consonant = linked = False
    flags = 0
    for character in text:
        kind = value("gcb", character)
        extends = kind in {"Extend", "ZWJ", "Linker"}
        joined = (
            (before == "CR" and kind == "LF")
            or (
                before not in {"", "CR", "LF", "Control"}
                and kind not in {"CR", "LF", "Control"}
                and (
                    extends
                    or kind == "SpacingMark"
                    or before == "Prepend"
                    or (before == "L" and kind in {"L", "V", "LV", "LVT"})
                    or (before in {"LV", "V"} and kind in {"V", "T"})
                    or (before in {"LVT", "T"} and kind == "T")
                    or (before == "ZWJ" and picture and kind == "Pictographic")
                    or (consonant and linked and kind == "Consonant")
                    or (kind == "Regional_Indicator" and flags % 2 == 1)
                )
            )
        )  # fmt: skip
        if joined:
            out[-1] += character
        else:
            out.append(character)
        flags = flags + 1 if kind == "Regional_Indicator" else 0
        if kind == "Pictographic" or not extends:
            picture = kind == "Pictographic"
        if not extends:
            consonant, linked = kind == "Consonant", False
        elif kind == "Linker":
            linked = True
        before = kind
    return out
