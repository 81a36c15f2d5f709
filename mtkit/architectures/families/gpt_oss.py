"""gpt-oss, with experts in 4 bits, as published, or not.

Source: llama.cpp, conversion/gpt_oss.py (``GptOssModel``); transformers, models/gpt_oss.
"""

from __future__ import annotations

from mtkit.architectures.changes import Interleaved, Mxfp4, Transposed
from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    SLIDING_WINDOW,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.architectures.table import Architecture, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.table import Rows

_ROPE = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
_EXPERTS = join_rows(
    plain(
        "mlp.experts.gate_up_proj",
        "ffn_gate_exps.weight ffn_up_exps.weight",
        "expert ff_exp embd, expert ff_exp embd",
        Interleaved(transposed=True),
    ),
    plain("mlp.experts.down_proj", "ffn_down_exps.weight", "expert embd ff_exp", Transposed()),
)
_PACKED_EXPERTS = join_rows(
    plain(
        "mlp.experts.gate_up_proj_blocks mlp.experts.gate_up_proj_scales",
        "ffn_gate_exps.weight ffn_up_exps.weight",
        "expert ff_exp embd, expert ff_exp embd",
        Mxfp4(),
    ),
    plain(
        "mlp.experts.down_proj_blocks mlp.experts.down_proj_scales",
        "ffn_down_exps.weight",
        "expert embd ff_exp",
        Mxfp4(),
    ),
)


def _rows(experts: Rows) -> Rows:
    return decoder(
        row("input_layernorm", "attn_norm", "embd", bias=False),
        row("post_attention_layernorm", "post_attention_norm", "embd", bias=False),
        attention(),
        plain("self_attn.sinks", "attn_sinks.weight", "head"),
        row("mlp.router", "ffn_gate_inp", "expert embd", bias=True),
        experts,
        plain(
            "mlp.experts.gate_up_proj_bias",
            "ffn_gate_exps.bias ffn_up_exps.bias",
            "expert ff_exp, expert ff_exp",
            Interleaved(),
        ),
        plain("mlp.experts.down_proj_bias", "ffn_down_exps.bias", "expert embd"),
    )


GPT_OSS = Architecture(
    "gpt-oss",
    ("GptOssForCausalLM",),
    "gpt_oss",
    (
        *with_keys(DECODER, u32("expert_count", "num_local_experts")),
        SLIDING_WINDOW,
        computed(
            "expert_feed_forward_length", "u32", lambda config: config.count("intermediate_size")
        ),
    ),
    _rows(_EXPERTS),
    packed=_rows(_PACKED_EXPERTS),
    defaults=default_fields(
        131072,
        head_dim=64,
        num_key_value_heads=8,
        num_local_experts=128,
        num_experts_per_tok=4,
        sliding_window=128,
        rms_norm_eps=1e-5,
        rope_theta=150000.0,
        rope_scaling=_ROPE,
    ),
    config=config_fields(
        hidden_act="silu", attention_bias=ATTENTION_BIAS, rope_scaling={"truncate": False}
    ),
)
