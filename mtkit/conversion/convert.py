"""Conversion: read, write, verify, and only then let files appear.

The loss law: a writer holds a field exactly, lists it as lost, or refuses. A loss of ordinary ids
stops the conversion unless it was allowed by name; so does a possible one when the built-in texts
(see ``probes``) show it. What was written is read back from its bytes and encodes those texts
before anything reaches the disk.
"""

from __future__ import annotations

from math import prod

from mtkit.base.record import Record, replace
from mtkit.conversion.targets import format_of, make_folder, same_file, target_paths
from mtkit.conversion.verify import Verified, memory_source, verify
from mtkit.errors import LossError, MtkitError, UnsupportedError, UsageError
from mtkit.formats import FORMATS, get_format, other_readings
from mtkit.gguf.in_place import write_ggufs
from mtkit.sources import hub
from mtkit.tokenizer.load import load
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable

    from mtkit.checkpoints.safetensors_writer import NewWeight
    from mtkit.formats.contract import Format, Loss, WriteOptions, Written
    from mtkit.gguf.writer import NewTensor

STOPPING = ("ids",)
"""Losses that stop a conversion unless they are allowed."""
NAMED = 5
"""How many of them a message names."""


class Model(Record):
    """What was written of a whole model.

    Attributes:
        architecture: As a GGUF calls it.
        type: Of its matrices.
        tensors: How many it has.
        parameters: Elements of all of them.
        notes: What happened to it on the way.
    """

    architecture: str
    type: str
    tensors: int
    parameters: int
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        architecture: str,
        kind: str,
        tensors: Collection[NewTensor] | Collection[NewWeight],
        notes: Iterable[str] = (),
    ) -> Model:
        """Return what was written.

        Args:
            architecture: As a GGUF calls it.
            kind: Type of its matrices, in small letters.
            tensors: All of them.
            notes: What happened to it on the way.
        """
        parameters = sum(prod(one.shape) for one in tensors)
        return cls(architecture, kind.upper(), len(tensors), parameters, tuple(notes))


class Conversion(Record):
    """The result of a conversion.

    Attributes:
        path: The main file written.
        paths: All files written.
        format_name: Name of the format written.
        losses: Everything that the files do not keep.
        assumptions: Assumptions made while reading and writing.
        verified: Comparisons with the source, one for each way to read the files: by mtkit, by
            engine tables, by another program.
        sizes: Named sizes in bytes ("total"; also "base" and "extension" if there are two parts).
        model: Facts about the model, if a whole model was converted.
    """

    path: str
    paths: tuple[str, ...]
    format_name: str
    losses: tuple[Loss, ...]
    assumptions: tuple[str, ...]
    verified: tuple[Verified, ...]
    sizes: tuple[tuple[str, int], ...]
    model: Model | None = None


def convert(
    src: str | os.PathLike[str] | Tokenizer,
    dst: str | os.PathLike[str] | None = None,
    *,
    to: str = "",
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
) -> Conversion:
    """Convert a tokenizer to another format.

    Args:
        src: A path, as for ``load``, or a tokenizer.
        dst: File or folder to write; None: next to the source.
        to: Name of the format; empty: as the name of ``dst`` says.
        allow_loss: Codes of losses to accept even if ordinary text gets different ids.
        options: Options for writing the format.
        force: Replace existing files.

    Raises:
        UsageError: The format is unknown, or a file already exists.
        LossError: Ordinary text would get different ids, and that is not allowed.
        UnsupportedError: The format cannot hold this tokenizer.
        AnswerNo: The result does not give the same ids; nothing was written.
    """
    from mtkit.formats.contract import WriteOptions

    wanted = to or format_of(dst)
    if not wanted:
        said = f"{str(dst)!r} does not say a format" if dst else "no format is given"
        raise UsageError(said, field="to", hint=f"one of {', '.join(sorted(FORMATS))}")
    module = get_format(wanted)
    if not hasattr(module, "write"):
        raise UnsupportedError(f"{module.TITLE} can be read but not written")
    options = options or WriteOptions()
    given = src if isinstance(src, Tokenizer) else load(src)
    if not options.name and not given.spec.name:
        options = replace(options, name=hub.name_of(given.source))
    if module.NAME == "gguf":
        from mtkit.conversion.folder_notes import of_model, padded

        given = of_model(padded(given))
    source, assumptions, written = write(given, module, options, allow_loss)
    targets = target_paths(source.source, dst, written)
    if any(same_file(path, source.source) for path in targets):
        raise UsageError(
            "is the source file itself", source=source.source, hint="use -o to choose another file"
        )
    verified = verify(source, module, written, allow_loss)
    make_folder(dst, next(iter(targets)))
    write_ggufs(targets, force=force)
    return Conversion(
        path=next(iter(targets)),
        paths=tuple(targets),
        format_name=module.NAME,
        losses=written.losses,
        assumptions=assumptions + (written.assumptions if given.format_name != module.NAME else ()),
        verified=verified,
        sizes=_sizes(module, written),
    )


