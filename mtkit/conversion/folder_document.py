"""A model folder, and the GGUF that it would become, as a JSON document."""

from __future__ import annotations

import os

from mtkit.base.escape import printable
from mtkit.inspection.document import gguf_document, vocabulary_document
from mtkit.inspection.safetensors import SUMS, WeightRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.conversion.folder_report import FolderReport


def weights(report: FolderReport) -> Iterator[WeightRow]:
    """Yield the tensors of a folder as they are shown."""
    names = report.names
    for name, stored in report.survey.tensors.items():
        yield WeightRow(stored.weight, os.path.basename(stored.path), names.get(name, ()))


def document(report: FolderReport, rows: Sequence[WeightRow]) -> dict[str, object]:
    """Return a folder as a JSON document, schema ``mtkit.inspect/1``; of some tensors, or all."""
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
