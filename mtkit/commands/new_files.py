"""GGUF files that a command writes: all or none, and a row for each."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.commands import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtkit.base.binary import Buffer
    from mtkit.gguf import GgufFile
    from mtkit.gguf.draft import Draft


class NewFile(Record):
    """A file to write."""

    path: str
    tensors: int
    n_bytes: int
    chunks: Iterable[Buffer]

    @staticmethod
    def of(path: str, draft: Draft) -> NewFile:
        """Return a file as drafted."""
        size = sum(tensor.n_bytes for tensor in draft.tensors.values())
        return NewFile(path, len(draft.tensors), size, draft.chunks())


def write_new_files(
    files: Sequence[NewFile], schema: str, *, dry_run: bool, force: bool, as_json: bool
) -> None:
    """Write files and show them: path, tensors, bytes of tensors."""
    if not dry_run:
        from mtkit.gguf.in_place import write_ggufs

        # A set is looked for by its first file.
        write_ggufs({file.path: file.chunks for file in reversed(files)}, force=force)
    rows = [(file.path, file.tensors, file.n_bytes) for file in files]
    if as_json:
        names = ("path", "tensors", "bytes")
        document = [dict(zip(names, row, strict=True)) for row in rows]
        output.write_json({"schema": schema, "written": not dry_run, "files": document})
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen, count_part, part, size_part

        screen = Screen()
        for path, tensors, n_bytes in rows:
            size = [output.Escaped(" · "), count_part(tensors, "tensor"), " · ", size_part(n_bytes)]
            if dry_run:
                screen.line(part("name", path), *size)
            else:
                screen.verdict(part("name", path), *size, good=True)
    else:
        output.write_rows(rows)


def warn_of_dropped_parts(file: GgufFile, dropped_keys: Iterable[str] = ()) -> None:
    """Warn of what a file has besides keys and tensors, which the new file lacks."""
    from mtkit.gguf.draft import file_oddities
    from mtkit.gguf.shards import JoinedGguf

    if isinstance(file, JoinedGguf):
        for shard in file.files:
            warn_of_dropped_parts(shard)
        return
    keys = (f"{key}: not kept" for key in dropped_keys if key in file.metadata)
    output.warn(file.name, [*keys, *file_oddities(file)])
