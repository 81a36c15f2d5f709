"""``mtkit merge``: shards as one file again; LoRA adapters merged into their base model."""

from __future__ import annotations

import os

from mtkit.commands.command import Command
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


OPTIONS = {
    "files": Option(
        "", "First shard, all shards, or their folder; with --lora the base model.", "FILE..."
    ),
    "lora": Option(
        "--lora",
        "LoRA adapter to merge into FILE, with a scale if not 1. Repeatable.",
        "ADAPTER[=SCALE]",
        "--lora-scaled",
    ),
    "out": Option(
        "-o --output",
        "File to write; default: NAME.gguf, here. With --lora also folder/.",
        "FILE",
    ),
    "kind": Option(
        "--type",
        "With --lora: type of the merged matrices; default: their own, f16 if quantized.",
        "NAME",
        "--outtype",
        values=("f32", "f16", "bf16", "q8_0"),
    ),
    "delete_splits": Option("--delete-splits", "Delete the shards once they are merged."),
    "dry_run": Option("--dry-run", "Show the file without writing."),
}


def merge(
    files: list[str],
    lora: list[str] | None = None,
    out: str | None = None,
    kind: str = "",
    allow_loss: list[str] | None = None,
    delete_splits: bool = False,
    dry_run: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Merge the shards of a model into one file, or LoRA adapters into their base model.

    Without --lora: the reverse of mtkit split. With --lora: W + scale · alpha / rank · B A, summed
    in float32 and rounded once. Base and adapters are GGUFs or folders (an adapter as PEFT saves
    it). A GGUF is written where -o ends in .gguf, as llama-export-lora does: quantized matrices
    that an adapter changes become F16. A folder/ becomes a copy of the base's with merged weights,
    as with merge_and_unload of PEFT. All files appear whole or not at all. Piped output is a row
    per file: path, tensors, bytes of tensors.

    \b
    Examples:
      mtkit merge parts/model-00001-of-00003.gguf -o model.gguf
      mtkit merge parts/ -o model.gguf
      mtkit merge parts/*.gguf -o whole.gguf --force
      mtkit merge ./Qwen3-0.6B --lora adapter/ -o merged.gguf
      mtkit merge ./Qwen3-0.6B --lora adapter/=0.5 -o merged-folder/
    """
    from mtkit.errors import UsageError

    if "-" in files:
        raise UsageError("shards are found by name, so they cannot come from a pipe")
    if out in ("", "-"):
        raise UsageError("no output file", hint="add -o MODEL.gguf")
    if lora:
        _merge_adapters(
            files, lora, out, kind, allow_loss or (), delete_splits=delete_splits, dry_run=dry_run,
            force=force, as_json=as_json,
        )  # fmt: skip
        return
    if kind:
        raise UsageError("--type goes with --lora", hint="mtkit quantize changes the type")
    _merge_shards(
        list(files), out, delete_splits=delete_splits, dry_run=dry_run, force=force, as_json=as_json
    )


command = Command(merge, OPTIONS)


def _merge_shards(
    names: list[str],
    out: str | None,
    *,
    delete_splits: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    from mtkit.commands.new_files import NewFile, warn_of_dropped_parts, write_new_files
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import all_files, dropped_keys, model_stem, shard_set
    from mtkit.gguf.shards import merge_shards as join

    if out is None and len(names) == 2 and not os.path.exists(names[1]):  # FIRST NEW
        out = names.pop()
    _refuse_adapters(names)
    first = open_gguf(_first(names))
    shards = shard_set(first)
    if len(names) > 1:
        own = {os.path.realpath(shard.path) for shard in shards.shards} if shards else set()
        other = next((name for name in names if os.path.realpath(name) not in own), None)
        if other is not None and shards is None:
            hint = "shards are called NAME-00001-of-0000N.gguf"
            raise UsageError("is a whole model, not a shard", source=first.name, hint=hint)
        if other is not None:
            raise UsageError(f"is not a shard of {first.name}", source=other)
    out = out or f"{os.path.basename(model_stem(first.name))}.gguf"
    paths = [shard.path for shard in shards.shards] if shards else []
    for path in paths:
        if os.path.exists(out) and os.path.samefile(path, out):
            raise UsageError("is one of the shards", source=out)
    new = [NewFile.of(out, join(first))]
    for part in all_files(first):
        warn_of_dropped_parts(part, () if part is first else dropped_keys(part, first))
    write_new_files(new, "mtkit.merge/1", dry_run=dry_run, force=force, as_json=as_json)
    if delete_splits and not dry_run:
        for path in paths:
            os.unlink(path)


def _refuse_adapters(names: Sequence[str]) -> None:
    """Refuse an adapter among shards, with the line that merges it."""
    from shlex import quote

    from mtkit.checkpoints import adapter_folder
    from mtkit.errors import MtkitError, UsageError
    from mtkit.gguf import open_gguf

    for name in names:
        try:
            is_adapter = (
                adapter_folder.sniff(name)
                if os.path.isdir(name)
                else open_gguf(name).metadata.get("general.type") == "adapter"
            )
        except MtkitError:
            continue  # what is wrong with a shard is said where it is read
        if is_adapter:
            base = next((quote(other) for other in names if other != name), "BASE")
            line = f"mtkit merge {base} --lora {quote(name)} -o MERGED.gguf"
            raise UsageError("is a LoRA adapter", source=name, hint=f"to merge it: {line}")


def _first(names: Sequence[str]) -> str:
    from mtkit.checkpoints.folder_files import MODEL_CONFIG
    from mtkit.errors import UsageError
    from mtkit.gguf.shards import is_first_shard

    if len(names) == 1 and os.path.isdir(names[0]):
        folder = names[0]
        firsts = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        firsts = [name for name in firsts if is_first_shard(name)]
        if len(firsts) != 1:
            what = "has the shards of several models" if firsts else "is a folder without shards"
            hint = f"name one of: {', '.join(firsts)}" if firsts else "NAME-00001-of-00003.gguf …"
            if not firsts and MODEL_CONFIG in os.listdir(folder):
                hint = "--lora ADAPTER merges an adapter into it"
            raise UsageError(what, source=folder, hint=hint)
        return firsts[0]
    return next(filter(is_first_shard, names), names[0])


def _merge_adapters(
    names: Sequence[str],
    lora: Sequence[str],
    out: str | None,
    kind: str,
    allow_loss: Sequence[str],
    *,
    delete_splits: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    from contextlib import ExitStack

    from mtkit.base.files import folder_for
    from mtkit.commands import output
    from mtkit.commands.inputs import find_folder, find_gguf
    from mtkit.commands.new_files import NewFile, write_new_files
    from mtkit.commands.options import parse_loss_codes
    from mtkit.conversion.adapter_merge import merge_into_folder, merge_into_gguf
    from mtkit.errors import FormatError, LossError, UsageError

    if len(names) != 1:
        raise UsageError("--lora merges into one model", hint="name an adapter after each --lora")
    if delete_splits:
        raise UsageError("--delete-splits does not go with --lora")
    if out is None:
        raise UsageError("no output file", hint="add -o MERGED.gguf, or -o FOLDER/ for a folder")
    folder = find_folder(names[0])
    base = folder or find_gguf(names[0])
    is_folder = out.endswith(("/", os.sep)) or os.path.isdir(out)
    if not is_folder and not out.endswith(".gguf"):
        is_folder = folder is not None and not os.path.splitext(out)[1]
    if not is_folder:
        merged = merge_into_gguf(base, lora, kind.lower(), parse_loss_codes(allow_loss))
    elif folder is None:
        hint = "write a .gguf, then: mtkit convert MERGED.gguf --to hf-model"
        raise UsageError("is a GGUF, which is merged into a GGUF", source=base, hint=hint)
    elif kind:
        raise UsageError("--type goes with a GGUF: in a folder all tensors keep their type")
    else:
        if os.path.exists(out) and os.path.samefile(folder, out):
            raise UsageError("is the base model's folder", source=out)
        merged = merge_into_folder(folder, lora)
    files = [
        NewFile(os.path.join(out, f.name) if f.name else out, f.tensors, f.n_bytes, f.chunks)
        for f in merged.files
    ]
    with ExitStack() as stack:
        for path in {os.path.dirname(file.path): None for file in files if is_folder}:
            if not dry_run:
                stack.enter_context(folder_for(path))
        try:
            write_new_files(files, "mtkit.merge/1", dry_run=dry_run, force=force, as_json=as_json)
        except (FormatError, LossError) as error:
            raise error.located(base) from None
    output.warn(base, merged.notes)
