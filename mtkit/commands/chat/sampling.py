"""How a conversation chooses its tokens: by default as llama.cpp and Ollama do."""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.settings import SamplerSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from mtkit.gguf import Metadata

_TEMPERATURE = 0.8
"""Of llama-cli and Ollama."""
_OF_MODEL = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "penalty_last",
}
"""End of a key ``general.sampling.…`` -> setting.

Source: LLM_KV_GENERAL_SAMPLING_* of llama.cpp's llama-arch.cpp.
"""
_SHOWN = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed")


def by_default(
    settings: SamplerSettings, given: Collection[str], metadata: Metadata
) -> SamplerSettings:
    """Return the settings of a conversation: what is not given is the model's own, or usual.

    Args:
        settings: What the command line says.
        given: Names of the settings that it gives.
        metadata: Of the model.
    """
    if settings.mirostat or settings.grammar is not None or settings.json_schema is not None:
        return settings
    own = {"temperature": _TEMPERATURE} | {
        name: value
        for key, name in _OF_MODEL.items()
        for value in [metadata.get(f"general.sampling.{key}")]
        if isinstance(value, (int, float))
    }
    values = {name: value for name, value in own.items() if name not in given}
    try:
        return replace(settings, **values)
    except UsageError:  # a key of the model is out of range
        return settings


def changed(settings: SamplerSettings, name: str, value: str) -> SamplerSettings:
    """Return settings of which one is changed, as typed.

    Raises:
        UsageError: There is none of that name, or it takes no such value.
    """
    names = {
        spelling.lstrip("-"): setting
        for setting in settings.declared.values()
        if isinstance(setting.default, (int, float)) or setting.name == "seed"
        for spelling in (*(setting.options or ()), *setting.also)
    }
    setting = names.get(name)
    if setting is None:
        raise UsageError(f"there is no setting {name}", hint=f"such as {', '.join(_SPELLED)}")
    kind = float if isinstance(setting.default, float) else int
    try:
        return replace(settings, **{setting.name: kind(value)})
    except ValueError:
        raise UsageError(f"{value!r} is not a number", field=name) from None


def described(settings: SamplerSettings) -> str:
    """Return the settings that people change, in a line."""
    values = zip(_SPELLED, (getattr(settings, name) for name in _SHOWN), strict=True)
    return ", ".join(f"{name} {value}" for name, value in values if value is not None)


_SPELLED = [SamplerSettings.declared[name].options[-1].lstrip("-") for name in _SHOWN]
