"""Names of tensors as a text model has them: without a wrapper's prefix, without other parts.

Source: torch, _dynamo/eval_frame.py (``_orig_mod``), nn/parallel (``module``); peft, peft_model.py
(``base_model.model``); accelerate, utils/other.py; trl, models (``pretrained_model``);
transformers, models of several parts (``language_model``). For these parts llama.cpp,
conversion/base.py (``ModelBase.filter_tensors``, ``TextModel.filter_tensors``).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

PREFIXES = (
    "_orig_mod.", "module.", "base_model.model.", "language_model.", "_forward_module.",
    "_fsdp_wrapped_module.", "pretrained_model.", "model.language_model.", "text_model.", "llm.",
)  # fmt: skip
PARTS = (
    "vision_config", "audio_config", "thinker_config", "vision_tower", "vision_encoder",
    "vit_config", "sound_config", "speech_config", "encoder_config",
)  # fmt: skip
"""Fields of config.json that describe another part."""
_TEXT = "language_model."
"""Stands somewhere in the names of the text part."""
_THINKER = "thinker."
"""Stands in front of them in models that also speak."""
_STARTS = (
    "mlp", "vit.", "vpm.", "siglip2.", "conformer.", "merger.", "resampler.", "sound_encoder.",
    "sound_projection.", "speech_embeddings.", "encoder.", "projector.",
)  # fmt: skip
_SIGNS = (
    "visual.", "vision.", "audio.", "talker.", "vision_", "audio_", "token2wav.", "code2wav.",
    "projector.", "pre_mm_projector_norm", "image_newline", "view_seperator", "patch_embed",
    "patch_merger.", "patch_merge_mlp.", "model.connector.", "sam_model", "qwen2_model",
)  # fmt: skip
_TWICE = ("model.model.", "model.lm_head.")
"""Two names of which one shows that ``model.`` stands in front of a whole model."""


def common_prefix(names: Collection[str]) -> str:
    """Return what stands in front of all names, as a wrapper or several put it; else ""."""
    prefix = ""
    while names:
        more = next((p for p in PREFIXES if all(n.startswith(prefix + p) for n in names)), "")
        if not more and all(name.startswith(f"{prefix}model.") for name in names):
            starts = tuple(prefix + start for start in _TWICE)
            more = "model." if any(name.startswith(starts) for name in names) else ""
        if not more:
            break
        prefix += more
    return prefix


def has_parts(config: Mapping[str, Any]) -> bool:
    """Tell whether config.json describes another part beside the text."""
    return any(config.get(name) for name in PARTS)


def text_names(names: Iterable[str]) -> dict[str, str]:
    """Return name -> name in a text model, of the tensors of the text part."""
    return {
        name: name.replace(_TEXT, "").removeprefix(_THINKER)
        for name in names
        if not name.startswith(_STARTS) and not any(sign in name for sign in _SIGNS)
    }
