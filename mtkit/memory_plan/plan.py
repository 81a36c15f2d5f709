"""What running a model will take: weights, memory of the tokens, room to compute.

All of it from the metadata and the tensor table. Weights and the memory of the tokens are what
llama.cpp will allocate; the room to compute is an estimate.

The graph's memory is reused from step to step, so it is as large as what lives at its widest
moment: at the feed-forward part with its three matrices, at the attention, or at the logits. The
mask, which says what each token may look at, lives as long as any layer. What the allocator leaves
unused between its pieces is not predicted.
Source: the "compute buffer size" of llama.cpp's log; ``tests/memory_plan/test_plan.py`` compares.

Some matrices llama.cpp lays out anew for the processor when it loads a model on the CPU: blocks of
several rows are woven together, in memory of their own; a mapped file keeps its pages beside that.
Matrices of other types, or with another number of rows, stay as they are.
Source: ggml-cpu/repack.cpp of ggml (``ggml_repack_get_optimal_repack_type``).
"""

from __future__ import annotations

import platform
from functools import cache
from itertools import takewhile
from operator import itemgetter, mul

from mtkit.base.record import Record
from mtkit.errors import ResourceError
from mtkit.memory_plan.cache import Layer, model_layers, stored_bytes
from mtkit.memory_plan.limits import available_memory, memory_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from typing import Any

    from mtkit.gguf import Tensor


_ENCODERS = {"t5", "t5encoder"}
_ELEMENT_BYTES = 4  # of what is computed; with flash attention the mask has half of it


def compute_bytes(
    metadata: Any,
    tensors: tuple[Tensor, ...],
    layers: tuple[Layer, ...],
    *,
    n_ctx: int,
    cells: list[int],
    n_ubatch: int,
    n_outputs: int,
    flash_attention: bool,
) -> int:
    """Estimate the room to compute ``n_ubatch`` tokens at once.

    llama.cpp reserves it for the logits of all of them; what is not computed stays untouched.

    Args:
        layers: What they remember; none where that is not known.
        cells: Of them, those that a cache holds, for layers of each kind; each has a mask.
        n_ubatch: Tokens computed at once; an encoder takes the whole context.
        flash_attention: Attention in one kernel, without a score for each pair of tokens.
    """
    name = metadata.get("general.architecture")

    def number(suffix: str) -> int:
        value = metadata.get(f"{name}.{suffix}")
        value = max(value, default=0) if isinstance(value, (list, tuple)) else value
        return value if type(value) is int and 0 < value < 1 << 32 else 0

    table = next((t for t in tensors if t.name == "token_embd.weight"), None)
    n_vocab = table.shape[-1] if table is not None and table.shape else 0
    width, heads = number("embedding_length"), number("attention.head_count")
    used = number("expert_used_count")
    inner = max(number("feed_forward_length"), number("expert_feed_forward_length") * used)
    feed = max(3 * inner + (4 + used) * width, 6 * number("ssm.inner_size") + 2 * width)
    key = number("attention.key_length") or width // max(heads, 1)
    value = number("attention.value_length") or key
    stored = max((layer.key + layer.value for layer in layers), default=0)
    attention = 3 * width + heads * (key + value) + stored
    if name in _ENCODERS:  # scores and a bias of every head, for every pair of tokens
        pairs = n_ctx * (3 * heads + 1)
        return n_ctx * _ELEMENT_BYTES * (pairs + 2 * max(feed, attention, n_vocab + 2 * width))
    cells = cells if layers else [n_ctx]
    mask = sum(cells)
    if flash_attention:
        mask //= 2
    else:
        attention += max(cells, default=0) * heads
    logits = n_outputs * (n_vocab + 2 * width)
    return _ELEMENT_BYTES * max(n_ubatch * (mask + max(feed, attention)), logits)


_WOVEN_ROWS = {
    "avx2": {"Q4_0": 8, "Q4_K": 8, "IQ4_NL": 8, "MXFP4": 8},
    "avx512f": {"Q2_K": 8},
    "asimddp": {
        "Q4_0": 4, "Q4_K": 8, "Q5_K": 8, "Q6_K": 8, "Q8_0": 4, "Q1_0": 4, "IQ4_NL": 4, "MXFP4": 4,
    },
}  # fmt: skip
"""What a processor can do -> type of the elements -> what the number of rows is a multiple of."""
_LOOKED_UP = ("token_embd.weight", "position_embd.weight", "per_layer_token_embd.weight")
"""Rows are read out of them; nothing is multiplied with them."""
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_PROCESSORS = {"AMD64": "avx2", "x86_64": "avx2", "arm64": "asimddp", "aarch64": "asimddp"}
"""Architecture -> what its processors can do, where the system does not say."""


