"""MiMo V2 of Xiaomi: two kinds of attention, some heads with sinks, three layers of further tokens.

Source: llama.cpp, conversion/mimo.py (``MimoV2Model``); transformers, models/mimo_v2_flash.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    OUTPUT,
    default_fields,
    experts,
    only,
)
from mtkit.architectures.metadata import computed, f32, head_dim, u32, with_keys
from mtkit.architectures.next_tokens import NEXT_DIMS, is_next
from mtkit.architectures.table import (
    Architecture,
    block,
    in_layers,
    join_rows,
    plain,
    row,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

_NEXT = 3
"""So many layers each of its models has; config.json does not count them."""
_PATTERN = "attention.sliding_window_pattern"


def _pattern(config: Config) -> list[int]:
    kinds, layers = config.get("hybrid_layer_pattern"), config.count("num_hidden_layers")
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise config.wrong(f"is not a list of {layers}", "hybrid_layer_pattern")
    return [int(kind == 1) for kind in kinds] + [1] * _NEXT


def _heads_kv(config: Config) -> list[int]:
    full, window = config.count("num_key_value_heads"), config.count("swa_num_key_value_heads")
    return [window if slides else full for slides in _pattern(config)]


def _rotary(config: Config) -> int:
    part = config.rope().number("partial_rotary_factor")
    return int(head_dim(config) * (1.0 if part is None else part))


def _has(name: str) -> Callable[[Dims], bool]:
    def value(dims: Dims) -> bool:
        names = f"model.layers.{dims.layer}.{name}", f"blk.{dims.layer}.{_GGUF[name]}"
        return dims.has(*names) if dims.shapes else dims.layer > 0

    return value


_GGUF = {"mlp.gate.weight": "ffn_gate_inp.weight"}
_HAS_EXPERTS = _has("mlp.gate.weight")


def _is_fused(dims: Dims) -> bool:
    """Tell whether a model has queries, keys and values in one tensor (all but V2-Flash)."""
    return dims.has("model.layers.0.self_attn.qkv_proj.weight", "blk.0.attn_qkv.weight")


def _layer() -> Rows:
    return join_rows(
        row("input_layernorm", "attn_norm", "embd", bias=False),
        in_layers(_is_fused, row("self_attn.qkv_proj", "attn_qkv", "qkv embd", bias=False)),
        in_layers(
            lambda dims: not _is_fused(dims),
            row("self_attn.q_proj", "attn_q", "q embd", bias=False),
            row("self_attn.k_proj", "attn_k", "k embd", bias=False),
            row("self_attn.v_proj", "attn_v", "v embd", bias=False),
        ),
        row("self_attn.o_proj", "attn_output", "embd out", bias=False),
        plain("self_attn.attention_sink_bias", "attn_sinks.weight", "head", optional=True),
    )


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    layers = range(dims.key("block_count") - _NEXT)
    slides = [bool(dims.keys[_PATTERN][layer]) for layer in layers]
    heads = [dims.at(layer)["head_kv"] for layer in range(dims.key("block_count"))]
    full = [count for count, window in zip(heads, slides, strict=False) if not window]
    return {
        "hidden_act": "silu",
        "num_hidden_layers": len(layers),
        "hybrid_layer_pattern": [int(window) for window in slides],
        "num_key_value_heads": (full or heads)[0],
        "swa_num_key_value_heads": heads[-1],
        "swa_num_attention_heads": dims["head"],
        "swa_head_dim": dims["key"],
        "swa_v_head_dim": dims["value"],
        "partial_rotary_factor": dims["rope"] / max(dims["key"], 1),
        "topk_method": "noaux_tc",
        "moe_layer_freq": [int(_HAS_EXPERTS(dims.at(layer))) for layer in layers],
    }


MIMO_2 = Architecture(
    "mimo2",
    ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
    "mimo_v2_flash",
    (
        *with_keys(
            DECODER,
            computed("block_count", "u32", lambda c: c.count("num_hidden_layers") + _NEXT),
            computed("attention.head_count_kv", "i32[]", _heads_kv),
            u32("attention.value_length", "v_head_dim"),
            u32("expert_count", "n_routed_experts"),
            f32("attention.layer_norm_rms_epsilon", "layernorm_epsilon"),
        ),
        u32("attention.sliding_window", "sliding_window"),
        computed(_PATTERN, "i32[]", _pattern),
        EXPERT_FEED_FORWARD,
        computed("rope.dimension_count", "u32", _rotary),
        f32("attention.value_scale", "attention_value_scale"),
        computed("nextn_predict_layers", "u32", lambda _: _NEXT),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        row("model.norm", "output_norm", "embd", bias=False),
        OUTPUT,
        in_layers(
            lambda dims: not is_next(dims),
            block(
                "model.layers.{i}.",
                _layer(),
                row("post_attention_layernorm", "ffn_norm", "embd", bias=False),
                in_layers(lambda dims: not _HAS_EXPERTS(dims), FEED_FORWARD),
                in_layers(
                    _HAS_EXPERTS,
                    row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
                    plain("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", "expert"),
                    experts("mlp.experts.{e}"),
                ),
            ),
        ),
        in_layers(
            is_next,
            block(
                "model.mtp.layers.{n}.",
                _layer(),
                row("pre_mlp_layernorm", "ffn_norm", "embd", bias=False),
                FEED_FORWARD,
                row("eh_proj", "nextn.eh_proj", "embd 2embd", bias=False),
                row("enorm", "nextn.enorm", "embd", bias=False),
                row("hnorm", "nextn.hnorm", "embd", bias=False),
                row("final_layernorm", "layer_output_norm", "embd", bias=False),
            ),
        ),
    ),
    checks=(only("topk_method", "noaux_tc"),),
    defaults=default_fields(262144, layernorm_epsilon=1e-5),
    dims=NEXT_DIMS,
    config=_config,
)
