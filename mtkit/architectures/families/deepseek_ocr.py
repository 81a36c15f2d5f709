"""The text part of DeepSeek-OCR and of Unlimited-OCR: DeepSeek V2 with plain attention.

Source: llama.cpp, conversion/deepseek.py (``DeepseekV2Model``), src/models/deepseek2ocr.cpp;
modeling_deepseekv2.py beside the published model.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.families.deepseek import DEEPSEEK_2, FEED_FORWARDS, KEYS
from mtkit.architectures.metadata import always, pick_keys, u32, with_keys, without_keys
from mtkit.base.record import replace

_TEMPLATE = "{% for m in messages %}{{m['content']}}{% endfor %}"
"""What the converter writes where the model has none."""

DEEPSEEK_OCR = replace(
    DEEPSEEK_2,
    name="deepseek2-ocr",
    classes=("DeepseekOCRForCausalLM", "UnlimitedOCRForCausalLM"),
    model_type="deepseek_vl_v2",
    keys=with_keys(
        without_keys(
            KEYS, "attention.q_lora_rank", "attention.kv_lora_rank", "attention.key_length",
            "attention.value_length", "attention.key_length_mla", "attention.value_length_mla",
        ),
        *pick_keys(DECODER, "attention.head_count_kv"),
        u32("attention.sliding_window", "sliding_window_size", "sliding_window"),
        always("tokenizer.chat_template", "string", _TEMPLATE),
    ),
    rows=decoder(NORMS, attention(), FEED_FORWARDS),
    defaults=default_fields(
        2048, rms_norm_eps=1e-6, rope_theta=None, first_k_dense_replace=0,
        moe_intermediate_size=1407, n_routed_experts=64, n_shared_experts=2,
    ),
    config=config_fields(
        hidden_act="silu", use_mla=False, q_lora_rank=None, kv_lora_rank=None, topk_method="greedy"
    ),
)  # fmt: skip
