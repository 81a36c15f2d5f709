"""GLM 4.5 to 4.7, with the layer that predicts a further token; GLM-4.5V's text part; Solar Open.

Source: llama.cpp, conversion/glm.py (``Glm4MoeModel``, ``SolarOpenModel``), conversion/base.py
(``_set_vocab_glm``); transformers, models/glm4_moe, models/glm4v_moe, models/solar_open.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    END_OF_MESSAGE,
    END_OF_TURN,
    HEAD_NORMS,
    attention,
    decoder,
    default_fields,
    rotary_part,
)
from mtkit.architectures.expert_rows import ROUTED, ROUTING_KEYS, shared_width
from mtkit.architectures.families.glm4 import ROTARY
from mtkit.architectures.metadata import always, with_keys
from mtkit.architectures.next_tokens import NEXT_DIMS, NEXT_ROWS, hidden_layers, next_keys
from mtkit.architectures.table import Architecture, optional, row
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.metadata import Dims

GLM_TOKENS = {
    "bos": "[gMASK]", "eot": "<|user|>", "eom": "<|observation|>", "unknown": "<|endoftext|>",
}  # fmt: skip
"""Those of GLM 4.5 and later."""
_SIGMOID = 2


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "attention_bias": ATTENTION_BIAS(dims),
        "use_qk_norm": dims.has("blk.0.attn_q_norm.weight"),
        "partial_rotary_factor": rotary_part(dims),
        **hidden_layers(dims),
    }


GLM_4_MOE = Architecture(
    "glm4moe",
    ("Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"),
    "glm4_moe",
    with_keys(
        (*DECODER, *ROUTING_KEYS),
        *next_keys(),
        END_OF_TURN,
        END_OF_MESSAGE,
        always("expert_gating_func", "u32", _SIGMOID),
        ROTARY,
    ),
    decoder(
        row("input_layernorm", "attn_norm", "embd", bias=False),
        row("post_attention_layernorm", "post_attention_norm", "embd", bias=False),
        attention(),
        optional(HEAD_NORMS),
        ROUTED,
        NEXT_ROWS,
    ),
    defaults=default_fields(
        131072,
        rms_norm_eps=1e-5,
        num_key_value_heads=8,
        partial_rotary_factor=0.5,
        num_experts_per_tok=8,
        n_shared_experts=1,
        n_routed_experts=128,
        routed_scaling_factor=1.0,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        norm_topk_prob=True,
    ),
    dims={"ff_shexp": shared_width, **NEXT_DIMS},
    special_tokens=GLM_TOKENS,
    config=_config,
)
SOLAR_OPEN = replace(
    GLM_4_MOE,
    classes=("SolarOpenForCausalLM",),
    model_type="solar_open",
    special_tokens={
        "eos": "<|endoftext|>", "eot": "<|endoftext|>", "unknown": "<unk>",
        "bos": "<|startoftext|>",
    },
)  # fmt: skip
