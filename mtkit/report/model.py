"""A GGUF as a page shows it: what ``inspect`` finds, tensors as columns, sizes, histograms."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.gguf import GgufFile, Tensor
    from mtkit.inspection.gguf import GgufReport
    from mtkit.report.columns import Columns

    Progress = Callable[[float], None]


def model(
    report: GgufReport, columns: Columns, *, histograms: bool, progress: Progress
) -> dict[str, Any]:
    """Return what a page shows of a GGUF; its columns are kept among the others."""
    from mtkit.inspection.document import gguf_document

    document = gguf_document(report, (), ())
    for elsewhere in ("path", "layers", "metadata", "tensors", "warnings"):
        del document[elsewhere]
    document["shards"] = report.shards and report.shards.count
    tensors = _tensors(report)
    return {
        "inspect": document,
        "metadata": _metadata(report.file),
        "layers": [group.name for group in report.layers],
        "sizes": _sizes(report),
        "tensors": _table([tensor for _, tensor in tensors], report, columns),
        "values": _values(tensors, progress) if histograms else None,
    }


def _tensors(report: GgufReport) -> list[tuple[GgufFile, Tensor]]:
    """Return the tensors of a file, or of the set that it belongs to, with their file."""
    shards = report.shards
    files = [one.file for one in shards.shards if one.file] if shards else []
    if not shards or not shards.is_complete:
        files = [report.file]
    return [(file, tensor) for file in files for tensor in file.tensors]


def _metadata(file: GgufFile) -> list[list[str]]:
    """Return key, type and value of each key; a text as it is."""
    from mtkit.inspection.value_text import shortened

    rows = []
    for key, value in file.metadata.items():
        kind = file.metadata.type_name(key)
        text = value if isinstance(value, str) else shortened(value, kind)
        rows.append([key, kind, text])
    return rows


def _table(tensors: list[Tensor], report: GgufReport, columns: Columns) -> dict[str, Any]:
    from mtkit.inspection.value_text import shape_text

    layers = {id(tensor): at for at, group in enumerate(report.layers) for tensor in group.tensors}
    return {
        "count": len(tensors),
        "name": columns.texts(printable(tensor.name) for tensor in tensors),
        "layer": columns.counts(layers[id(tensor)] for tensor in tensors),
        "type": columns.named(tensor.type.name for tensor in tensors),
        "shape": columns.texts(shape_text(tensor, "×") for tensor in tensors),
        "parameters": columns.counts(tensor.n_elements for tensor in tensors),
        "bytes": columns.counts(tensor.n_bytes for tensor in tensors),
        "offset": columns.counts(tensor.offset for tensor in tensors),
    }


def _sizes(report: GgufReport) -> list[list[Any]]:
    """Return layer, type, tensors, parameters and bytes of what is of one type in one layer."""
    from mtkit.inspection.tensors import quantization_mix

    return [
        [layer, mix.type, mix.tensors, mix.parameters, mix.n_bytes]
        for layer, group in enumerate(report.layers)
        for mix in quantization_mix(group.tensors)
    ]


def _values(tensors: list[tuple[GgufFile, Tensor]], progress: Progress) -> list[Any]:
    """Return what the values of each tensor are, or why that is not known."""
    from mtkit.inspection.document import json_number
    from mtkit.inspection.statistics import statistics

    total = sum(tensor.n_bytes for _, tensor in tensors) or 1
    found: list[Any] = []
    done = 0
    for file, tensor in tensors:
        progress(done / total)
        done += tensor.n_bytes
        try:
            told = statistics(file, tensor)
        except UnsupportedError as error:
            found.append(error.what)
            continue
        names = ("finite", "zeros", "nan", "infinite", "least", "greatest", "mean", "deviation")
        row = {name: json_number(getattr(told, name)) for name in names}
        found.append({**row, "bins": [[json_number(low), json_number(high), count]
                                      for low, high, count in told.histogram]})  # fmt: skip
    progress(1)
    return found
