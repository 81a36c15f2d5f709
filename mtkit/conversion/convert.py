"""Conversion: read, write, verify, and only then let files appear.

The loss law: a writer holds a field exactly, lists it as lost, or refuses. A loss of ordinary ids
stops the conversion unless it was allowed by name; so does a possible one when the built-in texts
(see ``probes``) show it. What was written is read back from its bytes and encodes those texts
before anything reaches the disk.
"""

from __future__ import annotations

import os
from typing import Protocol, runtime_checkable

from mtkit.base.binary import Source, write_files
from mtkit.base.record import Record
from mtkit.conversion.targets import same_file, target_paths
from mtkit.errors import AnswerNo, LossError, MtkitError, UnsupportedError, UsageError
from mtkit.spec.differences import unlike_fields
from mtkit.tokenizer.load import load
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from mtkit.formats.contract import Format, Loss, Reading, WriteOptions, Written
    from mtkit.spec import TokenizerSpec

STOPPING = ("ids",)
"""Losses that stop a conversion unless they are allowed."""
NAMED = 5
"""How many of them a message names."""


@runtime_checkable
class ReadByMnn(Protocol):
    """A format with a part that another loader reads by itself."""

    def read_as_mnn(self, source: Source) -> Reading:
        """Read what that loader reads, as it does."""

    def base_losses(self, spec: TokenizerSpec) -> tuple[Loss, ...]:
        """Return what that part does not hold."""

    def base_length(self, source: Source) -> int:
        """Return the length of that part in bytes."""


class Verified(Record):
    """How the ids of what was written compare on the built-in texts.

    Attributes:
        reader: Who read it back: "mtkit" or another loader's rules.
        equal: Texts with equal ids.
        explained: Texts with other ids that a listed loss foresees.
        total: Texts compared.
        examples: The first texts with other ids.
        spec_equal: Whether the specification came back equal, losses aside; None when not asked.
        losses: What this reader does not get, where it gets less than the file holds.
    """

    reader: str
    equal: int
    explained: int
    total: int
    examples: tuple[str, ...] = ()
    spec_equal: bool | None = None
    losses: tuple[Loss, ...] = ()


class Conversion(Record):
    """What a conversion did.

    Attributes:
        path: The main file written.
        paths: All files written.
        format_name: Name of the format written.
        losses: What the files do not hold.
        assumptions: What reader and writer supplied.
        verified: One entry for each reading.
        sizes: Named sizes in bytes ("total", and "base" and "extension" where there are two parts).
    """

    path: str
    paths: tuple[str, ...]
    format_name: str
    losses: tuple[Loss, ...]
    assumptions: tuple[str, ...]
    verified: tuple[Verified, ...]
    sizes: tuple[tuple[str, int], ...]


def convert(
    src: str | os.PathLike[str] | Tokenizer,
    dst: str | os.PathLike[str] | None = None,
    *,
    to: str,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
) -> Conversion:
    """Convert a tokenizer to another format.

    Args:
        src: A path as ``load`` takes it, or a tokenizer.
        dst: Where to write: a file, or a folder; None for beside the source.
        to: Name of the format.
        allow_loss: Codes of losses that may happen although they change ordinary ids.
        options: Choices of the writer.
        force: Replace files that exist.

    Raises:
        UsageError: The format is unknown, or a file is there already.
        LossError: Ordinary text would get other ids and that is not allowed.
        UnsupportedError: The format cannot hold this tokenizer.
        AnswerNo: What was written does not give the same ids; nothing is left on the disk.
    """
    from mtkit.formats import get_format
    from mtkit.formats.contract import WriteOptions

    module = get_format(to)
    if not hasattr(module, "write"):
        raise UnsupportedError(f"{module.TITLE} can be read but not written")
    source = src if isinstance(src, Tokenizer) else load(src)
    try:
        written = module.write(source.spec, options or WriteOptions())
    except UnsupportedError as error:
        what = f"{to} cannot hold it (ids): {error.what}"
        raise LossError(what, source=source.source, field=error.field, hint=error.hint) from None
    except MtkitError as error:
        raise error.located(source.source) from None
    refuse(written.losses, allow_loss, source.source, to)
    targets = target_paths(source.source, dst, written)
    if any(same_file(path, source.source) for path in targets):
        raise UsageError("is the source itself", source=source.source, hint="-o names another file")
    verified = verify(source, module, written, allow_loss)
    folder = os.path.dirname(next(iter(targets)))
    if folder:
        os.makedirs(folder, exist_ok=True)
    write_files(targets, force=force)
    return Conversion(
        next(iter(targets)),
        tuple(targets),
        to,
        written.losses,
        source.assumptions + written.assumptions,
        verified,
        _sizes(module, written),
    )


