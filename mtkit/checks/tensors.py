"""What is wrong with tensors: those of an architecture, their types, and their data.

``fault_findings`` says of a model, in a folder or in a GGUF, what is missing, unknown or of another
shape. Types: vectors (norms, biases) and the kernels of convolutions are added and multiplied as
they are, in F32 alone; matrices can be of any type that there is a product for. Data: one rule a
row, all but the first for ``--deep``. Read in pieces, nothing is dequantized.
Source: ops.cpp and ggml-cpu.c of ggml (``binary_op``, ``type_traits_cpu``); conversion/base.py of
llama.cpp (``prepare_tensors``), which writes vectors as F32 whatever is asked for.
"""

from __future__ import annotations

from math import prod

from mtkit.architectures import architectures_of_name
from mtkit.architectures.tensor_match import ARCHITECTURE, EMBEDDING
from mtkit.base.binary import pieces
from mtkit.base.escape import quoted
from mtkit.base.record import replace
from mtkit.base.rules import Finding
from mtkit.checks.report import MOST_OF_A_SURVEY, survey, survey_findings
from mtkit.gguf.rules import LLAMA_CPP
from mtkit.gguf.value_counts import FLOATS, PLAIN, WIDTHS, count_specials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mtkit.architectures.tensor_match import Fault
    from mtkit.base.rules import Rule
    from mtkit.checkpoints.folder_files import StoredTensor
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
_LOOK_UP = "ffn_gate_tid2eid.weight"
"""End of the name of a table of whole numbers: the experts of each token (DeepSeek V4)."""


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
        elif tensor.type.name in _NO_PRODUCT and not tensor.name.endswith(_LOOK_UP):
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
_WHOLE_NUMBERS = ("I8", "I16", "I32", "I64")
_STORED_NUMBERS = (*_WHOLE_NUMBERS, "U8", "U16", "U32", "U64", "BOOL")
"""Types of whole numbers in a folder."""
_OF_VOCABULARY = ("token_embd.weight", "output.weight")


class Counts:
    """How many values of a tensor are NaN or infinite, and whether all its bytes are zero."""

    def __init__(
        self,
        name: str,
        place: tuple[str, int | None],
        data: memoryview,
        block: int,
        order: str = "little",
    ) -> None:
        """Count in the data of a tensor.

        Args:
            name: Of its type.
            place: Field and offset of a finding.
            block: Bytes of a block.
        """
        import numpy as np

        self.place, self.n_bytes, self.unit = place, len(data), "elements"
        if name in FLOATS and block != WIDTHS[FLOATS[name][0]]:
            self.unit = "scales"
        self.nan = self.infinite = 0
        of_one = name in (*PLAIN, *_WHOLE_NUMBERS)
        self.is_zero = self.n_bytes > block * of_one  # a single number can be zero
        for piece in pieces(data, max(_PIECE_BYTES // block, 1) * block):
            raw = np.frombuffer(piece, np.uint8)
            self.is_zero = self.is_zero and not raw.any()
            specials = count_specials(raw, name, block, order)
            self.nan += specials.nan
            self.infinite += specials.infinite

    @classmethod
    def of(cls, file: GgufFile, tensor: Tensor) -> Counts:
        """Count in a tensor of a GGUF."""
        block = tensor.type.block_bytes or 1  # of a fork's type the bytes are all that is known
        place = tensor.place("offset")
        return cls(tensor.type.name, place, file.tensor_data(tensor), block, file.byte_order)


def _nan(counts: Counts) -> Iterator[Place]:
    if counts.nan:
        what = f"{counts.unit} that are not a number: {counts.nan}"
        yield counts.place[0], what, counts.place[1]


def _infinite(counts: Counts) -> Iterator[Place]:
    if counts.infinite:
        what = f"{counts.unit} that are infinite: {counts.infinite}"
        yield counts.place[0], what, counts.place[1]


def _zero(counts: Counts) -> Iterator[Place]:
    if counts.is_zero:
        yield counts.place[0], f"all of its {counts.n_bytes} bytes are zero", counts.place[1]


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
           "Weights are NaN, which spreads into every logit. Quantize the model again; if the "
           "original has them, its training diverged.", _nan),
    survey("data-infinite", "warning", GGML, "data",
           "Weights are infinite. Quantize the model again from a type with a wider range.",
           _infinite),
    survey("data-zero", "note", GGML, "data",
           "A tensor has nothing but zeros: the download did not finish, or the tensor was "
           "never trained.", _zero),
)  # fmt: skip


def weight_findings(tensors: Mapping[str, StoredTensor]) -> Iterator[Finding | StoredTensor]:
    """Yield what breaks the rules in a folder, and tensors whose floats are at no known place."""
    for name, stored in tensors.items():
        if stored.weight.type not in (*PLAIN, *_STORED_NUMBERS):
            yield stored
        block = max(stored.weight.n_bytes // max(prod(stored.weight.shape), 1), 1)
        counts = Counts(stored.weight.type, (f"tensor {quoted(name)}", None), stored.data, block)
        for finding in survey_findings(DATA_RULES, counts):
            yield replace(finding, source=stored.path)


def data_findings(file: GgufFile, broken: frozenset[str]) -> Iterator[Finding | Tensor]:
    """Yield what breaks the rules, and tensors whose floats are at no known place."""
    for tensor in file.tensors:
        if tensor.label in broken:
            continue
        if tensor.type.name not in (*FLOATS, *_WHOLE_NUMBERS):
            yield tensor
        yield from survey_findings(DATA_RULES, Counts.of(file, tensor))
