"""Conversion of a tokenizer: read, write, verify, and only then put the files in place.

The loss law: a writer keeps a field exactly, lists it as lost, or refuses. A loss of ordinary ids
stops the conversion unless it was allowed by name; so does a possible one when the built-in texts
(``tokenizer.comparison``) show it. The result is read back from its bytes and encodes those texts
before anything reaches the disk. ``find_refusal`` measures what a refused conversion would change.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from math import prod

from mtkit.base.files import check_target, folder_for
from mtkit.base.record import Record, replace
from mtkit.conversion.verification import Comparison, Verification, memory_source, plain_ids, verify
from mtkit.errors import (
    LossError,
    MtkitError,
    UnsupportedError,
    UsageError,
    allowing,
    format_first,
    wording,
)
from mtkit.formats import get_format, other_readings, written_formats
from mtkit.gguf.in_place import write_ggufs
from mtkit.sources import hub
from mtkit.sources.locate import TOKENIZER, shipped
from mtkit.tokenizer.load import in_its_folder, load
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from contextlib import AbstractContextManager

    from mtkit.checkpoints.safetensors import NewWeight
    from mtkit.formats.contract import Format, Loss, WriteOptions, Written
    from mtkit.gguf.writer import NewTensor


_FORMATS = (
    ("tekken.json", "tekken"),
    ("vocab.json", "vocab-merges"),
    ("merges.txt", "vocab-merges"),
    ("rwkv_vocab.txt", "rwkv"),
    ("vocab.txt", "wordpiece"),
    ("tokenizer.txt", "mnn-text"),
    (".json", "hf"),
    (".gguf", "gguf"),
    (".mtok", "mtok"),
    (".model", "spm"),
    (".tiktoken", "tiktoken"),
    (".bin", "llama2c"),
)
"""End of a file's name -> format; the first match counts."""


def target_format(dst: str | os.PathLike[str] | None) -> str:
    """Return the format by the name of the file to write, or an empty text."""
    name = os.path.basename(os.fspath(dst or "")).lower()
    return next((format_name for end, format_name in _FORMATS if name.endswith(end)), "")


def target_paths(
    source: str, dst: str | os.PathLike[str] | None, written: Written
) -> dict[str, bytes]:
    """Return path -> content: beside the source, in the folder ``dst`` or at the file ``dst``.

    Several files go into a folder where ``dst`` has no suffix: their names are fixed, and in the
    folder around it they could belong to anything.
    """
    names = list(written.files)
    stem, folder = os.path.splitext(os.path.basename(source))[0], os.path.dirname(source)
    if source in ("", "-", shipped(TOKENIZER)) or hub.holds(source):
        stem, folder = "tokenizer", ""
    paths = [os.path.join(folder, _target_name(name, stem)) for name in names]
    if dst is not None:
        dst = os.fspath(dst)
        several = len(names) > 1 and not os.path.splitext(dst)[1] and not os.path.lexists(dst)
        if several or dst.endswith(("/", os.sep)) or os.path.isdir(dst):
            paths = [os.path.join(dst, _target_name(name, stem)) for name in names]
        else:
            stem, folder = os.path.splitext(os.path.basename(dst))[0], os.path.dirname(dst)
            paths = [dst, *(os.path.join(folder, _target_name(name, stem)) for name in names[1:])]
    return dict(zip(paths, written.files.values(), strict=True))


def _target_name(name: str, stem: str) -> str:
    return stem + name if name.startswith(".") else name


def make_folder(dst: str | os.PathLike[str] | None, target: str) -> AbstractContextManager[object]:
    """Create the folder that ``dst`` names; the folder of a file that it names has to exist."""
    is_named = _names_folder(dst, target)
    return folder_for(os.path.dirname(target)) if is_named else nullcontext()


def _names_folder(dst: str | os.PathLike[str] | None, target: str) -> bool:
    folder = os.path.dirname(target)
    return bool(folder and dst is not None) and (
        os.path.normpath(os.fspath(dst or "")) == os.path.normpath(folder)
    )


