"""What a simple format loses without further thought: fields that come back otherwise.

A writer lists by hand what changes ids; the rest (roles, templates, flags that only describe) is
found by comparing the specification with what the reader will make of the file.
"""

from __future__ import annotations

from mtkit.base.record import fields
from mtkit.formats.contract import Loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import LossCode
    from mtkit.spec import TokenizerSpec

_EFFECTS: dict[str, tuple[LossCode, str]] = {
    "vocabulary": ("metadata", "types, scores and unused entries of tokens"),
    "post_processor": ("metadata", "what is added around a text"),
    "decoder": ("decoding", "ids are decoded as the format's own reader does"),
    "added_tokens": (
        "ids-special",
        "which special tokens are found in the text, and how",
    ),
    "special_ids": ("metadata", "which tokens are bos, eos, unk, pad and the like"),
    "truncation": ("metadata", "how the file asks long inputs to be cut"),
    "padding": ("metadata", "how the file asks short inputs to be filled"),
    "chat_templates": ("chat", "the chat template"),
    "invalid_utf8": ("ids-special", "bytes that are not valid UTF-8"),
    "clean_up_spaces": ("decoding", "which spaces decoding removes"),
    "join": ("decoding", "what stands between decoded tokens"),
    "extras": ("metadata", "what only the source's format holds"),
}


def with_remainder(
    spec: TokenizerSpec, back: TokenizerSpec, listed: list[Loss]
) -> tuple[Loss, ...]:
    """Return the listed losses, and one for each other field that comes back otherwise.

    Args:
        spec: What is written.
        back: What the reader will make of it.
        listed: Losses found so far.
    """
    named = {loss.field.split(".")[0] for loss in listed}
    losses = list(listed)
    for name in fields(spec):
        if name == "name" or name in named or getattr(spec, name) == getattr(back, name):
            continue
        code, effect = _EFFECTS.get(name, ("ids", "the format does not hold it"))
        losses.append(Loss(code, name, effect))
    return tuple(losses)