def refuse(losses: tuple[Loss, ...], allowed: Collection[str], source: str, to: str) -> None:
    """Stop where a loss changes ordinary ids and is not allowed.

    Raises:
        LossError: There is such a loss; the message names the first few.
    """
    stopping = [loss for loss in losses if loss.code in STOPPING and loss.code not in allowed]
    if stopping:
        shown = stopping[:NAMED]
        named = ", ".join(f"{loss.code} ({loss.field}: {loss.effect})" for loss in shown)
        if len(stopping) > NAMED:
            named += f" and {len(stopping) - NAMED} more"
        code = stopping[0].code
        raise LossError(
            f"{to} would lose {named}",
            source=source,
            hint=f"--allow-loss {code} converts all the same",
        )


def verify(
    source: Tokenizer, module: Format, written: Written, allowed: Collection[str]
) -> tuple[Verified, ...]:
    """Read back what was written and compare ids on the built-in texts.

    Raises:
        AnswerNo: Ids differ in a way that no listed loss explains.
        LossError: A possible loss turned out real and is not allowed.
    """
    main = memory_source(written)
    reading = module.read(main, {})
    back = Tokenizer(reading.spec, source=main.name)
    changed = ("post_processor",) if written.assumptions else ()
    equal_spec = spec_equal(source.spec, reading.spec, written.losses, changed)
    found = [_compare("mtkit", source, back, written.losses, allowed, equal_spec)]
    if isinstance(module, ReadByMnn):
        other = Tokenizer(module.read_as_mnn(main).spec, source=main.name)
        losses = module.base_losses(source.spec)
        found.append(_compare("MNN's loader", source, other, losses, None, None))
    return tuple(found)


def memory_source(written: Written) -> Source:
    """Return the written files as a source, the main one first, without touching the disk."""
    names = list(written.files)
    return Source(names[0], written.files[names[0]], siblings=dict(written.files))


def spec_equal(
    spec: TokenizerSpec, back: TokenizerSpec, losses: tuple[Loss, ...], changed: tuple[str, ...]
) -> bool:
    """Tell whether a specification came back equal in all fields that no loss or choice names."""
    named = {loss.field for loss in losses} | set(changed)
    return not unlike_fields(spec, back, named)


def _compare(
    reader: str,
    source: Tokenizer,
    back: Tokenizer,
    losses: tuple[Loss, ...],
    allowed: Collection[str] | None,
    equal_spec: bool | None,
) -> Verified:
    from mtkit.conversion.probes import texts

    codes = {loss.code for loss in losses}
    unlike = []
    probes = texts()
    for text in probes:
        ids = source.encode_ids(text, add_special_tokens=False)
        others = back.encode_ids(text, add_special_tokens=False)
        if ids != others[len(back.spec.prefix_ids) :]:  # put there whatever one asks for
            unlike.append(text)
    marks = []
    if "ids-special" in codes and unlike:
        marks = special_marks(source.spec) + special_marks(back.spec)
    special = [text for text in unlike if any(mark in text.encode() for mark in marks)]
    foreseen = unlike if codes & {"ids", "ids-possible"} else special
    if allowed is not None:
        if len(foreseen) < len(unlike):
            text = next(text for text in unlike if text not in foreseen)
            raise AnswerNo(
                f"verification failed: {len(unlike) - len(foreseen)} of {len(probes)} texts get "
                f"other ids, the first is {text!r}; nothing was written",
                source=source.source,
                hint="please report this file: no listed loss explains it",
            )
        ordinary = [text for text in unlike if text not in special]
        if ordinary and "ids" not in codes and "ids-possible" not in allowed:
            named = "; ".join(loss.effect for loss in losses if loss.code == "ids-possible")
            raise LossError(
                f"{len(ordinary)} of {len(probes)} texts get other ids ({named}), the first is "
                f"{ordinary[0]!r}",
                source=source.source,
                hint="--allow-loss ids-possible converts all the same",
            )
    return Verified(
        reader,
        len(probes) - len(unlike),
        len(foreseen),
        len(probes),
        tuple(unlike[:3]),
        equal_spec,
        losses if allowed is None else (),
    )


def special_marks(spec: TokenizerSpec) -> list[bytes]:
    """Return what a text must contain to spell out a special token or U+2581."""
    from mtkit.spec.vocabulary import TokenType

    marks = ["\u2581".encode(), *(token.content for token in spec.added_tokens.tokens)]
    named = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED, TokenType.BYTE)
    pieces = spec.vocabulary.pieces
    marks += [pieces[i] for i, kind in enumerate(spec.vocabulary.types or ()) if kind in named]
    return [mark for mark in marks if mark]


def _sizes(module: Format, written: Written) -> tuple[tuple[str, int], ...]:
    total = sum(len(content) for content in written.files.values())
    if not isinstance(module, ReadByMnn):
        return (("total", total),)
    base = module.base_length(memory_source(written))
    return (("total", total), ("base", base), ("extension", total - base))
