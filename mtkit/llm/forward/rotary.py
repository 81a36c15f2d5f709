"""How fast rotary positions turn, as transformers computes it.

Source: transformers, modeling_rope_utils.py; models/llama (``apply_rotary_pos_emb``).
"""

from __future__ import annotations

from mtkit.base.escape import quoted
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.config import Config

_BASE = 10000.0


def frequencies(config: Config, layers: str, width: int) -> tuple[Any, float]:
    """Return radians a position of each pair, float64 of shape (width / 2,), and what scales them.

    Args:
        config: Of the model.
        layers: full_attention or sliding_attention.
        width: Of a head.

    Raises:
        UnsupportedError: It asks for a scaling that is not known here.
        FormatError: A field is not what it should be.
    """
    import numpy as np

    rope = config.rope(layers)
    base = rope.number("rope_theta") or _BASE
    plain = 1.0 / base ** (np.arange(0, width, 2, dtype=np.float64) / width)
    kind = rope.text("rope_type") or "default"
    if (rope.number("partial_rotary_factor") or 1.0) != 1.0:
        raise UnsupportedError("turns a part of each head", field="partial_rotary_factor")
    if kind == "default":
        return plain, 1.0
    factor = rope.number("factor") or 1.0
    if kind == "linear":
        return plain / factor, 1.0
    context = rope.whole("original_max_position_embeddings") or config.count(
        "max_position_embeddings"
    )
    if kind == "llama3":
        return _llama_3(rope, plain, factor, context), 1.0
    if kind == "yarn":
        return _yarn(rope, plain, base, factor, context)
    raise UnsupportedError(f"{quoted(kind)} is a scaling that is not known here", field="rope_type")


def _llama_3(rope: Config, plain: Any, factor: float, context: int) -> Any:
    import numpy as np

    low, high = rope.number("low_freq_factor") or 1.0, rope.number("high_freq_factor") or 4.0
    turns = context * plain / (2 * np.pi)
    part = np.clip((turns - low) / (high - low), 0, 1)
    return plain * (part + (1 - part) / factor)


def _yarn(rope: Config, plain: Any, base: float, factor: float, context: int) -> tuple[Any, float]:
    import numpy as np

    half = len(plain)

    def pair(turns: float) -> float:
        return float(half * np.log(context / (turns * 2 * np.pi)) / np.log(base))

    first = max(np.floor(pair(rope.number("beta_fast") or 32)), 0)
    last = min(np.ceil(pair(rope.number("beta_slow") or 1)), 2 * half - 1)
    part = np.clip((np.arange(half) - first) / max(last - first, 0.001), 0, 1)
    scale = rope.number("attention_factor") or (0.1 * np.log(factor) + 1 if factor > 1 else 1.0)
    return plain * (1 - part) + plain / factor * part, float(scale)


def turned(x: Any, positions: Any, speeds: Any, scale: float) -> Any:
    """Turn heads by their positions; the two elements of a pair are half a head apart.

    Args:
        x: Float32 of shape (tokens, heads, width).
        positions: Of the tokens.
        speeds: As ``frequencies`` gives them.
        scale: Likewise.
    """
    import numpy as np

    angles = positions[:, None, None] * speeds
    cos, sin = (
        (scale * np.cos(angles)).astype(np.float32),
        (scale * np.sin(angles)).astype(np.float32),
    )
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate((low * cos - high * sin, high * cos + low * sin), axis=-1)
