"""``mtkit inspect`` of a GGUF on a terminal: a summary of one screen, or the sections asked for."""

from __future__ import annotations

from mtkit.commands import output, values
from mtkit.commands.inspect.folding import folded_blocks
from mtkit.commands.inspect.plan import memory_parts
from mtkit.commands.terminal import Screen, count, joined, part, size, sticky
from mtkit.inspection.kinds import TITLES
from mtkit.inspection.value_text import float32_text, shape_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.commands.inspect.view import View
    from mtkit.inspection.gguf import GgufReport
    from mtkit.inspection.vocabulary import Vocabulary

_VALUE_LETTERS = 400
"""No terminal line is longer; every letter is measured."""
_BAR = 24
_MOST_ITEMS = 8
"""Of a list on a line; more are counted."""
_CTX = 8192
"""Tokens of context that the summary plans for, or fewer where the model was trained with fewer."""
_HEADLINE = ("n_layer", "n_embd", "n_head", "n_ff", "n_expert")
_CONTEXT = ("rope_freq_base_train", "rope_scaling_type_train", "n_swa")
_SHOWN_ROLES = {"bos", "eos", "eot"}


def show_screen(view: View, sections: Sequence[str]) -> None:
    """Print the chosen sections."""
    screen, report = Screen(), view.report
    if "summary" in sections:
        _show_summary(screen, report, is_alone=len(sections) == 1)
    if "metadata" in sections:
        _heading(screen, "metadata", len(view.keys), len(report.file.metadata))
        rows = values.metadata_rows(report.file.metadata, view.keys, is_whole=False)
        cut = ((key, name, output.Escaped(text[:_VALUE_LETTERS])) for key, name, text in rows)
        screen.table(("key", "type:dim", "value"), cut, elastic=2, indent=2)
    if "tensors" in sections and (report.file.tensors or "summary" not in sections):
        _heading(screen, "tensors", len(view.tensors), len(report.file.tensors))
        tensor_rows = (
            (
                tensor.name,
                shape_text(tensor, "×"),
                tensor.type.name,
                tensor.offset,
                output.size(tensor.n_bytes),
            )
            for tensor in view.tensors
        )
        columns = ("name", "shape>", "type", "offset>:dim", "size>:dim")
        screen.table(columns, tensor_rows, indent=2)
    if "layers" in sections:
        _show_layers(screen, report)
    if "places" in sections and report.places:
        screen.heading("bytes by purpose")
        total = sum(n_bytes for _, n_bytes in report.places) or 1
        shares = ((name, n_bytes / total) for name, n_bytes in report.places)
        bars = ((name, "█" * round(_BAR * share), f"{share:.1%}") for name, share in shares)
        screen.table(("purpose", "share:good", ">"), bars, indent=2)


def _heading(screen: Screen, name: str, shown: int, whole: int) -> None:
    screen.heading(name, output.grouped(whole) if shown == whole else f"{shown} of {whole}")


def _show_summary(screen: Screen, report: GgufReport, *, is_alone: bool) -> None:
    file = report.file
    title = [part("dim", f"GGUF v{file.version}"), size(len(file.data))]
    weights = ""
    if report.parameters:
        type_name = report.file_type or report.mix[0].type
        weights = sticky(f"{type_name} ({report.bits_per_weight:.2f} bits per weight)")
    parts = joined([*title, report.name, weights])
    screen.line(part("name", file.name), output.Escaped("   "), *parts, hanging=2)
    output.write("\n")
    screen.facts((name, parts) for name, parts in _facts(report, is_alone=is_alone) if parts)


def _facts(report: GgufReport, *, is_alone: bool) -> Iterator[tuple[str, list[object]]]:
    file = report.file
    if report.content.kind != "model":
        yield "content", joined(_content(report))
    if report.architecture:
        yield from model_facts(report, part("name", report.architecture))
    if report.vocabulary:
        yield "tokenizer", joined(tokenizer_parts(report.vocabulary))
    if report.mix:
        yield "memory", memory_parts(report, planned_ctx(report))
        total = report.weights or 1
        shares = [
            sticky(f"{mix.type} {mix.n_bytes / total:.0%} ({count(mix.tensors, 'tensor')})")
            for mix in report.mix
        ]
        yield "types", joined(shares)
    if report.shards:
        missing = sum(shard.file is None for shard in report.shards.shards)
        state = part("bad", f"{missing} missing") if missing else "all present"
        number = sticky(f"{report.shards.number + 1} of {report.shards.count}")
        yield "shards", joined([number, state if report.shards.shards else ""])
    if file.trailing_bytes:
        yield "trailing", [part("warning", f"! {file.trailing_bytes} bytes after the tensors")]
    if not is_alone:
        return
    yield from tensor_facts(report)
    more = "--metadata, --tensors, --layers, --plan, --all for more"
    keys = count(len(file.metadata), "key")
    yield "metadata", [keys, output.Escaped("   "), part("hint", more)]


