"""The reference: what every component of a specification means, in readable Python.

``Pipeline`` walks a text through all stages: bytes, text, added tokens, normalizer, pre-tokenizer,
model, post-processor; and ids back to text.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> object:
    """Import the walk when it is asked for; the modules beside it do not need it."""
    if name != "Pipeline":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mtkit.pipeline.pipeline import Pipeline

    return Pipeline
