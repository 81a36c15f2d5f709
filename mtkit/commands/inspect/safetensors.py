"""``mtkit inspect`` of a safetensors file: its metadata and tensors."""

from __future__ import annotations

from math import prod

from mtkit.base.escape import escape, printable
from mtkit.commands import output
from mtkit.errors import Naming

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.base.binary import Source


def show(source: Source, *, as_json: bool) -> None:
    """Print what the header says; the types with their share first."""
    from mtkit.checkpoints import safetensors

    with Naming(source.name):
        header = safetensors.read(source)
    mix: dict[str, list[int]] = {}
    for one in header.weights:
        sums = mix.setdefault(one.type, [0, 0, 0])
        for place, more in enumerate((1, prod(one.shape), one.n_bytes)):
            sums[place] += more
    if as_json:
        names = ("tensors", "parameters", "bytes")
        types = {name: dict(zip(names, sums, strict=True)) for name, sums in mix.items()}
        tensors = [
            {"name": one.name, "type": one.type, "shape": list(one.shape), "offset": one.offset,
             "bytes": one.n_bytes}
            for one in header.weights
        ]  # fmt: skip
        head = {"schema": "mtkit.inspect/1", "kind": "safetensors", "path": printable(source.name)}
        sizes = {"bytes": len(source.data), "header_bytes": header.n_bytes}
        rest = {"metadata": dict(header.metadata), "types": types, "tensors": tensors}
        output.write_json({**head, **sizes, "parameters": header.parameters, **rest})
        return
    rows: list[tuple[object, ...]] = [
        ("header", "bytes", header.n_bytes),
        ("model", "parameters", header.parameters),
        *(("type", name, *sums) for name, sums in mix.items()),
        *(("metadata", key, output.Escaped(escape(text))) for key, text in header.metadata.items()),
    ]
    shapes = ("x".join(map(str, one.shape)) or "1" for one in header.weights)
    tensors_of = (
        ("tensor", one.name, shape, one.type, one.offset, one.n_bytes)
        for one, shape in zip(header.weights, shapes, strict=True)
    )
    output.write_rows([*rows, *tensors_of])
