"""Normalizers that need Unicode data, as steps of the core: dropping, mapping, normal forms.

First the steps that take characters one by one: dropped, set apart, made blank, mapped; then BERT's
clean-ups that go code point by code point; then ``steps_of``, which every normalizer here goes
through.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from mtkit.engine.opcodes import NormalizerKind
from mtkit.engine.program_writer import (
    category_set,
    code_point_map,
    named_set,
    numbers,
    set_of_characters,
    set_without,
    text,
    u8,
    union_of_sets,
)
from mtkit.errors import UnsupportedError
from mtkit.spec import normalizers
from mtkit.unicode.characters import BERT_BLOCKS, HAN, WHITE_SPACE, is_space_separator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.engine.program_writer import Edges
    from mtkit.spec.normalizers import Normalizer


SIMPLE_CASE = "15.1"
"""Version of llama.cpp's lower case."""


def drop_step(edges: Edges) -> bytes:
    """Drop the characters of a set."""
    return u8(NormalizerKind.DROP) + u8(1) + text("") + numbers(edges)


def set_apart_step(edges: Edges) -> bytes:
    """Put a blank on both sides of the characters of a set."""
    return u8(NormalizerKind.DROP) + u8(0) + text(" ") + numbers(edges)


def blank_step(edges: Edges) -> bytes:
    """Make the characters of a set blanks."""
    runs = zip(edges[::2], edges[1::2], strict=True)
    blanks = code_point_map((c, b" ") for start, end in runs for c in range(start, end))
    return u8(NormalizerKind.MAP) + blanks


@lru_cache(maxsize=3)
def lower_step(*, full: bool, version: str = SIMPLE_CASE) -> bytes:
    """Make characters lower case; one for one where not ``full``, those that a version assigns."""
    from mtkit.unicode.tables import category
    from mtkit.unicode.tables import numbers as section

    pairs = section("lower")
    mapping = dict(zip(pairs[::2], (chr(c).encode() for c in pairs[1::2]), strict=True))
    if full:
        mapping[0x130] = "i\u0307".encode()
    else:
        mapping = {c: to for c, to in mapping.items() if category(chr(c), version) != "Cn"}
    return u8(NormalizerKind.MAP) + code_point_map(mapping.items())


BERT_UNICODE = "15.1"
"""Of llama.cpp's clean-up."""
BERT_TABLE_UNICODE = "15.0"
"""Of MNN's, where a table names none."""
BERT_TABLE_CASE = "17.0"


def bert_per_character_steps(component: normalizers.Bert) -> list[bytes]:
    """Return the steps of ``Bert`` with each character on its own."""
    strip = component.strips_accents
    steps = [_bases_step()] if strip else []
    if component.clean_text:
        gone = category_set(BERT_UNICODE, "Cc", "Cf", "Co", "Cs")
        # White space goes first: the tab is a control, too.
        steps += [
            blank_step(named_set("white_space")),
            drop_step(union_of_sets(gone, set_of_characters("\0\ufffd"))),
        ]
    if component.handle_chinese_chars:
        steps.append(set_apart_step(_block_edges(HAN)))
    if strip:
        steps.append(drop_step(category_set(BERT_UNICODE, "M")))
    if component.lowercase:
        steps.append(lower_step(full=False))
    return steps


def bert_table_steps(component: normalizers.BertTable) -> list[bytes]:
    """Return the steps of ``BertTable``."""
    steps = []
    if component.clean_text:
        blanks = {"\t", "\n", "\r", *filter(is_space_separator, WHITE_SPACE)}
        gone = union_of_sets((0, 0x20), (0x7F, 0xA0), set_of_characters("\ufffd"))
        steps += [blank_step(set_of_characters(blanks)), drop_step(gone)]
    if component.handle_chinese_chars:
        steps.append(set_apart_step(_block_edges(BERT_BLOCKS)))
    if component.strip_accents:
        table = zip(component.code_points, component.values, strict=True)
        bases = code_point_map((code, bytes(value)) for code, value in table)
        steps.append(u8(NormalizerKind.MAP) + bases)
        steps.append(drop_step(category_set(component.unicode or BERT_TABLE_UNICODE, "M")))
    if component.lowercase:
        steps.append(lower_step(full=False, version=BERT_TABLE_CASE))
    return steps


def _block_edges(blocks: tuple[tuple[int, int], ...]) -> Edges:
    return union_of_sets(*((first, last + 1) for first, last in blocks))


