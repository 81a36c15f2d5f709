"""Gemma 4, text alone, and the model that drafts for it.

Layers that see a window have other widths of heads than those that see all tokens, and other
numbers of heads of keys; the last layers take keys and values from one before.
Source: llama.cpp, conversion/gemma.py (``Gemma4Model``, ``Gemma4UnifiedModel``,
``Gemma4AssistantModel``), src/models/gemma4.cpp; transformers, models/gemma4.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    IN_LAYER,
    SLIDING_WINDOW,
    SUPPRESS,
    default_fields,
    layer_types,
)
from mtkit.architectures.families.gemma import GEMMA_3
from mtkit.architectures.families.gemma3n import (
    EMBEDDINGS,
    KEY_VALUE,
    NORMS,
    PER_LAYER,
    PER_LAYER_DIMS,
    PER_LAYER_KEY,
    PER_LAYER_ROWS,
    QUERY,
    SHARED_KEY,
    has_own_keys,
    is_head,
)
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.architectures.table import (
    Architecture,
    Generated,
    block,
    in_layers,
    join_rows,
    optional,
    plain,
    row,
)
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_PATTERN = layer_types(lambda layer: (layer + 1) % 6 != 0)
_FAR = 1e30
"""Factor of a pair that is not rotated."""


def _of_full(field: str, inner: str) -> Callable[[Config], int | None]:
    """Return a function for a number of the layers that see everything.

    Newer files have it in ``per_layer_config``, by the number of the layer.
    """

    def value(config: Config) -> int | None:
        number = config.whole(field)
        layers = config.table("per_layer_config")
        slides = _PATTERN.value(config)
        for name in layers.fields if number is None else ():
            layer = layers.table(name)
            is_number = name.isdecimal() and len(name) < 10
            if is_number and int(name) < len(slides) and not slides[int(name)]:
                number = layer.whole(inner)
                break
        return number

    return value


_head_dim = _of_full("global_head_dim", "head_dim")
_heads = _of_full("num_global_key_value_heads", "num_key_value_heads")


def _heads_kv(config: Config) -> Any:
    heads, of_full = config.whole("num_key_value_heads"), _heads(config)
    if heads is None or of_full is None:
        return heads
    return [heads if slides else of_full for slides in _PATTERN.value(config)]


def _heads_fields(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"num_key_value_heads": value}
    return {"num_key_value_heads": max(value), "num_global_key_value_heads": min(value)}


def _widths(config: Config) -> Any:
    width, layers = config.count("intermediate_size"), config.count("num_hidden_layers")
    if not config.flag("use_double_wide_mlp"):
        return width
    shared = config.whole("num_kv_shared_layers") or 0
    return [width * (1 + (layer >= layers - shared)) for layer in range(min(layers, 1 << 16))]


def _width_fields(value: Any) -> dict[str, Any]:
    is_one = isinstance(value, int)
    return {"intermediate_size": value if is_one else value[0], "use_double_wide_mlp": not is_one}


def _rotary(config: Config) -> int:
    share = config.rope("sliding_attention").number("partial_rotary_factor")
    return int(config.count("head_dim") * (1.0 if share is None else share))


def _factors(config: Config, dims: Dims) -> Any:
    import numpy as np

    share = config.rope().number("partial_rotary_factor")
    turned = int(dims["rope"] * (1.0 if share is None else share) / 2)
    return np.where(np.arange(dims["rope/2"]) < turned, 1.0, _FAR).astype(np.float32)


def _slides(dims: Dims) -> bool:
    pattern = dims.keys.get(_PATTERN.name) or ()
    return dims.layer < len(pattern) and bool(pattern[dims.layer])


def _key(dims: Dims) -> int:
    return dims.key("attention.key_length_swa" if _slides(dims) else "attention.key_length")


def _has_inputs(dims: Dims) -> bool:
    return dims["input"] > 0


def _is_sparse(dims: Dims) -> bool:
    return dims.key("expert_count", 0) > 0


_KEYS = (
    *with_keys(
        GEMMA_3.keys,
        SLIDING_WINDOW,
        computed("feed_forward_length", "u32", _widths, _width_fields),
        computed("attention.head_count_kv", "u32", _heads_kv, _heads_fields),
        computed("attention.key_length", "u32", _head_dim, "global_head_dim"),
        computed("attention.value_length", "u32", _head_dim),
    ),
    SHARED_KEY,
    PER_LAYER_KEY,
    _PATTERN,
    EXPERT_FEED_FORWARD,
    u32("attention.key_length_swa", "head_dim"),
    u32("attention.value_length_swa", "head_dim"),
    computed("rope.dimension_count", "u32", _head_dim),
    computed("rope.dimension_count_swa", "u32", _rotary),
)
_EXPERTS = join_rows(
    row("router.proj", "ffn_gate_inp", "expert embd", bias=False),
    plain("router.scale", "ffn_gate_inp.scale", "embd"),
    plain("router.per_expert_scale", "ffn_down_exps.scale", "expert"),
    plain("experts.gate_up_proj", "ffn_gate_up_exps.weight", "expert ff_exp*2 embd"),
    plain("experts.down_proj", "ffn_down_exps.weight", "expert embd ff_exp"),
    row("pre_feedforward_layernorm_2", "pre_ffw_norm_2", "embd", bias=False),
    row("post_feedforward_layernorm_1", "post_ffw_norm_1", "embd", bias=False),
    row("post_feedforward_layernorm_2", "post_ffw_norm_2", "embd", bias=False),
)
_LAYER = join_rows(
    NORMS, QUERY, FEED_FORWARD, plain("layer_scalar", "layer_output_scale.weight", "1")
)

_KEY_VALUE = tuple(
    replace(row, optional=row.optional or "attn_v" in row.gguf[0]) for row in KEY_VALUE
)
"""Without values of its own a layer takes its keys for them."""


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    factors = tensor("rope_freqs.weight")
    turned = 1.0 if factors is None else int((factors == 1).sum()) * 2 / dims["rope"]
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "enable_moe_block": _is_sparse(dims),
        "attention_k_eq_v": not all(
            dims.has(f"blk.{layer}.attn_v.weight") or not dims.has(f"blk.{layer}.attn_k.weight")
            for layer in range(dims.key("block_count"))
        ),
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": dims.keys.get("rope.freq_base"),
                "partial_rotary_factor": turned,
            },
            "sliding_attention": {
                "rope_type": "default",
                "rope_theta": dims.keys.get("rope.freq_base_swa"),
            },
        },
    }


GEMMA_4 = Architecture(
    "gemma4",
    ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"),
    "gemma4_text",
    _KEYS,
    join_rows(
        EMBEDDINGS,
        in_layers(
            _has_inputs,
            PER_LAYER_ROWS,
            plain("model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight",
                  "vocab each"),
            block(IN_LAYER, PER_LAYER),
        ),
        block(
            IN_LAYER,
            _LAYER,
            in_layers(has_own_keys, _KEY_VALUE),
            in_layers(lambda dims: not has_own_keys(dims), optional(KEY_VALUE)),
            in_layers(_is_sparse, _EXPERTS),
        ),
    ),
    defaults=default_fields(
        131072, rms_norm_eps=1e-6, head_dim=256, sliding_window=512, rope_theta=None,
        num_kv_shared_layers=0, hidden_size_per_layer_input=0,
    ),
    dims={
        **PER_LAYER_DIMS,
        "key": _key,
        "value": _key,
        "ff_exp*2": lambda dims: 2 * dims["ff_exp"],
    },
    generated=(Generated("rope_freqs.weight", "rope/2", _factors),),
    skips=is_head,
    config=_config,
)  # fmt: skip
GEMMA_4_UNIFIED = replace(
    GEMMA_4,
    classes=("Gemma4UnifiedForConditionalGeneration",),
    model_type="gemma4_unified_text",
    keys=(*_KEYS, SUPPRESS),
)
GEMMA_4_ASSISTANT = replace(
    GEMMA_4,
    name="gemma4-assistant",
    classes=("Gemma4AssistantForCausalLM", "Gemma4UnifiedAssistantForCausalLM"),
    model_type="gemma4_assistant",
    keys=(
        *_KEYS,
        u32("embedding_length_out", "backbone_hidden_size"),
        computed("nextn_predict_layers", "u32", lambda config: config.count("num_hidden_layers")),
    ),
    rows=join_rows(
        EMBEDDINGS,
        plain("pre_projection.weight", "nextn.pre_projection.weight", "embd 2target"),
        plain("post_projection.weight", "nextn.post_projection.weight", "target embd"),
        block(IN_LAYER, _LAYER),
    ),
    dims={
        **GEMMA_4.dims,
        "target": lambda dims: dims.key("embedding_length_out"),
        "2target": lambda dims: 2 * dims["target"],
    },
)
