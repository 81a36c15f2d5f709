"""Normalizers that look single code points up in a table of their own.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer.cpp.
"""

from __future__ import annotations

from mtkit.pipeline.normalizers.growth import size
from mtkit.unicode import characters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.base.packed import Numbers, Pieces
    from mtkit.pipeline.normalizers.aligned import Aligned
    from mtkit.spec import normalizers as spec

_BLANKED_CONTROLS = frozenset(
    map(
        chr,
        [
            *(c for c in range(1, 0x20) if c not in (9, 10, 13)),
            *range(0x7F, 0xA0),
            *range(0x200B, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x206A),
            0xFEFF,
            *range(0xFFF0, 0xFFF9),
        ],
    )
)


def code_point_table(component: spec.CodePointTable) -> Callable[[Aligned], None]:
    """Return the function that replaces single code points."""
    table = _read(component.code_points, component.values)
    blanks = _BLANKED_CONTROLS if component.blank_controls else frozenset()
    return lambda text: _each(text, lambda c: " " if c in blanks else table.get(c, c))


def bert_table(component: spec.BertTable) -> Callable[[Aligned], None]:
    """Return the function that cleans up code point by code point."""
    table = _read(component.code_points, component.values)

    def run(text: Aligned) -> None:
        if component.clean_text:
            _each(text, _clean)
        if component.handle_chinese_chars:
            _each(text, lambda c: f" {c} " if characters.is_han_block(c) else c)
        if component.strip_accents:
            _each(text, lambda c: table.get(c, c))
            text.filter(lambda c: not characters.is_mark(c, component.unicode or "15.0"))
        if component.lowercase:
            _each(text, characters.simple_lower)

    return run


def _clean(character: str) -> str:
    if character in "\t\n\r" or characters.is_space_separator(character):
        return " "
    return "" if character == "\ufffd" or characters.is_c0_or_c1(character) else character


def _read(code_points: Numbers, values: Pieces) -> dict[str, str]:
    return {
        chr(code_point): value.decode("utf-8", "surrogateescape")
        for code_point, value in zip(code_points, values, strict=True)
    }


def _each(text: Aligned, mapping: Callable[[str], str]) -> None:
    """Replace each character by a text of any length, which stands for the same stretch."""
    written, spans, added = [], [], -size(text.text)
    for character, span in zip(text.text, text.spans, strict=True):
        written.append(mapping(character))
        added += size(written[-1])
        text.growth.check(added)
        spans += [span] * len(written[-1])
    text.growth.spend(added)
    text.text = "".join(written)
    text.spans = spans
