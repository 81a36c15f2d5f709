"""``mtkit convert`` of a whole model: a HuggingFace folder to a GGUF, a LoRA adapter, and back."""

from __future__ import annotations

import os

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.conversion.tokenizer import Conversion
    from mtkit.formats.contract import WriteOptions


class ModelOptions(Record):
    """What the options say of a whole model.

    Attributes:
        target: Where to write; None: as the source is called.
        max_bytes: Of a file; None: one file.
    """

    target: str | None
    kind: str
    allow_loss: tuple[str, ...]
    options: WriteOptions
    max_bytes: int | None = None
    imatrix: str | None = None
    imatrix_from: tuple[str, ...] = ()
    base: str | None = None
    verify: bool = False
    vocab_only: bool = False
    force: bool = False

    def given(self) -> list[str]:
        """Return the options of whole models that are set."""
        set_ = {
            "--type": self.kind.lower() != "auto",
            "--split-max-size": self.max_bytes is not None,
            "--imatrix": self.imatrix is not None,
            "--imatrix-from": bool(self.imatrix_from),
            "--base": self.base is not None,
            "--verify": self.verify,
            "--vocab-only": self.vocab_only,
        }
        return [name for name, is_set in set_.items() if is_set]

    def refuse(self, why: str, known: tuple[str, ...], hint: str = "") -> None:
        """Refuse options that mean nothing here."""
        from mtkit.errors import UsageError

        unknown = [name for name in self.given() if name not in known]
        if unknown:
            raise UsageError(f"{unknown[0]} {why}", hint=hint)


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
    from mtkit.commands.output import warn
    from mtkit.errors import UsageError

    if not os.path.isdir(folder):
        return
    if os.path.isfile(os.path.join(folder, folder_files.MODEL_CONFIG)):
        warn(folder, ["has a config.json and no weights; its tokenizer alone is converted"])
    elif any(map(folder_files.is_weights, folder_files.files_in(folder))):
        hint = "download the folder again, or --vocab-only for its tokenizer alone"
        raise UsageError("has weights but no config.json", source=folder, hint=hint)


def to_gguf(folder: str, asked: ModelOptions) -> Conversion:
    """Convert a folder; llama.cpp's quantizer makes the types that mtkit does not write itself."""
    from mtkit.checkpoints import adapter_folder
    from mtkit.commands.terminal import byte_progress
    from mtkit.conversion.model import convert_model
    from mtkit.conversion.model_tensors import TYPES
    from mtkit.errors import UsageError

    kind = asked.kind.lower()
    is_plain = kind in ("auto", *TYPES)
    if is_plain and (asked.imatrix or asked.imatrix_from):
        hint = "choose a type that quantizes, such as --type IQ4_XS"
        raise UsageError(f"--type {asked.kind} uses no importance matrix", hint=hint)
    if asked.imatrix and asked.imatrix_from:
        raise UsageError("give one of --imatrix and --imatrix-from")
    if adapter_folder.sniff(folder):
        from mtkit.conversion.adapter import convert_adapter

        asked.refuse("is not for an adapter", ("--type", "--base"))
        if not is_plain:
            raise UsageError(f"--type {asked.kind}: an adapter has one of {', '.join(TYPES)}")
        return convert_adapter(folder, asked.target, base=asked.base, kind=kind, force=asked.force)
    if asked.base is not None:
        raise UsageError("--base is for a LoRA adapter", source=folder)
    if asked.max_bytes is not None and (asked.verify or not is_plain):
        other = "--verify" if asked.verify else f"--type {asked.kind}"
        hint = "split the file afterwards with mtkit split"
        raise UsageError(f"--split-max-size does not go with {other}", hint=hint)
    if is_plain and not asked.verify:
        return convert_model(
            folder, asked.target, kind=kind, max_bytes=asked.max_bytes,
            allow_loss=asked.allow_loss, options=asked.options, force=asked.force,
            progress=byte_progress("convert"),
        )  # fmt: skip
    return _in_steps(folder, asked, kind if is_plain else "")


