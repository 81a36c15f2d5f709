"""Normalizers that need Unicode data, as steps of the core: dropping, mapping, normal forms."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from mtkit.engine.bert_steps import by_table, per_character
from mtkit.engine.character_steps import blank, drop, lower, set_apart
from mtkit.engine.opcodes import NormalizerKind
from mtkit.engine.program_writer import code_point_map, numbers, text, u8
from mtkit.engine.sets import categories, of_characters, set_of, union, without
from mtkit.errors import UnsupportedError
from mtkit.spec import normalizers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.engine.sets import Edges
    from mtkit.spec.normalizers import Normalizer

FORMS_VERSION = "9.0"
"""Of the crate whose normal forms tokenizers uses."""


def steps_of(component: Normalizer) -> list[bytes]:
    """Return the steps of a normalizer.

    Raises:
        UnsupportedError: The core has none for it.
    """
    if isinstance(component, normalizers.UnicodeForm):
        return [form(component.form)]
    if isinstance(component, normalizers.Lowercase):
        return [lower(full=component.mapping == "full")]
    if isinstance(component, normalizers.StripAccents):
        return [drop(categories(FORMS_VERSION, "M"))]
    if isinstance(component, normalizers.Nmt):
        return _nmt()
    if isinstance(component, normalizers.Bert):
        return per_character(component) if component.per_character else _bert(component)
    if isinstance(component, normalizers.BertTable):
        return by_table(component)
    if isinstance(component, normalizers.CodePointTable):
        return [_code_point_table(component)]
    if isinstance(component, normalizers.Precompiled):
        return [u8(NormalizerKind.CHARSMAP) + numbers(_graphemes()) + text(component.charsmap)]
    raise UnsupportedError(f"the core has no step for {type(component).__name__}")


@lru_cache(maxsize=1)
def _graphemes() -> list[int]:
    """Return the runs of grapheme-break properties, numbered as in native/text/graphemes.hpp."""
    from mtkit.unicode.tables import names
    from mtkit.unicode.tables import numbers as section

    order = (
        *("Other", "CR", "LF", "Control", "Extend", "ZWJ", "Linker", "SpacingMark", "Prepend"),
        *("L", "V", "T", "LV", "LVT", "Regional_Indicator", "Pictographic", "Consonant"),
    )
    kinds = [order.index(name) if name in order else 0 for name in names("gcb")]
    return [run & ~0xFF | kinds[run & 0xFF] for run in section("gcb")]


def _nmt() -> list[bytes]:
    from mtkit.pipeline.normalizers.components import _NMT_BLANKS, _NMT_DROPS

    return [drop(of_characters(_NMT_DROPS)), blank(of_characters(_NMT_BLANKS))]


def _bert(component: normalizers.Bert) -> list[bytes]:
    from mtkit.unicode.characters import HAN

    steps = []
    if component.clean_text:
        controls = without(categories("8.0", "Cc", "Cf", "Co"), "\t\n\r")
        steps += [drop(union(controls, of_characters("\0\ufffd"))), blank(set_of("white_space"))]
    if component.handle_chinese_chars:
        edges = union(*((first, last + 1) for first, last in HAN))
        steps.append(set_apart(edges))
    strip = component.strips_accents
    if strip:
        steps += [form("NFD"), drop(categories("8.0", "Mn"))]
    if component.lowercase:
        steps.append(lower(full=True))
    return steps


def _code_point_table(component: normalizers.CodePointTable) -> bytes:
    from mtkit.pipeline.normalizers.code_point_tables import _BLANKED_CONTROLS

    table = dict(zip(component.code_points, component.values, strict=True))
    if component.blank_controls:
        table.update((ord(c), b" ") for c in _BLANKED_CONTROLS)
    return u8(NormalizerKind.MAP) + code_point_map(table.items())


@lru_cache(maxsize=4)
def form(name: str) -> bytes:
    """Return the step of a normal form, with the data of ``FORMS_VERSION``."""
    from mtkit.unicode.tables import numbers as section

    assigned = _Assigned(categories(FORMS_VERSION, "Cn"))
    texts = section("forms.text")

    def decompositions(of: str) -> dict[int, bytes]:
        pairs = section(of)
        found = {}
        for code, place in zip(pairs[::2], pairs[1::2], strict=True):
            start, length = place >> 8, place & 0xFF
            parts = (start,) if length == 1 else texts[start : start + length]
            if assigned(code):
                found[code] = "".join(map(chr, parts)).encode()
        return found

    mapping = decompositions("nfd")
    if "K" in name:
        mapping.update(decompositions("nfkd"))
    triples = section("nfc")
    compositions = sorted(
        triple
        for triple in zip(triples[::3], triples[1::3], triples[2::3], strict=True)
        if assigned(triple[2])
    )
    return b"".join(
        [
            u8(NormalizerKind.FORM),
            u8(name.endswith("C")),
            code_point_map(mapping.items()),
            numbers(_classes(categories(FORMS_VERSION, "Cn"))),
            numbers(number for triple in compositions for number in triple),
        ]
    )


class _Assigned:
    """Tells whether a version has assigned a character."""

    def __init__(self, unassigned: Edges) -> None:
        self.edges = unassigned

    def __call__(self, code_point: int) -> bool:
        from bisect import bisect_right

        return bisect_right(self.edges, code_point) % 2 == 0


def _classes(unassigned: Edges) -> list[int]:
    """Return the runs of combining classes, 0 for what is not assigned."""
    from mtkit.unicode.tables import LIMIT
    from mtkit.unicode.tables import numbers as section

    runs = [*section("ccc"), LIMIT << 8]
    is_assigned = _Assigned(unassigned)
    out = []
    for run, after in pairwise(runs):
        value = run & 0xFF
        cuts = [run >> 8]
        if value:
            cuts += [edge for edge in unassigned if run >> 8 < edge < after >> 8]
        out += [cut << 8 | (value if is_assigned(cut) else 0) for cut in cuts]
    return out