def model_facts(report: GgufReport, name: object) -> Iterator[tuple[str, list[object]]]:
    """Yield what a model is, by the name of its architecture, and its context."""
    size_of = sticky(f"{output.amount(report.parameters)} parameters") * bool(report.parameters)
    yield "architecture", joined([name, size_of, *_numbers(report, _HEADLINE)])
    trained = f"{output.grouped(report.n_ctx_train)} trained" if report.n_ctx_train else ""
    yield "context", joined([sticky(trained), *_numbers(report, _CONTEXT)])


def planned_ctx(report: GgufReport) -> int:
    """Return the tokens of context that a summary plans for."""
    return min(report.n_ctx_train or _CTX, _CTX)


def tensor_facts(report: GgufReport) -> Iterator[tuple[str, list[object]]]:
    """Yield tensors, blocks of the same folded, and where the bytes are."""
    if report.file.tensors:
        yield from zip(("tensors", *[""] * 9), folded_blocks(report.layers), strict=False)
        yield "bytes", joined(_bars(report), "   ")


def _content(report: GgufReport) -> Iterator[object]:
    """Yield what a file is that is not a model, and what matters of it."""
    yield part("name", TITLES[report.content.kind])
    for name, value in report.content.facts:
        items = value if isinstance(value, list) else [value]
        shown = " ".join(_by_layer(item) for item in items[:_MOST_ITEMS])
        more = f" … ({len(items)})" if len(items) > _MOST_ITEMS else ""
        yield f"{output.cell(name)} {shown}{more}"


def _numbers(report: GgufReport, names: Sequence[str]) -> Iterator[object]:
    items = {item.name: item for item in report.hyperparameters}
    for name in names:
        if name not in items:
            continue
        text = f"{items[name].label} {_by_layer(items[name].value)}"
        extra = items.get({"n_head": "n_head_kv", "n_expert": "n_expert_used"}.get(name, ""))
        if extra:
            word = "key/value" if name == "n_head" else "used"
            text += f" ({_by_layer(extra.value)} {word})"
        yield sticky(output.cell(text))


def _by_layer(value: object) -> str:
    if isinstance(value, list):
        if value and all(type(item) in {int, float} for item in value):
            low, high = min(value), max(value)
            return output.readable(low) if low == high else f"{low}–{high} by layer"
        return f"{len(value)} values"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return output.grouped(int(value))
    if isinstance(value, float):  # f32 in every model file
        return float32_text(value)
    return output.readable(value)


def tokenizer_parts(found: Vocabulary) -> Iterator[object]:
    """Yield what a tokenizer is, in a line."""
    yield " / ".join(filter(None, (found.model, found.pre)))
    yield count(found.tokens, "token")
    if found.merges:
        yield count(found.merges, "merge")
    for item in found.special_ids:
        if item.role in _SHOWN_ROLES:
            text = "beyond the vocabulary" if item.text is None else item.text
            shown = part("special", text), part("id", item.token_id)
            yield joined([item.role.upper(), *shown], sticky(" "))
    named = ", ".join(found.chat_templates)
    suffix = "" if named == "default" else f" ({named})"
    yield f"chat template{suffix}" if named else "no chat template"


def _bars(report: GgufReport) -> Iterator[object]:
    total = sum(n_bytes for _, n_bytes in report.places) or 1
    for name, n_bytes in report.places:
        bar = "█" * round(_BAR * n_bytes / total)
        yield sticky(f"{output.cell(name)} {bar} {n_bytes / total:.0%}".replace("  ", " "))


def _show_layers(screen: Screen, report: GgufReport) -> None:
    _heading(screen, "layers", len(report.layers), len(report.layers))
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
    columns = ("layer", "kind:dim", "tensors>", "parameters>", "size>:dim", "types")
    screen.table(columns, rows, elastic=5, indent=2)
