"""Which tensors with which shapes a GGUF of an architecture has, by the table of architectures.

llama.cpp refuses a model that lacks one, has one of another shape, or one that it has no use for.
What it takes though the table does not have it is a note.
Source: llama.cpp, llama-model.cpp (``load_tensors``), by way of ``architectures.families``.
"""

from __future__ import annotations

from mtkit.architectures.loaded import base, is_taken
from mtkit.architectures.matching import Fault
from mtkit.architectures.recognition import recognized
from mtkit.base.escape import quoted
from mtkit.base.record import replace
from mtkit.base.rules import Finding, Rule
from mtkit.checks.loader import EMBEDDING
from mtkit.checks.tensor_faults import faults_found
from mtkit.errors import MtkitError
from mtkit.gguf.rules import LLAMA_CPP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor

MISSING = Rule("model-tensor-missing", "warning", LLAMA_CPP, "tensor")
SHAPE = Rule("model-tensor-shape", "warning", LLAMA_CPP, "shape")
SURPLUS = Rule("model-tensor-surplus", "warning", LLAMA_CPP, "tensor")
UNKNOWN = Rule("model-tensor-unknown", "note", "mtkit", "tensor")
RULES = (MISSING, SHAPE, SURPLUS, UNKNOWN)
_FUSED = {
    f"attn_qkv{end}": tuple(f"attn_{one}{end}" for one in "qkv") for end in (".weight", ".bias")
} | {"ffn_gate_up_exps.weight": ("ffn_gate_exps.weight", "ffn_up_exps.weight")}
"""Tensor -> those that llama.cpp takes it for."""
PART = "required tensors"


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

    fused = _fused(found.matched.faults, shapes)
    faults = [
        fault
        for fault in found.matched.faults
        if not _is_told(fault) and not (fault.kind == "missing" and fused.keys() >= {*fault.names})
    ]
    unknown = [name for fault in faults if fault.kind == "unknown" for name in fault.names]
    wholes = {*fused.values()}
    taken = tuple(one for one in unknown if one in wholes or is_taken(name, one, shapes))
    surplus = tuple(one for one in unknown if one not in set(taken))
    yield from faults_found(
        [_in_file_order(fault) for fault in faults if fault.kind != "unknown"]
        + [Fault("unknown", surplus)] * bool(surplus),
        made,
        (MISSING, SHAPE, SURPLUS),
        (f"is missing: {name} models have it", "the metadata says", f"{name} models have none"),
    )
    for one in taken:
        yield made(UNKNOWN, one, f"is not among those of {name} models that mtkit converts")


def _in_file_order(fault: Fault) -> Fault:
    """Return a fault whose shapes have the fastest axis first, as in a GGUF."""
    return replace(fault, shape=fault.shape[::-1], wanted=fault.wanted[::-1])


def _is_told(fault: Fault) -> bool:
    """Tell what the rules of the loader say of the embedding."""
    return fault.names == (EMBEDDING,) and fault.kind != "unknown"


def _fused(faults: Iterable[Fault], there: Collection[str]) -> dict[str, str]:
    """Return missing tensors by name, with the one that is there in the place of several."""
    wholes = {part: whole for whole, parts in _FUSED.items() for part in parts}
    missing = [name for fault in faults if fault.kind == "missing" for name in fault.names]
    found = {name: name.removesuffix(base(name)) + wholes.get(base(name), "") for name in missing}
    return {
        name: whole
        for name, whole in found.items()
        if whole in there
        and not any(whole.removesuffix(base(whole)) + one in there for one in _FUSED[base(whole)])
    }
