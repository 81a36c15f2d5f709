"""Normalizers as the base of a .mtok can hold them.

The loader knows literal replacement, a prefix, stripping, BERT's clean-up and tables that replace
one code point. Everything is reduced to these; a table is made from what the component does to
each code point alone.
"""

from __future__ import annotations

from functools import lru_cache

from mtkit.formats.mtok.base_writer import listed, string, u8, u32
from mtkit.pipeline.normalizers.forms import normal_form
from mtkit.spec import normalizers as no
from mtkit.spec.text import MARK, Regex
from mtkit.unicode.characters import decomposition
from mtkit.unicode.charsmap import Charsmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal

    from mtkit.formats.contract import Losses
    from mtkit.spec.normalizers import Normalizer

    Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

FIELD = "normalizer"
SEQUENCE, PREPEND, REPLACE, BERT, TABLE, BERT_TABLE, STRIP = 4, 2, 3, 5, 6, 7, 8
COLLAPSES = 16
"""Times that two blanks become one: a run of 65,536 ends as one."""
# Where characters change: scripts and symbols, Hangul, compatibility forms, the second plane's
# letters, compatibility ideographs. No table has entries for ideographs and private use.
RANGES = ((0x00, 0x3400), (0xA000, 0xD800), (0xF900, 0x20000), (0x2F800, 0x2FA20))


def write_normalizer(normalizer: Normalizer | None, losses: Losses) -> bytes:
    """Write a normalizer."""
    parts = [] if normalizer is None else list(_parts(normalizer, losses))
    return listed(SEQUENCE, parts)


def _parts(component: Normalizer, losses: Losses) -> Iterator[bytes]:
    match component:
        case no.Sequence():
            yield from _sequence(component, losses)
        case no.Prepend():
            yield u8(PREPEND) + string(component.text)
        case no.Replace():
            if isinstance(component.pattern, Regex):
                losses.add("ids", FIELD, "replacements by a pattern are skipped")
            elif component.pattern.text:
                yield _replace(component.pattern.text, component.content)
        case no.Strip():
            # The loader leaves the right end alone where both are asked for in one component.
            if component.left:
                yield u8(STRIP, 1, 0)
            if component.right:
                yield u8(STRIP, 0, 1)
        case no.Lowercase():
            yield u8(BERT, 0, 0, 0, 1)
            losses.add("ids-possible", FIELD, "lowercasing maps one character to one")
        case no.Bert():
            yield _bert(component)
            losses.add("ids-possible", FIELD, "BERT's cleanup works on code points")
        case no.BertTable():
            yield _bert_table(component)
        case no.StripAccents():
            yield u8(BERT_TABLE, 0, 0, 1, 0) + u32(0)
            losses.add("ids-possible", FIELD, "spacing and enclosing marks are also removed")
        case no.UnicodeForm(form="NFC"):
            losses.add("ids-possible", FIELD, "text is not normalized to NFC")
        case no.UnicodeForm():
            yield _table(_form(component.form))
            what = f"{component.form} goes by code points, controls become blanks"
            losses.add("ids-possible", FIELD, what)
        case no.Precompiled() | no.Spaces():
            yield from _charsmap(component.charsmap, losses)
            if isinstance(component, no.Spaces):
                yield from _spaces(component, losses)
        case no.CodePointTable():
            yield _table(zip(component.code_points, component.values, strict=True))
            if not component.blank_controls:
                losses.add("ids-possible", FIELD, "control characters become spaces")
        case no.Nmt():
            blanks = (9, 10, 12, 13, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF)
            yield _table((code, b" ") for code in (*blanks, 0xFFFD))
            losses.add(
                "ids-possible", FIELD, "control characters become spaces instead of being removed"
            )
        case _:
            losses.add("ids", FIELD, f"{type(component).__name__} is skipped")


