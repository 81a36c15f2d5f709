"""What is wrong with tensors: those of an architecture, their types, and their data.

``fault_findings`` says of a model, in a folder or in a GGUF, what is missing, unknown or of another
shape. Types: vectors (norms, biases) and the kernels of convolutions are added and multiplied as
they are, in F32 alone; matrices can be of any type that there is a product for. Data: one rule a
row, all but the first for ``--deep``; of quantized types the scales are looked at, which are floats
at fixed places of a block: a scale that is not finite makes the whole block useless. Read in
pieces, nothing is dequantized.
Source: ops.cpp and ggml-cpu.c of ggml (``binary_op``, ``type_traits_cpu``); conversion/base.py of
llama.cpp (``prepare_tensors``), which writes vectors as F32 whatever is asked for; ggml-common.h
(``block_*``); ggml-quants.c, ``ggml_validate_row_data``.
"""

from __future__ import annotations

from mtkit.architectures import architectures_of_name
from mtkit.architectures.tensor_match import ARCHITECTURE, EMBEDDING
from mtkit.base.binary import pieces
from mtkit.base.rules import Finding
from mtkit.checks.report import MOST_OF_A_SURVEY, survey, survey_findings
from mtkit.gguf.rules import LLAMA_CPP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from mtkit.architectures.tensor_match import Fault
    from mtkit.base.rules import Rule
    from mtkit.checks.report import Place
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor


def fault_findings(
    faults: Iterable[Fault],
    finding: Callable[[Rule, str, str], Finding],
    rules: tuple[Rule, Rule, Rule],
    texts: tuple[str, str, str],
) -> Iterator[Finding]:
    """Yield a finding for each tensor of faults, of each kind the first places and their number.

    Args:
        rules: About missing tensors, shapes, unknown tensors.
        texts: The words for a missing tensor, for who states another shape, for an unknown tensor.
    """
    counts = [0, 0, 0]
    for fault in faults:
        kind = ("missing", "shape", "unknown").index(fault.kind)
        what = texts[kind]
        if fault.kind == "shape":
            what = f"has the shape {list(fault.shape)}, but {what} {list(fault.expected)}"
        for name in fault.names:
            counts[kind] += 1
            if counts[kind] <= MOST_OF_A_SURVEY:
                yield finding(rules[kind], name, what)
    for rule, count in zip(rules, counts, strict=True):
        if count > MOST_OF_A_SURVEY:
            what = f"and {count - MOST_OF_A_SURVEY} more places like these"
            yield Finding(rule, rule.field, what)


_NO_PRODUCT = frozenset({"I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K"})
_SINGLE_NAMES = ("conv1d.weight", "shortconv.conv.weight", "token_types.weight")
"""Ends of names of matrices that are no factors of a product."""


def _wrong_types(file: GgufFile, tensors: tuple[Tensor, ...]) -> Iterator[Place]:
    name = file.metadata.get(ARCHITECTURE)
    is_known = isinstance(name, str) and bool(architectures_of_name(name))
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
    return is_vector or "norm" in tensor.name or tensor.name.endswith(_SINGLE_NAMES)


TYPE_RULES = (
    survey("model-tensor-type", "warning", LLAMA_CPP, "type",
           "A tensor has a type that llama.cpp cannot compute with: norms, biases and "
           "convolutions have to be F32, and matrices cannot be integers, F64 or Q8_1. llama.cpp "
           "aborts. Convert the model again.", _wrong_types),
)  # fmt: skip
"""For models, with the tensors of all their shards."""


GGML = "ggml"
_PIECE_BYTES, _STEP_BYTES = 1 << 24, 1 << 16
_HALF, _SINGLE, _DOUBLE, _BRAIN, _POWER = "f2", "f4", "f8", "bf16", "e8m0"
_FLOATS: dict[str, tuple[str, tuple[int, ...]]] = {
    "F32": (_SINGLE, (0,)),
    "F16": (_HALF, (0,)),
    "BF16": (_BRAIN, (0,)),
    "F64": (_DOUBLE, (0,)),
    "Q4_0": (_HALF, (0,)),
    "Q4_1": (_HALF, (0, 2)),
    "Q5_0": (_HALF, (0,)),
    "Q5_1": (_HALF, (0, 2)),
    "Q8_0": (_HALF, (0,)),
    "Q8_1": (_HALF, (0, 2)),
    "Q2_K": (_HALF, (80, 82)),
    "Q3_K": (_HALF, (108,)),
    "Q4_K": (_HALF, (0, 2)),
    "Q5_K": (_HALF, (0, 2)),
    "Q6_K": (_HALF, (208,)),
    "Q8_K": (_SINGLE, (0,)),
    "IQ2_XXS": (_HALF, (0,)),
    "IQ2_XS": (_HALF, (0,)),
    "IQ2_S": (_HALF, (0,)),
    "IQ3_XXS": (_HALF, (0,)),
    "IQ3_S": (_HALF, (0,)),
    "IQ1_S": (_HALF, (0,)),
    "IQ4_NL": (_HALF, (0,)),
    "IQ4_XS": (_HALF, (0,)),
    "TQ1_0": (_HALF, (52,)),
    "TQ2_0": (_HALF, (64,)),
    "MXFP4": (_POWER, (0,)),
    "Q1_0": (_HALF, (0,)),
    "Q2_0": (_HALF, (0,)),
}
"""Type -> kind and places of the floats in a block. IQ1_M has its scale in bits of four words."""
_WHOLE_NUMBERS = ("I8", "I16", "I32", "I64")
_OF_VOCABULARY = ("token_embd.weight", "output.weight")
_WIDTHS = {_HALF: 2, _SINGLE: 4, _DOUBLE: 8, _BRAIN: 2, _POWER: 1}


