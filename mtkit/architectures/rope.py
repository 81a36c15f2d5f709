"""How rotary positions are scaled: the kinds, and the factors of Llama 3 and LongRoPE.

A kind is written, has no effect within the trained context, or is refused (``check_rope``).

LongRoPE has one factor a pair for long texts and one for short texts.

Source: llama.cpp, conversion/phi.py (``Phi3MiniModel.generate_extra_tensors``).
"""

from __future__ import annotations

from mtkit.architectures.metadata import KeyRow
from mtkit.architectures.table import Generated
from mtkit.base.escape import quoted
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Architecture


_LLAMA_3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
"""Defaults."""


def llama_3_factors(config: Config, dims: Dims) -> Any:
    """Return Llama 3's factors: float32 of half a head; None where the model does not scale so.

    Long waves are slowed by ``factor``, short ones are not, those in between are in part.
    Source: llama.cpp, conversion/llama.py (``LlamaModel.generate_extra_tensors``).
    """
    import math

    import numpy as np

    rope = config.rope()
    if (rope.text("rope_type") or "").lower() != "llama3":
        return None
    rope = rope.with_defaults({"rope_theta": 10000.0, **_LLAMA_3})
    f32 = np.float32
    base, factor = f32(rope.number("rope_theta")), f32(rope.number("factor"))
    low, high = f32(rope.number("low_freq_factor")), f32(rope.number("high_freq_factor"))
    context = f32(rope.count("original_max_position_embeddings"))
    with np.errstate(all="ignore"):
        axis = np.arange(0, 2 * dims["rope/2"], 2, dtype=np.float32) / f32(dims["rope"])
        # torch divides a number by a tensor as it multiplies by the reciprocal.
        waves = f32(2 * math.pi) * (f32(1) / (f32(1) / base**axis))
        smooth = (context * (f32(1) / waves) - low) / (high - low)
        between = f32(1) / ((f32(1) - smooth) / factor + smooth)
    short, long = waves < context / high, waves > context / low
    return np.where(short, f32(1), np.where(long, factor, between)).astype(np.float32)


def llama_3_scaling(dims: Dims, factors: Any) -> dict[str, Any]:
    """Return the fields of config.json that give Llama 3's factors.

    The factors say how far long waves are slowed; the other fields are those of the published
    models, with the context from which the same factors come.
    """
    import numpy as np

    from mtkit.architectures.config import Config
    from mtkit.errors import FormatError, UnsupportedError

    if factors is None:
        return {}
    if len(factors) != dims["rope/2"]:
        what = f"has {len(factors)} values, not {dims['rope/2']}"
        raise FormatError(what, field="tensor 'rope_freqs.weight'")
    for context in (8192, *(1 << power for power in range(5, 21))):
        scaling = {
            **_LLAMA_3,
            "rope_type": "llama3",
            "factor": float(factors.max()),
            "original_max_position_embeddings": context,
        }
        base = {"rope_theta": dims.keys.get("rope.freq_base")}
        computed_factors = llama_3_factors(Config({"rope_scaling": scaling, **base}), dims)
        if np.array_equal(computed_factors, factors):
            return {"rope_scaling": scaling}
    what = "no rope_scaling of a config.json gives these factors"
    raise UnsupportedError(what, field="tensor 'rope_freqs.weight'")


LONG, SHORT = "long_factor", "short_factor"


def _factors(field: str) -> Callable[[Config, Dims], Any]:
    """Return a function for the factors of a field, float32; None without such scaling."""

    def values(config: Config, dims: Dims) -> Any:
        import numpy as np

        rope = config.rope()
        if not rope.get(LONG):
            return None
        factors = rope.get(field)
        if not isinstance(factors, list) or len(factors) != dims["rope/2"]:
            raise rope.wrong(f"is not a list of {dims['rope/2']} numbers", field)
        if not all(type(factor) in (int, float) and abs(factor) < 3e38 for factor in factors):
            raise rope.wrong("has what is not a number", field)
        return np.array(factors, dtype=np.float32)

    return values


