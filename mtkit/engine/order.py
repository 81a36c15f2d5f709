"""What the order of the stages allows: which step is left out, and which the core must not take."""

from __future__ import annotations

from mtkit.spec import models, normalizers, pre_tokenizers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.spec import TokenizerSpec


def takes_raw_bytes(model: models.Model) -> bool:
    """Tell whether a model does the same with bytes as with the letters that stand for them."""
    if isinstance(model, models.BPE):
        affixes = model.continuing_subword_prefix or model.end_of_word_suffix
        return not (affixes or model.byte_fallback)
    return isinstance(model, models.RankBPE)


def changes_after_spaces(spec: TokenizerSpec, steps: Iterable[object]) -> bool:
    """Tell whether a later step depends on what the characters that ``Spaces`` wrote stand for."""
    before = [isinstance(step, normalizers.Spaces) for step in flat(spec.normalizer)]
    depends = (pre_tokenizers.ByteLevel, pre_tokenizers.Metaspace)
    return any(before[:-1]) or (any(before) and any(isinstance(step, depends) for step in steps))


def flat(component: Any) -> list[Any]:
    """Return the steps of nested sequences in order."""
    if component is None:
        return []
    if isinstance(component, (normalizers.Sequence, pre_tokenizers.Sequence)):
        return [step for part in component.steps for step in flat(part)]
    return [component]
