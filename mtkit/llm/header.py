"""A model file before it is loaded: its header, its LoRA adapters, and whether it can run and fits.

Damage, missing shards, a file that is only a vocabulary and too little memory show in the metadata
and the tensor tables alone. Everything else is for llama.cpp to refuse (``trial``).

Adapters (``--lora``) llama.cpp hardly checks: keys of another type, matrices that cannot be
multiplied and an adapter of an embedding that serves as the output abort the process.
Source: llama.cpp, src/llama-adapter.cpp, src/llama-graph.cpp (``build_lora_mm``).
"""

from __future__ import annotations

import os

from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.byte_order import refuse_big_endian
from mtkit.gguf.draft import refuse_forks
from mtkit.gguf.shards import all_files
from mtkit.inspection.kinds import NO_MODEL, find_content
from mtkit.memory_plan.plan import Plan, PlanSettings, check_fits, make_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mtkit.base.binary import Source
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor


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
    """Return file and scale of ``FILE`` or ``FILE:SCALE``."""
    path, colon, number = text.rpartition(":")
    try:
        scale = float(number)
    except ValueError:
        colon = ""
    if not colon or not path:
        return os.path.expanduser(text), 1.0
    if not abs(scale) <= _GREATEST_SCALE:
        raise UsageError(f"is {number}, not a number to {_GREATEST_SCALE:.0f}", field="--lora")
    return os.path.expanduser(path), scale


def read_adapters(
    texts: Sequence[str], architecture: object, tensors: Sequence[Tensor]
) -> tuple[Adapter, ...]:
    """Read the adapters that ``--lora`` names, and check that they fit the model."""
    by_name = {tensor.name: tensor for tensor in tensors} if texts else {}
    return tuple(_read_adapter(text, architecture, by_name) for text in texts)


def _read_adapter(text: str, architecture: object, tensors: Mapping[str, Tensor]) -> Adapter:
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


def _check_pair(name: str, pair: tuple[Tensor, Tensor], tensors: Mapping[str, Tensor]) -> None:
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


_INSTEAD: dict[str, str] = {
    "vocabulary": "use it with mtkit encode -t",
    "lora": "--lora adds it to its model",
    "imatrix": "mtkit convert --imatrix quantizes a model with it",
}


class ModelHeader:
    """The head of a model file that can be loaded."""

    def __init__(self, model: str | Source, lora: Sequence[str] = ()) -> None:
        """Read the head of a model's file and of its LoRA adapters."""
        self.file = open_gguf(model)
        self.path = path = self.file.name
        self.files = all_files(self.file)
        self.tensors = tuple(tensor for file in self.files for tensor in file.tensors)
        _check_model(self.file, self.tensors, path)
        refuse_forks(self.tensors, path)
        refuse_big_endian(self.file)
        architecture = self.file.metadata["general.architecture"]
        self.adapters = read_adapters(lora, architecture, self.tensors)

    @property
    def multiplied(self) -> tuple[Tensor, ...]:
        """All tensors that a batch is multiplied with: the model's and its adapters'."""
        return (*self.tensors, *(t for adapter in self.adapters for t in adapter.file.tensors))

    @property
    def n_ctx_train(self) -> int:
        """Tokens of context that it was trained with; 0 if unknown."""
        architecture = self.file.metadata["general.architecture"]
        value = self.file.metadata.get(f"{architecture}.context_length")
        return value if type(value) is int and value > 0 else 0

    def plan(self, settings: PlanSettings) -> Plan:
        """Return what running it takes."""
        return make_plan(self.file.metadata, self.tensors, settings)

    def check(self, settings: PlanSettings) -> Plan:
        """Return what running it takes; raise if that does not fit the memory."""
        plan = self.plan(settings)
        check_fits(plan, self.path)
        return plan


def _check_model(file: GgufFile, tensors: tuple[Tensor, ...], path: str) -> None:
    kind = find_content(file.metadata, tensors).kind
    if kind not in NO_MODEL:
        architecture = file.metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise UnsupportedError("has no architecture, so it is not a model", source=path)
        if tensors:
            return
        kind = "vocabulary"
    raise UnsupportedError(NO_MODEL[kind], source=path, hint=_INSTEAD.get(kind, ""))
