"""Named character sets of split patterns: ``\\p{…}``, ``[:…:]``, shorthands, case folding.

``Sets(rules)`` answers under the rules of one ``spec.text.Regex``. On the alphabet of kinds, of
which a pattern sees kinds of characters only, a kind is one byte and its ASCII members.

Source: Oniguruma's doc/RE and its Unicode tables, compared over all code points; MNN's tokenizer
(alibaba/MNN, transformers/llm/engine/src/tokenizer, unicode.cpp), by its behavior, for the kinds.
"""

from __future__ import annotations

from functools import lru_cache

from mtkit.errors import UnsupportedError
from mtkit.patterns.tree import intersect, negate, union
from mtkit.unicode import tables as unicode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.patterns.tree import Edges
    from mtkit.spec.text import Regex


ANY: Edges = (0, unicode.LIMIT)
NEWLINE: Edges = (10, 11)
KINDS = {"L": 1, "N": 2, "Z": 3, "C": 4, "M": 5, "P": 6, "S": 7}
ASCII_KINDS = {
    "N": "0123456789",
    "L": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "P": "!\"#%&'()*,-./:;?@[\\]_{}",
    "S": "$+<=>^`|~",
    "M": "",
}
FRACTIONS: Edges = (0xB2, 0xB4, 0xB9, 0xBA, 0xBC, 0xBF)
ASCII_WORD: Edges = (0x30, 0x3A, 0x41, 0x5B, 0x5F, 0x60, 0x61, 0x7B)
ASCII_SPACE: Edges = (9, 14, 32, 33)
HEX: Edges = (0x30, 0x3A, 0x41, 0x47, 0x61, 0x67)
GROUPS = {
    "letter": "L", "casedletter": "LC", "mark": "M", "combiningmark": "M", "number": "N",
    "punctuation": "P", "symbol": "S", "separator": "Z", "other": "C",
}  # fmt: skip
LONG = {
    "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt",
    "modifierletter": "Lm", "otherletter": "Lo", "nonspacingmark": "Mn", "spacingmark": "Mc",
    "enclosingmark": "Me", "decimalnumber": "Nd", "letternumber": "Nl", "othernumber": "No",
    "connectorpunctuation": "Pc", "dashpunctuation": "Pd", "openpunctuation": "Ps",
    "closepunctuation": "Pe", "initialpunctuation": "Pi", "finalpunctuation": "Pf",
    "otherpunctuation": "Po", "mathsymbol": "Sm", "currencysymbol": "Sc", "modifiersymbol": "Sk",
    "othersymbol": "So", "spaceseparator": "Zs", "lineseparator": "Zl",
    "paragraphseparator": "Zp", "control": "Cc", "format": "Cf", "surrogate": "Cs",
    "privateuse": "Co", "unassigned": "Cn",
}  # fmt: skip
PROPERTIES = {
    "alphabetic": "Alphabetic", "uppercase": "Uppercase", "lowercase": "Lowercase",
    "whitespace": "White_Space", "joincontrol": "Join_Control", "emoji": "Emoji",
    "emojipresentation": "Emoji_Presentation", "extendedpictographic": "Extended_Pictographic",
    "ideographic": "Ideographic",
}  # fmt: skip


