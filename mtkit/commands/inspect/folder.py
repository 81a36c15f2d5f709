"""``mtkit inspect`` of a model folder: the model, and the GGUF that it would become."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.commands import output
from mtkit.commands.inspect.weights import cells, chosen, show_table
from mtkit.conversion.folder_document import document, weights
from mtkit.conversion.folder_report import folder_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.base.binary import Source
    from mtkit.conversion.folder_report import FolderReport


def gguf_of(path: str) -> Source:
    """Return the GGUF that a folder would become, as far as its header tells.

    Raises:
        MtkitError: It cannot become one.
    """
    report = folder_report(path)
    if report.source is None:
        assert report.refused is not None
        raise report.refused
    return report.source


def show(
    path: str,
    *,
    tensors: bool,
    everything: bool,
    pattern: str | None,
    sort: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print what is in a folder; a pattern or an order is asked of its tensors."""
    report = folder_report(path)
    rows = chosen(weights(report), pattern, sort)
    if as_json:
        output.write_json(document(report, rows))
        return
    only_tensors = tensors or bool(pattern or sort)
    is_terminal = output.is_terminal()
    if not quiet and (only_tensors or not is_terminal):  # a screen says so itself
        said = [finding for finding in report.survey.findings if finding.rule.severity != "note"]
        output.warn(path, [str(finding) for finding in said])
    if is_terminal:
        if not only_tensors:
            from mtkit.commands.inspect.folder_screen import show_screen

            show_screen(report, is_alone=not everything)
        if only_tensors or everything:
            show_table(rows, len(report.survey.tensors))
        return
    if not only_tensors:
        output.write_rows(list(_rows(report)))
    output.write_rows([("tensor", *cells(row)) for row in rows])


def _rows(report: FolderReport) -> Iterator[Sequence[object]]:
    from mtkit.commands.inspect.gguf import model_rows

    found = report.survey
    yield "header", "path", found.path
    yield "header", "class", report.class_name
    yield "header", "bytes", found.n_bytes
    yield "header", "parameters", found.parameters
    for name, size in found.files.items():
        yield "file", name, size, "missing" if size is None else "present"
    for kind, sums in found.types.items():
        yield "type", kind, *sums
    for name, size in report.sizes.items():
        yield "gguf", name, size
    if report.refused is not None:
        yield "refused", output.Escaped(printable(str(report.refused)))
    if report.gguf is not None:
        yield from model_rows(report.gguf)
    elif report.vocabulary is not None:
        from mtkit.commands.inspect.gguf import tokenizer_rows

        yield from tokenizer_rows(report.vocabulary)
    for text in report.notes:
        yield "note", text
