"""One step of a conversion in memory: write, read back, and say what came back different."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mtkit.conversion.verification import memory_source, special_marks
from mtkit.errors import UnsupportedError
from mtkit.formats import FORMATS, get_format
from mtkit.formats.contract import Loss, WriteOptions
from mtkit.spec import differing_fields
from mtkit.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.formats.contract import Written
    from mtkit.spec import TokenizerSpec

WRITABLE = tuple(name for name in FORMATS if hasattr(get_format(name), "write"))


class Trip(NamedTuple):
    """What came back from a format.

    Attributes:
        fields: Fields that differ and no loss names.
        ids: Inputs with other ids that no loss foresees.
        explained: Inputs with other ids that a loss foresees.
    """

    source: str
    to: str
    losses: tuple[Loss, ...]
    written: Written
    back: Tokenizer
    fields: tuple[str, ...]
    ids: tuple[str, ...]
    explained: tuple[str, ...]


def written(spec: TokenizerSpec, to: str) -> Written | None:
    """Write a specification; None where the format refuses it."""
    try:
        return get_format(to).write(spec, WriteOptions())
    except UnsupportedError:
        return None


def trip(source: Tokenizer, to: str, texts: list[str]) -> Trip | None:
    """Go through a format and compare; None where the format refuses."""
    made = written(source.spec, to)
    if made is None:
        return None
    main = memory_source(made)
    reading = get_format(to).read(main, {})
    back = Tokenizer(reading.spec, source=main.name)
    named = {loss.field for loss in made.losses}
    fields = differing_fields(source.spec, reading.spec, named)
    unlike = tuple(different(source, back, texts))
    specs = (source.spec, reading.spec)
    foreseen = tuple(text for text in unlike if explained(specs, text, made.losses))
    rest = tuple(text for text in unlike if text not in set(foreseen))
    return Trip(source.source, to, made.losses, made, back, fields, rest, foreseen)


def explained(specs: tuple[TokenizerSpec, ...], text: str, losses: tuple[Loss, ...]) -> bool:
    """Tell whether a loss foresees other ids for a text."""
    codes = {loss.code for loss in losses}
    if codes & {"ids", "ids-possible"}:
        return True
    marks = (mark for spec in specs for mark in special_marks(spec))
    return "ids-special" in codes and any(mark in text.encode() for mark in marks)


def different(left: Any, right: Any, texts: list[str]) -> Iterator[str]:
    """Yield the texts with other ids, the right one's fixed prefix aside."""
    prefix = len(right.spec.prefix_ids) - len(left.spec.prefix_ids)
    for text in texts:
        ids = left.encode_ids(text, add_special_tokens=False)
        others = right.encode_ids(text, add_special_tokens=False)
        if ids != others[max(prefix, 0) :]:
            yield text
