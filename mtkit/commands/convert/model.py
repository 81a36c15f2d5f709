"""``mtkit convert`` of a whole model: a HuggingFace folder to a GGUF, a LoRA adapter, and back."""

from __future__ import annotations

import os

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from mtkit.conversion.model import PreparedGguf
    from mtkit.conversion.tokenizer import Conversion
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf.writer import Key


_OF_PROJECTORS = (
    "--mmproj", "--type", "--model-name", "--metadata", "--split-max-size", "--split-max-tensors",
    "--no-tensor-first-split",
)  # fmt: skip
"""Options that go with ``--mmproj``."""


class Request(Record):
    """What is to be converted, and how.

    Attributes:
        source: The file or folder; None: the tokenizer of the configuration.
        vocabulary: The tokenizer of a llama2.c checkpoint.
        target: Where to write; None: as the source is called.
        max_bytes: Size limit of a shard; None: one file.
        about: Keys of ``--metadata``.
    """

    source: str | None
    vocabulary: str | None
    target: str | None
    to: str
    kind: str
    no_fallback: bool
    allow_loss: tuple[str, ...]
    options: WriteOptions
    max_bytes: int | None
    dense_modules: bool
    mmproj: bool
    max_tensors: int | None
    first_without_tensors: bool
    about: tuple[Key, ...]
    imatrix: str | None
    imatrix_from: tuple[str, ...]
    base: str | None
    verify: bool
    dry_run: bool
    vocab_only: bool
    force: bool
    reader: str | None
    encoding: str | None
    download: bool

    def model_options(self) -> list[str]:
        """Return the options of whole models that are set."""
        options = {
            "--type": self.kind.lower() != "auto",
            "--no-fallback": self.no_fallback,
            "--split-max-size": self.max_bytes is not None,
            "--dense-modules": self.dense_modules,
            "--mmproj": self.mmproj,
            "--split-max-tensors": self.max_tensors is not None,
            "--no-tensor-first-split": self.first_without_tensors,
            "--model-name": bool(self.options.name),
            "--metadata": bool(self.about),
            "--imatrix": self.imatrix is not None,
            "--imatrix-from": bool(self.imatrix_from),
            "--base": self.base is not None,
            "--verify": self.verify,
            "--vocab-only": self.vocab_only,
        }
        return [name for name, is_set in options.items() if is_set]

    def refuse(self, why: str, allowed: tuple[str, ...], hint: str = "") -> None:
        """Refuse options of whole models that mean nothing here."""
        from mtkit.errors import UsageError

        for name in self.model_options():
            if name not in allowed:
                raise UsageError(f"{name} {why}", hint=hint)

    def write_options(self) -> dict[str, Any]:
        """Return the arguments that every conversion takes."""
        return {
            "allow_loss": self.allow_loss, "options": self.options, "force": self.force,
            "dry_run": self.dry_run,
        }  # fmt: skip


def default_format(source: str | None) -> str:
    """Return the format that a whole model becomes where none is named; else an empty text."""
    from mtkit.checkpoints import adapter_folder, model_folder

    is_folder = source is not None and (model_folder.sniff(source) or adapter_folder.sniff(source))
    return "gguf" if is_folder else ""


def find_source_folder(name: str, *, download: bool) -> str | None:
    """Return the folder of a model or an adapter that a name stands for; None: a tokenizer's."""
    from mtkit.checkpoints import adapter_folder, model_folder
    from mtkit.sources import hub

    name = os.path.expanduser(name)
    folder: str | None = name
    if not os.path.exists(name):
        is_wanted = download and hub.parse(name) is not None
        folder = hub.download(name, weights=True) if is_wanted else hub.find(name)
    if folder is None or model_folder.sniff(folder) or adapter_folder.sniff(folder):
        return folder
    _check_part(folder)
    return None


def _check_part(folder: str) -> None:
    """Warn of a folder without weights, whose tokenizer is all there is to convert."""
    from mtkit.checkpoints import folder_files
    from mtkit.checkpoints.weight_forms import unread_weights
    from mtkit.commands.output import warn
    from mtkit.errors import UnsupportedError, UsageError

    if not os.path.isdir(folder):
        return
    names = folder_files.files_in(folder)
    if folder_files.MODEL_CONFIG in names:
        warn(folder, ["has a config.json and no weights; its tokenizer alone is converted"])
    elif any(map(folder_files.is_weights, names)):
        hint = "download the folder again, or --vocab-only for its tokenizer alone"
        raise UsageError("has weights but no config.json", source=folder, hint=hint)
    elif not any(name.endswith(".gguf") for name in names):
        for file in unread_weights(folder, names):
            hint = f"{file.advice({})}; --vocab-only converts the tokenizer alone"
            raise UnsupportedError(file.fault, source=folder, hint=hint)


