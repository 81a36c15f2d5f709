"""DeciLM and what was cut out of Llama by it: layers with fewer heads, narrower, or without a part.

Source: llama.cpp, conversion/deci.py (``DeciModel``); the configuration published with
nvidia/Llama-3_3-Nemotron-Super-49B-v1.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import EMBEDDINGS, FEED_FORWARD, IN_LAYER, OUTPUT
from mtkit.architectures.families.llama import ATTENTION, DEFAULTS, KEYS, LLAMA_3, config
from mtkit.architectures.metadata import computed, with_keys
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_STEP = 256


def _blocks(config: Config, part: str) -> list[Config]:
    blocks, layers = config.get("block_configs"), config.count("num_hidden_layers")
    if not isinstance(blocks, list) or len(blocks) != layers:
        raise config.wrong(f"is not a list of {layers} objects", "block_configs")
    if not all(isinstance(block, dict) and isinstance(block.get(part), dict) for block in blocks):
        raise config.wrong(f"has no {part} in each object", "block_configs")
    return [type(config)(block[part], config.source) for block in blocks]


def _heads(config: Config) -> list[int]:
    heads = config.count("num_attention_heads")
    return [
        heads if part.whole("n_heads_in_group") or part.flag("replace_with_linear") else 0
        for part in _blocks(config, "attention")
    ]


def _heads_kv(config: Config) -> list[int]:
    heads = config.count("num_attention_heads")
    groups = [part.whole("n_heads_in_group") for part in _blocks(config, "attention")]
    return [heads // group if group else 0 for group in groups]


def _widths(config: Config) -> list[int]:
    hidden = config.count("hidden_size")
    factors = [part.number("ffn_mult") or 0.0 for part in _blocks(config, "ffn")]
    return [-(-int(2 * factor * hidden / 3) // _STEP) * _STEP for factor in factors]


def _each_heads_kv(config: Config) -> list[int] | None:
    heads = config.get("num_key_value_heads_per_layer")
    if not isinstance(heads, list) or not all(type(n) is int and 0 < n < 1 << 16 for n in heads):
        raise config.wrong("is not a list of whole numbers", "num_key_value_heads_per_layer")
    return heads


def _head_dim(config: Config) -> int:
    return config.count("hidden_size") // config.count("num_attention_heads")


def _has_feed_forward(dims: Dims) -> bool:
    return bool(dims["ff"])


_ROWS = join_rows(
    EMBEDDINGS,
    OUTPUT,
    block(
        IN_LAYER,
        in_layers(
            lambda dims: bool(dims["head"]), row("input_layernorm", "attn_norm", "embd", bias=False)
        ),
        in_layers(lambda dims: bool(dims["head_kv"]), ATTENTION),
        in_layers(
            lambda dims: dims["head"] > 0 == dims["head_kv"],
            row("self_attn.linear_attn", "attn_output", "embd embd", bias=False),
        ),
        in_layers(
            _has_feed_forward,
            row("post_attention_layernorm", "ffn_norm", "embd", bias=False),
            FEED_FORWARD,
        ),
    ),
)


def _is_cut(dims: Dims) -> bool:
    return isinstance(dims.keys.get("attention.head_count"), list)


def _cut_config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    blocks = []
    layers = [dims.at(layer) for layer in range(dims.key("block_count"))]
    for layer in layers:
        heads, heads_kv = layer["head"], layer["head_kv"]
        attention = {
            "n_heads_in_group": heads // heads_kv if heads_kv else None,
            "no_op": not heads,
            "replace_with_linear": heads > 0 == heads_kv,
        }
        factor = 3 * layer["ff"] / (2 * max(layer["embd"], 1)) if layer["ff"] else None
        ffn = {"ffn_mult": factor, "no_op": factor is None, "replace_with_linear": False}
        blocks.append({"attention": attention, "ffn": ffn})
    heads = max((layer["head"] for layer in layers), default=0)
    return {**config(dims, tensor), "num_attention_heads": heads, "block_configs": blocks}


DECI = Architecture(
    "deci",
    ("DeciLMForCausalLM",),
    "deci",
    with_keys(
        KEYS,
        computed(
            "attention.head_count_kv", "i32[]", _each_heads_kv, "num_key_value_heads_per_layer"
        ),
    ),
    _ROWS,
    defaults=DEFAULTS,
    fits=lambda dims: not _is_cut(dims),
    generated=(LLAMA_3,),
    config=config,
)
DECI_CUT = Architecture(
    "deci",
    ("DeciLMForCausalLM",),
    "nemotron-nas",
    with_keys(
        KEYS,
        computed("attention.head_count", "i32[]", _heads),
        computed("attention.head_count_kv", "i32[]", _heads_kv),
        computed("feed_forward_length", "i32[]", _widths),
        computed("attention.key_length", "u32", _head_dim),
        computed("attention.value_length", "u32", _head_dim),
    ),
    _ROWS,
    defaults=DEFAULTS,
    accepts=lambda config: config.get("block_configs") is not None,
    fits=_is_cut,
    generated=(LLAMA_3,),
    config=_cut_config,
)
