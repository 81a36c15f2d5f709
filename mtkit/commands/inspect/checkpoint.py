"""``mtkit inspect`` of safetensors files, and of a model folder with the GGUF that it would become.

Of a safetensors file, or the index of several, metadata and tensors are shown; a model folder has a
screen as that of a GGUF.
"""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.commands import gguf_rows, output
from mtkit.commands.gguf_rows import SORT_KEYS, order_error
from mtkit.commands.inspect.gguf import model_facts, planned_ctx, tensor_facts, tokenizer_parts
from mtkit.commands.inspect.plan import memory_parts
from mtkit.commands.terminal import Screen, count_part, join_parts, part, size_part, sticky
from mtkit.conversion.folder_report import folder_document, folder_report, weight_rows
from mtkit.inspection.safetensors import (
    SafetensorsReport,
    WeightRow,
    inspect_safetensors,
    safetensors_document,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.checkpoints.safetensors import Weight
    from mtkit.conversion.folder_report import FolderReport
    from mtkit.errors import MtkitError


_WIDE_TERMINAL = 100
"""Columns of a terminal from which sizes and files have room beside two names."""
_ORDERS: dict[str, Callable[[WeightRow], Any]] = {
    "name": lambda row: row.weight.name,
    "type": lambda row: row.weight.type,
    "offset": lambda row: (row.file, row.weight.offset),
    "bytes": lambda row: -row.weight.n_bytes,
    "parameters": lambda row: -row.weight.n_elements,
}


def weight_cells(row: WeightRow) -> tuple[object, ...]:
    """Return the row of a tensor in a pipe."""
    weight = row.weight
    cells = (weight.name, weight_shape(weight, "x"), weight.type, weight.offset, weight.n_bytes)
    if row.gguf is not None:
        return (*cells, row.file, " ".join(row.gguf))
    return (*cells, row.file) if row.file else cells


def choose_weights(
    rows: Iterable[WeightRow], pattern: str | None, sort: str | None
) -> list[WeightRow]:
    """Return the rows whose name, here or in the GGUF, matches the pattern; sorted."""
    fits = gguf_rows.name_matcher(pattern or "")
    matches = [row for row in rows if any(map(fits, (row.weight.name, *(row.gguf or ()))))]
    if sort is not None and sort not in SORT_KEYS:
        raise order_error(sort)
    return sorted(matches, key=_ORDERS[sort]) if sort else matches


def weight_shape(weight: Weight, between: str) -> str:
    """Return a shape, slowest axis first as the file has it."""
    return between.join(map(str, weight.shape)) or "1"


def show_weights(rows: Sequence[WeightRow], whole: int) -> None:
    """Show tensors on a terminal, of how many there are."""
    from mtkit.commands.terminal import Screen

    screen = Screen()
    many = output.format_number(whole) if len(rows) == whole else f"{len(rows)} of {whole}"
    screen.heading("tensors", many)
    has_gguf = any(row.gguf for row in rows)
    has_room = screen.width >= _WIDE_TERMINAL or not has_gguf
    has_files = has_room and len({row.file for row in rows}) > 1
    columns = ["name", "shape>", "type", *["size>:dim"] * has_room]
    columns += ["in the GGUF:name"] * has_gguf + ["file:dim"] * has_files
    cells = []
    for row in rows:
        weight = row.weight
        cell = [
            weight.name,
            weight_shape(weight, "×"),
            weight.type,
            *[output.format_size(weight.n_bytes)] * has_room,
        ]
        cells.append([*cell, *[" ".join(row.gguf or ())] * has_gguf, *[row.file] * has_files])
    screen.table(columns, cells, elastic=len(columns) - 1 if has_files else 0, indent=2)


_MOST_VALUE_LETTERS = 400
"""Of a value on a terminal."""


def show_safetensors(
    source: Source,
    *,
    as_json: bool,
    in_full: bool,
    tensors: bool = False,
    pattern: str | None = None,
    sort: str | None = None,
) -> None:
    """Print what the headers say; the types with their share first, or the table of tensors."""
    model = inspect_safetensors(source)
    rows = choose_weights((WeightRow(*pair) for pair in model.weights), pattern, sort)
    only_tensors = tensors or bool(pattern or sort)
    if as_json:
        output.write_json(safetensors_document(model, rows))
    elif output.is_terminal():
        if not only_tensors:
            _show_safetensors_screen(model, in_full=in_full)
        if only_tensors or in_full:
            show_weights(rows, len(model.weights))
    else:
        if not only_tensors:
            output.write_rows(list(_safetensors_rows(model)))
        output.write_rows([("tensor", *weight_cells(row)) for row in rows])
        if not only_tensors:
            absent = model.absent.items()
            output.write_rows([("tensor", name, "", "", None, None, file) for name, file in absent])


def _safetensors_rows(model: SafetensorsReport) -> Iterator[tuple[object, ...]]:
    yield "header", "bytes", model.header_bytes
    yield "model", "parameters", model.parameters
    for name, sums in model.mix.items():
        yield "type", name, *sums
    for key, value in model.metadata.items():
        yield "metadata", key, str(value)
    for name, count in model.missing.items():
        yield "missing", name, count


def _show_safetensors_screen(model: SafetensorsReport, *, in_full: bool) -> None:
    from mtkit.commands.gguf_rows import fold_blocks
    from mtkit.commands.terminal import Screen, count_part, join_parts, part, size_part, sticky
    from mtkit.inspection.gguf import tensor_groups

    screen = Screen()
    title = join_parts([part("dim", "safetensors"), size_part(model.n_bytes)])
    screen.line(part("name", model.path), output.Escaped("   "), *title, hanging=2)
    output.write("\n")
    rows: list[tuple[str, list[object]]] = [
        ("model", [sticky(f"{output.format_amount(model.parameters)} parameters")])
    ]
    total = sum(sums[2] for sums in model.mix.values()) or 1
    types = [
        sticky(f"{output.cell(name)} {n_bytes / total:.0%} ({count_part(tensors, 'tensor')})")
        for name, (tensors, _, n_bytes) in model.mix.items()
    ]
    rows.append(("types", join_parts(types)))
    if model.files:
        state = part("bad", f"{len(model.missing)} missing") if model.missing else "all present"
        rows.append(("files", join_parts([output.format_number(len(model.files)), state])))
        for name, tensors in model.missing.items():
            file = [part("name", name), count_part(tensors, "tensor")]
            rows.append(("", join_parts(file)))
    for number, (key, value) in enumerate(model.metadata.items()):
        text = output.Escaped(f"{output.cell(key)} {printable(str(value))[:_MOST_VALUE_LETTERS]}")
        rows.append(("" if number else "metadata", [text]))
    if not in_full:
        weights: Any = [weight for weight, _ in model.weights]  # name, shape and type as a GGUF's
        layers = tensor_groups(weights)
        rows += zip(("tensors", *[""] * 9), fold_blocks(layers), strict=False)
        rows.append(("", [part("hint", "--all shows every tensor")]))
    screen.facts((name, parts) for name, parts in rows if parts)


def planned_gguf(path: str) -> Source:
    """Return the GGUF that a folder would become, as far as its header tells."""
    report = folder_report(path)
    if report.source is None:
        assert report.refused is not None
        raise report.refused
    return report.source


def show_folder(
    path: str,
    *,
    tensors: bool,
    in_full: bool,
    pattern: str | None,
    sort: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print what is in a folder; pattern and order apply to its tensors."""
    report = folder_report(path)
    rows = choose_weights(weight_rows(report), pattern, sort)
    if as_json:
        output.write_json(folder_document(report, rows))
        return
    only_tensors = tensors or bool(pattern or sort)
    is_terminal = output.is_terminal()
    if not quiet and (only_tensors or not is_terminal):  # a screen says so itself
        findings = [
            finding for finding in report.survey.findings if finding.rule.severity != "note"
        ]
        output.warn(path, [str(finding) for finding in findings])
    if is_terminal:
        if not only_tensors:
            show_folder_screen(report, is_alone=not in_full)
        if only_tensors or in_full:
            show_weights(rows, len(report.survey.tensors))
        return
    if not only_tensors:
        output.write_rows(list(_folder_rows(report)))
    output.write_rows([("tensor", *weight_cells(row)) for row in rows])


def _folder_rows(report: FolderReport) -> Iterator[Sequence[object]]:
    from mtkit.commands.inspect.gguf import model_rows

    survey = report.survey
    yield "header", "path", survey.path
    yield "header", "class", report.class_name
    yield "header", "bytes", survey.n_bytes
    yield "header", "parameters", survey.parameters
    for name, size in survey.files.items():
        yield "file", name, size, "missing" if size is None else "present"
    for kind, sums in survey.types.items():
        yield "type", kind, *sums
    for name, size in report.sizes.items():
        yield "gguf", name, size
    if report.refused is not None:
        yield "refused", str(report.refused)
    if report.gguf is not None:
        yield from model_rows(report.gguf)
    elif report.vocabulary is not None:
        from mtkit.commands.inspect.gguf import tokenizer_rows

        yield from tokenizer_rows(report.vocabulary)
    for text in report.notes:
        yield "note", text


_CONFIG_NUMBERS = (
    ("layers", ("num_hidden_layers", "n_layer", "n_layers", "num_layers")),
    ("embedding", ("hidden_size", "n_embd", "d_model", "dim")),
    ("heads", ("num_attention_heads", "n_head", "n_heads", "num_heads")),
    ("feed-forward", ("intermediate_size", "n_inner", "ffn_dim", "d_ff")),
    ("experts", ("num_local_experts", "num_experts", "n_routed_experts")),
)
"""What config.json says of a model that is not converted, by its usual fields."""
_CONTEXT_FIELDS = ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length")
_MOST_MISSING = 3


def show_folder_screen(report: FolderReport, *, is_alone: bool) -> None:
    """Print a screen; what follows it, where it is not alone, has the tensors."""
    screen, survey = Screen(), report.survey
    title: list[object] = [part("dim", "HuggingFace model"), size_part(survey.n_bytes)]
    if report.gguf is not None:
        title.append(report.gguf.name)
    title.append("/".join(survey.types))
    screen.line(part("name", survey.path), output.Escaped("   "), *join_parts(title), hanging=2)
    output.write("\n")
    screen.facts((name, parts) for name, parts in _folder_facts(report, is_alone=is_alone) if parts)


def _folder_facts(report: FolderReport, *, is_alone: bool) -> Iterator[tuple[str, list[object]]]:
    survey, gguf = report.survey, report.gguf
    if gguf is not None:
        names = part("name", gguf.architecture), part("dim", f"({report.class_name})")
        yield from model_facts(gguf, join_parts(names, sticky(" ")))
    else:
        yield from _config_facts(report)
    if report.vocabulary is not None:
        yield "tokenizer", join_parts(tokenizer_parts(report.vocabulary))
    elif report.without_tokenizer is not None:
        yield "tokenizer", _error_parts(report.without_tokenizer)
    for text in report.notes:
        yield "note", [text]
    total = sum(n_bytes for _, _, n_bytes in survey.types.values()) or 1
    yield (
        "weights",
        join_parts(
            sticky(f"{output.cell(kind)} {n_bytes / total:.0%} ({count_part(tensors, 'tensor')})")
            for kind, (tensors, _, n_bytes) in survey.types.items()
        ),
    )
    yield "files", _file_parts(report)
    wrong = [finding for finding in survey.findings if finding.rule.severity != "note"]
    if wrong:
        verdict = part("warning", f"! {count_part(len(wrong), 'finding')}")
        yield "check", [verdict, "   ", part("hint", f"mtkit check {survey.path}")]
    if report.refused is not None and report.gguf is not None:
        yield "as GGUF", [part("bad", "✗ "), "a model has a tokenizer in its file"]
    elif report.refused is not None:
        yield "as GGUF", _error_parts(report.refused)
    else:
        sizes = [
            sticky(f"{kind.upper()} {output.format_size(n)}") for kind, n in report.sizes.items()
        ]
        hint = part("hint", f"mtkit convert {survey.path} --to gguf")
        yield "as GGUF", [*join_parts(sizes), "   ", hint]
    if gguf is not None:
        yield "memory", memory_parts(gguf, planned_ctx(gguf))
        if is_alone:
            yield from tensor_facts(gguf)
    if is_alone:
        options = ["--tensors", *["--metadata", "--layers", "--plan"] * (gguf is not None), "--all"]
        yield "", [part("hint", f"{', '.join(options)} for more")]


def _error_parts(error: MtkitError) -> list[object]:
    """Say why something is not there, without the path, which is above."""
    text = ": ".join(filter(None, (error.field, error.what)))
    parts: list[object] = [part("bad", "✗ "), text]
    return [*parts, "   ", part("hint", printable(error.hint))] if error.hint else parts


def _config_facts(report: FolderReport) -> Iterator[tuple[str, list[object]]]:
    """Yield what config.json says by its usual fields."""
    from mtkit.architectures.config import Config

    config = Config(report.survey.config)
    numbers = [(name, _count_text(config.get(*names))) for name, names in _CONFIG_NUMBERS]
    parts = [sticky(f"{name} {text}") for name, text in numbers if text]
    parameters = sticky(f"{output.format_amount(report.survey.parameters)} parameters")
    if report.survey.missing:
        parameters = output.Escaped(f"{parameters} in the files that are there")
    yield "architecture", join_parts([part("name", report.class_name or "?"), parameters, *parts])
    trained = _count_text(config.get(*_CONTEXT_FIELDS))
    yield "context", [sticky(f"{trained} trained")] if trained else []


def _count_text(value: Any) -> str:
    return output.format_number(value) if type(value) is int and 0 < value < 1 << 40 else ""


def _file_parts(report: FolderReport) -> list[object]:
    files = report.survey.files
    missing: Sequence[str] = [name for name, n_bytes in files.items() if n_bytes is None]
    if not missing:
        return join_parts([output.format_number(len(files)), "all present"])
    names = [part("name", name) for name in missing[:_MOST_MISSING]]
    more = part("dim", f"{len(missing) - _MOST_MISSING} more") if len(missing) > len(names) else ""
    return join_parts(
        [output.format_number(len(files)), part("bad", f"{len(missing)} missing"), *names, more]
    )


def show_imatrix(source: Source, *, pattern: str | None, as_json: bool) -> None:
    """Show an importance matrix of older llama-imatrix: tensors, columns, calls."""
    from mtkit.base.escape import printable
    from mtkit.checkpoints import legacy_imatrix
    from mtkit.errors import MtkitError

    try:
        matrix = legacy_imatrix.read(source)
    except MtkitError as error:
        raise error.located(source.name) from None
    fits = gguf_rows.name_matcher(pattern or "")
    rows = [
        (name, len(values) // 4, calls)
        for name, (calls, values) in matrix.entries.items()
        if fits(name)
    ]
    what = "importance matrix, .dat of older llama-imatrix"
    if as_json:
        names = ("name", "values", "calls")
        output.write_json(
            {
                "schema": "mtkit.imatrix-dat/1",
                "file": printable(source.name),
                "dataset": matrix.dataset or None,
                "chunks": matrix.chunks or None,
                "entries": [dict(zip(names, row, strict=True)) for row in rows],
            }
        )
    elif output.is_terminal():
        screen = Screen()
        facts: list[object] = [count_part(matrix.chunks, "chunk")] if matrix.chunks else []
        facts += [matrix.dataset] if matrix.dataset else []
        entries = f"{output.format_number(len(matrix.entries))} matrices"
        screen.line(part("name", source.name), "  ", *join_parts([what, entries, *facts]))
        screen.table(("tensor:name", "values>", "calls>"), rows)
    else:
        known = [("chunks", matrix.chunks), ("dataset", matrix.dataset)]
        output.write_rows(
            [
                ("content", "imatrix", what, len(matrix.entries)),
                *(("content", name, fact) for name, fact in known if fact),
                *(("tensor", *row) for row in rows),
            ]
        )
