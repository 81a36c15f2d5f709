"""The projectors of models that see or hear: llama.cpp's ``--mmproj``, a GGUF of their own.

``rows`` has what they share, ``vision`` and ``audio`` have a few rows for each class.
"""

from __future__ import annotations

from functools import cache

from mtkit.architectures.config import Config
from mtkit.architectures.projectors.rows import NAME, STARTS, VISION, Projector
from mtkit.base.escape import quoted
from mtkit.base.record import replace
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.architectures import Architecture

__all__ = [
    "NAME",
    "STARTS",
    "Projector",
    "class_of_projector",
    "describe_encoders",
    "projector_of",
    "projectors",
]

_PARTS = ("vision_config", "audio_config", "whisper_config", "vision_encoder")


@cache
def projectors() -> dict[str, Projector]:
    """Return class of transformers -> its projector."""
    from mtkit.architectures.projectors import audio, gemma4, vision

    rows = (*vision.PROJECTORS, *audio.PROJECTORS, *gemma4.PROJECTORS)
    return {name: projector for projector in rows for name in projector.classes}


def class_of_projector(document: Mapping[str, Any]) -> str:
    """Return the class that names the projector: that of the vision_config, else of the model."""
    inner = document.get("vision_config")
    own = inner.get("architectures") if isinstance(inner, dict) else None
    names = own or document.get("architectures")
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
        known = ", ".join(sorted(projectors()))
        what = f"{quoted(name)} is a class whose projector mtkit does not convert"
        hint = f"convert_hf_to_gguf.py --mmproj of llama.cpp may; mtkit converts that of {known}"
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
    encoders = []
    for part in projector.parts:
        names = _PARTS[::3] if part.name == VISION else _PARTS[1:3]
        tables = (outer.get(name) for name in names) if isinstance(outer, dict) else ()
        fields = next((table for table in tables if isinstance(table, dict)), None)
        if fields is None and encoders:
            continue  # larger models of a family do not hear
        if fields is None:
            raise FormatError("is missing", source=source, field=names[0])
        config = part.filled(Config({**fields, **beside}, source))
        if part.rows_of is not None:
            part = replace(part, rows=part.rows_of(config))
        encoders.append((part, config))
    return encoders
