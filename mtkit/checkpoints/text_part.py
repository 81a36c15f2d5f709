"""The text part of a model that also sees or hears: its tensors, by the names of a text model.

Source: llama.cpp, conversion/base.py (``ModelBase.filter_tensors``, ``TextModel.filter_tensors``).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

PARTS = (
    "vision_config", "audio_config", "thinker_config", "vision_tower", "vision_encoder",
    "vit_config", "sound_config", "speech_config",
)  # fmt: skip
"""Fields of config.json that describe another part."""
TEXT = "language_model."
"""Stands somewhere in the names of the text part."""
_STARTS = (
    "mlp", "vit.", "vpm.", "siglip2.", "conformer.", "merger.", "resampler.", "sound_encoder.",
    "sound_projection.", "speech_embeddings.",
)  # fmt: skip
_SIGNS = (
    "visual.", "vision.", "audio.", "talker.", "vision_", "audio_", "token2wav.", "code2wav.",
    "projector.", "pre_mm_projector_norm", "image_newline", "view_seperator", "patch_embed",
    "patch_merger.", "patch_merge_mlp.", "model.connector.",
)  # fmt: skip


def has_parts(config: Mapping[str, Any]) -> bool:
    """Tell whether config.json describes another part beside the text."""
    return any(config.get(name) for name in PARTS)


def text_names(names: Iterable[str]) -> dict[str, str]:
    """Return name -> name in a text model, of the tensors of the text part."""
    return {
        name: name.replace(TEXT, "")
        for name in names
        if not name.startswith(_STARTS) and not any(sign in name for sign in _SIGNS)
    }
