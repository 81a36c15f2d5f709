"""BERT's clean-ups that go code point by code point, as steps of the core."""

from __future__ import annotations

from functools import lru_cache

from mtkit.engine.character_steps import blank, drop, lower, set_apart
from mtkit.engine.opcodes import NormalizerKind
from mtkit.engine.program_writer import code_point_map, u8
from mtkit.engine.sets import categories, of_characters, set_of, union
from mtkit.unicode.characters import BERT_BLOCKS, HAN, WHITE_SPACE, is_space_separator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.engine.sets import Edges
    from mtkit.spec import normalizers

UNICODE = "15.1"
"""Of llama.cpp's clean-up."""
TABLE_UNICODE = "15.0"
"""Of MNN's, where a table names none."""
TABLE_CASE = "17.0"


def per_character(component: normalizers.Bert) -> list[bytes]:
    """Return the steps of ``Bert`` with each character on its own."""
    strip = component.strips_accents
    steps = [_bases()] if strip else []
    if component.clean_text:
        gone = categories(UNICODE, "Cc", "Cf", "Co", "Cs")
        # White space goes first: the tab is a control, too.
        steps += [blank(set_of("white_space")), drop(union(gone, of_characters("\0\ufffd")))]
    if component.handle_chinese_chars:
        steps.append(set_apart(_runs(HAN)))
    if strip:
        steps.append(drop(categories(UNICODE, "M")))
    if component.lowercase:
        steps.append(lower(full=False))
    return steps


def by_table(component: normalizers.BertTable) -> list[bytes]:
    """Return the steps of ``BertTable``."""
    steps = []
    if component.clean_text:
        blanks = {"\t", "\n", "\r", *filter(is_space_separator, WHITE_SPACE)}
        gone = union((0, 0x20), (0x7F, 0xA0), of_characters("\ufffd"))
        steps += [blank(of_characters(blanks)), drop(gone)]
    if component.handle_chinese_chars:
        steps.append(set_apart(_runs(BERT_BLOCKS)))
    if component.strip_accents:
        table = zip(component.code_points, component.values, strict=True)
        bases = code_point_map((code, bytes(value)) for code, value in table)
        steps.append(u8(NormalizerKind.MAP) + bases)
        steps.append(drop(categories(component.unicode or TABLE_UNICODE, "M")))
    if component.lowercase:
        steps.append(lower(full=False, version=TABLE_CASE))
    return steps


def _runs(blocks: tuple[tuple[int, int], ...]) -> Edges:
    return union(*((first, last + 1) for first, last in blocks))


@lru_cache(maxsize=1)
def _bases() -> bytes:
    """Each character that decomposes becomes the first of what it decomposes to."""
    from mtkit.unicode.tables import decomposition
    from mtkit.unicode.tables import numbers as section

    found = []
    for code in (*section("nfd")[::2], *range(0xAC00, 0xD7A4)):
        base = decomposition(chr(code), compatible=False, version=UNICODE)[0]
        if ord(base) != code:
            found.append((code, base.encode()))
    return u8(NormalizerKind.MAP) + code_point_map(found)
