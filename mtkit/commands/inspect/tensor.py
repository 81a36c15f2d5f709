"""``mtkit inspect --tensor``: the values of one tensor."""

from __future__ import annotations

from mtkit.commands import output, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.base.binary import Source

_BAR = 32
_COUNTS = ("count", "finite", "zeros", "nan", "infinite")
_MEASURES = ("least", "greatest", "mean", "deviation")


def show(source: Source, name: str, *, as_json: bool) -> None:
    """Print what the values of a tensor are."""
    from mtkit.base.escape import byte_escapes
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import shard_set
    from mtkit.inspection.document import json_number
    from mtkit.inspection.statistics import statistics, tensor_named
    from mtkit.inspection.value_text import shape_text

    first = open_gguf(source)
    shards = shard_set(first)
    files = [shard.file for shard in shards.shards if shard.file] if shards else [first]
    file, tensor = tensor_named(files or [first], name)
    found = statistics(file, tensor)
    numbers = {key: getattr(found, key) for key in (*_COUNTS, *_MEASURES)}
    if as_json:
        head = {"schema": "mtkit.inspect-tensor/1", "file": byte_escapes(file.name)}
        about = {
            "name": byte_escapes(tensor.name),
            "shape": list(tensor.shape),
            "type": tensor.type.name,
            "bytes": tensor.n_bytes,
        }
        bins = [dict(zip(("from", "to", "count"), row, strict=True)) for row in found.histogram]
        plain = {key: json_number(value) for key, value in numbers.items()}
        output.write_json({**head, **about, **plain, "histogram": bins})
        return
    if not output.is_terminal():
        output.write_rows([("tensor", *values.tensor_row(tensor)), *numbers.items()])
        output.write_rows([("histogram", *row) for row in found.histogram])
        return
    from mtkit.commands.terminal import Screen, joined, part, size

    screen = Screen()
    shape = shape_text(tensor, "×")
    parts = joined([tensor.type.name, shape, size(tensor.n_bytes)])
    screen.line(part("name", tensor.name), output.Escaped("   "), *parts, hanging=2)
    output.write("\n")
    shown = [(key, [output.grouped(numbers[key])]) for key in _COUNTS]
    shown += [(key, [f"{numbers[key]:.6g}"]) for key in _MEASURES if numbers[key] is not None]
    screen.facts(shown)
    most = max((count for *_, count in found.histogram), default=0)
    if most:
        screen.heading("histogram")
        rows = (
            (f"{low:.4g}", f"{high:.4g}", output.grouped(count), "█" * round(_BAR * count / most))
            for low, high, count in found.histogram
        )
        screen.table(("from>", "to>", "count>", "share:good"), rows, indent=2)