def _sequence(component: no.Sequence, losses: Losses) -> Iterator[bytes]:
    """Write steps; decomposing and dropping marks are one component of the loader."""
    steps = list(component.steps)
    at = 0
    while at < len(steps):
        step, following = steps[at], steps[at + 1] if at + 1 < len(steps) else None
        decomposes = isinstance(step, no.UnicodeForm) and step.form in {"NFD", "NFKD"}
        if decomposes and isinstance(following, no.StripAccents):
            assert isinstance(step, no.UnicodeForm)
            yield u8(BERT_TABLE, 0, 0, 1, 0) + _entries(_form(step.form))
            losses.add(
                "ids-possible", FIELD, "accents are removed by code point, with all other marks"
            )
            at += 2
            continue
        yield from _parts(step, losses)
        at += 1


def _replace(pattern: str, content: str) -> bytes:
    return u8(REPLACE) + string(pattern) + string(content)


def _bert(component: no.Bert) -> bytes:
    accents = component.strips_accents
    flags = (component.clean_text, component.handle_chinese_chars)
    if not accents:
        return u8(BERT, *flags, 0, component.lowercase)
    return u8(BERT_TABLE, *flags, 1, component.lowercase) + _entries(_form("NFD"))


def _bert_table(component: no.BertTable) -> bytes:
    flags = (component.clean_text, component.handle_chinese_chars)
    if not component.strip_accents:
        return u8(BERT, *flags, 0, component.lowercase)
    table = zip(component.code_points, component.values, strict=True)
    return u8(BERT_TABLE, *flags, 1, component.lowercase) + _entries(table)


def _charsmap(charsmap: bytes, losses: Losses) -> Iterator[bytes]:
    """Write what a precompiled map does to each character alone."""
    if not charsmap:
        return
    matcher = Charsmap(charsmap)

    def mapped(character: str) -> str:
        data = character.encode()
        found = [value for length, value in matcher.matches(data) if length == len(data)]
        return found[-1].decode("utf-8", "replace") if found else character

    table = list(_changes(mapped))
    if table:
        yield _table(table)
        losses.add(
            "ids-possible",
            FIELD,
            "normalization works on code points, so rare character sequences can differ",
        )


def _spaces(component: no.Spaces, losses: Losses) -> Iterator[bytes]:
    if component.suffix:
        losses.add("ids", FIELD, "the word mark comes before the word")
    if component.add_dummy_prefix:
        losses.add("ids-special", FIELD, "a space is also added after each special token")
    if component.remove_extra_whitespaces:
        if component.add_dummy_prefix:
            yield u8(PREPEND) + string(" ")
        for _ in range(COLLAPSES):
            yield _replace("  ", " ")
        if not component.add_dummy_prefix:
            yield u8(STRIP, 1, 0)
        yield u8(STRIP, 0, 1)
        losses.add("ids-possible", FIELD, "line breaks are stripped together with spaces")
    elif component.add_dummy_prefix:
        yield u8(PREPEND) + string(MARK if component.escape_whitespaces else " ")
    if component.escape_whitespaces:
        yield _replace(" ", MARK)


@lru_cache(maxsize=4)
def _form(form: Form) -> tuple[tuple[int, bytes], ...]:
    """Return each code point that a normal form changes, with what it becomes."""

    def mapped(character: str) -> str:
        if decomposition(character, compatible="K" in form) == character:
            return character
        return "".join(part for part, _ in normal_form(character, form))

    return tuple(_changes(mapped))


def _changes(mapping: Callable[[str], str]) -> Iterator[tuple[int, bytes]]:
    """Yield each code point that a mapping changes, with what it becomes."""
    for start, end in RANGES:
        for code in range(start, end):
            character = chr(code)
            value = mapping(character)
            if value != character:
                yield code, value.encode()


def _table(entries: Iterable[tuple[int, bytes]]) -> bytes:
    return u8(TABLE) + _entries(entries)


def _entries(entries: Iterable[tuple[int, bytes]]) -> bytes:
    parts = [u32(code) + string(value) for code, value in entries]
    return u32(len(parts)) + b"".join(parts)
