"""``mtkit convert-endian``: a GGUF in the other byte order."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.inputs import find_gguf


def convert_endian(
    file: str,
    out: str,
    dry_run: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Change the byte order of a GGUF: to big-endian, or back to little-endian.

    Converting twice gives the same file. IQ1, IQ2 and IQ3 types are refused, because llama.cpp
    decodes them on little-endian machines only. The file is written atomically. Piped output is one
    row: path, tensors, bytes of tensors.

    \b
    Examples:
      mtkit convert-endian model.gguf -o model-big-endian.gguf
      mtkit convert-endian model-big-endian.gguf -o model.gguf --dry-run
    """
    from mtkit.commands.new_files import NewFile, write_new_files
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.byte_order import in_other_order

    if out in ("", "-"):
        raise UsageError("no output file", hint="add -o NEW.gguf")
    source = open_gguf(find_gguf(file))
    size = sum(tensor.n_bytes for tensor in source.tensors)
    new = NewFile(out, len(source.tensors), size, in_other_order(source))
    write_new_files([new], "mtkit.convert-endian/1", dry_run=dry_run, force=force, as_json=as_json)


command = Command(convert_endian)
