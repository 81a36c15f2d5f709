"""The cache of each layer of a model: its kind, its size, and the types of its elements.

* attention: key and value of every key/value head, over the whole context or the last window of it
* attention with a compressed cache (MLA): one latent vector and the rotary part, no values
* recurrent: a state of fixed size for every sequence, in 32 bits

Source: llama-hparams.cpp (``n_embd_k_gqa``, ``n_embd_r``, ``n_embd_s``, ``set_swa_pattern``),
llama-model.cpp ``load_hparams`` and llama-kv-cache.cpp of llama.cpp.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import UsageError, wording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.gguf.types import TensorType


KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""Those of ``settings.KvType``; reading them from it would import typing, a tenth of a look."""


def element_type(kv_type: str) -> TensorType:
    """Return the tensor type of a cache."""
    from mtkit.gguf.types import TENSOR_TYPES

    for kind in TENSOR_TYPES.values():
        if kind.name.lower() == kv_type and kv_type in KV_TYPES:
            return kind
    what = f"{kv_type!r} is not one of {', '.join(KV_TYPES)}"
    raise UsageError(what, field=wording("--kv-type", "kv_type"))


def stored_bytes(elements: int, kv_type: str) -> int:
    """Return the bytes that so many elements take."""
    kind = element_type(kv_type)
    return elements * kind.block_bytes // kind.block


# One layer in so many looks at the whole context; llama.cpp has these numbers in its code.
_WINDOW_PATTERNS = {
    "gemma2": 2, "gemma3": 6, "gemma3n": 5, "gemma-embedding": 6, "cohere2": 4, "gpt-oss": 2,
    "llama4": 4, "olmo2": 4, "exaone4": 4, "plamo3": 8, "afmoe": 4, "smallthinker": 4,
}  # fmt: skip
_FULL_ATTENTION = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}
_RECURRENT = {"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"}
_BOTH = {"falcon-h1"}


class Layer(Record):
    """The cache of one layer.

    Attributes:
        kind: "attention", "window", "compressed", "recurrent" or "attention and recurrent".
        key: Elements of the keys of a token; ``value`` likewise.
        window: Tokens that it looks back; 0 for all.
    """

    index: int
    kind: str
    key: int
    value: int
    window: int
    state: int


class _Keys:
    """The numbers in the metadata of an architecture."""

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata
        name = metadata.get("general.architecture")
        self.architecture = name if isinstance(name, str) else ""

    def all(self, suffix: str) -> Any:
        return self._metadata.get(f"{self.architecture}.{suffix}")

    def number(self, suffix: str, otherwise: int = 0) -> int:
        value = self.all(suffix)
        return value if type(value) is int and 0 <= value < 1 << 40 else otherwise

    def at(self, suffix: str, layer: int, otherwise: int) -> int:
        """Return a value of a layer: one for all, or an array with one for each."""
        value = self.all(suffix)
        if value is not None and hasattr(value, "__len__") and not isinstance(value, str):
            if layer >= len(value):
                return otherwise
            value = value[layer]
            value = int(value) if isinstance(value, bool) else value
        return value if type(value) is int and 0 <= value < 1 << 40 else otherwise


MOST_LAYERS = 4096


def model_layers(metadata: Any) -> tuple[Layer, ...]:
    """Return the layers of a model; empty where the metadata does not say."""
    keys = _Keys(metadata)
    count = keys.number("block_count")
    count = keys.number("decoder_block_count", count)
    if not 0 < count <= MOST_LAYERS or not keys.number("embedding_length"):
        return ()
    return tuple(_layer(keys, index) for index in range(count))


def cache_per_token(metadata: Any) -> int | None:
    """Return the bytes of one more token of context in 16 bits; None if the metadata lacks it.

    A layer with a window takes them only until the window is full, or with ``swa_full``.
    """
    elements = sum(layer.key + layer.value for layer in model_layers(metadata))
    return stored_bytes(elements, "f16") or None


def _layer(keys: _Keys, index: int) -> Layer:
    state = _state(keys, index)
    has_attention = _has_attention(keys, index, is_recurrent=state > 0)
    if not has_attention:
        return Layer(index, "recurrent", 0, 0, 0, state)
    heads = keys.at("attention.head_count", index, 0)
    kv_heads = keys.at("attention.head_count_kv", index, heads)
    window = _window(keys, index)
    width = keys.number("embedding_length")
    head_width = width // heads if heads else 0
    suffix = "_swa" if window and keys.number("attention.key_length_swa") else ""
    key = keys.number(f"attention.key_length{suffix}", head_width)
    value = keys.number(f"attention.value_length{suffix}", head_width)
    if keys.number("attention.key_length_mla"):
        return Layer(index, "compressed", key * kv_heads, 0, window, 0)
    kind = "attention and recurrent" if state else "window" if window else "attention"
    return Layer(index, kind, key * kv_heads, value * kv_heads, window, state)


def _has_attention(keys: _Keys, index: int, *, is_recurrent: bool) -> bool:
    architecture = keys.architecture
    if architecture in _RECURRENT:
        return False
    if not is_recurrent or architecture in _BOTH:
        return True
    if architecture in _FULL_ATTENTION:
        return _is_full(keys, index)
    return keys.at("attention.head_count_kv", index, 1) > 0


def _state(keys: _Keys, index: int) -> int:
    """Return the elements of a layer's recurrent state: of the short convolution and the SSM."""
    width = keys.number("embedding_length")
    if keys.architecture in _FULL_ATTENTION and _is_full(keys, index):
        return 0
    head = keys.number("wkv.head_size")
    if head:
        return keys.number("token_shift_count", 2) * width + width * head
    short = keys.number("shortconv.l_cache")
    if short > 1:
        is_attention = keys.at("attention.head_count_kv", index, 0) > 0
        return 0 if is_attention else width * (short - 1)
    inner, size = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    if not inner:
        return 0
    attends = keys.at("attention.head_count_kv", index, 0) > 0
    if attends and keys.architecture not in _BOTH | _RECURRENT | set(_FULL_ATTENTION):
        return 0
    before = max(keys.number("ssm.conv_kernel") - 1, 0)
    groups = keys.number("ssm.group_count")
    return before * (inner + 2 * groups * size) + size * inner


def _is_full(keys: _Keys, index: int) -> bool:
    every = keys.number("full_attention_interval", _FULL_ATTENTION[keys.architecture])
    return bool(every) and (index + 1) % every == 0


def _window(keys: _Keys, index: int) -> int:
    size = keys.number("attention.sliding_window")
    if not size:
        return 0
    pattern = keys.all("attention.sliding_window_pattern")
    if pattern is not None and hasattr(pattern, "__len__") and not isinstance(pattern, str):
        return size if keys.at("attention.sliding_window_pattern", index, 0) else 0
    every = pattern if type(pattern) is int else _WINDOW_PATTERNS.get(keys.architecture, 0)
    if every < 1:
        return 0  # llama.cpp reads the key and looks at the whole context all the same
    return size if index % every < every - 1 else 0
