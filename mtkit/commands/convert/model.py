"""``mtkit convert`` of a whole model: a HuggingFace folder to a GGUF, and back."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.conversion.convert import Conversion
    from mtkit.formats.contract import WriteOptions


def folder_named(name: str, *, download: bool) -> str | None:
    """Return the model folder that a name stands for; None where it is a tokenizer's.

    Raises:
        UsageError: The hub does not give the repository.
    """
    from mtkit.checkpoints import model_folder
    from mtkit.sources import hub

    name = os.path.expanduser(name)
    if os.path.exists(name):
        return name if model_folder.sniff(name) else None
    if download and hub.parse(name) is not None:
        folder: str | None = hub.download(name, weights=True)
    else:
        folder = hub.find(name)
    return folder if folder is not None and model_folder.sniff(folder) else None


def to_gguf(
    folder: str,
    target: str | None,
    kind: str,
    *,
    max_bytes: int | None,
    allow_loss: tuple[str, ...],
    options: WriteOptions,
    force: bool,
) -> Conversion:
    """Convert a folder; types that mtkit does not write itself are made by llama.cpp's quantizer.

    Raises:
        MtkitError: As ``convert_model``, and ``quantize``, say.
    """
    from mtkit.base.record import replace
    from mtkit.base.whole_files import WholeFiles
    from mtkit.commands.progress import Progress
    from mtkit.conversion.model_tensors import TYPES
    from mtkit.conversion.whole_model import convert_model, prepare, target_of
    from mtkit.errors import UsageError
    from mtkit.gguf.types import FILE_TYPES
    from mtkit.llm.quantization import file_type, quantize

    choices: dict[str, Any] = {"allow_loss": allow_loss, "options": options}
    choices["progress"] = told("convert")
    if kind.lower() in ("auto", *TYPES):
        return convert_model(
            folder, target, kind=kind.lower(), max_bytes=max_bytes, force=force, **choices
        )
    number = file_type(kind)
    if max_bytes is not None:
        hint = f"mtkit split cuts the file; {', '.join(TYPES)} are written in parts at once"
        raise UsageError(f"--split-max-size does not go with --type {kind}", hint=hint)
    path = target_of(folder, FILE_TYPES[number], target)
    with WholeFiles([path], force=force) as new:
        made = prepare(folder, **choices)
        whole = new.write(f"{path}.whole", made.draft.chunks())
        choices["progress"](1, 1)
        quantize(whole, path, number, force=force, progress=Progress(f"quantize {kind}").show)
    done = made.conversion([path])
    assert done.model is not None
    return replace(done, model=replace(done.model, type=FILE_TYPES[number]))


def to_folder(
    file: str,
    target: str | None,
    kind: str,
    *,
    max_bytes: int | None,
    allow_loss: tuple[str, ...],
    options: WriteOptions,
    force: bool,
) -> Conversion:
    """Convert a GGUF.

    Raises:
        MtkitError: As ``convert_to_folder`` says.
    """
    from mtkit.conversion.folder_writer import MOST_BYTES, convert_to_folder
    from mtkit.errors import UsageError

    kinds = ("auto", "bf16", "f16", "f32")
    if kind.lower() not in kinds:
        raise UsageError(f"--type {kind}: a folder has one of {', '.join(kinds)}")
    stem = os.path.splitext(os.path.basename(file))[0]
    folder = target or os.path.join(os.path.dirname(file), stem)
    return convert_to_folder(
        file, folder, kind=kind.lower(), max_bytes=max_bytes or MOST_BYTES, allow_loss=allow_loss,
        options=options, force=force, progress=told("convert"),
    )  # fmt: skip


def told(what: str) -> Callable[[int, int], None]:
    """Return what shows how many bytes are written, how fast, and how long the rest takes."""
    import time

    from mtkit.commands.output import size
    from mtkit.commands.progress import Progress

    bar, start = Progress(what), time.perf_counter()

    def show(done: int, total: int) -> None:
        seconds = max(time.perf_counter() - start, 1e-3)
        rate = done / seconds
        left = f"{(total - done) / rate:.0f} s left" if done else ""
        bar.show(
            done / max(total, 1), f"{size(done)} of {size(total)} · {size(int(rate))}/s · {left}"
        )

    return show
