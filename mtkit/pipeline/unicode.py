"""The Unicode tables of ``data/unicode.bin``: read once a process, sliced, never parsed.

tools/unicode.py makes the file and describes its layout; docs/unicode.md says what each section
holds and which version each reference library uses.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array

LIMIT = 0x110000
BASE = "16.0"


@lru_cache(maxsize=1)
def _sections() -> dict[str, memoryview]:
    import os

    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "unicode.bin")
    with open(path, "rb") as file:
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

    out = array("I", bytes(_sections()[name]))
    if sys.byteorder == "big":
        out.byteswap()
    return out


def names(name: str) -> list[str]:
    """Return a section of names; a name's index is its value."""
    return bytes(_sections()[f"names.{name}"]).decode().split(" ")


@lru_cache(maxsize=8)
def ranges(name: str, version: str = BASE) -> dict[str, list[int]]:
    """Return, for a property with named values, the edges of each value's set.

    ``gc`` is the general category, ``sc`` the script. Edges: start, end, start, end … with ends
    exclusive.

    Raises:
        UnsupportedError: There are no categories of that version.
    """
    found = names(name)
    out: dict[str, list[int]] = {value: [] for value in found}
    runs = numbers(name)
    if version != BASE:
        runs = _changed(name, runs, version)
    runs.append(LIMIT << 8)
    edges = [out[found[run & 0xFF]] for run in runs[:-1]]
    for at, run in enumerate(runs[:-1]):
        edges[at] += (run >> 8, runs[at + 1] >> 8)
    return out


def _changed(name: str, runs: array[int], version: str) -> array[int]:
    """Apply a version's differences to the runs of the base."""
    from array import array

    if f"{name}.{version}" not in _sections():
        raise UnsupportedError(f"Unicode {version} is not among the versions that mtkit has")
    table = bytearray()
    runs.append(LIMIT << 8)
    for at, run in enumerate(runs[:-1]):
        table += bytes((run & 0xFF,)) * ((runs[at + 1] >> 8) - (run >> 8))
    changes = numbers(f"{name}.{version}")
    for at in range(0, len(changes), 3):
        start, end, value = changes[at : at + 3]
        table[start:end] = bytes((value,)) * (end - start)
    out = array("I")
    previous = -1
    for code, value in enumerate(table):
        if value != previous:
            out.append(code << 8 | value)
            previous = value
    return out


def property_edges(name: str) -> list[int]:
    """Return the edges of a binary property's set (``Alphabetic``, ``White_Space`` …)."""
    return list(numbers(f"is.{name}"))