@lru_cache(maxsize=1)
def _bases_step() -> bytes:
    """Each character that decomposes becomes the first of what it decomposes to."""
    from mtkit.unicode.tables import decomposition
    from mtkit.unicode.tables import numbers as section

    bases = []
    for code in (*section("nfd")[::2], *range(0xAC00, 0xD7A4)):
        base = decomposition(chr(code), compatible=False, version=BERT_UNICODE)[0]
        if ord(base) != code:
            bases.append((code, base.encode()))
    return u8(NormalizerKind.MAP) + code_point_map(bases)


FORMS_VERSION = "9.0"
"""Of the crate whose normal forms tokenizers uses."""


def steps_of(component: Normalizer) -> list[bytes]:
    """Return the steps of a normalizer."""
    if isinstance(component, normalizers.UnicodeForm):
        return [form_step(component.form)]
    if isinstance(component, normalizers.Lowercase):
        return [lower_step(full=component.mapping == "full")]
    if isinstance(component, normalizers.StripAccents):
        return [drop_step(category_set(FORMS_VERSION, "M"))]
    if isinstance(component, normalizers.Nmt):
        return _nmt_steps()
    if isinstance(component, normalizers.Bert):
        return (
            bert_per_character_steps(component)
            if component.per_character
            else _bert_steps(component)
        )
    if isinstance(component, normalizers.BertTable):
        return bert_table_steps(component)
    if isinstance(component, normalizers.CodePointTable):
        return [_code_point_table_step(component)]
    if isinstance(component, normalizers.Precompiled):
        return [u8(NormalizerKind.CHARSMAP) + numbers(_grapheme_runs()) + text(component.charsmap)]
    raise UnsupportedError(f"the core has no step for {type(component).__name__}")


@lru_cache(maxsize=1)
def _grapheme_runs() -> list[int]:
    """Return the runs of grapheme-break properties, numbered as in native/text/graphemes.hpp."""
    from mtkit.unicode.tables import names
    from mtkit.unicode.tables import numbers as section

    order = (
        *("Other", "CR", "LF", "Control", "Extend", "ZWJ", "Linker", "SpacingMark", "Prepend"),
        *("L", "V", "T", "LV", "LVT", "Regional_Indicator", "Pictographic", "Consonant"),
    )
    kinds = [order.index(name) if name in order else 0 for name in names("gcb")]
    return [run & ~0xFF | kinds[run & 0xFF] for run in section("gcb")]


def _nmt_steps() -> list[bytes]:
    from mtkit.pipeline.normalizers import _NMT_BLANKS, _NMT_DROPS

    return [drop_step(set_of_characters(_NMT_DROPS)), blank_step(set_of_characters(_NMT_BLANKS))]


def _bert_steps(component: normalizers.Bert) -> list[bytes]:
    steps = []
    if component.clean_text:
        controls = set_without(category_set("8.0", "Cc", "Cf", "Co"), "\t\n\r")
        steps += [
            drop_step(union_of_sets(controls, set_of_characters("\0\ufffd"))),
            blank_step(named_set("white_space")),
        ]
    if component.handle_chinese_chars:
        steps.append(set_apart_step(_block_edges(HAN)))
    strip = component.strips_accents
    if strip:
        steps += [form_step("NFD"), drop_step(category_set("8.0", "Mn"))]
    if component.lowercase:
        steps.append(lower_step(full=True))
    return steps


def _code_point_table_step(component: normalizers.CodePointTable) -> bytes:
    from mtkit.pipeline.normalizers import _BLANKED_CONTROLS

    table = dict(zip(component.code_points, component.values, strict=True))
    if component.blank_controls:
        table.update((ord(c), b" ") for c in _BLANKED_CONTROLS)
    return u8(NormalizerKind.MAP) + code_point_map(table.items())


@lru_cache(maxsize=4)
def form_step(name: str) -> bytes:
    """Return the step of a normal form, with the data of ``FORMS_VERSION``."""
    from mtkit.unicode.tables import numbers as section

    assigned = _Assigned(category_set(FORMS_VERSION, "Cn"))
    texts = section("forms.text")

    def decompositions(of: str) -> dict[int, bytes]:
        pairs = section(of)
        mapping = {}
        for code, place in zip(pairs[::2], pairs[1::2], strict=True):
            start, length = place >> 8, place & 0xFF
            parts = (start,) if length == 1 else texts[start : start + length]
            if assigned(code):
                mapping[code] = "".join(map(chr, parts)).encode()
        return mapping

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
            numbers(_combining_classes(category_set(FORMS_VERSION, "Cn"))),
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


def _combining_classes(unassigned: Edges) -> list[int]:
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
