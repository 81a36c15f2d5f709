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

A writer lists some losses while it writes; the rest (roles, templates, flags that only describe) is
the difference between the specification and that of the written file, ``losses_between``. A table
of the format says what a difference in a field means; ``EFFECTS`` says it for the fields that mean
the same everywhere.
"""

from __future__ import annotations

from mtkit.base.record import Record, fields

LOSS_CODES = (
    "values", "ids", "ids-possible", "ids-blank", "ids-special", "decoding", "chat", "metadata",
)  # fmt: skip
"""Values of ``Loss.code``, the worst first."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Literal, Protocol, Union

    from mtkit.base.binary import Source
    from mtkit.spec import TokenizerSpec

    LossCode = Literal[
        "values", "ids", "ids-possible", "ids-blank", "ids-special", "decoding", "chat", "metadata"
    ]
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
        length: Number of bytes of its part of a file; None: it reads the whole file.
    """

    title: str
    read: Callable[[Source], Reading]
    length: Callable[[Source], int] | None = None


class Loss(Record):
    """A field that a written file does not hold.

    Attributes:
        code: ``values``: weights of a model become infinite, NaN or zero. ``ids``: ordinary text
            can get different ids. ``ids-special``: only texts that spell out special tokens,
            U+2581 or invalid UTF-8 can. ``ids-possible``: the same components, but run by another
            reference. ``ids-blank``: only texts that begin with a blank can, which get the ids of
            the text with one more. ``decoding``, ``chat``, ``metadata``: of these alone.
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


if TYPE_CHECKING:
    LossRule = Union[tuple[LossCode, str], Callable[[TokenizerSpec, TokenizerSpec], Iterable[Loss]]]
    """Code and effect of the loss; or a function of both specifications that yields the losses."""

EFFECTS: Mapping[str, LossRule] = {
    "vocabulary": ("metadata", "types, scores and unused entries of the vocabulary are not kept"),
    "post_processor": (
        "metadata",
        "the rule for tokens added around a text (BOS, EOS …) is not kept",
    ),
    "decoder": (
        "decoding",
        "spaces and special tokens in decoded text can differ: the format has its own rules",
    ),
    "added_tokens": ("ids-special", "special tokens in a text can be recognized differently"),
    "special_ids": (
        "metadata",
        "the file does not say which tokens are BOS, EOS, UNK, PAD and so on",
    ),
    "truncation": ("metadata", "the setting that truncates long texts is not kept"),
    "padding": ("metadata", "the setting that pads short texts is not kept"),
    "chat_templates": ("chat", "the chat template is not kept"),
    "invalid_utf8": ("ids-special", "bytes that are not valid UTF-8 are treated differently"),
    "clean_up_spaces": ("decoding", "decoding can keep or drop other spaces"),
    "join": ("decoding", "decoding puts something else between tokens"),
    "extras": ("metadata", "settings that only the source format has are not kept"),
}
_OTHER_EFFECT: LossRule = ("ids", "the format cannot hold this, so ids can change")


def losses_between(
    spec: TokenizerSpec,
    back: TokenizerSpec,
    listed: Iterable[Loss] = (),
    rules: Mapping[str, LossRule] = EFFECTS,
) -> tuple[Loss, ...]:
    """Return the listed losses, and those of each other field that does not come back.

    Args:
        rules: Field -> its loss, where the format says it more exactly than ``EFFECTS``.
    """
    losses = list(listed)
    fields_of_losses = {loss.field.split(".")[0] for loss in losses}
    for name in fields(spec):
        if name == "name" or name in fields_of_losses or getattr(spec, name) == getattr(back, name):
            continue
        rule = rules.get(name) or EFFECTS.get(name, _OTHER_EFFECT)
        losses += [Loss(rule[0], name, rule[1])] if isinstance(rule, tuple) else rule(spec, back)
    if spec.vocabulary.also and spec.vocabulary.also != back.vocabulary.also:
        losses.append(other_spellings(spec))
    if _added_texts(spec) != _added_texts(back) and not any(
        loss.code == "decoding" for loss in losses
    ):
        effect = "added tokens are decoded as the new normalizer writes them"
        losses.append(Loss("decoding", "normalizer", effect))
    return tuple(losses)


def other_spellings(spec: TokenizerSpec) -> Loss:
    """Return the loss of a format with one spelling for each id."""
    also = spec.vocabulary.also
    first = also[0].piece.decode("utf-8", "backslashreplace")
    more = f" and {len(also) - 1} more" if also[1:] else ""
    effect = f"{first!r}{more}, the second spelling of a token, is no token any more"
    return Loss("ids", "vocabulary.also", effect)


def _added_texts(spec: TokenizerSpec) -> dict[int, str]:
    """Return id -> decoded text of the added tokens that do not decode to their content."""
    tokens = [token for token in spec.added_tokens.tokens if token.normalized]
    if not tokens or spec.normalizer is None:
        return {}
    from mtkit.pipeline.added_tokens import Cutter
    from mtkit.pipeline.normalizers import compile_normalizer
    from mtkit.spec import AddedTokens

    texts = Cutter(AddedTokens(tuple(tokens)), compile_normalizer(spec.normalizer, ())).normalized
    contents = {token.id: token.content.decode("utf-8", "surrogateescape") for token in tokens}
    return {number: text for number, text in texts.items() if text != contents[number]}
