"""Post-processors: special tokens around the ids. ``PostProcessor`` is the closed union."""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Union


class Slot(Record):
    """A place of a template: the ids of text A (0) or B (1), or fixed ids.

    Attributes:
        text: 0, 1, or None for fixed ids.
        ids: The ids when ``text`` is None.
        type_id: Segment number that the ids get.
        name: What the file calls the fixed ids.
    """

    text: int | None = None
    ids: tuple[int, ...] = ()
    type_id: int = 0
    name: str = ""


class Template(Record):
    """Special tokens by template, for one text and for a pair.

    Attributes:
        single: For one text.
        pair: For two.
        without: What is left where no special tokens are asked for: the ``texts`` of the template
            as often as they stand in it, or the plain ``text``, each once.
    """

    single: tuple[Slot, ...]
    pair: tuple[Slot, ...] = ()
    without: Literal["texts", "text"] = "texts"


class Bert(Record):
    """cls A sep, cls A sep B sep."""

    sep: tuple[str, int]
    cls: tuple[str, int]


class Roberta(Record):
    """cls A sep, cls A sep sep B sep; offsets trimmed as ByteLevel does."""

    sep: tuple[str, int]
    cls: tuple[str, int]
    trim_offsets: bool = True
    add_prefix_space: bool = True


class ByteLevel(Record):
    """Adds nothing; takes the spaces of a token out of its offsets."""

    trim_offsets: bool = True
    add_prefix_space: bool = True
    use_regex: bool = True


class Sequence(Record):
    """One after the other."""

    steps: tuple[PostProcessor, ...]


if TYPE_CHECKING:
    PostProcessor = Union[Template, Bert, Roberta, ByteLevel, Sequence]
