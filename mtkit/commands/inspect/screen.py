"""``mtkit inspect`` of a GGUF on a terminal."""

from __future__ import annotations

from mtkit.base.escape import escape
from mtkit.commands import output, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from mtkit.commands.inspect.view import View
    from mtkit.inspection.gguf import GgufReport
    from mtkit.inspection.vocabulary import Vocabulary

_VALUE_LETTERS = 400
"""No terminal line is longer; rich measures every letter."""

_BAR = 24
_HEADLINE = ("n_layer", "n_embd", "n_ff", "n_head", "n_expert", "n_ctx_train",
             "rope_freq_base_train")  # fmt: skip


def show_screen(view: View, sections: Sequence[str]) -> None:
    """Print the chosen sections."""
    console = output.console()
    report = view.report
    if "summary" in sections:
        _print_summary(console, report)
    if "metadata" in sections:
        keys = view.keys
        _heading(console, "metadata", len(keys), len(report.file.metadata))
        rows = values.metadata_rows(report.file.metadata, keys, is_whole=False)
        cut = ((key, name, output.Escaped(text[:_VALUE_LETTERS])) for key, name, text in rows)
        console.print(output.table(console, ("  key", "type", "value"), _indented(cut), elastic=2))
    if "tensors" in sections and (report.file.tensors or "summary" not in sections):
        _heading(console, "tensors", len(view.tensors), len(report.file.tensors))
        tensor_rows = (
            (
                tensor.name,
                " × ".join(map(output.grouped, tensor.shape)) or "1",
                tensor.type.name,
                tensor.offset,
                output.size(tensor.n_bytes),
            )
            for tensor in view.tensors
        )
        columns = ("  name", "shape>", "type", "offset>", "bytes>")
        console.print(output.table(console, columns, _indented(tensor_rows)))
    if "layers" in sections:
        _print_layers(console, report)
    if "places" in sections and report.places:
        _print_places(console, report)


def _indented(rows: Iterator[Sequence[object]]) -> Iterator[Sequence[object]]:
    for first, *others in rows:
        yield output.Escaped(f"  {output.readable(first)}"), *others


def _heading(console: Console, name: str, shown: int, count: int) -> None:
    many = output.grouped(count) if shown == count else f"{shown} of {output.grouped(count)}"
    console.print(f"\n{name} ({many})", style="bold")


def _print_summary(console: Console, report: GgufReport) -> None:
    from rich.table import Table
    from rich.text import Text

    file = report.file
    console.print(
        f"{escape(file.name)}   GGUF v{file.version}, {file.byte_order}-endian   "
        f"{output.size(len(file.data))}",
        style="bold",
    )
    facts = [escape(report.name), escape(report.architecture)]
    if report.parameters:
        facts.append(f"{output.amount(report.parameters)} parameters")
        type_name = report.file_type or report.mix[0].type
        facts.append(f"{type_name} ({report.bits_per_weight:.2f} bits per weight)")
    console.print("  " + _joined(facts))
    console.print()
    facts_table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    facts_table.add_column(style="bold", no_wrap=True)
    facts_table.add_column(overflow="fold")
    for name, text in _facts(report):
        facts_table.add_row(name, Text(text))
    console.print(facts_table)


def _joined(parts: Sequence[str]) -> str:
    return " · ".join(part for part in parts if part)


def _facts(report: GgufReport) -> Iterator[tuple[str, str]]:
    file = report.file
    yield (
        "container",
        _joined(
            [
                f"alignment {output.grouped(file.alignment)}",
                f"data at {output.grouped(file.data_offset)}",
                f"{output.grouped(file.trailing_bytes)} trailing bytes"
                if file.trailing_bytes
                else "",
            ]
        ),
    )
    if report.architecture:
        yield "architecture", _joined([escape(report.architecture), *_hyperparameters(report)])
    if report.vocabulary:
        yield "tokenizer", _tokenizer(report.vocabulary)
    if report.mix:
        total = sum(mix.n_bytes for mix in report.mix) or 1
        yield (
            "quantisation",
            _joined(
                [
                    f"{mix.type} {100 * mix.n_bytes / total:.1f} % ({mix.tensors} tensors)"
                    for mix in report.mix
                ]
            ),
        )
        yield "memory", _memory(report)
    if report.shards:
        shards = report.shards
        missing = sum(shard.file is None for shard in shards.shards)
        state = f"{missing} missing" if missing else "all present"
        yield (
            "shards",
            f"{shards.number + 1} of {shards.count}" + (f" · {state}" if shards.shards else ""),
        )


def _hyperparameters(report: GgufReport) -> Iterator[str]:
    items = {item.name: item for item in report.hyperparameters}
    for name in _HEADLINE:
        if name not in items:
            continue
        text = f"{items[name].label} {_by_layer(items[name].value)}"
        extra = items.get({"n_head": "n_head_kv", "n_expert": "n_expert_used"}.get(name, ""))
        if extra:
            word = "key/value" if name == "n_head" else "used"
            text += f" ({_by_layer(extra.value)} {word})"
        yield text


def _by_layer(value: object) -> str:
    if isinstance(value, list):
        if value and all(type(item) in {int, float} for item in value):
            low, high = min(value), max(value)
            return output.readable(low) if low == high else f"{low}–{high} by layer"
        return f"{len(value)} values"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return output.grouped(int(value))
    return output.readable(value)


def _tokenizer(found: Vocabulary) -> str:
    names = " / ".join(filter(None, (escape(found.model), escape(found.pre))))
    parts = [names, f"{output.grouped(found.tokens)} tokens"]
    if found.merges:
        parts.append(f"{output.grouped(found.merges)} merges")
    parts += [f"{output.grouped(many)} {name}" for name, many in found.types if name != "normal"]
    for item in found.special_ids:
        text = "beyond the vocabulary" if item.text is None else escape(item.text)
        parts.append(f"{escape(item.role)} {text} ({item.token_id})")
    parts.append(f"chat template {'yes' if found.chat_templates else 'no'}")
    return _joined(parts)


def _memory(report: GgufReport) -> str:
    parts = [f"weights {output.size(report.weights)}"]
    if report.cache_per_token and report.n_ctx_train:
        cache = output.size(report.cache_per_token * report.n_ctx_train)
        parts.append(f"KV cache at most {cache} at {output.grouped(report.n_ctx_train)} (f16)")
    return _joined(parts)


def _print_layers(console: Console, report: GgufReport) -> None:
    _heading(console, "layers", len(report.layers), len(report.layers))
    rows = (
        (
            group.name,
            group.kind,
            len(group.tensors),
            output.amount(group.parameters),
            output.size(group.n_bytes),
            ", ".join(sorted({tensor.type.name for tensor in group.tensors})),
        )
        for group in report.layers
    )
    columns = ("  layer", "kind", "tensors>", "parameters>", "bytes>", "types")
    console.print(output.table(console, columns, _indented(rows)))


def _print_places(console: Console, report: GgufReport) -> None:
    console.print("\nwhere the bytes are", style="bold")
    total = sum(n_bytes for _, n_bytes in report.places) or 1
    rows = (
        (
            name,
            output.Escaped("█" * round(_BAR * n_bytes / total)),
            f"{100 * n_bytes / total:.1f} %",
        )
        for name, n_bytes in report.places
    )
    console.print(output.table(console, ("  purpose", "share", ">"), _indented(rows)))
