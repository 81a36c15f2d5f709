"""Importance matrices: what enters the matrices as a model computes, and sums of it in a GGUF.

llama-imatrix writes such files and llama-quantize reads them.

``NAME.in_sum2`` is the sum of the squares of what entered each column of the matrix NAME,
``NAME.counts`` of how many rows; a tensor of experts has a row of sums and a count for each.

What enters a matrix is seen by llama.cpp's evaluation callback (``Products``), which is asked about
every node of the graph and shown those that it wants once they are computed. Tensors are read where
they lie, by their layout in C, which is checked first.

Source: ggml.h, ggml-backend.h, tools/imatrix/imatrix.cpp (which nodes count) and
common/imatrix-loader.cpp of llama.cpp.
"""

from __future__ import annotations

import ctypes

from mtkit.base.binary import Source
from mtkit.base.escape import quoted
from mtkit.base.record import Record, replace
from mtkit.checkpoints import legacy_imatrix
from mtkit.errors import FormatError, MtkitError, UnsupportedError
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.byte_order import little_pieces
from mtkit.gguf.reader import open_gguf
from mtkit.gguf.types import STRING, TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.llama.shared_library import ggml, library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Take = Callable[[str, tuple[int, int], Any, Any], None]


_SUMS_ENDING, _COUNTS_ENDING = ".in_sum2", ".counts"
_DATASETS_KEY = "imatrix.datasets"
_CHUNKS_KEY, _CHUNK_SIZE_KEY = "imatrix.chunk_count", "imatrix.chunk_size"
_MOST_ROWS, _MOST_CHUNKS = 2.0**62, 1 << 31
"""Counts above these are damage."""


class Importance(Record):
    """An importance matrix.

    Attributes:
        entries: Name of a tensor -> its sums, float32 of shape (experts, columns) or (1, columns),
            and its counts, int64 of shape (experts,) or (1,).
        chunks: Windows of text that it was made from; 0 where the file does not say.
        chunk_size: Tokens of a window; 0 where the file does not say.
        is_legacy: Its counts are windows, not tokens.
    """

    entries: dict[str, tuple[Any, Any]]
    datasets: tuple[str, ...] = ()
    chunks: int = 0
    chunk_size: int = 0
    is_legacy: bool = False


def chosen_entries(
    importance: Importance, include: Sequence[str], exclude: Sequence[str]
) -> Importance:
    """Return an importance matrix without the entries that are not chosen, by parts of names."""
    entries = {
        name: entry
        for name, entry in importance.entries.items()
        if not any(part in name for part in exclude)
        and (not include or any(part in name for part in include))
    }
    return replace(importance, entries=entries)


def read_importance(path: str) -> Importance:
    """Read an importance matrix."""
    import numpy as np

    source = Source.open(path)
    if legacy_imatrix.sniff(source):
        return _read_legacy(source, path)
    file = open_gguf(source)
    names = [name for name in file.names if name.endswith(_SUMS_ENDING)]
    if not names:
        hint = "llama-imatrix and mtkit imatrix write one"
        raise FormatError("holds no importance matrix", source=path, hint=hint)
    entries = {}
    for name in names:
        stem = name.removesuffix(_SUMS_ENDING)
        counts = file.names.get(stem + _COUNTS_ENDING)
        sums = file.names[name]
        if counts is None or {sums.type.name, counts.type.name} != {"F32"}:
            raise FormatError("has no counts of 32-bit floats", source=path, field=sums.label)
        of_each, total = (
            np.frombuffer(b"".join(little_pieces(file, tensor, tensor.n_bytes)), "<f4")
            for tensor in (counts, sums)
        )
        if not len(of_each) or len(total) % len(of_each):
            raise FormatError("does not go with its counts", source=path, field=sums.label)
        if not np.all((of_each >= 0) & (of_each < _MOST_ROWS)):  # NaN is neither
            raise FormatError("is no number of tokens", source=path, field=counts.label)
        _check_sums(total, path, sums.label)
        entries[stem] = total.reshape(len(of_each), -1), of_each.astype(np.int64)
    metadata = file.metadata
    chunks, size = (metadata.get(key) for key in (_CHUNKS_KEY, _CHUNK_SIZE_KEY))
    datasets = metadata.get(_DATASETS_KEY)
    if not isinstance(datasets, GgufArray) or datasets.element is not STRING:
        datasets = ()
    return Importance(
        entries,
        tuple(datasets),
        chunks if type(chunks) is int and 0 <= chunks < _MOST_CHUNKS else 0,
        size if type(size) is int and 0 <= size < _MOST_CHUNKS else 0,
    )


def _check_sums(sums: Any, path: str, field: str) -> None:
    """Check that sums of squares can be such; llama.cpp would weigh by them, whatever they are."""
    if not (sums.min(initial=0) >= 0 and sums.max(initial=0) < float("inf")):  # NaN is neither
        raise FormatError("has a sum of squares below 0, infinite or NaN", source=path, field=field)


def _read_legacy(source: Source, path: str) -> Importance:
    """Return what a .dat holds; one count stands for all experts."""
    import numpy as np

    try:
        matrix = legacy_imatrix.read(source)
    except MtkitError as error:
        raise error.located(path) from None
    entries = {}
    for name, (calls, values) in matrix.entries.items():
        sums = np.frombuffer(values, "<f4")
        _check_sums(sums, path, quoted(name))
        # Without calls the values are taken as they are.
        entries[name] = sums.reshape(1, -1), np.array([max(calls, 1)], np.int64)
    datasets = (matrix.dataset,) if matrix.dataset else ()
    return Importance(entries, datasets, matrix.chunks, is_legacy=True)


