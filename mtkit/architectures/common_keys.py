"""Rows of metadata that several families have besides those of every decoder."""

from __future__ import annotations

from mtkit.architectures.keys import KeyRow, u32
from mtkit.base.escape import shown
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.table import Check

_KINDS = ("full_attention", "sliding_attention")
_MOST_LAYERS = 1 << 16
VOCAB_SIZE = u32("vocab_size", "vocab_size")
SLIDING_WINDOW = u32("attention.sliding_window", "sliding_window")
EXPERT_COUNT = u32("expert_count", "num_local_experts", "num_experts", written="num_experts")
"""As most families of experts call it in config.json."""
EXPERT_FEED_FORWARD = u32("expert_feed_forward_length", "moe_intermediate_size")


def layer_types(slides: Callable[[int], bool]) -> KeyRow:
    """Return the row that says which layers see a window alone.

    Args:
        slides: Whether a layer does where config.json is silent.

    Raises:
        FormatError: By the row's value: ``layer_types`` is not a list.
    """

    def value(config: Config) -> list[bool] | None:
        said = config.get("layer_types")
        if said is None:
            layers = min(config.count("num_hidden_layers"), _MOST_LAYERS)
            return [slides(layer) for layer in range(layers)]
        if not isinstance(said, list):
            raise config.wrong("is not a list", "layer_types")
        return [kind == "sliding_attention" for kind in said]

    return KeyRow("attention.sliding_window_pattern", "bool[]", value, _layer_types)


def _layer_types(value: Any) -> dict[str, Any]:
    return {"layer_types": [_KINDS[bool(slides)] for slides in value]}


def only(field: str, *values: object) -> Check:
    """Return the check of a field that has no key: llama.cpp runs what these values say, alone.

    Args:
        field: Of config.json; missing, it is as one of the values.
        values: What it may be.

    Raises:
        UnsupportedError: By what is returned: the field says something else.
    """

    def check(config: Config) -> None:
        said = config.get(field)
        if said is not None and said not in values:
            what = f"is {shown(repr(said)[:40])}, which llama.cpp cannot run"
            raise UnsupportedError(what, source=config.source, field=field)

    return check


def _end_of_turn(config: Config) -> int | None:
    said, ids = config.get("eos_token_id"), config.whole("vocab_size") or 0
    second = said[1] if isinstance(said, list) and len(said) > 1 else None
    return second if type(second) is int and 0 <= second < ids else None


END_OF_TURN = KeyRow("tokenizer.ggml.eot_token_id", "u32", _end_of_turn)
"""The second of several ids that end a text, where llama.cpp does not know it by its spelling."""
_POOLING = {"mean": 1, "cls": 2, "lasttoken": 3}
"""Source: gguf-py/gguf/constants.py (``PoolingType``)."""


def _pooling(config: Config) -> int | None:
    said = config.text(SENTENCE_POOLING)
    if said is None:
        return None
    if said not in _POOLING:
        what = f"is {shown(said)}; llama.cpp pools by {', '.join(_POOLING)}"
        raise UnsupportedError(what, field=SENTENCE_POOLING)
    return _POOLING[said]


SENTENCE_POOLING = "sentence_pooling"
"""What sentence-transformers' files beside config.json say, as if it stood in there."""
POOLING = KeyRow("pooling_type", "u32", _pooling)
