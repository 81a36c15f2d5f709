"""``mtkit split``: a model as several files."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.options import FORCE_FILES, NO_TENSOR_FIRST, Option, parse_bytes

OPTIONS = {
    "file": Option("", "GGUF file, or the first shard.", "FILE"),
    "out": Option("-o --output", "Folder for the shards.", "FOLDER"),
    "max_size": Option(
        "--split-max-size",
        "Maximum size of the tensors in a shard: 2G, 500M, 1Gi.",
        "N",
        "--max-size",
    ),
    "max_tensors": Option(
        "--split-max-tensors", "Maximum number of tensors in a shard.", "N", "--max-tensors", low=1
    ),
    "no_tensor_first": NO_TENSOR_FIRST,
    "dry_run": Option("--dry-run", "Show the shards without writing."),
    "force": FORCE_FILES,
}


def split(
    file: str,
    out: str = ".",
    max_size: str | None = None,
    max_tensors: int | None = None,
    no_tensor_first: bool = False,
    dry_run: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Split a GGUF into shards that llama.cpp loads: NAME-00001-of-00003.gguf and so on.

    A tensor larger than --split-max-size gets a shard of its own. Either all shards are written, or
    none. Piped output has a row per shard: path, tensors, bytes of tensors.

    \b
    Examples:
      mtkit split model.gguf --split-max-size 2G -o parts/
      mtkit split model.gguf --split-max-tensors 128 --dry-run
    """
    import os
    from contextlib import nullcontext

    from mtkit.base.files import folder_for
    from mtkit.commands.new_files import NewFile, warn_of_dropped_parts, write_new_files
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import SPLIT_KEYS, shard_file_names
    from mtkit.gguf.shards import split_model as cut

    if max_size is None and max_tensors is None:
        raise UsageError("no size given", hint="add --split-max-size 2G or --split-max-tensors 128")
    if file == "-":
        raise UsageError("shards are named after the model, so a pipe cannot be split")
    source = open_gguf(file)
    drafts = cut(
        source,
        max_bytes=None if max_size is None else parse_bytes(max_size, "--split-max-size"),
        max_tensors=max_tensors,
        first_without_tensors=no_tensor_first,
    )
    warn_of_dropped_parts(source, SPLIT_KEYS)
    names = shard_file_names(os.path.basename(file), len(drafts))
    files = [
        NewFile.of(os.path.join(out, name), draft)
        for name, draft in zip(names, drafts, strict=True)
    ]
    with folder_for(out) if not dry_run else nullcontext():
        write_new_files(files, "mtkit.split/1", dry_run=dry_run, force=force, as_json=as_json)


command = Command(split, OPTIONS)
