"""Types of elements in which llama.cpp cannot compute with a tensor of a model.

Vectors (norms, biases) and the kernels of convolutions are added and multiplied as they are, in
F32 alone; matrices can be of any type that there is a product for.
Source: ops.cpp and ggml-cpu.c of ggml (``binary_op``, ``type_traits_cpu``); conversion/base.py of
llama.cpp (``prepare_tensors``), which writes these as F32 whatever is asked for.
"""

from __future__ import annotations

from mtkit.architectures import of_name
from mtkit.architectures.recognition import ARCHITECTURE, EMBEDDING
from mtkit.checks.report import survey
from mtkit.gguf.rules import LLAMA_CPP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.checks.report import Place
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor

_NO_PRODUCT = frozenset({"I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K"})
_SINGLE = ("conv1d.weight", "shortconv.conv.weight", "token_types.weight")
"""Ends of names of matrices that are no factors of a product."""


def _types(file: GgufFile, tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    name = file.metadata.get(ARCHITECTURE)
    is_known = isinstance(name, str) and bool(of_name(name))
    for tensor in tensors:
        if not is_known and tensor.name != EMBEDDING:
            continue  # it may have tables of whole numbers
        field, offset = tensor.place("type")
        if _is_single(tensor):
            if tensor.type.name != "F32":
                yield field, f"is of type {tensor.type.name}, llama.cpp takes F32 alone", offset
        elif tensor.type.name in _NO_PRODUCT:
            what = f"is of type {tensor.type.name}, which llama.cpp cannot use in a matrix product"
            yield field, what, offset


def _is_single(tensor: Tensor) -> bool:
    is_vector = len(tensor.shape) == 1 or not tensor.name.endswith(".weight")
    return is_vector or "norm" in tensor.name or tensor.name.endswith(_SINGLE)


TYPES = (survey("model-tensor-type", "warning", LLAMA_CPP, "type", _types),)
"""Held against models, with the tensors of all their shards."""
