"""The engine: the meaning of the pipeline; here the pipeline itself."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline import Pipeline
    from mtkit.spec import TokenizerSpec

    AnyEngine = Pipeline


def load_engine(spec: TokenizerSpec) -> AnyEngine:
    """Return what encodes a specification."""
    from mtkit.pipeline import Pipeline

    return Pipeline(spec)