@cache
def processor_features() -> frozenset[str]:
    """Return what this machine's processor can do, as the kernel names it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, said = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(said.split())
    except OSError:
        pass
    return frozenset({_PROCESSORS.get(platform.machine(), "")})


def is_repacked(tensor: Tensor, features: AbstractSet[str]) -> bool:
    """Tell whether a matrix that is multiplied with gets another layout."""
    rows = tensor.shape[1] if len(tensor.shape) in (2, 3) else 0
    return rows > 0 and any(
        rows % kinds.get(tensor.type.name, rows + 1) == 0
        for feature, kinds in _WOVEN_ROWS.items()
        if feature in features
    )


def repacked_bytes(tensors: tuple[Tensor, ...], features: AbstractSet[str], *, mapped: bool) -> int:
    """Return what the new layouts take besides the weights.

    Args:
        mapped: The file is mapped; a file that is read has one layout of each matrix alone, but for
            an embedding that is the head as well.
    """
    is_tied = all(tensor.name != _HEAD for tensor in tensors)
    new = [is_repacked(tensor, features) for tensor in tensors]
    moved = [
        found and tensor.name not in _LOOKED_UP for found, tensor in zip(new, tensors, strict=True)
    ]
    heads = (one.n_bytes for found, one in zip(new, tensors, strict=True) if found and is_tied
             and one.name == _EMBEDDING)  # fmt: skip
    copies = sum(heads)
    if mapped:
        copies += sum(one.n_bytes for found, one in zip(moved, tensors, strict=True) if found)
        copies -= _returned_bytes(tensors, moved) + _returned_bytes(tensors[::-1], moved[::-1])
    return max(copies, 0)


def _returned_bytes(tensors: tuple[Tensor, ...], moved: list[bool]) -> int:
    """Return the bytes of those at an end of a file, whose pages are given back."""
    return sum(one.n_bytes for one, _ in takewhile(itemgetter(1), zip(tensors, moved, strict=True)))


CELLS = 256
"""llama.cpp rounds the number of tokens that a cache holds up to a multiple of this."""
_PROCESS = 52_000_000
"""Python, numpy and llama.cpp (measured: 50 to 53 MB)."""
_TOKEN_BYTES, _MERGE_BYTES = 181, 154
"""What llama.cpp's vocabulary takes (measured with 49,152 to 262,144 tokens)."""


class PlanSettings(Record):
    """What the plan is made for.

    Attributes:
        n_ctx: Tokens of context; None for what the model was trained with.
        gpu_layers: Layers on GPUs, counted from the last; -1 for all.
        kv_unified: Each may take all of it, instead of an equal part.
        swa_full: Layers with a window keep the whole context, too.
        mmap: The file is mapped; None: as llama.cpp does.
        features: What the processor can do; None: this machine's.
    """

    n_ctx: int | None = None
    kv_type: str = "f16"
    gpu_layers: int = 0
    n_ubatch: int = 512
    n_seq: int = 1
    kv_unified: bool = False
    swa_full: bool = False
    flash_attention: bool = True
    mmap: bool | None = None
    repack: bool = True
    features: frozenset[str] | None = None


class LayerPlan(Record):
    """What the memory of one layer takes."""

    layer: Layer
    cells: int
    n_bytes: int
    is_on_gpu: bool


class Plan(Record):
    """What running a model takes, in bytes.

    Attributes:
        layers: The memory of each layer; empty where the metadata does not say.
        repacked: Weights that llama.cpp lays out anew, besides.
    """

    n_ctx: int
    weights: int
    weights_on_gpu: int
    layers: tuple[LayerPlan, ...]
    compute: int
    repacked: int = 0
    batch: int = 0
    process: int = 0

    @property
    def cache(self) -> int:
        """Memory of all layers."""
        return sum(layer.n_bytes for layer in self.layers)

    @property
    def host(self) -> int:
        """What the main memory holds while a prompt of half a batch is computed."""
        on_gpu = sum(layer.n_bytes for layer in self.layers if layer.is_on_gpu)
        weights = self.weights - self.weights_on_gpu + self.repacked
        return weights + self.cache - on_gpu + self.batch // 2 + self.process

    @property
    def most(self) -> int:
        """What it may have to hold: all that is reserved."""
        return self.host - self.batch // 2 + self.compute

    @property
    def gpu(self) -> int:
        """What the GPUs have to hold, the room to compute left out."""
        on_gpu = sum(layer.n_bytes for layer in self.layers if layer.is_on_gpu)
        return self.weights_on_gpu + on_gpu


