"""``mtkit inspect`` of a GGUF: rows in a pipe, a screen on a terminal, one tensor's values."""

from __future__ import annotations

import os

from mtkit.commands import gguf_rows, output
from mtkit.commands.gguf_rows import GgufView, fold_blocks
from mtkit.commands.inspect.plan import memory_parts
from mtkit.commands.terminal import Screen, count_part, join_parts, part, size_part, sticky
from mtkit.inspection.document import float32_text, shape_text
from mtkit.inspection.gguf import inspect_gguf
from mtkit.inspection.kinds import NO_MODEL, TITLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.base.binary import Source
    from mtkit.inspection.gguf import GgufReport, Vocabulary


def show_gguf(
    source: Source,
    *,
    sections: Sequence[str],
    in_full: bool,
    pattern: str | None,
    sort: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Inspect and print.

    Without ``sections`` a pipe gets all but the layers, a terminal what its screen holds, or with
    ``in_full`` all; pattern and order apply to the metadata and the tensors.
    """
    report = inspect_gguf(source)
    view = GgufView(report, pattern, sort)
    if as_json:
        from mtkit.inspection.document import gguf_document

        output.write_json(gguf_document(report, view.keys, view.tensors))
        return
    if not quiet:
        findings = [finding for finding in report.findings if finding.rule.severity != "note"]
        output.warn(report.file.name, [str(finding) for finding in findings])
    whole = ("summary", "metadata", "tensors", "places")
    if output.is_terminal():
        default = ("metadata", "tensors") if pattern or sort else ("summary",)
        show_gguf_screen(view, sections or (whole if in_full else default))
        return
    output.write_rows(_pipe_rows(view, sections or whole))


def _pipe_rows(view: GgufView, sections: Sequence[str]) -> Iterator[Sequence[object]]:
    report = view.report
    if "summary" in sections:
        yield from _summary_rows(report)
    if "metadata" in sections:
        for row in gguf_rows.metadata_rows(report.file.metadata, view.keys, is_whole=False):
            yield "metadata", *row
    if "tensors" in sections:
        for tensor in view.tensors:
            yield "tensor", *gguf_rows.tensor_row(tensor)
    if "layers" in sections:
        for group in report.layers:
            count = len(group.tensors)
            yield "layer", group.name, group.kind, count, group.parameters, group.n_bytes
    if "places" in sections:
        for purpose, n_bytes in report.places:
            yield "place", purpose, n_bytes


def _summary_rows(report: GgufReport) -> Iterator[Sequence[object]]:
    from mtkit.inspection.document import header

    yield "header", "path", report.file.name
    for name, value in header(report.file).items():
        yield "header", name, value
    yield "content", "kind", report.content.kind
    for name, value in report.content.facts:
        if isinstance(value, float):
            value = float32_text(value)
        for item in value if isinstance(value, list) else [value]:
            yield "content", name, item
    yield from model_rows(report)
    for shard in report.shards.shards if report.shards else ():
        yield "shard", shard.path, "present" if shard.file else "missing"


def model_rows(report: GgufReport) -> Iterator[Sequence[object]]:
    """Yield what a model is."""
    yield "model", "name", report.name
    yield "model", "architecture", report.architecture
    yield "model", "file_type", report.file_type
    yield "model", "parameters", report.parameters
    yield "model", "bits_per_weight", f"{report.bits_per_weight:.4f}"
    for mix in report.mix:
        yield "quantization", mix.type, mix.tensors, mix.parameters, mix.n_bytes
    for item in report.hyperparameters:
        value = item.value
        if isinstance(value, float):  # f32 in every model file
            value = float32_text(value)
        yield "hyperparameter", item.name, str(value) if isinstance(value, list) else value
    if report.vocabulary:
        yield from tokenizer_rows(report.vocabulary)
    if takes := projector_row(report):
        yield "model", "takes", *takes
    yield "memory", "weights", report.weights
    yield "memory", "cache_per_token", report.cache_per_token


def projector_row(report: GgufReport) -> tuple[str, str] | None:
    """Return what a model takes besides text, and the projector beside it; None without one."""
    folder = os.path.dirname(report.file.name) or "."
    if report.content.kind != "model" or not os.path.isdir(folder):
        return None
    if not any("mmproj" in name.lower() for name in os.listdir(folder)):
        return None
    from mtkit.llm.media import find_projector

    header = find_projector(report.file.name, report.file.metadata)
    if header is None:
        return None
    names = {"image": "pictures", "audio": "sounds"}
    return ", ".join(names[kind] for kind in sorted(header.kinds, reverse=True)), header.path


def tokenizer_rows(vocabulary: Vocabulary) -> Iterator[Sequence[object]]:
    """Yield what a tokenizer is."""
    yield "tokenizer", "model", vocabulary.model
    yield "tokenizer", "pre", vocabulary.pre
    yield "tokenizer", "tokens", vocabulary.tokens
    yield "tokenizer", "merges", vocabulary.merges
    for type_name, count in vocabulary.types:
        yield "tokenizer", "type", type_name, count
    for special in vocabulary.special_ids:
        yield "tokenizer", "special_id", special.role, special.token_id, special.text
    for flag, is_set in vocabulary.flags:
        yield "tokenizer", flag, is_set
    for template in vocabulary.chat_templates:
        yield "tokenizer", "chat_template", template


_VALUE_LETTERS = 400
"""No terminal line is longer; every letter is measured."""
_BAR = 24
_MOST_ITEMS = 8
"""Of a list on a line; more are counted."""
_CTX = 8192
"""Tokens of context that the summary plans for, or fewer where the model was trained with fewer."""
_MODEL_NUMBERS = ("n_layer", "n_embd", "n_head", "n_ff", "n_expert")
_CONTEXT_NUMBERS = ("rope_freq_base_train", "rope_scaling_type_train", "n_swa")
_SHOWN_ROLES = {"bos", "eos", "eot"}


def show_gguf_screen(view: GgufView, sections: Sequence[str]) -> None:
    """Print the chosen sections."""
    screen, report = Screen(), view.report
    if "summary" in sections:
        _show_summary(screen, report, is_alone=len(sections) == 1)
    if "metadata" in sections:
        _heading(screen, "metadata", len(view.keys), len(report.file.metadata))
        rows = gguf_rows.metadata_rows(report.file.metadata, view.keys, is_whole=False)
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
                output.format_size(tensor.n_bytes),
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


def _heading(screen: Screen, name: str, count: int, whole: int) -> None:
    screen.heading(name, output.format_number(whole) if count == whole else f"{count} of {whole}")


def _show_summary(screen: Screen, report: GgufReport, *, is_alone: bool) -> None:
    file = report.file
    title = [part("dim", f"GGUF v{file.version}"), size_part(len(file.data))]
    weights = ""
    if report.parameters:
        type_name = report.file_type or report.mix[0].type
        weights = sticky(f"{type_name} ({report.bits_per_weight:.2f} bits per weight)")
    parts = join_parts([*title, report.name, weights])
    screen.line(part("name", file.name), output.Escaped("   "), *parts, hanging=2)
    output.write("\n")
    screen.facts((name, parts) for name, parts in _facts(report, is_alone=is_alone) if parts)


def _facts(report: GgufReport, *, is_alone: bool) -> Iterator[tuple[str, list[object]]]:
    file = report.file
    if report.content.kind != "model":
        yield "content", join_parts(_content_parts(report))
    if report.architecture:
        yield from model_facts(report, part("name", report.architecture))
    if report.vocabulary:
        yield "tokenizer", join_parts(tokenizer_parts(report.vocabulary))
    if takes := projector_row(report):
        yield "takes", join_parts([f"text, {takes[0]}", output.Escaped(takes[1])])
    if report.mix:
        if report.content.kind not in NO_MODEL:
            yield "memory", memory_parts(report, planned_ctx(report))
        total = report.weights or 1
        shares = [
            sticky(f"{mix.type} {mix.n_bytes / total:.0%} ({count_part(mix.tensors, 'tensor')})")
            for mix in report.mix
        ]
        yield "types", join_parts(shares)
    if report.shards:
        missing = sum(shard.file is None for shard in report.shards.shards)
        state = part("bad", f"{missing} missing") if missing else "all present"
        number = sticky(f"{report.shards.number + 1} of {report.shards.count}")
        yield "shards", join_parts([number, state if report.shards.shards else ""])
    if file.trailing_bytes:
        yield "trailing", [part("warning", f"! {file.trailing_bytes} bytes after the tensors")]
    if not is_alone:
        return
    yield from tensor_facts(report)
    more = "--metadata, --tensors, --layers, --plan, --all for more"
    keys = count_part(len(file.metadata), "key")
    yield "metadata", [keys, output.Escaped("   "), part("hint", more)]


def model_facts(report: GgufReport, name: object) -> Iterator[tuple[str, list[object]]]:
    """Yield what a model is, by the name of its architecture, and its context."""
    size_of = sticky(f"{output.format_amount(report.parameters)} parameters") * bool(
        report.parameters
    )
    yield (
        "architecture",
        join_parts([name, size_of, *_hyperparameter_parts(report, _MODEL_NUMBERS)]),
    )
    trained = f"{output.format_number(report.n_ctx_train)} trained" if report.n_ctx_train else ""
    yield "context", join_parts([sticky(trained), *_hyperparameter_parts(report, _CONTEXT_NUMBERS)])


def planned_ctx(report: GgufReport) -> int:
    """Return the tokens of context that a summary plans for."""
    return min(report.n_ctx_train or _CTX, _CTX)


def tensor_facts(report: GgufReport) -> Iterator[tuple[str, list[object]]]:
    """Yield tensors, blocks of the same folded, and where the bytes are."""
    if report.file.tensors:
        yield from zip(("tensors", *[""] * 9), fold_blocks(report.layers), strict=False)
        yield "bytes", join_parts(_byte_bars(report), "   ")


def _content_parts(report: GgufReport) -> Iterator[object]:
    """Yield what a file is that is not a model, and what matters of it."""
    yield part("name", TITLES[report.content.kind])
    for name, value in report.content.facts:
        items = value if isinstance(value, list) else [value]
        texts = " ".join(_by_layer(item) for item in items[:_MOST_ITEMS])
        more = f" … ({len(items)})" if len(items) > _MOST_ITEMS else ""
        yield f"{output.cell(name)} {texts}{more}"


def _hyperparameter_parts(report: GgufReport, names: Sequence[str]) -> Iterator[object]:
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
            return output.format_value(low) if low == high else f"{low}–{high} by layer"
        return f"{len(value)} values"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return output.format_number(int(value))
    if isinstance(value, float):  # f32 in every model file
        return float32_text(value)
    return output.format_value(value)


def tokenizer_parts(vocabulary: Vocabulary) -> Iterator[object]:
    """Yield what a tokenizer is, in a line."""
    yield " / ".join(filter(None, (vocabulary.model, vocabulary.pre)))
    yield count_part(vocabulary.tokens, "token")
    if vocabulary.merges:
        yield count_part(vocabulary.merges, "merge")
    for item in vocabulary.special_ids:
        if item.role in _SHOWN_ROLES:
            text = "beyond the vocabulary" if item.text is None else item.text
            parts = part("special", text), part("id", item.token_id)
            yield join_parts([item.role.upper(), *parts], sticky(" "))
    names = ", ".join(vocabulary.chat_templates)
    suffix = "" if names == "default" else f" ({names})"
    yield f"chat template{suffix}" if names else "no chat template"


def _byte_bars(report: GgufReport) -> Iterator[object]:
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
            output.format_amount(group.parameters),
            output.format_size(group.n_bytes),
            ", ".join(sorted({tensor.type.name for tensor in group.tensors})),
        )
        for group in report.layers
    )
    columns = ("layer", "kind:dim", "tensors>", "parameters>", "size>:dim", "types")
    screen.table(columns, rows, elastic=5, indent=2)


_HISTOGRAM_BAR = 32
_COUNTS = ("count", "finite", "zeros", "nan", "infinite")
_MEASURES = ("least", "greatest", "mean", "deviation")


def show_tensor(source: Source, name: str, *, as_json: bool) -> None:
    """Print what the values of a tensor are."""
    from mtkit.base.escape import byte_escapes
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import shard_set
    from mtkit.inspection.document import json_number, shape_text
    from mtkit.inspection.statistics import find_tensor, tensor_statistics

    first = open_gguf(source)
    shards = shard_set(first)
    files = [shard.file for shard in shards.shards if shard.file] if shards else [first]
    file, tensor = find_tensor(files or [first], name)
    statistics = tensor_statistics(file, tensor)
    numbers = {key: getattr(statistics, key) for key in (*_COUNTS, *_MEASURES)}
    if as_json:
        head = {"schema": "mtkit.inspect-tensor/1", "file": byte_escapes(file.name)}
        about = {
            "name": byte_escapes(tensor.name),
            "shape": list(tensor.shape),
            "type": tensor.type.name,
            "bytes": tensor.n_bytes,
        }
        bins = [
            dict(zip(("from", "to", "count"), row, strict=True)) for row in statistics.histogram
        ]
        plain = {key: json_number(value) for key, value in numbers.items()}
        output.write_json({**head, **about, **plain, "histogram": bins})
        return
    if not output.is_terminal():
        output.write_rows([("tensor", *gguf_rows.tensor_row(tensor)), *numbers.items()])
        output.write_rows([("histogram", *row) for row in statistics.histogram])
        return
    from mtkit.commands.terminal import Screen, join_parts, part, size_part

    screen = Screen()
    shape = shape_text(tensor, "×")
    parts = join_parts([tensor.type.name, shape, size_part(tensor.n_bytes)])
    screen.line(part("name", tensor.name), output.Escaped("   "), *parts, hanging=2)
    output.write("\n")
    facts = [(key, [output.format_number(numbers[key])]) for key in _COUNTS]
    facts += [(key, [f"{numbers[key]:.6g}"]) for key in _MEASURES if numbers[key] is not None]
    screen.facts(facts)
    most = max((count for *_, count in statistics.histogram), default=0)
    if most:
        screen.heading("histogram")
        rows = (
            (
                f"{low:.4g}",
                f"{high:.4g}",
                output.format_number(count),
                "█" * round(_HISTOGRAM_BAR * count / most),
            )
            for low, high, count in statistics.histogram
        )
        screen.table(("from>", "to>", "count>", "share:good"), rows, indent=2)
