"""Which tensors with which shapes a GGUF of an architecture has, by the table of architectures.

llama.cpp refuses a model that lacks one or has one of another shape. What the table does not have
is a note: llama.cpp may know more than mtkit converts.
Source: llama.cpp, llama-model.cpp (``load_tensors``), by way of ``architectures.families``.
"""

from __future__ import annotations

from mtkit.architectures.recognition import recognized
from mtkit.base.escape import quoted
from mtkit.base.rules import Finding, Rule
from mtkit.check.loader import EMBEDDING
from mtkit.check.tensor_faults import faults_found
from mtkit.errors import MtkitError
from mtkit.gguf.rules import LLAMA_CPP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.architectures.matching import Fault
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor

MISSING = Rule("model-tensor-missing", "warning", LLAMA_CPP, "tensor")
SHAPE = Rule("model-tensor-shape", "warning", LLAMA_CPP, "shape")
UNKNOWN = Rule("model-tensor-unknown", "note", "mtkit", "tensor")
RULES = (MISSING, SHAPE, UNKNOWN)
PART = "tensors that there should be"


def findings(file: GgufFile, tensors: Sequence[Tensor]) -> Iterator[Finding | tuple[str, str]]:
    """Yield what is wrong with the tensors of a model, or why they were not looked at.

    Args:
        file: Its metadata.
        tensors: Of all files of a set.
    """
    shapes = {tensor.name: tuple(reversed(tensor.shape)) for tensor in tensors}
    try:
        found = recognized(file.metadata, shapes)
    except MtkitError as error:
        yield PART, str(error)
        return
    name = found.architecture.name
    places = {tensor.name: tensor for tensor in tensors}

    def made(rule: Rule, name: str, what: str) -> Finding:
        tensor = places.get(name)
        offset = tensor.place(rule.field)[1] if tensor else None
        return Finding(rule, f"tensor {quoted(name)}", what, offset)

    yield from faults_found(
        (fault for fault in found.matched.faults if not _is_told(fault)),
        made,
        (MISSING, SHAPE, UNKNOWN),
        (
            f"is missing: {name} models have it",
            "the metadata say",
            f"is not among those of {name} models that mtkit knows",
        ),
    )


def _is_told(fault: Fault) -> bool:
    """Tell what the rules of the loader say of the embedding."""
    return fault.names == (EMBEDDING,) and fault.kind != "unknown"