def make_plan(metadata: Any, tensors: tuple[Tensor, ...], settings: PlanSettings) -> Plan:
    """Say what running a model takes."""
    found = model_layers(metadata)
    architecture = metadata.get("general.architecture")
    trained = metadata.get(f"{architecture}.context_length")
    n_ctx = settings.n_ctx or (trained if type(trained) is int and 0 < trained < 1 << 40 else 512)
    streams = 1 if settings.kv_unified else settings.n_seq
    rounded = _round_up(n_ctx // streams or 1)
    first_on_gpu = _first_on_gpu(len(found), settings.gpu_layers)
    planned = tuple(
        _layer_plan(layer, rounded, streams, settings, is_on_gpu=layer.index >= first_on_gpu)
        for layer in found
    )
    kinds = {bool(one.layer.window): one.cells // streams for one in planned if one.layer.key}
    weights = sum(tensor.n_bytes for tensor in tensors)
    on_gpu = sum(t.n_bytes for t in tensors if _is_on_gpu(t, len(found), settings.gpu_layers))
    n_ubatch = min(settings.n_ubatch, n_ctx)
    compute, batch = (
        compute_bytes(
            metadata,
            tensors,
            found,
            n_ctx=rounded,
            cells=list(kinds.values()),
            n_ubatch=n_ubatch,
            n_outputs=n_outputs,
            flash_attention=settings.flash_attention,
        )
        for n_outputs in (n_ubatch, min(settings.n_seq, n_ubatch))
    )
    on_cpu = tuple(t for t in tensors if not _is_on_gpu(t, len(found), settings.gpu_layers))
    features = processor_features() if settings.features is None else settings.features
    repacked = repacked_bytes(on_cpu, features, mapped=settings.mmap is not False)
    return Plan(
        rounded * streams,
        weights,
        on_gpu,
        planned,
        compute,
        repacked if settings.repack else 0,
        batch,
        _PROCESS + _vocabulary_bytes(metadata),
    )


def _vocabulary_bytes(metadata: Any) -> int:
    """Return the bytes that llama.cpp's vocabulary takes."""
    tokens, merges = (metadata.get(f"tokenizer.ggml.{name}") for name in ("tokens", "merges"))
    sizes = (len(one) if hasattr(one, "__len__") else 0 for one in (tokens, merges))
    return sum(map(mul, sizes, (_TOKEN_BYTES, _MERGE_BYTES)))


def _round_up(tokens: int) -> int:
    return -(-tokens // CELLS) * CELLS


def _layer_plan(
    layer: Layer, n_ctx: int, streams: int, settings: PlanSettings, *, is_on_gpu: bool
) -> LayerPlan:
    """Say what a layer remembers of ``streams`` that do not share cells, each of ``n_ctx`` tokens.

    Source: llama-kv-cache-iswa.cpp of llama.cpp.
    """
    cells = n_ctx * streams
    if layer.window and not settings.swa_full:
        wanted = layer.window * settings.n_seq // streams + settings.n_ubatch
        cells = min(n_ctx, _round_up(wanted)) * streams
    cache = stored_bytes((layer.key + layer.value) * cells, settings.kv_type)
    state = layer.state * 4 * settings.n_seq
    shown = cells if layer.key else settings.n_seq
    return LayerPlan(layer, shown, cache + state, is_on_gpu)


def _first_on_gpu(count: int, gpu_layers: int) -> int:
    """The last layers go to GPUs; the output counts as one layer behind them."""
    return 0 if gpu_layers < 0 else max(count + 1 - gpu_layers, 0)


def _is_on_gpu(tensor: Tensor, count: int, gpu_layers: int) -> bool:
    first = _first_on_gpu(count, gpu_layers)
    if tensor.block is not None:
        return tensor.block >= first
    return tensor.name.startswith("output") and first <= count and gpu_layers != 0


def check_fits(plan: Plan, source: str, *, hint: str = "") -> None:
    """Refuse a model that does not fit the memory that this process may have."""
    for limit in memory_limits():
        if plan.most > limit.free:
            raise ResourceError(
                f"needs {_megabytes(plan.most)} "
                f"(weights {_megabytes(plan.weights + plan.repacked)}, "
                f"cache {_megabytes(plan.cache)}, computing {_megabytes(plan.compute)}), "
                f"but {limit.name} has {_megabytes(limit.free)} left",
                source=source,
                hint=hint or "use a smaller model, --ctx, -n or --kv-type, or a GPU (-ngl)",
            )


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.0f} MB"


_SPARE_PART = 8
"""One part of so many is left to others."""


def fitting_context(plan: Callable[[int], Plan], most: int, least: int) -> int:
    """Return how many tokens of context fit, a multiple of what a cache is rounded to.

    Args:
        least: Tokens that are returned though they may not fit.
    """
    free = available_memory()
    if free is None or plan(most).most <= free - free // _SPARE_PART:
        return most
    low, high = least // CELLS, most // CELLS  # low fits or is the least, high does not
    while high - low > 1:
        middle = (low + high) // 2
        if plan(middle * CELLS).most <= free - free // _SPARE_PART:
            low = middle
        else:
            high = middle
    return max(low * CELLS, least)