def write_importance(path: str, importance: Importance, *, force: bool = False) -> None:
    """Write an importance matrix; it appears whole or not at all."""
    keys = [
        Key("general.type", "string", "imatrix"),
        Key(_DATASETS_KEY, "string[]", importance.datasets),
        Key(_CHUNKS_KEY, "u32", importance.chunks),
        Key(_CHUNK_SIZE_KEY, "u32", importance.chunk_size),
    ]
    tensors = []
    for name, (sums, counts) in sorted(importance.entries.items()):
        experts = (len(counts),) * (len(counts) > 1)
        for suffix, values, width in (
            (_SUMS_ENDING, sums, sums.shape[1]),
            (_COUNTS_ENDING, counts, 1),
        ):
            data = values.astype("<f4").tobytes()
            tensors.append(NewTensor(name + suffix, (width, *experts), TENSOR_TYPES[0], data))
    write_gguf(path, keys, tensors, force=force)


_OBJECT_BYTES = 32
"""Size of a ggml_object, which a context of ggml keeps beside each tensor."""
_F32 = 0
_FEWEST_ROWS = 16
_LAST_NORM = b"result_norm"
"""The node that the output matrix multiplies."""


class _Tensor(ctypes.Structure):
    """A ggml_tensor."""

    _fields_ = (
        ("type", ctypes.c_int), ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * 10),
        ("view_src", ctypes.c_void_p), ("view_offs", ctypes.c_size_t),
        ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64), ("extra", ctypes.c_void_p),
        ("padding", ctypes.c_char * 8),
    )  # fmt: skip


class Products:
    """Shows a function what enters each matrix, while ``is_on``.

    Attributes:
        error: What the function raised; nothing is shown after it.
    """

    def __init__(self, take: Take, *, with_output: bool = False) -> None:
        """Set up.

        Args:
            take: Gets the name of a matrix; the two axes (outer, inner) by which the tensor holds
                several; what enters, float32 of shape (outer, inner, rows, columns), where axes
                are multiples of the tensor's; and None. Of experts: their number is the inner
                axis, (1, tokens, 1 or chosen, columns) enters, and the fourth is the experts
                chosen, int32 of shape (tokens, chosen). Arrays are valid during the call.
            with_output: The output matrix, too. Without it the model's last step is left out, and
                its logits mean nothing.
        """
        lib = library()
        size, pointer = ctypes.c_size_t, ctypes.c_void_p
        overhead = ggml("ggml_tensor_overhead", size, [])
        op_name = ggml("ggml_op_name", ctypes.c_char_p, [ctypes.c_int])
        self._n_bytes = ggml("ggml_nbytes", size, [pointer])
        self._is_host = ggml("ggml_backend_buffer_is_host", ctypes.c_bool, [pointer])
        self._get = ggml("ggml_backend_tensor_get", None, [pointer, pointer, size, size])
        functions = overhead, op_name, self._n_bytes, self._is_host, self._get
        if None in functions or overhead() != ctypes.sizeof(_Tensor) + _OBJECT_BYTES:
            raise UnsupportedError("this build of llama.cpp has tensors of another layout")
        self._dense, self._chosen = (
            _operation_number(op_name, b"MUL_MAT"),
            _operation_number(op_name, b"MUL_MAT_ID"),
        )
        self._take, self._with_output = take, with_output
        self.callback = lib.ggml_backend_sched_eval_callback(self._see)
        self.is_on = False
        self.error: BaseException | None = None

    def _see(self, address: int, asks: bool, _: object) -> bool:
        if not self.is_on or self.error is not None:
            return not asks
        try:
            node = _Tensor.from_address(address)
            return self._wants(node) if asks else self._show(node)
        except BaseException as error:  # noqa: BLE001  ctypes would print it and go on
            self.error = error
            return False

    def _wants(self, node: _Tensor) -> bool:
        if node.op not in (self._dense, self._chosen):
            return not self._with_output and node.name == _LAST_NORM
        entering = _Tensor.from_address(node.src[1])
        if entering.type != _F32:
            return False
        if node.op == self._chosen:
            return True
        if entering.ne[1] < _FEWEST_ROWS:
            return False
        name = _matrix_name(node)
        return name.startswith("blk.") or (self._with_output and name == "output.weight")

    def _show(self, node: _Tensor) -> bool:
        """Show a node; False ends the computation of the graph."""
        if node.op not in (self._dense, self._chosen):
            return False
        matrix = _Tensor.from_address(node.src[0])
        experts = self._array(node.src[2], "<i4")[0, 0] if node.op == self._chosen else None
        axes = matrix.ne[3], matrix.ne[2]
        self._take(_matrix_name(node), axes, self._array(node.src[1], "<f4"), experts)
        return True

    def _array(self, address: int, kind: str) -> Any:
        """Return a tensor as an array with the slowest axis first, of other devices a copy."""
        import numpy as np

        tensor = _Tensor.from_address(address)
        size = self._n_bytes(address)
        if self._is_host(tensor.buffer):
            data: Any = (ctypes.c_char * size).from_address(tensor.data)
        else:
            data = (ctypes.c_char * size)()
            self._get(address, data, 0, size)
        return np.ndarray(tuple(tensor.ne)[::-1], kind, data, strides=tuple(tensor.nb)[::-1])


def _operation_number(op_name: Any, name: bytes) -> int:
    number = 0
    while op_name(number) != name:
        number += 1
    return number


def _matrix_name(node: _Tensor) -> str:
    """Return the name of the matrix of a product, without a device: CUDA0#NAME#0."""
    name: str = _Tensor.from_address(node.src[0]).name.decode("utf-8", "surrogateescape")
    return name.split("#")[1] if "#" in name else name