class Counts:
    """How many values of a tensor are NaN or infinite, and whether all its bytes are zero."""

    def __init__(self, file: GgufFile, tensor: Tensor) -> None:
        self.tensor = tensor
        self.nan = self.infinite = 0
        self.is_zero = tensor.n_bytes > 0
        self.is_known = tensor.type.name in _FLOATS
        kind, places = _FLOATS.get(tensor.type.name, (_SINGLE, ()))
        block = tensor.type.block_bytes
        for piece in pieces(file.tensor_data(tensor), max(_PIECE_BYTES // block, 1) * block):
            self._count(piece, kind, places, block, file.byte_order)

    def _count(
        self, data: memoryview, kind: str, places: tuple[int, ...], block: int, order: str
    ) -> None:
        import numpy as np

        raw = np.frombuffer(data, np.uint8)
        self.is_zero = self.is_zero and not raw.any()
        rows = raw.reshape(-1, block)
        for place in places:
            floats = np.ascontiguousarray(rows[:, place : place + _WIDTHS[kind]])
            self._add(floats.reshape(-1), kind, ">" if order == "big" else "<")

    def _add(self, raw: Any, kind: str, order: str) -> None:
        import numpy as np

        if kind == _POWER:
            self.nan += int(np.count_nonzero(raw == 0xFF))
            return
        width = _WIDTHS[kind]
        bits = raw.view(f"{order}u{width}")
        mask, fraction = {
            _HALF: (0x7C00, 0x3FF),
            _BRAIN: (0x7F80, 0x7F),
            _SINGLE: (0x7F800000, 0x7FFFFF),
            _DOUBLE: (0x7FF << 52, (1 << 52) - 1),
        }[kind]
        special = bits[(bits & mask) == mask]
        nan = int(np.count_nonzero(special & fraction))
        self.nan += nan
        self.infinite += len(special) - nan


def _nan(counts: Counts) -> Iterator[Place]:
    if counts.nan:
        field, offset = counts.tensor.place("offset")
        yield field, f"{_floats(counts)} that are not a number: {counts.nan}", offset


def _infinite(counts: Counts) -> Iterator[Place]:
    if counts.infinite:
        field, offset = counts.tensor.place("offset")
        yield field, f"{_floats(counts)} that are infinite: {counts.infinite}", offset


def _zero(counts: Counts) -> Iterator[Place]:
    if counts.is_zero and counts.tensor.n_elements > 1:
        field, offset = counts.tensor.place("offset")
        yield field, f"all of its {counts.tensor.n_bytes} bytes are zero", offset


def _floats(counts: Counts) -> str:
    return "elements" if counts.tensor.type.block == 1 else "scales"


def _unfinished(file: GgufFile) -> Iterator[Place]:
    """A download whose place was kept on the disk ends in zeros; so does no trained matrix.

    Vectors and the last rows of a vocabulary may be zero.
    """
    if any(finding.is_error for finding in file.findings):
        return
    for tensor in sorted(file.tensors, key=lambda row: row.offset, reverse=True):
        size, rows = tensor.n_bytes, tensor.n_elements // (tensor.shape[0] or 1)
        left = _zeros_at_end(file.tensor_data(tensor))
        is_cut = tensor.name not in _OF_VOCABULARY and left * rows >= 2 * size
        if rows > 1 and left and (left == size or is_cut):
            field, offset = tensor.place("offset")
            yield field, f"{left} of its {size} bytes are zero to the end of the file", offset
        if left < size:
            return


def _zeros_at_end(data: memoryview) -> int:
    """Return how many bytes are zero behind the last that is not."""
    left = len(data)
    while left:
        start = max(left - _STEP_BYTES, 0)
        rest = len(bytes(data[start:left]).rstrip(b"\0"))
        if rest:
            return len(data) - start - rest
        left = start
    return len(data)


UNFINISHED_RULES = (
    survey("data-unfinished", "warning", "mtkit", "data",
           "From some point on, the tensor data is nothing but zeros: the download did not "
           "finish. Download the file again.",
           _unfinished, "the download did not end: download the file again"),
)  # fmt: skip
"""For models; of a sound file only the last page is read."""
DATA_RULES = (
    survey("data-nan", "warning", GGML, "data",
           "Weights are NaN, which spreads into every logit. Quantize the model again.", _nan),
    survey("data-infinite", "warning", GGML, "data",
           "Weights are infinite. Quantize the model again from a type with a wider range.",
           _infinite),
    survey("data-zero", "note", GGML, "data",
           "A tensor has nothing but zeros: the download did not finish, or the tensor was "
           "never trained.", _zero),
)  # fmt: skip


def data_findings(file: GgufFile, broken: frozenset[str]) -> Iterator[Finding | Tensor]:
    """Yield what breaks the rules, and tensors whose floats are at no known place."""
    for tensor in file.tensors:
        if tensor.label in broken:
            continue
        counts = Counts(file, tensor)
        if not counts.is_known and tensor.type.name not in _WHOLE_NUMBERS:
            yield tensor
        yield from survey_findings(DATA_RULES, counts)
