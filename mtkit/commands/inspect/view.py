"""What of a GGUF was asked for, in the order asked for."""

from __future__ import annotations

from mtkit.commands import values
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.inspection.gguf import GgufReport

SORT_KEYS = ("name", "type", "offset", "bytes", "parameters")


class View:
    """A report with the keys and tensors that were asked for, in the order asked for."""

    def __init__(self, report: GgufReport, pattern: str | None, sort: str | None) -> None:
        self.report = report
        file = report.file
        names = set(values.chosen([tensor.name for tensor in file.tensors], pattern))
        self.keys = values.chosen(file.metadata, pattern)
        self.tensors = [tensor for tensor in file.tensors if tensor.name in names]
        if sort == "name":
            self.keys.sort()
            self.tensors.sort(key=lambda tensor: tensor.name)
        elif sort == "type":
            self.keys.sort(key=file.metadata.type_name)
            self.tensors.sort(key=lambda tensor: tensor.type.name)
        elif sort == "offset":
            self.tensors.sort(key=lambda tensor: tensor.offset)
        elif sort == "bytes":
            self.tensors.sort(key=lambda tensor: -tensor.n_bytes)
        elif sort == "parameters":
            self.tensors.sort(key=lambda tensor: -tensor.n_elements)
        elif sort is not None:
            raise unknown_order(sort)


def unknown_order(sort: str) -> UsageError:
    """Return an error about what tensors cannot be sorted by."""
    hint = f"known: {', '.join(SORT_KEYS)}"
    return UsageError(f"cannot sort by {sort!r}", field="--sort", hint=hint)
