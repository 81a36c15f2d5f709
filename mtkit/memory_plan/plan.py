"""The memory that a model will take (weights, cache, compute buffer), and whether there is as much.

``make_plan`` reads the metadata and the tensor table alone. Weights and cache are what llama.cpp
will allocate; the compute buffer is an estimate. The graph reuses its memory from step to step, so
the buffer is as large as the graph at its widest: at the feed-forward part with its three matrices,
at the attention, or at the logits. The attention mask lives as long as any layer. What the
allocator leaves unused between its pieces is not predicted.
Source: the "compute buffer size" of llama.cpp's log; ``tests/memory_plan/test_plan.py`` compares.

On the CPU llama.cpp repacks some matrices when it loads them: blocks of several rows are
interleaved, in memory of their own; a mapped file keeps its pages beside that. Matrices of other
types, or with another number of rows, stay as they are.
Source: ggml-cpu/repack.cpp of ggml (``ggml_repack_get_optimal_repack_type``).

Limits (``memory_limits``) come from the address space, the control groups and the machine. A
process is in a group and in all groups around it; each may limit memory and cores. Version 2 has
one tree of folders for all controllers, version 1 one for each. In a container the root is often
the container's own group.
Source: cgroups(7) and the kernel's admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from itertools import takewhile
from operator import mul

from mtkit.base.record import Record
from mtkit.errors import ResourceError, wording
from mtkit.memory_plan.cache import Layer, model_layers, stored_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
    """Estimate the compute buffer for ``n_ubatch`` tokens at once.

    llama.cpp reserves it for the logits of all of them; what is not computed stays untouched.

    Args:
        layers: None where the metadata does not say.
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
"""Feature of the processor -> type of the weights -> what the number of rows is a multiple of."""
_LOOKED_UP = ("token_embd.weight", "position_embd.weight", "per_layer_token_embd.weight")
"""Tables whose rows are read; nothing is multiplied with them."""
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_PROCESSORS = {"AMD64": "avx2", "x86_64": "avx2", "arm64": "asimddp", "aarch64": "asimddp"}
"""Architecture -> feature of its processors, where the system does not say."""


@cache
def processor_features() -> frozenset[str]:
    """Return the features of this machine's processor, as the kernel names them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, features = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(features.split())
    except OSError:
        pass
    return frozenset({_PROCESSORS.get(platform.machine(), "")})


def is_repacked(tensor: Tensor, features: AbstractSet[str]) -> bool:
    """Tell whether llama.cpp repacks a matrix for these processor features."""
    rows = tensor.shape[1] if len(tensor.shape) in (2, 3) else 0
    return rows > 0 and any(
        rows % kinds.get(tensor.type.name, rows + 1) == 0
        for feature, kinds in _WOVEN_ROWS.items()
        if feature in features
    )


def repacked_bytes(tensors: tuple[Tensor, ...], features: AbstractSet[str], *, mapped: bool) -> int:
    """Return the memory of repacked matrices besides the weights of the file.

    Args:
        mapped: The file is mapped; of a file that is read, only an embedding that is the head as
            well exists in both layouts.
    """
    is_tied = all(tensor.name != _HEAD for tensor in tensors)
    repacked = [tensor for tensor in tensors if is_repacked(tensor, features)]
    copies = sum(t.n_bytes for t in repacked if is_tied and t.name == _EMBEDDING)
    if mapped:
        moved = {t.name for t in repacked if t.name not in _LOOKED_UP}
        copies += sum(t.n_bytes for t in repacked if t.name in moved)
        # llama.cpp unmaps the pages of moved matrices at both ends of the file.
        for ordered in (tensors, tensors[::-1]):
            copies -= sum(t.n_bytes for t in takewhile(lambda t: t.name in moved, ordered))
    return max(copies, 0)


CELLS = 256
"""llama.cpp rounds the number of tokens that a cache holds up to a multiple of this."""
_PROCESS = 48_000_000
"""Python, numpy and llama.cpp (measured: 46 to 50 MB)."""
_TOKEN_BYTES, _MERGE_BYTES = 181, 154
"""What llama.cpp's vocabulary takes (measured with 49,152 to 262,144 tokens)."""


