"""ChatGLM and GLM-4 of 2024.

Source: llama.cpp, conversion/chatglm.py (``ChatGLMModel``); transformers, models/glm.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
    rotary_part,
)
from mtkit.architectures.families.glm4 import SPECIAL_TOKENS
from mtkit.architectures.metadata import computed, f32, pick_keys, u32
from mtkit.architectures.table import Architecture, block, join_rows, row
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config


def _rotary(config: Config) -> int:
    width = config.whole("attention_dim") or config.count("hidden_size") // config.count(
        "num_attention_heads"
    )
    share = config.rope().number("partial_rotary_factor")
    return int(width * (0.5 if share is None else share))


def _base(config: Config) -> float:
    return 10000 * (config.number("rope_ratio") or 1)


def _ratio(base: float) -> dict[str, float]:
    return {"rope_theta": base, "rope_ratio": base / 10000}


GLM = Architecture(
    "chatglm",
    ("GlmForCausalLM",),
    "glm",
    (
        *pick_keys(DECODER, "block_count", "embedding_length", "attention.head_count"),
        # The converter takes seq_length, which this class does not have, or else the width.
        u32("context_length", "seq_length", "hidden_size", written="seq_length"),
        u32("feed_forward_length", "ffn_hidden_size", "intermediate_size",
            written="intermediate_size"),
        u32("attention.head_count_kv", "multi_query_group_num", "num_key_value_heads",
            written="num_key_value_heads"),
        f32("attention.layer_norm_rms_epsilon", "layernorm_epsilon"),
        computed("rope.dimension_count", "u32", _rotary),
        computed("rope.freq_base", "f32", _base, _ratio),
    ),
    decoder(
        NORMS,
        attention()[:-1],
        row("mlp.gate_up_proj", "ffn_up", "ff*2 embd", bias=False),
        row("mlp.down_proj", "ffn_down", "embd ff", bias=False),
    ),
    defaults=default_fields(131072, layernorm_epsilon=1e-5),
    special_tokens=SPECIAL_TOKENS,
    config=config_fields(
        hidden_act="silu", attention_bias=ATTENTION_BIAS, partial_rotary_factor=rotary_part
    ),
)  # fmt: skip
CHATGLM = replace(
    GLM,
    classes=("ChatGLMModel", "ChatGLMForConditionalGeneration"),
    model_type="chatglm",
    rows=join_rows(
        row("transformer.embedding.word_embeddings", "token_embd", "vocab embd", bias=False),
        row("transformer.encoder.final_layernorm", "output_norm", "embd", bias=False),
        row("transformer.output_layer", "output", "vocab embd", bias=False, optional=True),
        block(
            "transformer.encoder.layers.{i}.",
            NORMS,
            row("self_attention.query_key_value", "attn_qkv", "qkv embd"),
            row("self_attention.dense", "attn_output", "embd out", bias=False),
            row("mlp.dense_h_to_4h", "ffn_up", "ff*2 embd", bias=False),
            row("mlp.dense_4h_to_h", "ffn_down", "embd ff", bias=False),
        ),
    ),
    prefix="transformer.",
    skips=lambda name, config: name.endswith("rotary_pos_emb.inv_freq"),
)
"""Those whose code came with the model."""
