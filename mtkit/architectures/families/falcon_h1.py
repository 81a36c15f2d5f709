"""Falcon H1: attention and Mamba 2 side by side in each layer.

config.json has numbers by which activations are multiplied; a GGUF has them in its weights, and a
folder made from it has the products, with numbers of 1.
Source: llama.cpp, conversion/falcon_h1.py; transformers, models/falcon_h1.
"""

from __future__ import annotations

from mtkit.architectures.changes import Scaled
from mtkit.architectures.decoder_rows import DECODER, IN_LAYER, VOCAB_SIZE, default_fields, only
from mtkit.architectures.metadata import f32, pick_keys, unwritten
from mtkit.architectures.state_space import SSM_DIMS, head_width, mixer, mixer_norm, ssm_keys
from mtkit.architectures.table import Architecture, block, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_ONES: dict[str, Any] = {
    "attention_in_multiplier": 1.0, "attention_out_multiplier": 1.0, "embedding_multiplier": 1.0,
    "key_multiplier": 1.0, "lm_head_multiplier": 1.0, "ssm_in_multiplier": 1.0,
    "ssm_out_multiplier": 1.0, "mlp_multipliers": [1.0, 1.0], "ssm_multipliers": [1.0] * 5,
}  # fmt: skip
_GATE, _DOWN = "mlp_multipliers.0", "mlp_multipliers.1"
_PARTS = ("ssm_inner", "ssm_inner", "ssm_part", "ssm_part", "ssm_heads")


def _inner(config: Config) -> int:
    return config.whole("mamba_d_ssm") or 2 * config.count("hidden_size")


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        **_ONES,
        "hidden_act": "silu",
        "mamba_d_ssm": dims["ssm_inner"],
        "mamba_d_head": head_width(dims),
        "mamba_rms_norm": dims.has("blk.0.ssm_norm.weight"),
    }


FALCON_H1 = Architecture(
    "falcon-h1",
    ("FalconH1ForCausalLM",),
    "falcon_h1",
    (
        *pick_keys(
            DECODER,
            "block_count", "context_length", "embedding_length", "feed_forward_length",
            "attention.head_count", "attention.head_count_kv", "attention.key_length",
            "attention.value_length", "rope.freq_base",
        ),
        VOCAB_SIZE,
        f32("attention.layer_norm_rms_epsilon", "rms_norm_eps", "layer_norm_epsilon"),
        *ssm_keys("mamba_d_conv", "mamba_d_state", "mamba_n_groups", "mamba_n_heads", _inner),
        *map(unwritten, _ONES),
    ),
    join_rows(
        row(
            "model.embed_tokens", "token_embd", "vocab embd", Scaled("embedding_multiplier"),
            bias=False,
        ),
        row("model.final_layernorm", "output_norm", "embd", bias=False),
        row(
            "lm_head", "output", "vocab embd", Scaled("lm_head_multiplier"), bias=False,
            optional=True,
        ),
        block(
            IN_LAYER,
            row("input_layernorm", "attn_norm", "embd", bias=False),
            plain("pre_ff_layernorm.weight", "ffn_norm", "embd"),
            row("self_attn.q_proj", "attn_q", "q embd", Scaled("attention_in_multiplier")),
            row(
                "self_attn.k_proj", "attn_k", "k embd",
                Scaled("key_multiplier", "attention_in_multiplier"),
            ),
            row("self_attn.v_proj", "attn_v", "v embd", Scaled("attention_in_multiplier")),
            row("self_attn.o_proj", "attn_output", "embd out", Scaled("attention_out_multiplier")),
            row("feed_forward.gate_proj", "ffn_gate", "ff embd", Scaled(_GATE)),
            row("feed_forward.up_proj", "ffn_up", "ff embd"),
            row("feed_forward.down_proj", "ffn_down", "embd ff", Scaled(_DOWN)),
            mixer(
                "mamba.",
                Scaled("ssm_in_multiplier", parts=("ssm_multipliers", _PARTS)),
                Scaled("ssm_out_multiplier"),
            ),
            mixer_norm("mamba.norm", optional=True),
        ),
    ),
    checks=(only("hidden_act", "silu"),),
    defaults=default_fields(
        8192, rms_norm_eps=1e-5, mamba_d_conv=4, mamba_d_state=256, mamba_n_groups=1,
        mamba_n_heads=128, rope_theta=100000.0,
        head_dim=lambda config: config.count("hidden_size") // config.count("num_attention_heads"),
        **_ONES,
    ),
    dims=SSM_DIMS,
    config=_config,
)  # fmt: skip
