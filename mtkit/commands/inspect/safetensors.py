"""``mtkit inspect`` of a safetensors file, or of the index of several: metadata and tensors."""

from __future__ import annotations

from mtkit.base.escape import escape, printable
from mtkit.base.record import Record
from mtkit.commands import output
from mtkit.commands.inspect.weights import WeightRow, chosen, show_table
from mtkit.errors import Naming

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.checkpoints.safetensors import Weight

_SUMS = ("tensors", "parameters", "bytes")
_MOST_LETTERS = 400
"""Of a value on a terminal."""


class Model(Record):
    """What is shown of one file, or of all that an index names.

    Attributes:
        path: The file that was named.
        n_bytes: Of all files.
        header_bytes: Of all headers.
        metadata: Of the file, or of the index.
        weights: (tensor, its file; empty where there is one alone), in the order of the data.
        absent: Tensors of files that are missing -> the file.
    """

    path: str
    n_bytes: int
    header_bytes: int
    metadata: Mapping[str, object]
    weights: tuple[tuple[Weight, str], ...]
    files: tuple[str, ...] = ()
    absent: Mapping[str, str] = {}

    @property
    def mix(self) -> dict[str, list[int]]:
        """Type -> number of tensors, of parameters and of bytes."""
        mix: dict[str, list[int]] = {}
        for one, _ in self.weights:
            sums = mix.setdefault(one.type, [0, 0, 0])
            for place, more in enumerate((1, one.n_elements, one.n_bytes)):
                sums[place] += more
        return mix

    @property
    def parameters(self) -> int:
        """Elements of all tensors that are there."""
        return sum(one.n_elements for one, _ in self.weights)

    @property
    def missing(self) -> dict[str, int]:
        """Files that are not there -> how many tensors should be in them."""
        found = dict.fromkeys(self.absent.values(), 0)
        for name in self.absent.values():
            found[name] += 1
        return found


def model_of(source: Source) -> Model:
    """Read a safetensors file, or an index with the headers of its files.

    Raises:
        FormatError: One of them is damaged.
    """
    from mtkit.checkpoints import safetensors, safetensors_index

    with Naming(source.name):
        if not safetensors_index.sniff(source):
            header = safetensors.read(source)
            weights = tuple((one, "") for one in header.weights)
            return Model(source.name, len(source.data), header.n_bytes, header.metadata, weights)
        index = safetensors_index.read(source)
    there = {name: header for name, header in index.files.items() if header}
    return Model(
        source.name,
        sum(index.n_bytes.values()),
        sum(header.n_bytes for header in there.values()),
        index.metadata,
        tuple((one, name) for name, header in there.items() for one in header.weights),
        tuple(index.files),
        {tensor: name for tensor, name in index.weight_map.items() if name not in there},
    )


def show(
    source: Source,
    *,
    as_json: bool,
    everything: bool,
    tensors: bool = False,
    pattern: str | None = None,
    sort: str | None = None,
) -> None:
    """Print what the headers say; the types with their share first, or the table of tensors."""
    model = model_of(source)
    rows = chosen((WeightRow(*one) for one in model.weights), pattern, sort)
    only_tensors = tensors or bool(pattern or sort)
    if as_json:
        output.write_json(_document(model, rows))
    elif output.is_terminal():
        if not only_tensors:
            _show(model, everything=everything)
        if only_tensors or everything:
            show_table(rows, len(model.weights))
    else:
        if not only_tensors:
            output.write_rows(list(_rows(model)))
        output.write_rows([("tensor", *row.cells()) for row in rows])
        if not only_tensors:
            absent = model.absent.items()
            output.write_rows([("tensor", name, "", "", None, None, file) for name, file in absent])


def _document(model: Model, rows: Sequence[WeightRow]) -> dict[str, object]:
    tensors: list[dict[str, object]] = [
        {"name": one.name, "type": one.type, "shape": list(one.shape), "offset": one.offset,
         "bytes": one.n_bytes, **({"file": printable(row.file)} if row.file else {})}
        for row in rows for one in (row.weight,)
    ]  # fmt: skip
    files = {"files": [*map(printable, model.files)], "missing": [*map(printable, model.missing)]}
    return {
        "schema": "mtkit.inspect/1",
        "kind": "safetensors",
        "path": printable(model.path),
        "bytes": model.n_bytes,
        "header_bytes": model.header_bytes,
        "parameters": model.parameters,
        "metadata": dict(model.metadata),
        **(files if model.files else {}),
        "types": {name: dict(zip(_SUMS, sums, strict=True)) for name, sums in model.mix.items()},
        "tensors": tensors,
    }


def _rows(model: Model) -> Iterator[tuple[object, ...]]:
    yield "header", "bytes", model.header_bytes
    yield "model", "parameters", model.parameters
    for name, sums in model.mix.items():
        yield "type", name, *sums
    for key, value in model.metadata.items():
        yield "metadata", key, output.Escaped(escape(str(value)))
    for name, count in model.missing.items():
        yield "missing", name, count


def _show(model: Model, *, everything: bool) -> None:
    from mtkit.commands.inspect.folding import folded_blocks
    from mtkit.commands.terminal import Screen, count, joined, part, size, sticky
    from mtkit.inspection.tensors import groups

    screen = Screen()
    said = joined([part("dim", "safetensors"), size(model.n_bytes)])
    screen.line(part("name", model.path), output.Escaped("   "), *said, hanging=2)
    output.write("\n")
    rows: list[tuple[str, list[object]]] = [
        ("model", [sticky(f"{output.amount(model.parameters)} parameters")])
    ]
    total = sum(sums[2] for sums in model.mix.values()) or 1
    types = [
        sticky(f"{output.cell(name)} {n_bytes / total:.0%} ({count(tensors, 'tensor')})")
        for name, (tensors, _, n_bytes) in model.mix.items()
    ]
    rows.append(("types", joined(types)))
    if model.files:
        state = part("bad", f"{len(model.missing)} missing") if model.missing else "all present"
        rows.append(("files", joined([output.grouped(len(model.files)), state])))
        for name, tensors in model.missing.items():
            named = [part("name", name), count(tensors, "tensor")]
            rows.append(("", joined(named)))
    for number, (key, value) in enumerate(model.metadata.items()):
        text = output.Escaped(f"{output.cell(key)} {escape(str(value))[:_MOST_LETTERS]}")
        rows.append(("" if number else "metadata", [text]))
    if not everything:
        weights: Any = [one for one, _ in model.weights]  # name, shape and type as a GGUF's
        layers = groups(weights)
        rows += zip(("tensors", *[""] * 9), folded_blocks(layers), strict=False)
        rows.append(("", [part("hint", "--all shows every tensor")]))
    screen.facts((name, parts) for name, parts in rows if parts)