def vocabulary(request: Request) -> Conversion | None:
    """Convert the tokenizer of a model folder with the model's keys; None: there is no such."""
    from mtkit.conversion.vocabulary import convert_vocabulary, is_described
    from mtkit.sources import hub

    name = os.path.expanduser(request.source or "")
    folder = name if os.path.exists(name) else hub.find(name)
    if folder is None and request.download and hub.parse(name) is not None:
        folder = hub.download(name)
    if folder is None or not is_described(folder):
        return None
    return convert_vocabulary(
        folder, request.target, about=request.about, **request.write_options()
    )


def to_gguf(folder: str, request: Request) -> Conversion:
    """Convert a folder; llama.cpp's quantizer makes the types that mtkit does not write itself."""
    from mtkit.checkpoints import adapter_folder
    from mtkit.commands.terminal import byte_progress
    from mtkit.conversion.model import convert_model
    from mtkit.conversion.model_tensors import TYPES
    from mtkit.errors import UsageError

    kind = request.kind.lower()
    is_plain = kind in ("auto", *TYPES)
    if is_plain and (request.imatrix or request.imatrix_from):
        hint = "choose a type that quantizes, such as --type IQ4_XS"
        raise UsageError(f"--type {request.kind} uses no importance matrix", hint=hint)
    if request.imatrix and request.imatrix_from:
        raise UsageError("give one of --imatrix and --imatrix-from")
    if request.no_fallback and kind in ("auto", "f32", "f16", "bf16"):
        hint = "choose a type that quantizes, such as --type Q8_0"
        raise UsageError(f"--no-fallback: every row fits --type {request.kind}", hint=hint)
    if request.no_fallback and request.dry_run and not is_plain:
        hint = "mtkit quantize GGUF --dry-run shows what falls back"
        raise UsageError(f"--no-fallback with --dry-run knows no --type {request.kind}", hint=hint)
    if adapter_folder.sniff(folder):
        from mtkit.conversion.adapter import convert_adapter

        request.refuse("is not for an adapter", ("--type", "--base", "--model-name", "--metadata"))
        if not is_plain:
            raise UsageError(f"--type {request.kind}: an adapter has one of {', '.join(TYPES)}")
        return convert_adapter(
            folder, request.target, base=request.base, kind=kind, name=request.options.name,
            about=request.about, allow_loss=request.allow_loss, force=request.force,
            dry_run=request.dry_run,
        )  # fmt: skip
    if request.base is not None:
        raise UsageError("--base is for a LoRA adapter", source=folder)
    is_split = request.max_bytes is not None or request.max_tensors is not None
    if request.first_without_tensors and not is_split:
        raise UsageError("--no-tensor-first-split goes with --split-max-size N")
    if is_split and (request.verify or not is_plain):
        other = "--verify" if request.verify else f"--type {request.kind}"
        size = "--split-max-size" if request.max_bytes is not None else "--split-max-tensors"
        hint = "split the file afterwards with mtkit split"
        raise UsageError(f"{size} does not go with {other}", hint=hint)
    if request.mmproj:
        request.refuse("does not go with --mmproj", _OF_PROJECTORS)
        if not is_plain:
            hint = "mtkit quantize changes the type afterwards"
            what = f"--type {request.kind}: --mmproj has one of {', '.join(TYPES)}"
            raise UsageError(what, hint=hint)
    if request.no_fallback and kind == "q8_0":
        _refuse_fallbacks(folder, kind)
    if is_plain and (not request.verify or request.dry_run):
        return convert_model(
            folder, request.target, kind=kind, max_bytes=request.max_bytes,
            max_tensors=request.max_tensors, first_without_tensors=request.first_without_tensors,
            dense_modules=request.dense_modules, mmproj=request.mmproj, about=request.about,
            progress=byte_progress("convert"), **request.write_options(),
        )  # fmt: skip
    return _in_steps(folder, request, kind if is_plain else "")


def _refuse_fallbacks(folder: str, kind: str) -> None:
    """Refuse a model with rows that are no whole number of blocks, which would become F16."""
    from mtkit.conversion.model import plan_gguf
    from mtkit.errors import UnsupportedError, format_count

    left = [tensor for tensor in plan_gguf(folder, kind).tensors() if tensor.type.name == "F16"]
    if left:
        width = left[0].shape[0]
        what = f"{format_count(len(left), 'tensor')} would be F16: a row of {width} is no multiple"
        raise UnsupportedError(f"{what} of 32", source=folder, hint="--type f16 or bf16 fits all")


def _in_steps(folder: str, request: Request, plain: str) -> Conversion:
    """Write a model, let llama.cpp run it, quantize it; one file appears at the end."""
    from mtkit.commands.terminal import byte_progress
    from mtkit.conversion.model import prepare_gguf
    from mtkit.conversion.value_losses import write_in_range
    from mtkit.errors import LossError
    from mtkit.llama.shared_library import library
    from mtkit.llm.quantization import file_type

    if not request.dry_run:
        library()  # without it there is nothing to begin
    progress, number = byte_progress("convert"), -1 if plain else file_type(request.kind)

    def prepare(wide: Collection[str]) -> PreparedGguf:
        return prepare_gguf(
            folder, plain or "auto", allow_loss=request.allow_loss, options=request.options,
            dense_modules=request.dense_modules, about=request.about, progress=progress, wide=wide,
        )  # fmt: skip

    def write(plan: PreparedGguf) -> Conversion:
        return _write_in_steps(folder, plan, request, plain, number)

    try:
        return write_in_range(prepare, write)
    except LossError as error:
        raise error.located(folder) from None


