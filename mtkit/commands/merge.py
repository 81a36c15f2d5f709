"""``mtkit merge``: what ``mtkit split`` has cut, as one file again."""

from __future__ import annotations

import os

from mtkit.commands.command import Command
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


OPTIONS = {
    "files": Option("", "First shard, all shards, or the folder that they are in.", "FIRST..."),
    "out": Option("-o --output", "File to write; default: NAME.gguf, here.", "FILE"),
    "dry_run": Option("--dry-run", "Show the file without writing."),
}


def merge(
    files: list[str],
    out: str | None = None,
    dry_run: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Merge the shards of a model into one file; the reverse of mtkit split.

    The file is written atomically. Piped output is one row: path, tensors, bytes of tensors.

    \b
    Examples:
      mtkit merge parts/model-00001-of-00003.gguf -o model.gguf
      mtkit merge parts/ -o model.gguf
      mtkit merge parts/*.gguf -o whole.gguf --force
    """
    from mtkit.commands.new_files import NewFile, warn_of_dropped_parts, write_new_files
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import all_files, dropped_keys, model_stem, shard_set
    from mtkit.gguf.shards import merge_shards as join

    if "-" in files:
        raise UsageError("shards are found by name, so they cannot come from a pipe")
    if out in ("", "-"):
        raise UsageError("no output file", hint="add -o MODEL.gguf")
    names = list(files)
    if out is None and len(names) == 2 and not os.path.exists(names[1]):  # FIRST NEW
        out = names.pop()
    first = open_gguf(_first(names))
    shards = shard_set(first)
    if len(names) > 1:
        own = {os.path.realpath(shard.path) for shard in shards.shards} if shards else set()
        other = next((name for name in names if os.path.realpath(name) not in own), None)
        if other is not None:
            raise UsageError(f"is not a shard of {first.name}", source=other)
    out = out or f"{os.path.basename(model_stem(first.name))}.gguf"
    for shard in shards.shards if shards else ():
        if os.path.exists(out) and os.path.samefile(shard.path, out):
            raise UsageError("is one of the shards", source=out)
    new = [NewFile.of(out, join(first))]
    for part in all_files(first):
        warn_of_dropped_parts(part, () if part is first else dropped_keys(part, first))
    write_new_files(new, "mtkit.merge/1", dry_run=dry_run, force=force, as_json=as_json)


command = Command(merge, OPTIONS)


def _first(names: Sequence[str]) -> str:
    from mtkit.errors import UsageError
    from mtkit.gguf.shards import is_first_shard

    if len(names) == 1 and os.path.isdir(names[0]):
        folder = names[0]
        firsts = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        firsts = [name for name in firsts if is_first_shard(name)]
        if len(firsts) != 1:
            what = "has the shards of several models" if firsts else "is a folder without shards"
            hint = f"name one of: {', '.join(firsts)}" if firsts else "NAME-00001-of-00003.gguf …"
            raise UsageError(what, source=folder, hint=hint)
        return firsts[0]
    return next(filter(is_first_shard, names), names[0])
