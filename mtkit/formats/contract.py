"""What a format module provides and what reading and writing give.

A format module ``mtkit/formats/NAME.py`` has ``NAME``, ``TITLE``, ``sniff`` and ``read``. It never
imports another format module and never tokenizes. Where the format can do it, it also has:

* ``write(spec, options) -> Written``
* ``ADDS_SPECIAL_TOKENS = True``: the file says which tokens its reader adds around a text, so a
  conversion has to decide it for a source that leaves it to the caller.
* ``engine_tables(source) -> Mapping[str, memoryview]``: the engine's tables in the file, located
  without reading it; empty where there are none. The format is in ``formats.MARKS``, too.
* ``other_readings() -> Mapping[str, OtherReading]``: name -> how another program reads the file,
  where it ignores a part of it or has rules of its own.
"""

from __future__ import annotations

from mtkit.base.record import Record

LOSS_CODES = ("ids", "ids-possible", "ids-special", "decoding", "chat", "metadata")
"""Of ``Loss.code``, the worst first."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Literal, Protocol

    from mtkit.base.binary import Source
    from mtkit.spec import TokenizerSpec

    LossCode = Literal["ids", "ids-special", "ids-possible", "decoding", "chat", "metadata"]
    AddLoss = Callable[[LossCode, str, str], None]
    """Takes code, field and effect of a loss, as ``Losses.add`` does."""

    class Format(Protocol):
        """A tokenizer file format."""

        NAME: str
        """Name on the command line."""
        TITLE: str
        """Its name in messages and tables."""

        def sniff(self, source: Source) -> bool:
            """Tell from the content (a few fields) whether the source is this format."""

        def read(self, source: Source, overrides: Mapping[str, object]) -> Reading:
            """Read a whole file.

            Args:
                source: The file, with those beside it.
                overrides: Metadata keys replaced while reading (GGUF only).

            Raises:
                FormatError: The file is damaged.
                UnsupportedError: It holds a component that mtkit does not know.
            """

        def write(self, spec: TokenizerSpec, options: WriteOptions) -> Written:
            """Write a specification; every field is held exactly or listed as lost.

            Raises:
                UnsupportedError: The format cannot hold this kind of tokenizer at all.
            """


class OtherReading(Record):
    """How another program reads a file, of which it ignores a part or has rules of its own.

    Attributes:
        length: Return how many bytes of the file are its part; None: it reads the whole file.
    """

    title: str
    read: Callable[[Source], Reading]
    length: Callable[[Source], int] | None = None


class Loss(Record):
    """A field that a written file does not hold.

    Attributes:
        code: ``ids``: ordinary text can get different ids. ``ids-special``: only texts that spell
            out special tokens, U+2581 or invalid UTF-8 can. ``ids-possible``: the same components,
            but run by another reference. ``decoding``, ``chat``, ``metadata``: of these alone.
    """

    code: LossCode
    field: str
    effect: str


class Losses:
    """The losses of a writer in the order in which it adds them, each once."""

    def __init__(self) -> None:
        self._losses: dict[Loss, None] = {}

    def add(self, code: LossCode, field: str, effect: str) -> None:
        """Add a loss."""
        self._losses.setdefault(Loss(code, field, effect))

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._losses)


class Reading(Record):
    """A specification, and what the reader assumed where the file does not say it."""

    spec: TokenizerSpec
    assumptions: tuple[str, ...] = ()

    if not TYPE_CHECKING:

        def __post_init__(self) -> None:
            """Check the specification, whichever format it was read from."""
            from mtkit.patterns.matcher import check_patterns
            from mtkit.spec.rules import check

            check(self.spec)
            check_patterns(self.spec)


class WriteOptions(Record):
    """Options for writing a tokenizer; None: as usual for the family of the tokenizer.

    Attributes:
        add_bos: Add BOS before a text; False: do not. A conversion changes the
            specification accordingly before it is written.
        add_eos: Add EOS after a text; False: do not.
        extension: Also store the whole specification, in formats that have room for it.
        name: Name of the tokenizer in the file.
        values: Options of a single format, such as ``pre`` of gguf.
    """

    add_bos: bool | None = None
    add_eos: bool | None = None
    extension: bool = True
    name: str = ""
    values: tuple[tuple[str, str], ...] = ()


class Written(Record):
    """The files of a writer, and their losses.

    Attributes:
        files: File name -> content; the first is the main file, the others lie beside it.
            A name that begins with a dot is a suffix for the stem of the source.
        partial: Name of another reading -> the losses of that reading.
        assumptions: What the files say although the specification does not.
    """

    files: Mapping[str, bytes]
    losses: tuple[Loss, ...] = ()
    partial: tuple[tuple[str, tuple[Loss, ...]], ...] = ()
    assumptions: tuple[str, ...] = ()