class PlanSettings(Record):
    """How the model is to run.

    Attributes:
        n_ctx: Tokens of context; None for what the model was trained with.
        gpu_layers: Layers on GPUs, counted from the last; -1 for all.
        kv_unified: Each may take all of it, instead of an equal part.
        swa_full: Layers with a window keep the whole context, too.
        mmap: The file is mapped; None: as llama.cpp does.
        features: Of the processor; None: this machine's.
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
    """The cache of one layer."""

    layer: Layer
    cells: int
    n_bytes: int
    is_on_gpu: bool


class Plan(Record):
    """What running a model takes, in bytes.

    Attributes:
        layers: The cache of each layer; empty where the metadata does not say.
        projector: That of pictures and sounds, and what it computes with.
    """

    n_ctx: int
    weights: int
    weights_on_gpu: int
    layers: tuple[LayerPlan, ...]
    compute: int
    repacked: int = 0
    batch: int = 0
    process: int = 0
    projector: int = 0

    @property
    def cache(self) -> int:
        """The cache of all layers."""
        return sum(layer.n_bytes for layer in self.layers)

    @property
    def host(self) -> int:
        """Main memory while a prompt of half a batch is computed."""
        on_gpu = sum(layer.n_bytes for layer in self.layers if layer.is_on_gpu)
        weights = self.weights - self.weights_on_gpu + self.repacked
        rest = self.process + self.projector
        return weights + self.cache - on_gpu + self.batch // 2 + rest

    @property
    def most(self) -> int:
        """Main memory if all that is reserved is used."""
        return self.host - self.batch // 2 + self.compute

    @property
    def gpu(self) -> int:
        """Memory of the GPUs, without the compute buffer."""
        on_gpu = sum(layer.n_bytes for layer in self.layers if layer.is_on_gpu)
        return self.weights_on_gpu + on_gpu


def make_plan(metadata: Any, tensors: tuple[Tensor, ...], settings: PlanSettings) -> Plan:
    """Return the memory that running a model takes."""
    layers = model_layers(metadata)
    architecture = metadata.get("general.architecture")
    trained = metadata.get(f"{architecture}.context_length")
    n_ctx = settings.n_ctx or (trained if type(trained) is int and 0 < trained < 1 << 40 else 512)
    streams = 1 if settings.kv_unified else settings.n_seq
    rounded = _round_up(n_ctx // streams or 1)
    first_on_gpu = _first_on_gpu(len(layers), settings.gpu_layers)
    layer_plans = tuple(
        _layer_plan(layer, rounded, streams, settings, is_on_gpu=layer.index >= first_on_gpu)
        for layer in layers
    )
    cells_by_kind = {bool(x.layer.window): x.cells // streams for x in layer_plans if x.layer.key}
    weights = sum(tensor.n_bytes for tensor in tensors)
    on_gpu = sum(t.n_bytes for t in tensors if _is_on_gpu(t, len(layers), settings.gpu_layers))
    n_ubatch = min(settings.n_ubatch, n_ctx)
    compute, batch = (
        compute_bytes(
            metadata,
            tensors,
            layers,
            n_ctx=rounded,
            cells=list(cells_by_kind.values()),
            n_ubatch=n_ubatch,
            n_outputs=n_outputs,
            flash_attention=settings.flash_attention,
        )
        for n_outputs in (n_ubatch, min(settings.n_seq, n_ubatch))
    )
    on_cpu = tuple(t for t in tensors if not _is_on_gpu(t, len(layers), settings.gpu_layers))
    features = processor_features() if settings.features is None else settings.features
    repacked = repacked_bytes(on_cpu, features, mapped=settings.mmap is not False)
    return Plan(
        rounded * streams,
        weights,
        on_gpu,
        layer_plans,
        compute,
        repacked if settings.repack else 0,
        batch,
        _PROCESS + _vocabulary_bytes(metadata),
    )


def _vocabulary_bytes(metadata: Any) -> int:
    """Return the bytes that llama.cpp's vocabulary takes."""
    tokens, merges = (metadata.get(f"tokenizer.ggml.{name}") for name in ("tokens", "merges"))
    sizes = (len(entries) if hasattr(entries, "__len__") else 0 for entries in (tokens, merges))
    return sum(map(mul, sizes, (_TOKEN_BYTES, _MERGE_BYTES)))


