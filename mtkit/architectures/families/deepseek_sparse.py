"""DeepSeek V3.2 and GLM-5: attention to the tokens that an indexer picks (DSA).

The indexer has queries and one key of its own, and a weight of each head.
Source: llama.cpp, conversion/deepseek.py (``DeepseekV32Model``), conversion/glm.py
(``GlmMoeDsaModel``); transformers, models/deepseek_v32, models/glm_moe_dsa.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import IN_LAYER
from mtkit.architectures.families.deepseek import DEEPSEEK_3, DIMS, NEXT_KEYS, ROWS
from mtkit.architectures.families.glm4_moe import GLM_TOKENS
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.architectures.table import block, join_rows, optional, row, tied_head
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.config import Config

INDEXER_KEYS = (
    u32("attention.indexer.head_count", "index_n_heads"),
    u32("attention.indexer.key_length", "index_head_dim"),
    u32("attention.indexer.top_k", "index_topk"),
)
INDEXER_DIMS = {
    "index_heads": lambda dims: dims.key("attention.indexer.head_count"),
    "index_key": lambda dims: dims.key("attention.indexer.key_length"),
    "index_q": lambda dims: dims["index_heads"] * dims["index_key"],
}
INDEXER = join_rows(
    row("self_attn.indexer.k_norm", "indexer.k_norm", "index_key", bias=True),
    row("self_attn.indexer.weights_proj", "indexer.proj", "index_heads embd", bias=False),
    row("self_attn.indexer.wk", "indexer.attn_k", "index_key embd", bias=False),
    row("self_attn.indexer.wq_b", "indexer.attn_q_b", "index_q q_rank", bias=False),
)
_FULL, _SHARED = "full", "shared"


def _types(config: Config) -> list[bool] | None:
    types = config.get("indexer_types")
    if types is None:
        return None
    if not isinstance(types, list):
        raise config.wrong("is not a list", "indexer_types")
    return [kind == _FULL for kind in types]


def _type_names(value: Any) -> dict[str, Any]:
    return {"indexer_types": [_FULL if is_full else _SHARED for is_full in value]}


INDEXER_TYPES = computed("attention.indexer.types", "bool[]", _types, _type_names)
"""Whether a layer has an indexer; the others take what the one before picked."""


def _rotary(config: Config) -> int:
    share = config.rope().number("partial_rotary_factor")
    return int(config.count("qk_rope_head_dim") * (1.0 if share is None else share))


DEEPSEEK_32 = replace(
    DEEPSEEK_3,
    name="deepseek32",
    classes=("DeepseekV32ForCausalLM",),
    model_type="deepseek_v32",
    keys=(*NEXT_KEYS, *INDEXER_KEYS),
    rows=join_rows(ROWS, block(IN_LAYER, INDEXER)),
    dims={**DIMS, **INDEXER_DIMS},
    skips=tied_head,
)
GLM_DSA = replace(
    DEEPSEEK_32,
    name="glm-dsa",
    classes=("GlmMoeDsaForCausalLM",),
    model_type="glm_moe_dsa",
    keys=with_keys(
        DEEPSEEK_32.keys,
        INDEXER_TYPES,
        computed("rope.dimension_count", "u32", _rotary, "qk_rope_head_dim"),
    ),
    rows=join_rows(ROWS, optional(block(IN_LAYER, INDEXER))),
    special_tokens=GLM_TOKENS,
)