class Sets:
    """Character sets under the rules of one pattern."""

    def __init__(self, rules: Regex) -> None:
        self.rules = rules
        self.kinds = rules.alphabet == "kinds"

    def category(self, prefix: str) -> Edges:
        """Characters whose general category begins so ("LC": cased letters)."""
        if prefix == "LC":
            return union(self.category(name) for name in ("Lu", "Ll", "Lt"))
        sets = unicode.ranges(f"gc.{self.rules.unicode}")
        return union(edges for name, edges in sets.items() if name.startswith(prefix))

    def named(self, name: str) -> Edges:
        r"""Return the set of ``\p{name}``."""
        if self.kinds:
            return self._kind(name)
        key = name.lower().replace(" ", "").replace("_", "").replace("-", "")
        for title in ("script=", "sc=", "generalcategory=", "gc="):
            key = key.removeprefix(title)
        short = GROUPS.get(key) or LONG.get(key)
        if short is None and 0 < len(key) <= 2 and key[0] in "lmnpszc":
            short = key[0].upper() + key[1:]
            short = "LC" if key in {"lc", "l&"} else short
        if short is not None:
            edges = self.category(short)
            if edges or short == "Cs":
                return edges
        if key in PROPERTIES:
            return tuple(unicode.property_edges(PROPERTIES[key]))
        if key in POSIX:
            return self.posix(key)
        script = _scripts().get(key)
        if script is not None:
            return tuple(unicode.ranges("sc")[script])
        special = {"any": ANY, "assigned": negate(self.category("Cn")), "ascii": (0, 128)}
        if key not in special:
            raise UnsupportedError(f"\\p{{{name}}} in a split pattern is not known")
        return special[key]

    def _kind(self, name: str) -> Edges:
        letter = name[:1]
        if letter == "Z":
            return self.space()
        if letter not in ASCII_KINDS:
            return ()
        codes = [ord(c) for c in ASCII_KINDS[letter]]
        return union([(code, code + 1) for code in (*codes, KINDS[letter])])

    def space(self) -> Edges:
        r"""``\s``."""
        if self.kinds:
            return union((ASCII_SPACE, (KINDS["Z"], KINDS["Z"] + 1)))
        if self.rules.shorthands == "ascii":
            return ASCII_SPACE
        return tuple(unicode.property_edges("White_Space"))

    def digit(self) -> Edges:
        r"""``\d``."""
        if self.kinds:
            return self._kind("N")
        return (0x30, 0x3A) if self.rules.shorthands == "ascii" else self.category("Nd")

    def word(self, *, bracket: bool) -> Edges:
        r"""``\w``, in a bracket or outside."""
        if self.kinds:
            return union((ASCII_WORD, self._kind("L"), self._kind("N")))
        if self.rules.shorthands == "ascii":
            return ASCII_WORD
        parts = [self.category("M"), self.category("Nd"), self.category("Pc")]
        parts.append(tuple(unicode.property_edges("Alphabetic")))
        if self.rules.word == "joiners":
            parts.append(tuple(unicode.property_edges("Join_Control")))
        if self.rules.word == "fractions" and not bracket:
            parts.append(FRACTIONS)
        return union(parts)

    def posix(self, name: str) -> Edges:
        """Return the set of ``[:name:]``."""
        make = POSIX.get(name)
        if make is None:
            raise UnsupportedError(f"[:{name}:] in a split pattern is not known")
        if self.rules.shorthands == "ascii":
            return intersect(make(Sets(type(self.rules)(""))), (0, 128))
        return make(self)

    def fold(self, edges: Edges) -> Edges:
        """Return a set with all characters that differ from its own by case only."""
        groups = _fold_groups()
        added: list[int] = []
        for at in range(0, len(edges), 2):
            start, end = edges[at], edges[at + 1]
            codes = range(start, end) if end - start < len(groups) else groups
            for code in codes:
                if code in groups and start <= code < end:
                    added += groups[code]
        return union((edges, *((code, code + 1) for code in set(added))))


def _space(_: Sets) -> Edges:
    return tuple(unicode.property_edges("White_Space"))


def _graph(sets: Sets) -> Edges:
    gone = union((_space(sets), *(sets.category(name) for name in ("Cc", "Cn", "Cs"))))
    return negate(gone)


def _alpha(_: Sets) -> Edges:
    return tuple(unicode.property_edges("Alphabetic"))


POSIX: dict[str, Callable[[Sets], Edges]] = {
    "alpha": _alpha,
    "alnum": lambda sets: union((_alpha(sets), sets.category("Nd"))),
    "ascii": lambda _: (0, 128),
    "blank": lambda sets: union((sets.category("Zs"), (9, 10))),
    "cntrl": lambda sets: sets.category("Cc"),
    "digit": lambda sets: sets.category("Nd"),
    "graph": _graph,
    "lower": lambda _: tuple(unicode.property_edges("Lowercase")),
    "print": lambda sets: union((_graph(sets), sets.category("Zs"))),
    "punct": lambda sets: union((sets.category("P"), sets.category("S"))),
    "space": _space,
    "upper": lambda _: tuple(unicode.property_edges("Uppercase")),
    "word": lambda sets: sets.word(bracket=True),
    "xdigit": lambda _: HEX,
}


@lru_cache(maxsize=1)
def _scripts() -> dict[str, str]:
    return {name.lower().replace("_", ""): name for name in unicode.names("sc")}


@lru_cache(maxsize=1)
def _fold_groups() -> dict[int, list[int]]:
    """For each character that has other cases, all of them and itself."""
    pairs = unicode.numbers("fold")
    groups: dict[int, list[int]] = {}
    for code, target in zip(pairs[::2], pairs[1::2], strict=True):
        group = groups.setdefault(target, [target])
        group.append(code)
        groups[code] = group
    return groups


@lru_cache(maxsize=1)
def long_foldings() -> dict[int, str]:
    """Characters that fold to several, with what they fold to."""
    rows = unicode.numbers("fold.full")
    return {
        rows[at]: "".join(chr(code) for code in rows[at + 1 : at + 4] if code)
        for at in range(0, len(rows), 4)
    }


def kinds_of(table: bytes, version: str) -> bytes:
    """Return the class of each character, given the class of each byte of the alphabet."""
    kinds = bytearray(unicode.LIMIT)
    for name, edges in unicode.ranges(f"gc.{version}").items():
        # Line and paragraph separators are not white space here.
        kind = KINDS["C" if name in {"Zl", "Zp"} else name[0]]
        for at in range(0, len(edges), 2):
            kinds[edges[at] : edges[at + 1]] = bytes((kind,)) * (edges[at + 1] - edges[at])
    kinds[:128] = bytes(range(128))
    return bytes(kinds.translate(table[:256]))
