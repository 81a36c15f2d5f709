"""Models of a HuggingFace folder computed in plain numpy, to check a converted file against.

``Decoder`` gives the logits of the last position of a few prompts: one pass over the weights serves
all of them; nothing is cached and nothing is fused. ``FAMILIES`` lists how the classes of
transformers differ, which is little.

Weights are read under the folder's names and in its order, never through the table that converts
them: a mistake there shows. Everything is float32, a block of rows of one tensor in memory. To
compare with llama.cpp on a CPU, weights and their inputs are rounded to the type of the file
(``RoundedWeights``).

Source: transformers, models/llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3 (modeling files;
``apply_rotary_pos_emb``), modeling_rope_utils.py, activations.py; ggml-cpu.c
(``type_traits_cpu``), vec.h (``ggml_vec_gelu_f32``).
"""

from __future__ import annotations

import os

from mtkit.architectures.config import Config, class_named
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import MODEL_CONFIG
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf.values import F16, Q8_0, decode_values, encode_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.checkpoints.folder_files import StoredTensor
    from mtkit.checkpoints.model_folder import ModelFolder
    from mtkit.gguf.types import TensorType


_BLOCK = 1 << 21
"""Values in memory at once, 8 MB of float32; rounding them takes a few times that."""
_PREFIX = "model."
"""Missing in front of all names where a model was published without its head."""