def _write_in_steps(
    folder: str, plan: PreparedGguf, request: Request, plain: str, number: int
) -> Conversion:
    from mtkit.base.files import WholeFiles
    from mtkit.commands.terminal import byte_progress
    from mtkit.conversion.model import gguf_target
    from mtkit.gguf.in_place import settle_journal
    from mtkit.gguf.types import FILE_TYPES

    progress = byte_progress("convert")
    kind = plan.plan.type if plain else FILE_TYPES[number]
    path = gguf_target(folder, kind, request.target)
    if request.dry_run:
        size = sum(tensor.n_bytes for tensor in plan.draft.tensors.values())
        note = f"then quantized to {kind}, which takes fewer bytes than these"
        return _with_model(plan.conversion([path], size), kind, [note])
    settle_journal(path, force=request.force)
    with WholeFiles([path], force=request.force) as new:
        part = new.write(path if plain else f"{path}.whole", plan.draft.chunks())
        progress(1, 1)
        notes = _verify(folder, part, path, request)
        if plain:
            new.appear()
        else:
            notes += _quantize(part, path, number, request)
    conversion = plan.conversion([path])
    if conversion.model is not None:
        own = conversion.model.notes if plain else plan.plan.folder_notes
        notes = [*own, *notes]
    return _with_model(conversion, kind, notes)


def _with_model(conversion: Conversion, kind: str, notes: list[str]) -> Conversion:
    from mtkit.base.record import replace

    assert conversion.model is not None
    return replace(
        conversion, model=replace(conversion.model, type=kind.upper(), notes=tuple(notes))
    )


def _verify(folder: str, part: str, path: str, request: Request) -> list[str]:
    """Let llama.cpp run the model that was written as a part; return what to say of it."""
    if not request.verify:
        return []
    from mtkit.llm.model_check import verify_model

    check = verify_model(folder, part, name=path)
    verdict = f"llama.cpp's logits match the folder's on {check.prompts} prompts"
    error = f"RMS error {check.deviation:.2%} of their standard deviation"
    return [f"{verdict}: {error}, rounding explains {check.rounding:.2%}"]


def _quantize(source: str, path: str, number: int, request: Request) -> list[str]:
    """Quantize the model that was written as a part; return what to say of it."""
    from mtkit.commands.inputs import read_texts
    from mtkit.commands.terminal import Progress
    from mtkit.gguf import open_gguf
    from mtkit.gguf.types import FILE_TYPES
    from mtkit.llm.quantization import converter_kinds, quantize

    texts = read_texts(None, request.imatrix_from, "") if request.imatrix_from else ()
    quantization = quantize(
        source, path, number, kinds=converter_kinds(FILE_TYPES[number], open_gguf(source)),
        imatrix=request.imatrix, imatrix_from=texts, force=request.force,
        fallback=not request.no_fallback, progress=Progress(f"quantize {request.kind}").show,
        imatrix_progress=Progress("imatrix").show, name=request.target or path,
    )  # fmt: skip
    mix = ", ".join(f"{count} {kind}" for kind, count in quantization.counts.items())
    return [f"matrices: {mix}; {quantization.bits:.2f} bits per weight", *quantization.notes()]


def to_folder(file: str, request: Request) -> Conversion:
    """Convert a GGUF."""
    from mtkit.commands.terminal import byte_progress
    from mtkit.conversion.folder_writer import MOST_FILE_BYTES, convert_to_folder
    from mtkit.errors import UsageError

    kinds = ("auto", "bf16", "f16", "f32")
    if request.kind.lower() not in kinds:
        raise UsageError(f"--type {request.kind}: a folder has one of {', '.join(kinds)}")
    stem = os.path.splitext(os.path.basename(file))[0]
    folder = request.target or os.path.join(os.path.dirname(file), stem)
    return convert_to_folder(
        file, folder, kind=request.kind.lower(), max_bytes=request.max_bytes or MOST_FILE_BYTES,
        progress=byte_progress("convert"), **request.write_options(),
    )  # fmt: skip


def write_supported_models(*, as_json: bool) -> None:
    """List the classes of config.json that are converted: class, architecture of the GGUF."""
    from mtkit.architectures import architectures
    from mtkit.commands import output

    output.write_report(
        sorted((name, architecture.name) for name, architecture in architectures().items()),
        as_json=as_json,
        document=lambda rows: {"schema": "mtkit.models/1", "models": dict(rows)},
        screen=_show_models,
        rows=list,
    )


def _show_models(rows: list[tuple[str, str]]) -> None:
    from mtkit.commands.terminal import Screen

    Screen().table(("class:name", "architecture"), rows)
