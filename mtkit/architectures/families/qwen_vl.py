"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: the part that reads and writes text.

Source: llama.cpp, conversion/qwenvl.py (``Qwen2VLModel``), conversion/qwen3vl.py
(``Qwen3VLTextModel``, ``Qwen3VLMoeTextModel``); transformers, models/qwen2_vl, models/qwen3_vl.
"""

from __future__ import annotations

from mtkit.architectures.changes import Split, Transposed
from mtkit.architectures.decoder_rows import HEAD_NORMS, NORMS, attention, decoder, default_fields
from mtkit.architectures.families.qwen2 import QWEN2
from mtkit.architectures.families.qwen3 import QWEN3, QWEN3_MOE
from mtkit.architectures.metadata import always, computed, without_keys
from mtkit.architectures.table import Architecture, plain, row
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config


def _deepstack(config: Config) -> int:
    indexes = config.table("vision_config").get("deepstack_visual_indexes")
    return len(indexes) if isinstance(indexes, list) else 0


_TURN = {"bos": "<|im_end|>", "eos": "<|im_end|>"}
_TURNS = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content']"
    " + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""The converter's template of Qwen3-ASR, whose own needs the sound."""
_DEEPSTACK = computed("n_deepstack_layers", "u32", _deepstack)

QWEN2_VL = Architecture(
    "qwen2vl",
    (
        "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", "Qwen2VLModel",
        "Qwen2_5OmniModel",
    ),
    "qwen2_vl",
    without_keys(QWEN2.keys, "pooling_type"),
    QWEN2.rows,
    defaults=QWEN2.defaults,
    config=QWEN2.config,
)  # fmt: skip
QWEN3_VL = Architecture(
    "qwen3vl",
    ("Qwen3VLForConditionalGeneration",),
    "qwen3_vl",
    (*QWEN3.keys, _DEEPSTACK),
    QWEN3.rows,
    defaults=default_fields(128000, rms_norm_eps=1e-6, head_dim=128, num_key_value_heads=32),
    config=QWEN3.config,
)
QWEN3_VL_MOE = Architecture(
    "qwen3vlmoe",
    ("Qwen3VLMoeForConditionalGeneration",),
    "qwen3_vl_moe",
    (*QWEN3_MOE.keys, _DEEPSTACK),
    decoder(
        NORMS,
        attention(),
        HEAD_NORMS,
        row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
        plain(
            "mlp.experts.gate_up_proj",
            "ffn_gate_exps.weight ffn_up_exps.weight",
            "expert ff_exp embd, expert ff_exp embd",
            Split(-2, transposed=True),
        ),
        plain("mlp.experts.down_proj", "ffn_down_exps.weight", "expert embd ff_exp", Transposed()),
    ),
    checks=QWEN3_MOE.checks,
    defaults=QWEN3_MOE.defaults,
    config=QWEN3_MOE.config,
)
QWEN3_OMNI = replace(
    QWEN3_VL_MOE,
    classes=("Qwen3OmniMoeForConditionalGeneration",),
    model_type="qwen3_omni_moe",
    keys=(*QWEN3_MOE.keys, always("n_deepstack_layers", "u32", 0)),
    rows=QWEN3_MOE.rows,
    special_tokens=_TURN,
    replaces_tokens=True,
)
QWEN3_ASR = replace(
    QWEN3_VL,
    classes=("Qwen3ASRForConditionalGeneration",),
    model_type="qwen3_asr",
    keys=(
        *QWEN3.keys,
        always("n_deepstack_layers", "u32", 0),
        always("tokenizer.chat_template", "string", _TURNS),
    ),
    special_tokens=_TURN,
    replaces_tokens=True,
)
