"""The text parts of models that also see or hear, where they are models of another family.

Names in a GGUF: "llama", "phi3", "qwen2", "qwen3", "qwen35", "stablelm".

Source: llama.cpp, conversion/llama.py, januspro.py, sarashina2.py, ernie.py, step3.py, phi.py,
qwen.py, stablelm.py, minicpm.py.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import default_fields
from mtkit.architectures.families.ernie import ERNIE_4_5
from mtkit.architectures.families.llama import DEFAULTS, LLAMA
from mtkit.architectures.families.phi3 import PHI_3
from mtkit.architectures.families.qwen2 import QWEN2
from mtkit.architectures.families.qwen3 import QWEN3
from mtkit.architectures.families.qwen3_next import QWEN3_5
from mtkit.architectures.families.stablelm import STABLELM
from mtkit.architectures.metadata import head_dim
from mtkit.architectures.table import tied_head
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_7B = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
"""Sizes by default, which a ``text_config`` often leaves out."""
_OTHER_PARTS = (
    "model.aligner.",
    "model.vqmodel.",
    "model.generation_",
    "norm.",
    "mtp.",
    "model.merger.",
)
"""Starts of names beside those of ``checkpoints.tensor_names``."""


def _is_other(name: str, config: Config) -> bool:
    return name.startswith(_OTHER_PARTS) or tied_head(name, config)


def _lacks_next(dims: Dims) -> bool:
    layer = dims.key("block_count") - dims.key("nextn_predict_layers", 0)
    return not any(name.startswith(f"blk.{layer}.") for name in dims.shapes)


LLAMA_PART = replace(
    LLAMA,
    classes=(
        "LlavaForConditionalGeneration", "VoxtralForConditionalGeneration",
        "JanusForConditionalGeneration",
    ),
    defaults=default_fields(
        2048, rms_norm_eps=1e-6, head_dim=head_dim, intermediate_size=11008, **_7B
    ),
    skips=_is_other,
)  # fmt: skip
LLAMA_PART_OF_OWN_CODE = replace(
    LLAMA,
    classes=("VLlama3ForCausalLM", "Sarashina2VisionForCausalLM"),
    defaults=DEFAULTS,
    renamed=lambda name: name.removeprefix("llm."),
    skips=_is_other,
)
QWEN2_PART = replace(
    QWEN2,
    classes=(
        "Qwen2AudioForConditionalGeneration", "AudioFlamingo3ForConditionalGeneration",
        "DotsOCRForCausalLM",
    ),
    defaults=default_fields(
        32768, rms_norm_eps=1e-6, intermediate_size=22016, num_key_value_heads=32, **_7B
    ),
)  # fmt: skip
QWEN3_PART = replace(QWEN3, classes=("StepVLForConditionalGeneration",))
MINICPM_V_4_6 = replace(
    QWEN3_5,
    classes=("MiniCPMV4_6ForConditionalGeneration",),
    # The layer that predicts further tokens is counted, and left out.
    rows=tuple(
        replace(row, optional=True) if row.folder[0].startswith("mtp.") else row
        for row in QWEN3_5.rows
    ),
    skips=_is_other,
    fits=_lacks_next,
)
PHI_4_V = replace(PHI_3, classes=("Phi4ForCausalLMV",))
PADDLE_OCR = replace(
    ERNIE_4_5, name="paddleocr", classes=("PaddleOCRVLForConditionalGeneration",),
    model_type="paddleocr_vl",
)  # fmt: skip
LLAVA_STABLELM = replace(
    STABLELM,
    classes=("LlavaStableLMEpochForCausalLM",),
    skips=lambda name, config: "projector." in name or "vision_" in name,
)
