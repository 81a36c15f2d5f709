"""LoRA adapters in GGUF, as ``--lora`` names them: read, and checked against a model.

llama.cpp hardly checks them: keys of another type, matrices that cannot be multiplied and an
adapter of an embedding that serves as the output abort its process.
Source: llama.cpp, src/llama-adapter.cpp, src/llama-graph.cpp (``build_lora_mm``).
"""

from __future__ import annotations

import os

from mtkit.base.binary import expand_home
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError, UsageError, wording
from mtkit.gguf.byte_order import refuse_big_endian
from mtkit.gguf.reader import open_gguf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtkit.gguf.file import GgufFile, Tensor
    from mtkit.gguf.writer import NewTensor


_LORA_ENDS = (".lora_a", ".lora_b")
_EMBEDDING, _OUTPUT = "token_embd.weight", "output.weight"
_LORA_TYPES = frozenset(("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"))
"""Types that ggml multiplies and that programs write adapters in."""
_LORA_TEXTS = ("general.type", "adapter.type", "general.architecture")
_ALPHA, _INVOCATION = "adapter.lora.alpha", "adapter.alora.invocation_tokens"
_GREATEST_SCALE = 1e6


class Adapter(Record):
    """An adapter of a model."""

    path: str
    scale: float
    file: GgufFile


def parse_adapter(text: str) -> tuple[str, float]:
    """Return file and scale of ``FILE``, ``FILE:SCALE`` or ``FILE=SCALE``."""
    if os.path.exists(expand_home(text)):
        return expand_home(text), 1.0
    path, colon, number = text.rpartition("=" if text.rfind("=") > text.rfind(":") else ":")
    try:
        scale = float(number)
    except ValueError:
        colon = ""
    if not colon or not path:
        return expand_home(text), 1.0
    if not abs(scale) <= _GREATEST_SCALE:
        what = f"is {number}, not a number up to {_GREATEST_SCALE:.0f}"
        raise UsageError(what, field=wording("--lora", "lora"))
    return expand_home(path), scale


def read_adapters(
    texts: Sequence[str], architecture: object, tensors: Sequence[Tensor] | Sequence[NewTensor]
) -> tuple[Adapter, ...]:
    """Read the adapters that ``--lora`` names, and check that they fit the model."""
    by_name = {tensor.name: tensor for tensor in tensors} if texts else {}
    return tuple(_read_adapter(text, architecture, by_name) for text in texts)


def _read_adapter(
    text: str, architecture: object, tensors: Mapping[str, Tensor | NewTensor]
) -> Adapter:
    path, scale = parse_adapter(text)
    if os.path.isdir(path):
        raise UsageError(
            "is a folder, llama.cpp adds a GGUF",
            source=path,
            hint="mtkit convert makes one from it",
        )
    file = open_gguf(path)
    refuse_big_endian(file)
    try:
        _check_keys(file, architecture)
        for name, pair in _lora_pairs(file):
            _check_pair(name, pair, tensors)
    except (FormatError, UnsupportedError) as error:
        raise error.located(path) from None
    return Adapter(path, scale, file)


def _check_keys(file: GgufFile, architecture: object) -> None:
    content, kind, base = (file.metadata.get(key) for key in _LORA_TEXTS)
    if content != "adapter" or kind != "lora":
        raise UnsupportedError("is not a LoRA adapter", hint="mtkit inspect shows what it is")
    if base != architecture:
        what = f"is an adapter of {quoted(str(base))}, but the model is {quoted(str(architecture))}"
        raise UnsupportedError(what, field="general.architecture")
    if _ALPHA in file.metadata:
        alpha = file.metadata[_ALPHA]
        if file.metadata.type_name(_ALPHA) != "f32" or not abs(alpha) < float("inf"):
            raise FormatError("is not a finite f32", field=_ALPHA)
    if _INVOCATION in file.metadata:
        what = "begins behind certain tokens, which mtkit does not do"
        raise UnsupportedError(what, field=_INVOCATION)


def _lora_pairs(file: GgufFile) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    halves: dict[str, dict[str, Tensor]] = {}
    for tensor in file.tensors:
        name, end = tensor.name[:-7], tensor.name[-7:]
        if end not in _LORA_ENDS:
            what = f"has {quoted(tensor.name)}, which llama.cpp does not add"
            raise UnsupportedError(what)
        halves.setdefault(name, {})[end] = tensor
    if not halves:
        raise UnsupportedError("holds no tensors")
    for name, ends in halves.items():
        missing = [end for end in _LORA_ENDS if end not in ends]
        if missing:
            raise FormatError(f"there is no tensor {quoted(name + missing[0])}")
        yield name, (ends[_LORA_ENDS[0]], ends[_LORA_ENDS[1]])


def _check_pair(
    name: str, pair: tuple[Tensor, Tensor], tensors: Mapping[str, Tensor | NewTensor]
) -> None:
    """Check that the product of two matrices can be added to a tensor of the model."""
    b = pair[1]
    target = tensors.get(name)
    if target is None:
        what = f"adapts {quoted(name)}, which the model does not have"
        raise UnsupportedError(what, hint="check that this is its base model")
    if name == _EMBEDDING and _OUTPUT not in tensors:
        what = "adapts an embedding that serves as the output, too"
        raise UnsupportedError(what, field=quoted(name))
    for tensor in pair:
        if tensor.type.name not in _LORA_TYPES:
            what = f"has the type {tensor.type.name}, which is none of an adapter"
            raise UnsupportedError(what, field=tensor.label)
    rank = b.shape[0] if b.shape else 0
    wide, high, *above = (*target.shape, 0, 0)[: max(len(target.shape), 2)]
    expected: list[list[int]] = [[wide, rank, *above], [rank, high, *above]]
    if name == _EMBEDDING:  # the rows of A are looked up, not multiplied with
        expected = [[rank, high], [rank, wide]]
    shapes = [list(tensor.shape) for tensor in pair]
    if shapes != expected or not rank * wide * high:
        what = f"the shapes {shapes[0]} and {shapes[1]} do not fit {list(target.shape)}"
        raise UnsupportedError(what, field=quoted(name), hint="check that this is its base model")
