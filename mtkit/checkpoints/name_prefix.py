"""What wrappers put in front of the names of all tensors: recognized, so that it can be taken off.

Source: torch, _dynamo/eval_frame.py (``_orig_mod``), nn/parallel (``module``); peft, peft_model.py
(``base_model.model``); accelerate, utils/other.py; trl, models (``pretrained_model``);
transformers, models of several parts (``language_model``).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

PREFIXES = (
    "_orig_mod.", "module.", "base_model.model.", "language_model.", "_forward_module.",
    "_fsdp_wrapped_module.", "pretrained_model.", "model.language_model.", "text_model.", "llm.",
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
