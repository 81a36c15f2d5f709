"""What running a model will take: weights, memory of the tokens, room to compute.

All of it from the metadata and the tensor table. Weights and the memory of the tokens are what
llama.cpp will allocate; the room to compute is an estimate.
"""

from __future__ import annotations

from operator import mul

from mtkit.base.record import Record
from mtkit.errors import ResourceError
from mtkit.memory_plan.compute import compute_bytes
from mtkit.memory_plan.kv_types import stored_bytes
from mtkit.memory_plan.layers import Layer, layers
from mtkit.memory_plan.limits import limits
from mtkit.memory_plan.repacking import processor, repacked_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.gguf import Tensor

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
        kv_type: Type of the stored keys and values.
        gpu_layers: Layers on GPUs, counted from the last; -1 for all.
        n_ubatch: Tokens computed at once.
        n_seq: Sequences that share the context.
        kv_unified: Each may take all of it, instead of an equal part.
        swa_full: Layers with a window keep the whole context, too.
        flash_attention: Attention in one kernel.
        mmap: The file is mapped; None: as llama.cpp does.
        repack: Matrices get the layout that suits the processor.
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
    """What the memory of one layer takes.

    Attributes:
        layer: What it remembers.
        cells: Tokens that it keeps; for a recurrent layer, sequences.
        n_bytes: Size.
        is_on_gpu: It is on a GPU.
    """

    layer: Layer
    cells: int
    n_bytes: int
    is_on_gpu: bool


class Plan(Record):
    """What running a model takes, in bytes.

    Attributes:
        n_ctx: Tokens of context, as llama.cpp rounds them.
        weights: All tensors.
        weights_on_gpu: The part of them on GPUs.
        layers: The memory of each layer; empty where the metadata does not say.
        compute: Estimate of the room that llama.cpp reserves to compute.
        repacked: Weights that llama.cpp lays out anew, besides.
        batch: Of the room to compute, what a prompt that fills a batch uses.
        process: What the program itself and the vocabulary take.
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
    """Say what running a model takes.

    Args:
        metadata: Of the file, or of the first of its shards.
        tensors: Of all shards.
        settings: What it is to run with.
    """
    found = layers(metadata)
    architecture = metadata.get("general.architecture")
    trained = metadata.get(f"{architecture}.context_length")
    n_ctx = settings.n_ctx or (trained if type(trained) is int and 0 < trained < 1 << 40 else 512)
    streams = 1 if settings.kv_unified else settings.n_seq
    rounded = _rounded(n_ctx // streams or 1)
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
    features = processor() if settings.features is None else settings.features
    repacked = repacked_bytes(on_cpu, features, mapped=settings.mmap is not False)
    return Plan(
        rounded * streams,
        weights,
        on_gpu,
        planned,
        compute,
        repacked if settings.repack else 0,
        batch,
        _PROCESS + _vocabulary(metadata),
    )


def _vocabulary(metadata: Any) -> int:
    """Return the bytes that llama.cpp's vocabulary takes."""
    tokens, merges = (metadata.get(f"tokenizer.ggml.{name}") for name in ("tokens", "merges"))
    sizes = (len(one) if hasattr(one, "__len__") else 0 for one in (tokens, merges))
    return sum(map(mul, sizes, (_TOKEN_BYTES, _MERGE_BYTES)))


def _rounded(tokens: int) -> int:
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
        cells = min(n_ctx, _rounded(wanted)) * streams
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
    """Refuse a model that does not fit the memory that this process may have.

    Raises:
        ResourceError: It does not.
    """
    for limit in limits():
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
