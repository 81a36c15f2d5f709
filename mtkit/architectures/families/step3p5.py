"""Step 3.5 and the text part of Step 3.7: gated attention, more heads in the layers of a window.

Source: llama.cpp, conversion/step3.py (``Step35Model``); transformers, models/step3p7.
"""

from __future__ import annotations

import math

from mtkit.architectures.changes import PLUS_ONE
from mtkit.architectures.config import Config
from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    OUTPUT,
    attention,
    default_fields,
)
from mtkit.architectures.metadata import computed, f32, flag, u32, with_keys
from mtkit.architectures.next_tokens import (
    NEXT_DIMS,
    NEXT_ROWS,
    hidden_layers,
    is_next,
    next_keys,
)
from mtkit.architectures.table import (
    Architecture,
    Generated,
    block,
    in_layers,
    join_rows,
    plain,
    row,
)
from mtkit.base.record import replace
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.metadata import Dims, KeyRow

_SLIDING = "sliding_attention"
_MOST_LAYERS = 1 << 16


def _layers(config: Config) -> int:
    next_layers = config.whole("num_nextn_predict_layers") or 0
    return min(config.count("num_hidden_layers") + next_layers, _MOST_LAYERS)


def _padded(config: Config, field: str, usual: Any) -> list[Any]:
    values, layers = config.get(field) or [], _layers(config)
    if not isinstance(values, list):
        raise config.wrong("is not a list", field)
    return [*values, *[usual] * layers][:layers]


def _slides(config: Config) -> list[bool]:
    return [kind == _SLIDING for kind in _padded(config, "layer_types", "full_attention")]


def _heads(field: str) -> Callable[[Config], list[int]]:
    def value(config: Config) -> list[int]:
        usual = config.count(field)
        window = config.table("attention_other_setting").whole(field) or usual
        return [window if slides else usual for slides in _slides(config)]

    return value


def _base(number: int) -> Callable[[Config], float | None]:
    """Return the base of a kind of layers: a list holds that of all, then one for each."""

    def value(config: Config) -> float | None:
        bases = config.get("rope_theta")
        if not isinstance(bases, list):
            return config.number("rope_theta") if number == 0 else None
        if len(bases) < 2 or not all(type(base) in (int, float) for base in bases):
            raise config.wrong("is not a list of numbers", "rope_theta")
        return float(bases[number])

    return value


def _first_sparse(config: Config) -> int:
    layers = config.text("moe_layers_enum") or ""
    parts = (part.strip() for part in layers.split(","))
    numbers = [int(part) for part in parts if part.isdecimal() and len(part) < 10]
    return min(numbers, default=0)


def _limits(name: str, field: str) -> KeyRow:
    def value(config: Config) -> list[float] | None:
        if config.get(field) is None:
            return None
        return [float(limit or 0.0) for limit in _padded(config, field, 0.0)]

    return computed(name, "f32[]", value, field)


