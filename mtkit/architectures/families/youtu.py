"""Youtu-LLM and the text part of Youtu-VL: DeepSeek's attention, without experts.

Source: llama.cpp, conversion/deepseek.py (``DeepseekV2Model``); transformers, models/youtu.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import default_fields
from mtkit.architectures.families.deepseek import DEEPSEEK_2
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config


def _dense(config: Config) -> int:
    layers = config.whole("first_k_dense_replace")
    return config.count("num_hidden_layers") if layers is None else layers


YOUTU = replace(
    DEEPSEEK_2,
    classes=("YoutuForCausalLM", "YoutuVLForConditionalGeneration"),
    model_type="youtu",
    keys=with_keys(
        DEEPSEEK_2.keys,
        computed("leading_dense_block_count", "u32", _dense),
        u32("expert_feed_forward_length", "moe_intermediate_size", "intermediate_size"),
    ),
    defaults=default_fields(
        131072, rms_norm_eps=1e-6, kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128,
    ),
    fits=lambda dims: not dims.key("expert_count", 0),
)  # fmt: skip
