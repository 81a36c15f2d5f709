"""What the decoders of transformers compute that differ in little more than a line.

Source: transformers, models/llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3 (modeling files).
"""

from __future__ import annotations

from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.architectures.config import Config


class Family(Record):
    """What a class of transformers does besides what all do.

    Attributes:
        activation: Of the feed-forward part: silu or gelu_pytorch_tanh.
        defaults: Fields that a config.json need not have.
        plus_one: A norm multiplies with 1 + its weight.
        scales_embeddings: By the root of their width.
        head_norms: Each head of queries and keys is normed.
        four_norms: What attention and feed-forward give is normed, too.
        windows: Every layer has a sliding window (all), those that ``layer_types`` names (some),
            those that ``use_sliding_window`` asks for (asked), or none.
    """

    activation: str = "silu"
    defaults: Mapping[str, Any] = {}
    plus_one: bool = False
    scales_embeddings: bool = False
    head_norms: bool = False
    four_norms: bool = False
    windows: str = ""


_GELU = "gelu_pytorch_tanh"
_GEMMA = Family(
    _GELU, {"tie_word_embeddings": True, "head_dim": 256}, plus_one=True, scales_embeddings=True
)
_GEMMA_2 = Family(
    _GELU,
    {
        **_GEMMA.defaults, "query_pre_attn_scalar": 256, "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0, "sliding_window": 4096, "sliding_window_pattern": 2,
    },
    plus_one=True, scales_embeddings=True, four_norms=True, windows="some",
)  # fmt: skip
_GEMMA_3 = Family(
    _GELU,
    {
        **_GEMMA.defaults, "query_pre_attn_scalar": 256, "sliding_window": 4096,
        "sliding_window_pattern": 6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
    },
    plus_one=True, scales_embeddings=True, head_norms=True, four_norms=True, windows="some",
)  # fmt: skip
_QWEN = {"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28}
FAMILIES = {
    "LlamaForCausalLM": Family(),
    "LLaMAForCausalLM": Family(),
    "MistralForCausalLM": Family(defaults={"num_key_value_heads": 8}, windows="all"),
    "Qwen2ForCausalLM": Family(defaults=_QWEN, windows="asked"),
    "Qwen3ForCausalLM": Family(
        defaults={**_QWEN, "head_dim": 128}, head_norms=True, windows="asked"
    ),
    "GemmaForCausalLM": _GEMMA,
    "Gemma2ForCausalLM": _GEMMA_2,
    "Gemma3ForCausalLM": _GEMMA_3,
}
"""Class of transformers -> what it computes."""


def family_of(name: str) -> Family:
    """Return what a class computes.

    Raises:
        UnsupportedError: It is not known here.
    """
    if name not in FAMILIES:
        what = f"{quoted(name)} is a model that mtkit does not compute by itself"
        hint = f"it computes {', '.join(FAMILIES)}"
        raise UnsupportedError(what, field="architectures", hint=hint)
    return FAMILIES[name]


def window(family: Family, config: Config, layer: int) -> int | None:
    """Return how many tokens a layer looks back, itself included; None: all."""
    size = config.whole("sliding_window")
    if family.windows == "all":
        return size
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and layer < len(kinds):
        return size if kinds[layer] == "sliding_attention" else None
    if family.windows == "some":
        period = config.count("sliding_window_pattern", "_sliding_window_pattern")
        return None if (layer + 1) % period == 0 else size
    first = config.whole("max_window_layers") or 0
    asked = family.windows == "asked" and config.flag("use_sliding_window") and layer >= first
    return size if asked else None
