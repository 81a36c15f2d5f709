"""LongRoPE: factors of rotary positions for long and for short texts, one each for a pair.

Source: llama.cpp, conversion/phi.py (``Phi3MiniModel.generate_extra_tensors``).
"""

from __future__ import annotations

from mtkit.architectures.keys import KeyRow
from mtkit.architectures.table import Generated
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.dims import Dims

LONG, SHORT = "long_factor", "short_factor"


def _factors(field: str) -> Callable[[Config, Dims], Any]:
    """Return what gives the factors of a field, float32; None where the model does not scale so.

    Raises:
        FormatError: By what is returned: they are not a number for each two of a head.
    """

    def values(config: Config, dims: Dims) -> Any:
        import numpy as np

        rope = config.rope()
        if not rope.get(LONG):
            return None
        found = rope.get(field)
        if not isinstance(found, list) or len(found) != dims["rope/2"]:
            raise rope.wrong(f"is not a list of {dims['rope/2']} numbers", field)
        if not all(type(one) in (int, float) and abs(one) < 3e38 for one in found):
            raise rope.wrong("has what is not a number", field)
        return np.array(found, dtype=np.float32)

    return values


def _attention(config: Config) -> float | None:
    """Return by how much longer texts than the model was first trained on sharpen attention."""
    from math import log, sqrt

    rope = config.rope()
    if not rope.get(LONG):
        return None
    first = rope.count("original_max_position_embeddings")
    scale = config.count("n_positions", "max_position_embeddings") / first
    kind = (rope.text("rope_type") or "").lower()
    if kind not in ("su", "longrope", "yarn"):  # transformers takes the three for the same here
        raise UnsupportedError(
            f"{kind!r} is not a kind of scaling with factors for long texts",
            source=config.source,
            field="rope_scaling",
        )
    return sqrt(1 + log(scale) / log(first)) if scale > 1.0 and first > 1 else 1.0


LONG_ROPE = (
    Generated("rope_factors_long.weight", "rope/2", _factors(LONG)),
    Generated("rope_factors_short.weight", "rope/2", _factors(SHORT)),
)
ATTENTION_FACTOR = KeyRow("rope.scaling.attn_factor", "f32", _attention)


def long_rope_scaling(tensor: Callable[[str], Any]) -> dict[str, Any]:
    """Return the field of config.json that gives the factors, empty where there are none."""
    found = {field: tensor(one.name) for field, one in zip((LONG, SHORT), LONG_ROPE, strict=True)}
    if any(values is None for values in found.values()):
        return {}
    # The fewest digits that give a number of 32 bits.
    factors = {field: [float(str(one)) for one in values] for field, values in found.items()}
    return {"rope_scaling": {"type": "longrope", **factors}}