class Weights:
    """Tensors by name."""

    def __init__(self, tensors: Mapping[str, StoredTensor]) -> None:
        self._tensors = tensors
        self.unread = set(tensors)

    def has(self, name: str) -> bool:
        """Whether there is such a tensor."""
        return self._real(name) in self._tensors

    def _real(self, name: str) -> str:
        short = name.removeprefix(_PREFIX)
        return short if name not in self._tensors and short in self._tensors else name

    def _find(self, name: str, shape: tuple[int, ...]) -> StoredTensor:
        name = self._real(name)
        stored = self._tensors.get(name)
        if stored is None:
            raise FormatError(f"there is no tensor {quoted(name)}")
        if stored.weight.shape != shape:
            what = f"has the shape {list(stored.weight.shape)}, but config.json says {list(shape)}"
            raise FormatError(what, field=f"tensor {quoted(name)}")
        self.unread.discard(name)
        return stored

    def vector(self, name: str, size: int) -> Any:
        """Return a tensor of one axis: float32 of shape (size,)."""
        return self._find(name, (size,)).values(0, size)

    def block(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Any:
        """Return rows of a matrix: float32 of shape (stop - start, columns)."""
        _, columns = shape
        stored = self._find(name, shape)
        return stored.values(start * columns, stop * columns).reshape(-1, columns)

    def rows(self, name: str, shape: tuple[int, int], numbers: Sequence[int]) -> Any:
        """Return single rows of a matrix: float32 of shape (rows, columns)."""
        import numpy as np

        return np.concatenate([self.block(name, shape, row, row + 1) for row in numbers])

    def product(self, x: Any, name: str, size: int) -> Any:
        """Return what a linear layer makes of rows: float32 of shape (rows, size).

        Args:
            x: Float32 of shape (rows, columns).
        """
        import numpy as np

        columns = x.shape[1]
        step = max(_BLOCK // max(columns, 1), 1)
        out = np.empty((len(x), size), np.float32)
        for at in range(0, size, step):
            stop = min(at + step, size)
            part = self.block(f"{name}.weight", (size, columns), at, stop)
            np.matmul(x, part.T, out=out[:, at:stop])
        if self.has(f"{name}.bias"):
            out += self.vector(f"{name}.bias", size)
        return out


class RoundedWeights(Weights):
    """Tensors whose matrices have the type of a GGUF: F32, F16, BF16 or Q8_0."""

    def __init__(self, tensors: Mapping[str, StoredTensor], kind: TensorType) -> None:
        super().__init__(tensors)
        self._kind = kind

    def block(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Any:
        """Return rows as they are in the file."""
        return self._round(super().block(name, shape, start, stop))

    def product(self, x: Any, name: str, size: int) -> Any:
        """Round the rows as well, as they are multiplied."""
        return super().product(self._round(x), name, size)

    def _round(self, values: Any) -> Any:
        # A row that no block fits has another type, as in ``conversion.model_tensors``.
        kind = F16 if values.shape[-1] % self._kind.block else self._kind
        return round_to_type(values, kind)


def round_to_type(values: Any, kind: TensorType) -> Any:
    """Return float32 values as a type has them."""
    import numpy as np

    data = encode_values(np.ascontiguousarray(values), kind)
    if kind is not Q8_0:
        return decode_values(data, kind.name).reshape(values.shape)
    blocks = data.reshape(-1, kind.block_bytes)  # a scale in F16, and 32 whole numbers
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    return (blocks[:, 2:].view(np.int8) * scales).reshape(values.shape)


_GELU_LIMIT = 10
"""Beyond it llama.cpp looks nothing up."""


def silu(x: Any) -> Any:
    """Return the activation of this name."""
    import numpy as np

    return x / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    """Return the activation ``gelu_pytorch_tanh``."""
    import numpy as np

    inside = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x**3)
    return x / 2 * (1 + np.tanh(inside))


def table_gelu(x: Any) -> Any:
    """Return ``gelu`` as llama.cpp looks it up: from a number in F16 to a number in F16."""
    import numpy as np

    values = round_to_type(gelu(round_to_type(x, F16)), F16)
    return np.where(x <= -_GELU_LIMIT, 0, np.where(x >= _GELU_LIMIT, x, values)).astype(np.float32)


_ROTARY_BASE = 10000.0


def rotary_frequencies(config: Config, layers: str, width: int) -> tuple[Any, float]:
    """Return radians per position of each pair, float64 of shape (width / 2,), and their scale."""
    import numpy as np

    rope = config.rope(layers)
    base = rope.number("rope_theta") or _ROTARY_BASE
    plain = 1.0 / base ** (np.arange(0, width, 2, dtype=np.float64) / width)
    kind = rope.text("rope_type") or "default"
    if (rope.number("partial_rotary_factor") or 1.0) != 1.0:
        raise UnsupportedError("turns a part of each head", field="partial_rotary_factor")
    if kind == "default":
        return plain, 1.0
    factor = rope.number("factor") or 1.0
    if kind == "linear":
        return plain / factor, 1.0
    context = rope.whole("original_max_position_embeddings") or config.count(
        "max_position_embeddings"
    )
    if kind == "llama3":
        return _llama_3(rope, plain, factor, context), 1.0
    if kind == "yarn":
        return _yarn(rope, plain, base, factor, context)
    raise UnsupportedError(f"{quoted(kind)} is a scaling that is not known here", field="rope_type")


def _llama_3(rope: Config, plain: Any, factor: float, context: int) -> Any:
    import numpy as np

    low, high = rope.number("low_freq_factor") or 1.0, rope.number("high_freq_factor") or 4.0
    turns = context * plain / (2 * np.pi)
    part = np.clip((turns - low) / (high - low), 0, 1)
    return plain * (part + (1 - part) / factor)


def _yarn(rope: Config, plain: Any, base: float, factor: float, context: int) -> tuple[Any, float]:
    import numpy as np

    half = len(plain)

    def pair(turns: float) -> float:
        return float(half * np.log(context / (turns * 2 * np.pi)) / np.log(base))

    first = max(np.floor(pair(rope.number("beta_fast") or 32)), 0)
    last = min(np.ceil(pair(rope.number("beta_slow") or 1)), 2 * half - 1)
    part = np.clip((np.arange(half) - first) / max(last - first, 0.001), 0, 1)
    scale = rope.number("attention_factor") or (0.1 * np.log(factor) + 1 if factor > 1 else 1.0)
    return plain * (1 - part) + plain / factor * part, float(scale)


def rotate(x: Any, positions: Any, speeds: Any, scale: float) -> Any:
    """Turn heads by their positions; the two elements of a pair are half a head apart.

    Args:
        x: Float32 of shape (tokens, heads, width).
    """
    import numpy as np

    angles = positions[:, None, None] * speeds
    cos, sin = (
        (scale * np.cos(angles)).astype(np.float32),
        (scale * np.sin(angles)).astype(np.float32),
    )
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate((low * cos - high * sin, high * cos + low * sin), axis=-1)


class Family(Record):
    """How a class of transformers differs from the plain decoder.

    Attributes:
        plus_one: A norm multiplies with 1 + its weight.
        scales_embeddings: By the root of their width.
        windows: Every layer has a sliding window (all), those that ``layer_types`` names (some),
            those behind ``max_window_layers`` if ``use_sliding_window`` is set (flag), or none.
    """

    activation: str = "silu"
    defaults: Mapping[str, Any] = {}
    plus_one: bool = False
    scales_embeddings: bool = False
    head_norms: bool = False
    four_norms: bool = False
    windows: str = ""


_GELU = "gelu_pytorch_tanh"
_GEMMA = Family(
    _GELU, {"tie_word_embeddings": True, "head_dim": 256}, plus_one=True, scales_embeddings=True
)
_GEMMA_2 = Family(
    _GELU,
    {
        **_GEMMA.defaults, "query_pre_attn_scalar": 256, "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0, "sliding_window": 4096, "sliding_window_pattern": 2,
    },
    plus_one=True, scales_embeddings=True, four_norms=True, windows="some",
)  # fmt: skip
_GEMMA_3 = Family(
    _GELU,
    {
        **_GEMMA.defaults, "query_pre_attn_scalar": 256, "sliding_window": 4096,
        "sliding_window_pattern": 6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
    },
    plus_one=True, scales_embeddings=True, head_norms=True, four_norms=True, windows="some",
)  # fmt: skip
_QWEN = {"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28}
FAMILIES = {
    "LlamaForCausalLM": Family(),
    "LLaMAForCausalLM": Family(),
    "MistralForCausalLM": Family(defaults={"num_key_value_heads": 8}, windows="all"),
    "Qwen2ForCausalLM": Family(defaults=_QWEN, windows="flag"),
    "Qwen3ForCausalLM": Family(
        defaults={**_QWEN, "head_dim": 128}, head_norms=True, windows="flag"
    ),
    "GemmaForCausalLM": _GEMMA,
    "Gemma2ForCausalLM": _GEMMA_2,
    "Gemma3ForCausalLM": _GEMMA_3,
}
"""Class of transformers -> what it computes."""


def family_of(name: str) -> Family:
    """Return what a class computes."""
    if name not in FAMILIES:
        what = f"{quoted(name)} is a model that mtkit does not compute by itself"
        hint = f"it computes {', '.join(FAMILIES)}"
        raise UnsupportedError(what, field="architectures", hint=hint)
    return FAMILIES[name]


def attention_window(family: Family, config: Config, layer: int) -> int | None:
    """Return how many tokens a layer looks back, itself included; None: all."""
    size = config.whole("sliding_window")
    if family.windows == "all":
        return size
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and layer < len(kinds):
        return size if kinds[layer] == "sliding_attention" else None
    if family.windows == "some":
        period = config.count("sliding_window_pattern", "_sliding_window_pattern")
        return None if (layer + 1) % period == 0 else size
    first = config.whole("max_window_layers") or 0
    has_window = family.windows == "flag" and config.flag("use_sliding_window") and layer >= first
    return size if has_window else None


_EMBEDDING = "model.embed_tokens"
_DROPPED = ".rotary_emb.inv_freq"
"""Suffix of tensors that nothing reads."""


class Decoder:
    """A model of a folder."""

    def __init__(self, folder: ModelFolder, kind: TensorType | None = None) -> None:
        """Read its config.

        Args:
            kind: Round as llama.cpp does with matrices of this type; None: no rounding.
        """
        source = os.path.join(folder.path, MODEL_CONFIG)
        try:
            self.family = family = family_of(class_named(folder.config))
        except MtkitError as error:
            raise error.located(source) from None
        self.config = config = Config(folder.config, source).with_defaults(family.defaults)
        tensors = folder.tensors
        self.weights = Weights(tensors) if kind is None else RoundedWeights(tensors, kind)
        self._activation = silu
        if family.activation != "silu":
            self._activation = gelu if kind is None else table_gelu
        activation = config.text("hidden_activation", "hidden_act") or family.activation
        if activation != family.activation and not (family.plus_one and activation == "gelu"):
            what = f"is {quoted(activation)}, not {family.activation}"
            raise UnsupportedError(what, source=source, field="hidden_act")
        self.layers = config.count("num_hidden_layers")
        self.vocab = config.count("vocab_size")
        self.size = config.count("hidden_size")
        self.inner = config.count("intermediate_size")
        self.heads = config.count("num_attention_heads")
        self.kv_heads = config.whole("num_key_value_heads") or self.heads
        self.width = config.whole("head_dim") or self.size // self.heads
        if self.heads % self.kv_heads or self.width % 2:
            raise FormatError("heads cannot be shared or turned", source=source, field="head_dim")
        self.epsilon = config.number("rms_norm_eps") or 1e-6
        self.scale = (config.number("query_pre_attn_scalar") or self.width) ** -0.5

    def last_logits(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Return the logits behind each prompt: float32 of shape (vocabulary,)."""
        import numpy as np

        ids = [token_id for prompt in prompts for token_id in prompt]
        if not all(prompts) or not all(0 <= token_id < self.vocab for token_id in ids):
            raise UsageError(f"ids are 0 to {self.vocab - 1}, and a prompt has one at least")
        ends = np.cumsum([len(prompt) for prompt in prompts])
        try:
            with np.errstate(all="ignore"):
                starts = [0, *ends[:-1]]
                x = self._hidden_states(ids, list(map(slice, starts, ends)))
                logits = self._head(self._norm(x[ends - 1], "model.norm"))
        except MtkitError as error:
            raise error.located(self.config.source) from None
        unused = sorted(name for name in self.weights.unread if not name.endswith(_DROPPED))
        if unused:
            what = f"such a model has no tensor {quoted(unused[0])}"
            raise FormatError(what, source=self.config.source)
        return list(logits)

    def _hidden_states(self, ids: list[int], parts: list[slice]) -> Any:
        """Return the last hidden states: float32 of shape (tokens, width)."""
        import numpy as np

        x = self.weights.rows(f"{_EMBEDDING}.weight", (self.vocab, self.size), ids)
        if self.family.scales_embeddings:
            x *= np.float32(self.size**0.5)
        after = self.family.four_norms
        for layer in range(self.layers):
            name = f"model.layers.{layer}."
            h = self._attention(self._norm(x, f"{name}input_layernorm"), layer, parts)
            if after:
                h = self._norm(h, f"{name}post_attention_layernorm")
            x = x + h
            before = "pre_feedforward_layernorm" if after else "post_attention_layernorm"
            h = self._feed_forward(self._norm(x, f"{name}{before}"), f"{name}mlp.")
            if after:
                h = self._norm(h, f"{name}post_feedforward_layernorm")
            x = x + h
        return x

    def _norm(self, x: Any, name: str) -> Any:
        """Divide what stands on the last axis by its root mean square, times the weight."""
        import numpy as np

        weight = self.weights.vector(f"{name}.weight", x.shape[-1])
        root = np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(self.epsilon))
        return x / root * (weight + 1 if self.family.plus_one else weight)

    def _attention(self, h: Any, layer: int, parts: list[slice]) -> Any:
        import numpy as np

        name = f"model.layers.{layer}.self_attn."
        product, heads, width = self.weights.product, self.heads, self.width
        q = product(h, f"{name}q_proj", heads * width).reshape(-1, heads, width)
        k = product(h, f"{name}k_proj", self.kv_heads * width).reshape(-1, self.kv_heads, width)
        v = product(h, f"{name}v_proj", self.kv_heads * width).reshape(-1, self.kv_heads, width)
        if self.family.head_norms:
            q, k = self._norm(q, f"{name}q_norm"), self._norm(k, f"{name}k_norm")
        behind = attention_window(self.family, self.config, layer)
        # Gemma 3 alone turns the layers with a window in another way.
        other = behind is not None and self.config.get("rope_local_base_freq", "rope_parameters")
        kind = "sliding_attention" if other else "full_attention"
        speeds, scale = rotary_frequencies(self.config, kind, width)
        out = np.empty((len(h), heads * width), np.float32)
        for part in parts:
            positions = np.arange(part.stop - part.start)
            out[part] = self._mix(
                rotate(q[part], positions, speeds, scale),
                rotate(k[part], positions, speeds, scale),
                v[part],
                behind,
            )
        return product(out, f"{name}o_proj", self.size)

    def _mix(self, q: Any, k: Any, v: Any, behind: int | None) -> Any:
        """Mix the values of one prompt: float32 of shape (tokens, heads * width)."""
        import numpy as np

        count, shared = len(q), self.heads // self.kv_heads
        k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) * np.float32(self.scale)
        scores = _cap(scores, self.config.number("attn_logit_softcapping"))
        distance = np.arange(count)[:, None] - np.arange(count)
        hidden = (distance < 0) | (distance >= (behind or count))
        scores[:, hidden] = -np.inf
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = powers / powers.sum(axis=-1, keepdims=True)
        return np.einsum("hqk,khd->qhd", shares, v).reshape(count, -1)

    def _feed_forward(self, h: Any, name: str) -> Any:
        gate = self.weights.product(h, f"{name}gate_proj", self.inner)
        h = self._activation(gate) * self.weights.product(h, f"{name}up_proj", self.inner)
        return self.weights.product(h, f"{name}down_proj", self.size)

    def _head(self, x: Any) -> Any:
        is_tied = self.config.flag("tie_word_embeddings") or not self.weights.has("lm_head.weight")
        logits = self.weights.product(x, _EMBEDDING if is_tied else "lm_head", self.vocab)
        if is_tied:
            self.weights.unread.discard("lm_head.weight")  # a copy that transformers replaces
        return _cap(logits, self.config.number("final_logit_softcapping"))


def _cap(values: Any, most: float | None) -> Any:
    import numpy as np

    return values if most is None else np.tanh(values / np.float32(most)) * np.float32(most)
