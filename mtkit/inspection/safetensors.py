"""What the headers of safetensors files say: one file, or all that an index names."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.base.record import Record
from mtkit.errors import ErrorSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtkit.base.binary import Source
    from mtkit.checkpoints.safetensors import Weight

SUMS = ("tensors", "parameters", "bytes")
"""What ``SafetensorsReport.mix`` counts of each type."""


class WeightRow(Record):
    """A tensor as it is shown.

    Attributes:
        gguf: Names of the tensors of a GGUF that it becomes; None of a file that is not converted.
    """

    weight: Weight
    file: str = ""
    gguf: tuple[str, ...] | None = None


class SafetensorsReport(Record):
    """What is known of one file, or of all that an index names.

    Attributes:
        weights: (tensor, its file; empty where there is one alone), in the order of the data.
        absent: Tensors of files that are missing -> the file.
    """

    path: str
    n_bytes: int
    header_bytes: int
    metadata: Mapping[str, object]
    weights: tuple[tuple[Weight, str], ...]
    files: tuple[str, ...] = ()
    absent: Mapping[str, str] = {}

    @property
    def mix(self) -> dict[str, list[int]]:
        """Type -> number of tensors, of parameters and of bytes."""
        mix: dict[str, list[int]] = {}
        for weight, _ in self.weights:
            sums = mix.setdefault(weight.type, [0, 0, 0])
            for place, more in enumerate((1, weight.n_elements, weight.n_bytes)):
                sums[place] += more
        return mix

    @property
    def parameters(self) -> int:
        """Elements of all tensors that are there."""
        return sum(weight.n_elements for weight, _ in self.weights)

    @property
    def missing(self) -> dict[str, int]:
        """Files that are not there -> how many tensors should be in them."""
        counts = dict.fromkeys(self.absent.values(), 0)
        for name in self.absent.values():
            counts[name] += 1
        return counts


def inspect_safetensors(source: Source) -> SafetensorsReport:
    """Read a safetensors file, or an index with the headers of its files."""
    from mtkit.checkpoints import safetensors

    with ErrorSource(source.name):
        if not safetensors.sniff_index(source):
            header = safetensors.read(source)
            weights = tuple((weight, "") for weight in header.weights)
            return SafetensorsReport(
                source.name, len(source.data), header.n_bytes, header.metadata, weights
            )
        index = safetensors.read_index(source)
    there = {name: header for name, header in index.files.items() if header}
    return SafetensorsReport(
        source.name,
        sum(index.n_bytes.values()),
        sum(header.n_bytes for header in there.values()),
        index.metadata,
        tuple((weight, name) for name, header in there.items() for weight in header.weights),
        tuple(index.files),
        {tensor: name for tensor, name in index.weight_map.items() if name not in there},
    )


def safetensors_document(model: SafetensorsReport, rows: Sequence[WeightRow]) -> dict[str, object]:
    """Return it as a JSON document, schema ``mtkit.inspect/1``; of some tensors, or all."""
    tensors: list[dict[str, object]] = [
        {"name": weight.name, "type": weight.type, "shape": list(weight.shape),
         "offset": weight.offset, "bytes": weight.n_bytes,
         **({"file": printable(row.file)} if row.file else {})}
        for row in rows for weight in (row.weight,)
    ]  # fmt: skip
    files = {"files": [*map(printable, model.files)], "missing": [*map(printable, model.missing)]}
    return {
        "schema": "mtkit.inspect/1",
        "kind": "safetensors",
        "path": printable(model.path),
        "bytes": model.n_bytes,
        "header_bytes": model.header_bytes,
        "parameters": model.parameters,
        "metadata": dict(model.metadata),
        **(files if model.files else {}),
        "types": {name: dict(zip(SUMS, sums, strict=True)) for name, sums in model.mix.items()},
        "tensors": tensors,
    }
