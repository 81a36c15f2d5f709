"""``mtkit inspect`` of the folder of an adapter."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.commands import output
from mtkit.commands.terminal import Screen, count_part, join_parts, part, size_part, sticky
from mtkit.inspection.adapter import inspect_adapter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.inspection.adapter import AdapterReport


def show_adapter(path: str, *, as_json: bool) -> None:
    """Print what the folder says, and whether it is converted."""
    output.write_report(
        inspect_adapter(path),
        as_json=as_json,
        document=lambda report: report.document(),
        screen=_show,
        rows=lambda report: list(_rows(report)),
    )


def _rows(report: AdapterReport) -> Iterator[tuple[object, ...]]:
    yield "header", "path", report.path
    yield "adapter", "kind", report.kind
    yield "adapter", "rank", *report.ranks
    yield "adapter", "alpha", report.alpha
    yield "adapter", "base", report.base
    yield "adapter", "parameters", report.parameters
    for name, count in report.modules.items():
        yield "module", name, count
    for name, size in report.files.items():
        yield "file", name, size
    if report.refused is not None:
        yield "refused", str(report.refused)
    for note in report.notes:
        yield "note", note


def _show(report: AdapterReport) -> None:
    screen = Screen()
    kind = part("dim", f"{report.kind} adapter")
    title = join_parts([kind, size_part(sum(report.files.values()))])
    screen.line(part("name", report.path), output.Escaped("   "), *title, hanging=2)
    output.write("\n")
    screen.facts((name, parts) for name, parts in _facts(report) if parts)


def _facts(report: AdapterReport) -> Iterator[tuple[str, list[object]]]:
    ranks = ", ".join(map(str, report.ranks))
    parameters = sticky(f"{output.format_amount(report.parameters)} parameters")
    yield "adapter", join_parts([sticky(f"rank {ranks}"), sticky(f"alpha {report.alpha}"),
                                 parameters, count_part(report.tensors, "tensor")])  # fmt: skip
    layers = [sticky(f"{output.cell(name)} × {n}") for name, n in report.modules.items()]
    yield "modules", join_parts(layers)
    yield "base", [part("name", output.cell(report.base))] if report.base else ["not named"]
    yield "files", join_parts([part("name", name) for name in report.files])
    for text in report.notes:
        yield "note", [text]
    if report.refused is not None:
        text = ": ".join(filter(None, (report.refused.field, report.refused.what)))
        hint = part("hint", printable(report.refused.hint))
        yield "as GGUF", [part("bad", "✗ "), text, "   ", hint]
    else:
        option = "" if report.base else " --base MODEL"
        yield "as GGUF", [part("hint", f"mtkit convert {report.path} --to gguf{option}")]
