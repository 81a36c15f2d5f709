"""``mtkit inspect`` of a model folder: the model, and the GGUF that it would become."""

from __future__ import annotations

import os

from mtkit.base.escape import printable
from mtkit.commands import output
from mtkit.commands.inspect.weights import WeightRow, chosen, show_table
from mtkit.conversion.folder_report import folder_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.base.binary import Source
    from mtkit.conversion.folder_report import FolderReport

SUMS = ("tensors", "parameters", "bytes")


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
    rows = chosen(_weights(report), pattern, sort)
    if as_json:
        output.write_json(_document(report, rows))
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
    output.write_rows([("tensor", *row.cells()) for row in rows])


def _weights(report: FolderReport) -> Iterator[WeightRow]:
    names = report.names
    for name, stored in report.survey.tensors.items():
        yield WeightRow(stored.weight, os.path.basename(stored.path), names.get(name, ()))


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


def _document(report: FolderReport, rows: Sequence[WeightRow]) -> dict[str, object]:
    from mtkit.inspection.document import gguf_document, vocabulary_document

    found, refused = report.survey, report.refused
    model = gguf_document(report.gguf, (), ()) if report.gguf else {}
    of_model = ("name", "architecture", "hyperparameters", "memory")
    return {
        "schema": "mtkit.inspect/1",
        "kind": "folder",
        "path": printable(found.path),
        "class": report.class_name,
        "bytes": found.n_bytes,
        "parameters": found.parameters,
        "files": {printable(name): size for name, size in found.files.items()},
        "missing": [printable(name) for name, size in found.files.items() if size is None],
        "types": {kind: dict(zip(SUMS, sums, strict=True)) for kind, sums in found.types.items()},
        "gguf": dict(report.sizes),
        "refused": refused and {"what": printable(str(refused)), "exit_code": refused.exit_code},
        **{name: model.get(name) for name in of_model},
        "tokenizer": vocabulary_document(report.vocabulary),
        "notes": list(report.notes),
        "warnings": [
            {"code": one.rule.code, "severity": one.rule.severity, "field": printable(one.field),
             "what": printable(one.what), "file": printable(one.source)}
            for one in found.findings
        ],
        "tensors": [
            {"name": one.name, "type": one.type, "shape": list(one.shape), "offset": one.offset,
             "bytes": one.n_bytes, "file": printable(row.file), "gguf": [*(row.gguf or ())]}
            for row in rows for one in (row.weight,)
        ],
    }  # fmt: skip