def _round_up(tokens: int) -> int:
    return -(-tokens // CELLS) * CELLS


def _layer_plan(
    layer: Layer, n_ctx: int, streams: int, settings: PlanSettings, *, is_on_gpu: bool
) -> LayerPlan:
    """Return the cache of a layer for separate ``streams`` of ``n_ctx`` tokens each.

    Source: llama-kv-cache-iswa.cpp of llama.cpp.
    """
    cells = n_ctx * streams
    if layer.window and not settings.swa_full:
        tokens = layer.window * settings.n_seq // streams + settings.n_ubatch
        cells = min(n_ctx, _round_up(tokens)) * streams
    cache = stored_bytes((layer.key + layer.value) * cells, settings.kv_type)
    state = layer.state * 4 * settings.n_seq
    n_cells = cells if layer.key else settings.n_seq
    return LayerPlan(layer, n_cells, cache + state, is_on_gpu)


def _first_on_gpu(count: int, gpu_layers: int) -> int:
    """Return the first layer on GPUs: the last ones go there, the output counts as one more."""
    return 0 if gpu_layers < 0 else max(count + 1 - gpu_layers, 0)


def _is_on_gpu(tensor: Tensor, count: int, gpu_layers: int) -> bool:
    first = _first_on_gpu(count, gpu_layers)
    if tensor.block is not None:
        return tensor.block >= first
    return tensor.name.startswith("output") and first <= count and gpu_layers != 0


CGROUP_ROOT = "/sys/fs/cgroup"
CGROUP_MEMBERSHIP = "/proc/self/cgroup"
_UNLIMITED = 1 << 60


def free_in_groups(own_bytes: int) -> list[int]:
    """Return the free bytes of each group that has a limit.

    Args:
        own_bytes: Memory of this process, for groups that do not say how much is in use.
    """
    free = []
    for folder, is_second in _group_folders("memory"):
        most, now = (
            ("memory.max", "memory.current")
            if is_second
            else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        allowed, used = _read_number(folder, most), _read_number(folder, now)
        if allowed is None or allowed >= _UNLIMITED:
            continue
        # Cached files count as in use, but give way.
        cached = _cache_bytes(folder, "file" if is_second else "total_cache")
        in_use = own_bytes if used is None or cached is None else used - cached
        free.append(max(allowed - max(in_use, 0), 0))
    return free


def allowed_cores() -> float:
    """Return how many cores the groups give; infinite where none has a limit."""
    least = float("inf")
    for folder, is_second in _group_folders("cpu"):
        if is_second:
            quota, _, period = _read_text(folder, "cpu.max").partition(" ")
        else:
            quota, period = (
                _read_text(folder, "cpu.cfs_quota_us"),
                _read_text(folder, "cpu.cfs_period_us"),
            )
        if quota.strip().isdecimal() and period.strip().isdecimal() and int(period):
            least = min(least, int(quota) / int(period))
    return least


def _group_folders(controller: str) -> Iterator[tuple[str, bool]]:
    """Yield the folder of each group of this process, and whether it is of version 2."""
    for line in [*_read_text("", CGROUP_MEMBERSHIP).splitlines(), f"1:{controller}:/", "0::/"]:
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        top = os.path.join(CGROUP_ROOT, controller) if names else CGROUP_ROOT
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts), -1, -1) if ".." not in parts else ():
            folder = os.path.join(top, *parts[:count])
            if os.path.isdir(folder):
                yield folder, not names


def _cache_bytes(folder: str, name: str) -> int | None:
    for line in _read_text(folder, "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return None


def _read_number(folder: str, name: str) -> int | None:
    text = _read_text(folder, name).strip()
    return int(text) if text.isdecimal() else None


def _read_text(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


_LIBRARIES = 100 << 20
"""Address space that numpy and llama.cpp take when they are loaded (measured: 85 and 10 MB)."""


class Limit(Record):
    """A limit on memory, and what it leaves."""

    name: str
    free: int


def memory_limits() -> list[Limit]:
    """Return the limits in force."""
    return [*_address_space(), *_control_groups(), *_machine()]


def _address_space() -> list[Limit]:
    try:
        import resource
    except ImportError:  # not on Windows
        return []
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY or soft >= _UNLIMITED:
        return []
    used = (_proc_bytes("self/status", "VmSize") or 0) + ("numpy" not in sys.modules) * _LIBRARIES
    return [Limit("the limit of the address space (ulimit -v)", max(soft - used, 0))]


def _control_groups() -> list[Limit]:
    free = free_in_groups(_proc_bytes("self/status", "VmRSS") or 0)
    return [Limit("the control group", min(free))] if free else []


def _machine() -> list[Limit]:
    total = _proc_bytes("meminfo", "MemTotal")
    return [] if total is None else [Limit("this machine", total)]


def available_memory() -> int | None:
    """Return the free bytes, cached files counted as free; None where the system does not say."""
    free = [limit.free for limit in memory_limits()]
    available = _proc_bytes("meminfo", "MemAvailable")
    if available is not None:
        free.append(available)
    return min(free, default=None)


def _proc_bytes(file_name: str, name: str) -> int | None:
    """Return the kilobytes on a line of a file of /proc, as bytes; None where there is none."""
    try:
        with open(f"/proc/{file_name}", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def check_fits(plan: Plan, source: str, *, hint: str = "") -> None:
    """Refuse a model that does not fit the memory that this process may have."""
    for limit in memory_limits():
        if plan.most > limit.free:
            raise ResourceError(
                f"needs {_megabytes(plan.most)} "
                f"(weights {_megabytes(plan.weights + plan.repacked)}, "
                f"cache {_megabytes(plan.cache)}, computing {_megabytes(plan.compute)}"
                + (f", projector {_megabytes(plan.projector)}" if plan.projector else "")
                + "), "
                f"but {limit.name} has {_megabytes(limit.free)} left",
                source=source,
                hint=hint
                or wording(
                    "use a smaller model, --ctx, -n or --kv-type, or a GPU (-ngl)",
                    "use a smaller model, n_ctx, n_predict or kv_type, or a GPU (gpu_layers)",
                ),
            )


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.0f} MB"


_SPARE_PART = 8
"""One eighth of the free memory is left to other programs."""


def fitting_context(
    plan: Callable[[int], Plan], most: int, least: int, free: int | None = None
) -> int:
    """Return how many tokens of context fit, a multiple of ``CELLS``.

    Args:
        free: Bytes; None: what this machine has.
    """
    free = available_memory() if free is None else free
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
