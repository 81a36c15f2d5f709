"""What running a model takes: weights and key/value cache, in bytes.

The cache is that of ordinary attention with 16-bit keys and values over the whole context: at each
layer, key and value length times key/value heads. Layers with a sliding window, shared caches or
recurrent state take less, so for such models it is an upper bound.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.inspection.hyperparameters import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.inspection.hyperparameters import HyperParameter

CACHE_BYTES = 2
"""Bytes of one key or value element (f16, llama.cpp's default)."""


class Memory(Record):
    """Memory of a running model, in bytes.

    Attributes:
        weights: All tensors.
        cache_per_token: Key/value cache for one token of context; None where it is not known.
        context: The context that the model was trained with; None where it is not known.
    """

    weights: int
    cache_per_token: int | None
    context: int | None


def memory(values: tuple[HyperParameter, ...], weights: int) -> Memory:
    """Estimate the memory of a model from its hyper-parameters."""
    key, value = count(values, "n_embd_head_k"), count(values, "n_embd_head_v")
    heads = _heads_of_all_layers(values)
    per_token = heads * (key + value) * CACHE_BYTES if key and value and heads else None
    return Memory(weights, per_token, count(values, "n_ctx_train"))


def _heads_of_all_layers(values: tuple[HyperParameter, ...]) -> int | None:
    """Sum of the key/value heads over the layers."""
    layers, heads = count(values, "n_layer"), count(values, "n_head_kv")
    if layers and heads:
        return layers * heads
    by_layer = next((item.value for item in values if item.name == "n_head_kv"), None)
    if not isinstance(by_layer, list) or not all(type(n) is int and n >= 0 for n in by_layer):
        return None
    return sum(by_layer)
