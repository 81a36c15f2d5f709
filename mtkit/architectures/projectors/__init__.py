"""The projectors of models that see or hear: llama.cpp's ``--mmproj``, a GGUF of their own.

``rows`` has what they share, ``vision`` and ``audio`` have a few rows for each class.
"""

from __future__ import annotations

from functools import cache

from mtkit.architectures.config import Config
from mtkit.architectures.projectors.rows import AUDIO, NAME, VISION, Projector
from mtkit.architectures.tensor_match import match_gguf
from mtkit.base.escape import quoted
from mtkit.base.record import replace
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.changes import Shape
    from mtkit.architectures.tensor_match import Fault
    from mtkit.gguf.file import Metadata

__all__ = [
    "KINDS",
    "NAME",
    "Projector",
    "class_of_projector",
    "describe_encoders",
    "kind_in",
    "projector_of",
    "projectors",
    "recognize_encoders",
]

KINDS = frozenset((
    "mlp", "ldp", "ldpv2", "resampler", "adapter", "qwen2vl_merger", "qwen2.5vl_merger",
    "qwen3vl_merger", "ling3vl", "step3vl", "gemma3", "gemma3nv", "gemma3na", "gemma4v", "gemma4a",
    "gemma4uv", "gemma4ua", "phi4", "idefics3", "pixtral", "ultravox", "internvl", "llama4",
    "qwen2a", "qwen3a", "glma", "qwen2.5o", "voxtral", "meralion", "musicflamingo", "lfm2",
    "kimivl", "paddleocr", "lightonocr", "cogvlm", "janus_pro", "dots_ocr", "dots3note_v",
    "dots3note_a", "deepseekocr", "deepseekocr2", "deepseek4v", "lfm2a", "glm4v", "glm5v",
    "youtuvl", "yasa2", "kimik25", "nemotron_v2_vl", "exaone4_5", "hunyuanvl", "minicpmv4_6",
    "granite_speech", "mimovl", "minimax_m3", "granite4_vision", "mimo_audio", "parakeet",
    "qwen3tts_spkenc", "qwen3tts_gen", "pockettts_spkenc", "pockettts_gen", "muse-glimmer",
))  # fmt: skip
"""Kinds of projectors that llama.cpp runs. Source: llama.cpp, tools/mtmd/clip-impl.h."""
_CONVERTERS = frozenset((
    "Granite4VisionForConditionalGeneration",
    "MiMoV2ForCausalLM", "NemotronH_Nano_VL_V2", "RADIOModel", "Dots3NoteForCausalLM",
    "Dots3NoteForConditionalGeneration", "PocketTTSModel", "Qwen3TTSForConditionalGeneration",
))  # fmt: skip
"""Classes whose projectors llama.cpp's converter alone writes."""
_PARTS = {
    VISION: ("vision_config", "vision_encoder"),
    AUDIO: ("whisper_config", "audio_config", "speech_config", "encoder_config", "encoder"),
}


@cache
def projectors() -> dict[str, Projector]:
    """Return class of transformers -> its projector."""
    from mtkit.architectures.projectors import (
        audio,
        conformer,
        gemma4,
        ocr,
        qwen,
        towers,
        vision,
    )

    modules = (vision, qwen, towers, ocr, audio, conformer, gemma4)
    rows = (projector for module in modules for projector in module.PROJECTORS)
    return {name: projector for projector in rows for name in projector.classes}


def class_of_projector(document: Mapping[str, Any]) -> str:
    """Return the class that names the projector: the vision_config's, the model's or the text's."""
    parts = (document.get("vision_config"), document, document.get("text_config"))
    for names in (part.get("architectures") for part in parts if isinstance(part, dict)):
        if isinstance(names, list) and names and isinstance(names[0], str):
            return names[0]
    raise FormatError("names no architecture", field="architectures")


def projector_of(name: str) -> Projector:
    """Return the projector of a class.

    Raises:
        UnsupportedError: There is none of that name.
    """
    projector = projectors().get(name)
    if projector is None:
        from difflib import get_close_matches

        near = get_close_matches(name, projectors(), n=3) or ["Gemma3ForConditionalGeneration"]
        what = f"{quoted(name)} is a class whose projector mtkit does not convert"
        does = "does" if name in _CONVERTERS else "may"
        hint = f"convert_hf_to_gguf.py --mmproj of llama.cpp {does}; known are {', '.join(near)} …"
        raise UnsupportedError(what, field="architectures", hint=hint)
    return projector


def describe_encoders(
    projector: Projector, document: Mapping[str, Any], beside: Mapping[str, Any], source: str
) -> list[tuple[Architecture, Config]]:
    """Return the encoders of a model, each with its fields and those that transformers fills in.

    Args:
        beside: What a part's config has beside its own fields.

    Raises:
        FormatError: config.json has no such part.
    """
    outer = document.get(projector.place) if projector.place else document
    encoders: list[tuple[Architecture, Config]] = []
    for part in projector.parts:
        names = _PARTS[part.name]
        tables = (outer.get(name) for name in names) if isinstance(outer, dict) else ()
        fields: Mapping[str, Any] | None = (
            next((table for table in tables if isinstance(table, dict)), None)
            if projector.fields is None
            else projector.fields(document)
        )
        if fields is None and encoders:
            continue  # larger models of a family do not hear
        if fields is None:
            raise FormatError("is missing", source=source, field=names[0])
        config = part.filled(Config({**fields, **beside}, source))
        if part.rows_of is not None:
            part = replace(part, rows=part.rows_of(config))
        encoders.append((part, config))
    return encoders


def kind_in(metadata: Metadata, part: str) -> tuple[str, Any]:
    """Return the key and the kind of projector of an encoder; the one of both parts comes first."""
    keys = ("clip.projector_type", f"{part}.projector_type")
    return next(((key, metadata[key]) for key in keys if key in metadata), (keys[0], None))


def recognize_encoders(
    metadata: Metadata, shapes: Mapping[str, Shape]
) -> list[tuple[str, tuple[Fault, ...]]]:
    """Return the kinds of a file's encoders, each with what is wrong with its tensors.

    Args:
        shapes: Name of a tensor -> its shape, slowest axis first.

    Raises:
        UnsupportedError: mtkit knows no rows of a kind.
        FormatError: The metadata lack a size.
    """
    encoders = []
    flags = ((VISION, "clip.has_vision_encoder"), (AUDIO, "clip.has_audio_encoder"))
    parts = [part for part, key in flags if metadata.get(key) is True]
    for part in parts:
        hears = part == AUDIO
        own = {
            name: shape
            for name, shape in shapes.items()
            if len(parts) == 1 or name.startswith(("a.", "mm.a.")) == hears
        }
        _, kind = kind_in(metadata, part)
        matches = [
            match_gguf(encoder, encoder.sizes(metadata, 0), own).faults
            for projector in projectors().values()
            for encoder in projector.parts
            if encoder.name == part and _kind_of(encoder) == kind
        ]
        if not matches:
            what = f"{quoted(str(kind))} is a kind of projector whose tensors mtkit does not know"
            raise UnsupportedError(what, field="clip.projector_type")
        best = min(matches, key=lambda faults: sum(len(fault.names) for fault in faults))
        encoders.append((str(kind), best))
    return encoders


def _kind_of(encoder: Architecture) -> object:
    rows = (row for row in encoder.keys if row.name in ("clip.projector_type", "projector_type"))
    return next((row.value(Config({})) for row in rows), None)
