"""``mtkit inspect`` of a safetensors file, or of the index of several: metadata and tensors."""

from __future__ import annotations

from mtkit.base.escape import escape
from mtkit.commands import output
from mtkit.commands.inspect.weights import cells, chosen, show_table
from mtkit.inspection.safetensors import Model, WeightRow, document, model_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.base.binary import Source

_MOST_LETTERS = 400
"""Of a value on a terminal."""


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
        output.write_json(document(model, rows))
    elif output.is_terminal():
        if not only_tensors:
            _show(model, everything=everything)
        if only_tensors or everything:
            show_table(rows, len(model.weights))
    else:
        if not only_tensors:
            output.write_rows(list(_rows(model)))
        output.write_rows([("tensor", *cells(row)) for row in rows])
        if not only_tensors:
            absent = model.absent.items()
            output.write_rows([("tensor", name, "", "", None, None, file) for name, file in absent])


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