def _attention(config: Config) -> float | None:
    """Return the factor on attention for texts longer than those of the first training."""
    from math import log, sqrt

    rope = config.rope()
    if not rope.get(LONG):
        return None
    first = rope.count("original_max_position_embeddings")
    scale = config.count("n_positions", "max_position_embeddings") / first
    kind = (rope.text("rope_type") or "").lower()
    if kind not in ("su", "longrope", "yarn"):  # transformers takes the three for the same here
        what = f"{kind!r} is not a kind of scaling with factors for long texts"
        raise UnsupportedError(what, source=config.source, field="rope_scaling")
    return sqrt(1 + log(scale) / log(first)) if scale > 1.0 and first > 1 else 1.0


LONG_ROPE = (
    Generated("rope_factors_long.weight", "rope/2", _factors(LONG)),
    Generated("rope_factors_short.weight", "rope/2", _factors(SHORT)),
)
ATTENTION_FACTOR = KeyRow("rope.scaling.attn_factor", "f32", _attention)


def long_rope_scaling(tensor: Callable[[str], Any]) -> dict[str, Any]:
    """Return the field of config.json that gives the factors, empty where there are none."""
    tensors = {
        field: tensor(factor.name) for field, factor in zip((LONG, SHORT), LONG_ROPE, strict=True)
    }
    if any(values is None for values in tensors.values()):
        return {}
    # str: the fewest digits that give a 32-bit float.
    factors = {
        field: [float(str(factor)) for factor in values] for field, values in tensors.items()
    }
    return {"rope_scaling": {"type": "longrope", **factors}}


_PLAIN = ("", "default", "mrope")
_UNSCALED = "dynamic"
"""It scales texts longer than those of the training alone."""
_PROPORTIONAL = "proportional"
"""A part of each head is rotated as in a head of full width."""
_WITH_FACTOR = ("linear", "yarn")
_WITH_FACTORS = ("longrope", "su")
_SCALING_KEY, _XD_KEY = "rope.scaling.type", "rope.scaling.alpha"


def check_rope(architecture: Architecture, config: Config) -> None:
    """Refuse a kind of scaling that llama.cpp's model does not compute.

    Source: transformers, modeling_rope_utils.py (``ROPE_INIT_FUNCTIONS``).
    """
    for layers in ("full_attention", "sliding_attention"):
        rope = config.rope(layers)
        kind = (rope.text("rope_type", "type") or "").lower()
        why = _refusal(architecture, rope, kind)
        if why:
            what = f"scales by {quoted(kind)}{why}"
            raise UnsupportedError(what, source=config.source, field=_rope_field(config))


def _refusal(architecture: Architecture, rope: Config, kind: str) -> str:
    """Return why a kind of scaling is refused; "" where it is not."""
    tensors = {tensor.name for tensor in architecture.generated}
    cannot = f", which llama.cpp's {architecture.name} models do not compute"
    if kind in _PLAIN or kind == _UNSCALED:
        return ""
    if kind in _WITH_FACTOR:
        if rope.number("factor") is None:
            return " without a factor"
        return "" if any(row.name == _SCALING_KEY for row in architecture.keys) else cannot
    if kind == "xdrope":
        return "" if any(row.name == _XD_KEY for row in architecture.keys) else cannot
    if kind in _WITH_FACTORS:
        if not rope.get(LONG) or not rope.get(SHORT):
            return f" without {SHORT} and {LONG}"
        return "" if LONG_ROPE[0].name in tensors else cannot
    if kind == _PROPORTIONAL:
        return "" if architecture.name.startswith("gemma4") else cannot
    if kind == "llama3":
        return "" if "rope_freqs.weight" in tensors else cannot
    return ", which llama.cpp does not compute"


def rope_notes(architecture: Architecture, config: Config) -> Iterator[str]:
    """Yield what is said of a kind of scaling that is not written."""
    rope = config.rope()
    kind = (rope.text("rope_type", "type") or "").lower()
    own = any(row.name == _SCALING_KEY and row.value(config) for row in architecture.keys)
    if kind == _UNSCALED and not own:
        yield (
            f"{_rope_field(config)} {kind!r} is not written, as llama.cpp has no such scaling: "
            "only texts longer than the trained context differ"
        )


def _rope_field(config: Config) -> str:
    return "rope_parameters" if config.get("rope_parameters") else "rope_scaling"
