"""Ministral 3 (attention scaled for long texts), Mistral Small 3's text part, Mistral 4.

Source: llama.cpp, conversion/mistral3.py; transformers, models/ministral3, models/mistral4.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import NORMS, decoder, default_fields, rope_row, shared_expert
from mtkit.architectures.families.deepseek import DEEPSEEK_2, LATENT
from mtkit.architectures.families.llama import KEYS, LLAMA
from mtkit.architectures.table import Architecture, plain, row
from mtkit.base.record import replace

_ROPE = {
    "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0,
    "beta_slow": 1.0, "original_max_position_embeddings": 16384, "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}  # fmt: skip

_KEYS = (
    *KEYS,
    rope_row("rope.scaling.yarn_log_multiplier", "mscale_all_dim"),
    rope_row("attention.temperature_scale", "llama_4_scaling_beta"),
)

MINISTRAL_3 = Architecture(
    "mistral3",
    ("Ministral3ForCausalLM",),
    "ministral3",
    _KEYS,
    LLAMA.rows,
    defaults=default_fields(
        262144, rms_norm_eps=1e-5, num_key_value_heads=8, head_dim=128, rope_parameters=_ROPE
    ),
    config=LLAMA.config,
)
MISTRAL_SMALL_3 = Architecture(
    "mistral3",
    ("Mistral3ForConditionalGeneration",),
    "mistral3",
    _KEYS,
    LLAMA.rows,
    defaults=default_fields(131072, rms_norm_eps=1e-5, num_key_value_heads=8, head_dim=128),
    config=LLAMA.config,
)
MISTRAL_4 = replace(
    DEEPSEEK_2,
    name="mistral4",
    classes=("Mistral4ForCausalLM",),
    model_type="mistral4",
    rows=decoder(
        NORMS,
        LATENT,
        row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
        plain("mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", "expert ff_exp*2 embd"),
        plain("mlp.experts.down_proj", "ffn_down_exps.weight", "expert embd ff_exp"),
        shared_expert("mlp.shared_experts"),
    ),
    defaults=lambda config: {**DEEPSEEK_2.defaults(config), "num_experts_per_tok": 4},
    dims={**DEEPSEEK_2.dims, "ff_exp*2": lambda dims: 2 * dims["ff_exp"]},
)
"""Its config.json names the class of Mistral Small 3."""
