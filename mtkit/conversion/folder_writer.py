"""A GGUF as a HuggingFace model folder on the disk: all files of it, or none.

The tokenizer's files are written and proved as in every conversion; weights are streamed from the
mapped file.
"""

from __future__ import annotations

import json
import os

from mtkit.base.counted import Counted
from mtkit.checkpoints import safetensors_writer
from mtkit.checkpoints.folder_files import CONFIG, GENERATION, INDEX, WEIGHTS
from mtkit.conversion.convert import Conversion, Model, write
from mtkit.conversion.to_folder import config_of, new_weights, plan_folder
from mtkit.conversion.verify import verify
from mtkit.errors import FormatError
from mtkit.gguf.draft import refuse_unfinished
from mtkit.gguf.joined import open_whole
from mtkit.tokenizer.load import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.checkpoints.safetensors_writer import NewWeight
    from mtkit.conversion.to_folder import FolderPlan
    from mtkit.formats.contract import WriteOptions

NAME = "hf-model"
"""What ``--to`` calls it."""
MOST_BYTES = 5 * 10**9
"""Of the tensors of a file, as ``save_pretrained`` of transformers 4 has it."""


def convert_to_folder(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    kind: str = "auto",
    max_bytes: int = MOST_BYTES,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion:
    """Convert a GGUF to a model folder.

    Args:
        src: The GGUF, a single file.
        dst: The folder to create.
        kind: f32, f16 or bf16; auto: as in the GGUF, bf16 for quantized matrices.
        max_bytes: Maximum bytes of tensors per safetensors file.
        allow_loss: Codes of tokenizer losses to accept even if ids change.
        options: Options for writing the tokenizer.
        force: Replace existing files.
        progress: Called with the bytes written and the total.

    Raises:
        UsageError: The file is not a model, or only a shard; or an output file already exists.
        FormatError: Metadata and tensors contradict each other.
        UnsupportedError: mtkit cannot convert the model.
        LossError: Ordinary text would get different ids, and that is not allowed.
        AnswerNo: The converted tokenizer does not give the same ids; nothing was written.
        ResourceError: The disk is full.
    """
    from mtkit.base.whole_files import folder_for, write_files
    from mtkit.formats import hf
    from mtkit.formats.contract import WriteOptions

    path, folder = os.fspath(src), os.fspath(dst)
    file = open_whole(path)
    refuse_unfinished(file)
    plan = plan_folder(file, kind)
    done = Counted(progress)
    weights = list(new_weights(plan, done))
    done.total = sum(one.n_bytes for one in weights)
    tokenizer, assumptions, written = write(load(path), hf, options or WriteOptions(), allow_loss)
    verified = verify(tokenizer, hf, written, allow_loss)
    config = config_of(plan)
    texts = {**written.files, CONFIG: _json(config)}
    texts.setdefault(GENERATION, _json(_ends(config)))
    files: dict[str, bytes | Iterator[Buffer]] = {**texts, **_weight_files(weights, max_bytes)}
    with folder_for(folder):
        write_files({os.path.join(folder, name): files[name] for name in files}, force=force)
    if progress is not None:
        progress(done.total, done.total)
    names = [os.path.join(folder, name) for name in files]
    return Conversion(
        path=os.path.join(folder, ""),
        paths=tuple(names),
        format_name=NAME,
        losses=written.losses,
        assumptions=assumptions,
        verified=verified,
        sizes=(("total", sum(map(os.path.getsize, names))),),
        model=Model.of(plan.architecture.name, plan.type, weights, _notes(plan)),
    )


def _weight_files(
    weights: Sequence[NewWeight], max_bytes: int
) -> dict[str, bytes | Iterator[Buffer]]:
    """Return the files of weights by name, with their index where they are several."""
    groups: list[list[NewWeight]] = [[]]
    used = 0
    for one in weights:
        if groups[-1] and used + one.n_bytes > max_bytes:
            groups.append([])
            used = 0
        groups[-1].append(one)
        used += one.n_bytes
    if len(groups) == 1:
        return {WEIGHTS: safetensors_writer.chunks(weights)}
    count = len(groups)
    names = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    where = {one.name: name for name, group in zip(names, groups, strict=True) for one in group}
    index = {"metadata": {"total_size": sum(one.n_bytes for one in weights)}, "weight_map": where}
    shards = zip(names, map(safetensors_writer.chunks, groups), strict=True)
    return {**dict(shards), INDEX: _json(index)}


def _json(document: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise FormatError("holds a number that is not finite", field="metadata") from None
    return f"{text}\n".encode("utf-8", "backslashreplace")


def _ends(config: Mapping[str, Any]) -> dict[str, Any]:
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    return {name: config[name] for name in names if name in config}


def _notes(plan: FolderPlan) -> Iterator[str]:
    quantized = sorted({one.type.name for one in plan.file.tensors if one.type.block > 1})
    if quantized:
        yield f"{', '.join(quantized)} dequantized"
