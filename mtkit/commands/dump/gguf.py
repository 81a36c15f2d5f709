"""``mtkit dump metadata`` and ``mtkit dump tensors``."""

from __future__ import annotations

from mtkit.commands import gguf_rows, output
from mtkit.gguf import open_gguf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.base.binary import Source

SCHEMA = "mtkit.dump/1"


def show(what: str, source: Source, *, pattern: str | None, as_json: bool) -> None:
    """Print the metadata or the tensor table of a GGUF."""
    file = open_gguf(source)
    if what == "metadata":
        keys = gguf_rows.choose_names(file.metadata, pattern)
    else:
        names = set(gguf_rows.choose_names([tensor.name for tensor in file.tensors], pattern))
        tensors = [tensor for tensor in file.tensors if tensor.name in names]
    if as_json:
        from mtkit.inspection import document

        content = (
            document.metadata_document(file.metadata, keys)
            if what == "metadata"
            else document.tensors_document(tensors)
        )
        output.write_json({"schema": SCHEMA, "what": what, what: content})
    elif what == "metadata":
        output.write_rows(gguf_rows.metadata_rows(file.metadata, keys, is_whole=True))
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen

        columns = ("name", "shape>", "type", "offset>:dim", "bytes>:dim")
        Screen().table(columns, map(gguf_rows.tensor_row, tensors))
    else:
        output.write_rows(map(gguf_rows.tensor_row, tensors))
