"""Alphabets on which split patterns see less than the characters of a text.

Source: llama.cpp src/unicode.cpp (``unicode_regex_split``: text collapsed to one byte a code
point, or white space to U+000B); MNN's tokenizer (code points folded to one byte).
"""

from __future__ import annotations

from mtkit.pipeline import pattern_sets, unicode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec.text import Regex


def folded(table: bytes, rules: Regex) -> bytes:
    """Return the class of each character, given the class of each member of the alphabet."""
    if rules.alphabet == "characters":
        return table
    spaces = unicode.property_edges("White_Space")
    if rules.alphabet == "blank_spaces":
        out = bytearray(table)
        for at in range(0, len(spaces), 2):
            start, end = max(spaces[at], 0x80), spaces[at + 1]
            out[start:end] = table[0x0B:0x0C] * max(end - start, 0)
        return bytes(out)
    high = rules.alphabet == "high_kinds"
    kinds = pattern_sets.HIGH_KINDS if high else pattern_sets.LOW_KINDS
    letters = bytearray(unicode.LIMIT)
    for name, edges in unicode.ranges(f"gc.{rules.unicode}").items():
        # White space is decided by its own property, or is category Zs alone.
        kind = name[0] if name[0] != "Z" or (name == "Zs" and not high) else "C"
        for at in range(0, len(edges), 2):
            letters[edges[at] : edges[at + 1]] = bytes((kinds[kind],)) * (edges[at + 1] - edges[at])
    if high:
        for at in range(0, len(spaces), 2):
            letters[spaces[at] : spaces[at + 1]] = bytes((kinds["Z"],)) * (
                spaces[at + 1] - spaces[at]
            )
    letters[:128] = bytes(range(128))
    return bytes(letters.translate(table[:256]))