def write(
    source: Tokenizer, module: Format, options: WriteOptions, allowed: Collection[str]
) -> tuple[Tokenizer, tuple[str, ...], Written]:
    """Return what is written, what was assumed, and the files.

    Raises:
        UsageError: What is to be added has no id.
        LossError: The format cannot hold it, or only with a loss that is not allowed.
    """
    from mtkit.conversion.folder_notes import notes

    noted = notes(source)
    source, assumptions = asked_for(source, module, options)
    try:
        written = module.write(source.spec, options)
    except UnsupportedError as error:
        what = f"{module.NAME} cannot hold this tokenizer: {error.what}"
        raise LossError(what, source=source.source, field=error.field, hint=error.hint) from None
    except MtkitError as error:
        raise error.located(source.source) from None
    refuse(written.losses, allowed, source.source, module.NAME)
    return source, assumptions + noted, written


def asked_for(
    source: Tokenizer, module: Format, options: WriteOptions
) -> tuple[Tokenizer, tuple[str, ...]]:
    """Return the tokenizer to be written, with BOS and EOS as asked for, and what was assumed.

    Raises:
        UsageError: What is to be added has no id.
    """
    from mtkit.spec.family import with_special_ids

    try:
        spec, assumed = with_special_ids(
            source.spec,
            add_bos=options.add_bos,
            add_eos=options.add_eos,
            by_family=getattr(module, "ADDS_SPECIAL_TOKENS", False),
        )
    except MtkitError as error:
        raise error.located(source.source) from None
    if spec is not source.spec:
        source = Tokenizer(
            spec,
            source=source.source,
            format_name=source.format_name,
            assumptions=source.assumptions,
        )
    return source, source.assumptions + assumed


def refuse(losses: tuple[Loss, ...], allowed: Collection[str], source: str, to: str) -> None:
    """Stop where a loss changes ordinary ids and is not allowed.

    Raises:
        LossError: There is such a loss; the message names the first few.
    """
    stopping = [loss for loss in losses if loss.code in STOPPING and loss.code not in allowed]
    if stopping:
        shown = stopping[:NAMED]
        named = ", ".join(f"{loss.field}: {loss.effect}" for loss in shown)
        if len(stopping) > NAMED:
            named += f" and {len(stopping) - NAMED} more"
        code = stopping[0].code
        raise LossError(
            f"{to} would change ids ({named})",
            source=source,
            hint=f"add --allow-loss {code} to convert anyway",
        )


def _sizes(module: Format, written: Written) -> tuple[tuple[str, int], ...]:
    total = sum(len(content) for content in written.files.values())
    sizes = [("total", total)]
    for reading in other_readings(module).values():
        if reading.length is not None:
            base = reading.length(memory_source(written))
            sizes += [("base", base), ("extension", total - base)]
    return tuple(sizes)