def _in_steps(folder: str, asked: ModelOptions, plain: str) -> Conversion:
    """Write a model, let llama.cpp run it, quantize it; one file appears at the end."""
    from mtkit.base.files import WholeFiles
    from mtkit.base.record import replace
    from mtkit.commands.terminal import byte_progress
    from mtkit.conversion.model import gguf_target, prepare_gguf
    from mtkit.gguf.in_place import settle_journal
    from mtkit.gguf.types import FILE_TYPES
    from mtkit.llm.quantization import file_type

    progress, number = byte_progress("convert"), -1 if plain else file_type(asked.kind)
    made = prepare_gguf(
        folder, plain or "auto", allow_loss=asked.allow_loss, options=asked.options,
        progress=progress,
    )  # fmt: skip
    kind = made.plan.type if plain else FILE_TYPES[number]
    path = gguf_target(folder, kind, asked.target)
    settle_journal(path, force=asked.force)
    with WholeFiles([path], force=asked.force) as new:
        part = new.write(path if plain else f"{path}.whole", made.draft.chunks())
        progress(1, 1)
        notes = _verify(folder, part, path, asked)
        if plain:
            new.appear()
        else:
            notes += _quantize(part, path, number, asked)
    done = made.conversion([path])
    assert done.model is not None
    return replace(done, model=replace(done.model, type=kind.upper(), notes=tuple(notes)))


def _verify(folder: str, part: str, path: str, asked: ModelOptions) -> list[str]:
    """Let llama.cpp run the model that was written as a part; return what to say of it."""
    if not asked.verify:
        return []
    from mtkit.llm.model_check import verify_model

    done = verify_model(folder, part, name=path)
    said = f"llama.cpp's logits match the folder's on {done.prompts} prompts"
    error = f"RMS error {done.deviation:.2%} of their standard deviation"
    return [f"{said}: {error}, rounding explains {done.rounding:.2%}"]


def _quantize(source: str, path: str, number: int, asked: ModelOptions) -> list[str]:
    """Quantize the model that was written as a part; return what to say of it."""
    from collections import Counter

    from mtkit.commands.inputs import read_texts
    from mtkit.commands.terminal import Progress
    from mtkit.gguf import open_gguf
    from mtkit.llm.quantization import quantize

    texts = read_texts(None, asked.imatrix_from, "") if asked.imatrix_from else ()
    quantize(
        source, path, number, imatrix=asked.imatrix, imatrix_from=texts, force=asked.force,
        progress=Progress(f"quantize {asked.kind}").show, imatrix_progress=Progress("imatrix").show,
        name=asked.target or path,
    )  # fmt: skip
    matrices = (one.type.name for one in open_gguf(path).tensors if len(one.shape) > 1)
    mix = Counter(matrices).most_common()
    return [f"matrices: {', '.join(f'{number} {kind}' for kind, number in mix)}"]


def to_folder(file: str, asked: ModelOptions) -> Conversion:
    """Convert a GGUF."""
    from mtkit.commands.terminal import byte_progress
    from mtkit.conversion.folder_writer import MOST_FILE_BYTES, convert_to_folder
    from mtkit.errors import UsageError

    kinds = ("auto", "bf16", "f16", "f32")
    if asked.kind.lower() not in kinds:
        raise UsageError(f"--type {asked.kind}: a folder has one of {', '.join(kinds)}")
    stem = os.path.splitext(os.path.basename(file))[0]
    folder = asked.target or os.path.join(os.path.dirname(file), stem)
    return convert_to_folder(
        file, folder, kind=asked.kind.lower(), max_bytes=asked.max_bytes or MOST_FILE_BYTES,
        allow_loss=asked.allow_loss, options=asked.options, force=asked.force,
        progress=byte_progress("convert"),
    )  # fmt: skip
