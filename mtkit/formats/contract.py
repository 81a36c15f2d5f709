"""What a format module provides and what reading and writing give.

A format module ``mtkit/formats/NAME.py`` has ``NAME``, ``TITLE``, ``sniff`` and ``read``. It never
imports another format module and never tokenizes. What else it may have, and has where the format
can do it:

* ``write(spec, options) -> Written``
* ``ADDS_SPECIAL_TOKENS = True``: whoever reads the file adds tokens around a text by what it says,
  so that for a source which leaves that to its caller the conversion has to decide.
* ``engine_tables(source) -> Mapping[str, memoryview]``: the engine's tables as they lie in the
  file, found without reading it; empty where it carries none. The format stands in
  ``formats.MARKS``, too.
* ``other_readings() -> Mapping[str, OtherReading]``: how other programs read a file that holds more
  than they know, or that they read by rules of their own, by the name that a user gives.
"""

from __future__ import annotations

from mtkit.base.record import Record

LOSS_CODES = ("ids", "ids-possible", "ids-special", "decoding", "chat", "metadata")
"""Of ``Loss.code``, the worst first."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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
        """What people call it, for messages and tables."""

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
    """How another program reads a file: one that holds more than it knows, or by its own rules.

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
            but another reference runs them. ``decoding``, ``chat``, ``metadata``: what it says.
    """

    code: LossCode
    field: str
    effect: str


class Losses:
    """The losses of a writer in the order in which it finds them, each once."""

    def __init__(self) -> None:
        self._found: dict[Loss, None] = {}

    def add(self, code: LossCode, field: str, effect: str) -> None:
        """List a loss."""
        self._found.setdefault(Loss(code, field, effect))

    @property
    def found(self) -> tuple[Loss, ...]:
        """All of them."""
        return tuple(self._found)


class Reading(Record):
    """A specification, and what the reader supplied because the file does not hold it."""

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
    """What a writer made.

    Attributes:
        files: File name -> content; the first is the main file, the others lie beside it.
            A name that begins with a dot is a suffix for the stem of the source.
        partial: For another reading, what it does not get of the files: (name, losses).
        assumptions: What the files say although the specification does not.
    """

    files: Mapping[str, bytes]
    losses: tuple[Loss, ...] = ()
    partial: tuple[tuple[str, tuple[Loss, ...]], ...] = ()
    assumptions: tuple[str, ...] = ()