def _factors(config: Config, dims: Dims) -> Any:
    """Return Llama 3's factors for the half of a head that is rotated; 1 for the rest."""
    import numpy as np

    rope = config.rope()
    if (rope.text("rope_type") or "").lower() != "llama3":
        return None
    width = dims["key"] // 2
    base, factor = np.float64(_base(0)(config) or 10000.0), rope.number("factor") or 8.0
    low, high = rope.number("low_freq_factor") or 1.0, rope.number("high_freq_factor") or 4.0
    context = rope.whole("original_max_position_embeddings") or 8192
    axis = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    factors = []
    for frequency in np.float32(1) / np.float32(base) ** axis:
        wave = 2 * math.pi / float(frequency)
        smooth = (context / wave - low) / (high - low)
        between = 1.0 / ((1.0 - smooth) / factor + smooth)
        is_long = wave > context / low
        factors.append(1.0 if wave < context / high else factor if is_long else between)
    padding = [1.0] * (dims["key"] // 2 - len(factors))
    return np.array([*factors, *padding], np.float32)


def _scaling(dims: Dims, factors: Any) -> dict[str, Any]:
    """Return the field of config.json that gives Llama 3's factors, as published models say it."""
    import numpy as np

    if factors is None:
        return {}
    theta = {"rope_theta": float(dims.keys["rope.freq_base"])}
    for high in (32.0, 4.0):
        for context in (131072, *(1 << power for power in range(8, 20))):
            scaling = {
                "rope_type": "llama3", "factor": float(factors.max()), "low_freq_factor": 1.0,
                "high_freq_factor": high, "original_max_position_embeddings": context,
            }  # fmt: skip
            if np.array_equal(_factors(Config({"rope_scaling": scaling, **theta}), dims), factors):
                return {"rope_scaling": scaling}
    what = "no rope_scaling of a config.json gives these factors"
    raise UnsupportedError(what, field="tensor 'rope_freqs.weight'")


def _is_sparse(dims: Dims) -> bool:
    names = f"model.layers.{dims.layer}.moe.gate.weight", f"blk.{dims.layer}.ffn_gate_inp.weight"
    if dims.shapes:
        return dims.has(*names)
    return not is_next(dims) and dims.layer >= dims.key("leading_dense_block_count")


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    pattern = dims.keys["attention.sliding_window_pattern"]
    layers = range(dims.key("block_count"))
    heads = {bool(pattern[n]): (dims.at(n)["head"], dims.at(n)["head_kv"]) for n in layers}
    full, window = heads.get(False, heads.get(True)), heads.get(True, heads.get(False))
    names = "num_attention_heads", "num_attention_groups"
    bases = [dims.keys.get("rope.freq_base"), dims.keys.get("rope.freq_base_swa")]
    sparse = [str(layer) for layer in layers if _is_sparse(dims.at(layer))]
    return {
        **dict(zip(names, full or (), strict=False)),
        "attention_other_setting": {
            "attention_type": _SLIDING, **dict(zip(names, window or (), strict=False)),
        },
        "layer_types": [_SLIDING if pattern[n] else "full_attention" for n in layers],
        "partial_rotary_factors": [1.0 if pattern[n] else 0.5 for n in layers],
        "rope_theta": bases[0] if bases[1] is None else bases,
        "moe_layers_enum": ",".join(sparse),
        "use_head_wise_attn_gate": True,
        **_scaling(dims, tensor("rope_freqs.weight")),
        **hidden_layers(dims),
    }  # fmt: skip


STEP_3_5 = Architecture(
    "step35",
    ("Step3p5ForCausalLM", "Step3p7ForConditionalGeneration"),
    "step3p5",
    (
        *with_keys(
            DECODER,
            *next_keys(),
            computed("attention.head_count", "i32[]", _heads("num_attention_heads")),
            computed("attention.head_count_kv", "i32[]", _heads("num_attention_groups")),
            computed("rope.freq_base", "f32", _base(0)),
            computed("rope.freq_base_swa", "f32", _base(1)),
            u32("expert_count", "moe_num_experts"),
            u32("expert_used_count", "moe_top_k"),
        ),
        u32("attention.sliding_window", "sliding_window"),
        computed("attention.sliding_window_pattern", "bool[]", _slides),
        EXPERT_FEED_FORWARD,
        u32("expert_shared_feed_forward_length", "share_expert_dim"),
        f32("expert_weights_scale", "moe_router_scaling_factor"),
        flag("expert_weights_norm", "norm_expert_weight"),
        computed("leading_dense_block_count", "u32", _first_sparse),
        u32("moe_every_n_layers", "moe_every_n_layer"),
        _limits("swiglu_clamp_exp", "swiglu_limits"),
        _limits("swiglu_clamp_shexp", "swiglu_limits_shared"),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        row("model.norm", "output_norm", "embd", PLUS_ONE, bias=False),
        OUTPUT,
        block(
            "model.layers.{i}.",
            row("input_layernorm", "attn_norm", "embd", PLUS_ONE, bias=False),
            row("post_attention_layernorm", "ffn_norm", "embd", PLUS_ONE, bias=False),
            attention(),
            row("self_attn.q_norm", "attn_q_norm", "key", PLUS_ONE, bias=False),
            row("self_attn.k_norm", "attn_k_norm", "key", PLUS_ONE, bias=False),
            row("self_attn.g_proj", "attn_gate", "head embd", bias=False),
            in_layers(lambda dims: not _is_sparse(dims), FEED_FORWARD),
            in_layers(
                _is_sparse,
                row("moe.gate", "ffn_gate_inp", "expert embd", bias=False),
                plain("moe.router_bias", "exp_probs_b.bias", "expert"),
                row("moe.gate_proj", "ffn_gate_exps", "expert ff_exp embd", bias=False),
                row("moe.up_proj", "ffn_up_exps", "expert ff_exp embd", bias=False),
                row("moe.down_proj", "ffn_down_exps", "expert embd ff_exp", bias=False),
                row("share_expert.gate_proj", "ffn_gate_shexp", "ff_shexp embd", bias=False),
                row("share_expert.up_proj", "ffn_up_shexp", "ff_shexp embd", bias=False),
                row("share_expert.down_proj", "ffn_down_shexp", "embd ff_shexp", bias=False),
            ),
            tuple(
                replace(
                    r,
                    folder=tuple(
                        f"transformer.{name}".replace("shared_head.head", "shared_head.output")
                        if name.startswith("shared_head.") else name
                        for name in r.folder
                    ),
                    change=PLUS_ONE if "norm" in r.folder[0] else r.change,
                )
                for r in NEXT_ROWS
            ),
        ),
    ),
    defaults=default_fields(65536, rms_norm_eps=1e-5, moe_every_n_layer=1),
    generated=(Generated("rope_freqs.weight", "key/2", _factors),),
    dims={**NEXT_DIMS, "key/2": lambda dims: dims["key"] // 2},
    config=_config,
)  # fmt: skip