def check_targets(
    dst: str | os.PathLike[str] | None, targets: Iterable[str], *, force: bool
) -> None:
    """Check, for a dry run, that files may be written; the folder ``dst`` may be missing."""
    for path in targets:
        if os.path.isdir(os.path.dirname(path) or ".") or not _names_folder(dst, path):
            check_target(path, force=force)


def is_same_file(path: str, source: str) -> bool:
    """Tell whether two paths lead to the same existing file."""
    return os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source)


STOPPING = ("ids",)
"""Losses that stop a conversion unless they are allowed."""
MOST_NAMED = 5
"""Losses that a message names."""


def source_itself(path: str) -> UsageError:
    """Return the error where a file would be written over what it is made of."""
    hint = wording("use -o to choose another file", "choose another dst")
    return UsageError("is the source file itself", source=path, hint=hint)


class Model(Record):
    """Facts about a model that was written."""

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
        """Count tensors and parameters."""
        parameters = sum(prod(tensor.shape) for tensor in tensors)
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
        is_written: False of a dry run, whose files are those that would be written.
    """

    path: str
    paths: tuple[str, ...]
    format_name: str
    losses: tuple[Loss, ...]
    assumptions: tuple[str, ...]
    verified: tuple[Verification, ...]
    sizes: tuple[tuple[str, int], ...]
    model: Model | None = None
    is_written: bool = True

    def __repr__(self) -> str:
        written = "" if self.is_written else ", not written"
        losses = f"{len(self.losses)} loss{'es' * (len(self.losses) != 1)}"
        return f"<Conversion to {self.path} ({self.format_name}): {losses}{written}>"

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import figure, heading, note, table

        rows = ((loss.code, loss.field, loss.effect) for loss in self.losses)
        size = dict(self.sizes).get("total")
        parts: list[object] = [heading(repr(self)[1:-1])]
        parts += [note(f"{size:,} bytes")] if size is not None else []
        parts += [table(("loss", "field", "effect"), rows)] if self.losses else []
        parts += [note(assumption) for assumption in self.assumptions]
        return figure(*parts)


def convert(
    src: str | os.PathLike[str] | Tokenizer,
    dst: str | os.PathLike[str] | None = None,
    *,
    to: str = "",
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Conversion:
    """Convert a tokenizer to another format.

    Args:
        dst: File or folder to write; None: next to the source.
        allow_loss: Codes of losses to accept even if ordinary text gets different ids.
        dry_run: Do all but the writing.

    Raises:
        UsageError: The format is unknown, or a file already exists.
        LossError: Ordinary text would get different ids, and that is not allowed.
        UnsupportedError: The format cannot hold this tokenizer.
        AnswerNo: The result does not give the same ids; nothing was written.
    """
    from mtkit.formats.contract import WriteOptions

    name = to or target_format(dst)
    if not name:
        what = f"{str(dst)!r} does not say a format" if dst else "no format is given"
        hint = f"one of {', '.join(written_formats())}; hf-model for safetensors"
        raise UsageError(what, field="to", hint=hint)
    module = get_format(name)
    if not hasattr(module, "write"):
        hint = f"can be written: {', '.join(written_formats())}"
        raise UnsupportedError(f"{module.TITLE} can be read but not written", hint=hint)
    options = options or WriteOptions()
    tokenizer = src if isinstance(src, Tokenizer) else load(src)
    if not options.name and not tokenizer.spec.name:
        options = replace(options, name=hub.name_of(tokenizer.source))
    if module.NAME == "gguf":
        from mtkit.conversion.folder_notes import pad_vocabulary, with_architecture

        tokenizer = with_architecture(pad_vocabulary(in_its_folder(tokenizer)))
    source, assumptions, written = write_tokenizer(tokenizer, module, options, allow_loss)
    targets = target_paths(source.source, dst, written)
    if any(is_same_file(path, source.source) for path in targets):
        raise source_itself(source.source)
    verified = verify(source, module, written, allow_loss)
    if not dry_run:
        with make_folder(dst, next(iter(targets))):
            write_ggufs(targets, force=force)
    else:
        check_targets(dst, targets, force=force)
    return Conversion(
        path=next(iter(targets)),
        paths=tuple(targets),
        format_name=module.NAME,
        losses=written.losses,
        assumptions=assumptions
        + (written.assumptions if tokenizer.format_name != module.NAME else ()),
        verified=verified,
        sizes=_sizes(module, written),
        is_written=not dry_run,
    )


def write_tokenizer(
    source: Tokenizer, module: Format, options: WriteOptions, allowed: Collection[str]
) -> tuple[Tokenizer, tuple[str, ...], Written]:
    """Write a tokenizer in memory; return it with the options applied, assumptions and files."""
    from mtkit.conversion.folder_notes import folder_notes

    notes = folder_notes(source)
    source, assumptions = apply_options(source, module, options)
    try:
        written = module.write(source.spec, options)
    except UnsupportedError as error:
        what = f"{module.NAME} cannot hold this tokenizer: {error.what}"
        raise LossError(what, source=source.source, field=error.field, hint=error.hint) from None
    except MtkitError as error:
        raise error.located(source.source) from None
    refuse_losses(written.losses, allowed, source.source, module.NAME)
    return source, assumptions + notes, written


def apply_options(
    source: Tokenizer, module: Format, options: WriteOptions
) -> tuple[Tokenizer, tuple[str, ...]]:
    """Return the tokenizer to write, with BOS and EOS as the options say, and assumptions."""
    from mtkit.spec.special_tokens import with_special_ids

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


def refuse_losses(losses: tuple[Loss, ...], allowed: Collection[str], source: str, to: str) -> None:
    """Stop where a loss changes ordinary ids and is not allowed."""
    stopping = [loss for loss in losses if loss.code in STOPPING and loss.code not in allowed]
    if stopping:
        effects = format_first([f"{loss.field}: {loss.effect}" for loss in stopping], MOST_NAMED)
        hint = f"add {allowing(stopping[0].code)} to convert anyway"
        raise LossError(f"{to} would change ids ({effects})", source=source, hint=hint)


def _sizes(module: Format, written: Written) -> tuple[tuple[str, int], ...]:
    total = sum(len(content) for content in written.files.values())
    sizes = [("total", total)]
    for reading in other_readings(module).values():
        if reading.length is not None:
            base = reading.length(memory_source(written))
            sizes += [("base", base), ("extension", total - base)]
    return tuple(sizes)


class Refusal(Record):
    """What a refused conversion would have changed.

    Attributes:
        losses: Those that change the ids of ordinary texts, or can.
        different: Number of texts with other ids.
        text: The shortest text with other ids; empty where there is none.
        there: Its ids in the refused file.
    """

    losses: tuple[Loss, ...]
    different: int
    total: int
    text: str = ""
    here: tuple[int, ...] = ()
    there: tuple[int, ...] = ()


def find_refusal(source: Tokenizer, to: str, options: WriteOptions) -> Refusal | None:
    """Write in memory and compare the built-in texts; None where the format cannot hold it."""
    from mtkit.tokenizer.comparison import probe_texts, special_token_texts

    module = get_format(to)
    try:
        source, _ = apply_options(source, module, options)
        written = module.write(source.spec, options)
        main = memory_source(written)
        back = Tokenizer(module.read(main, {}).spec, source=main.name)
    except MtkitError:
        return None
    losses = tuple(loss for loss in written.losses if loss.code in ("ids", "ids-possible"))
    comparison = Comparison(
        source, back, written.losses, [*probe_texts(), *special_token_texts(source.spec)]
    )
    shortest: tuple[str, tuple[int, ...], tuple[int, ...]] = ("", (), ())
    for text in sorted(comparison.ordinary, key=len):
        here, there = (plain_ids(tokenizer, text) or [] for tokenizer in (source, back))
        if here != there:
            shortest = text, tuple(here), tuple(there)
            break
    return Refusal(losses, len(comparison.ordinary), comparison.total, *shortest)
