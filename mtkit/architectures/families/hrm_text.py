"""HRM-Text: two stacks of layers, run in turn many times over the same tokens.

``block_count`` counts how often a layer runs; the file has those of the low stack, then the high.
Source: llama.cpp, conversion/hrm_text.py (``HrmTextModel``), src/models/hrm-text.cpp; transformers,
models/hrm_text.
"""

from __future__ import annotations

from mtkit.architectures.changes import Split
from mtkit.architectures.decoder_rows import DECODER, OUTPUT, config_fields, default_fields
from mtkit.architectures.metadata import computed, f32, flag, head_dim, u32, with_keys
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_STACK = "hrm.layers_per_stack"


def _stack(config: Config) -> int:
    return config.whole("num_layers_per_stack") or config.count("num_hidden_layers")


def _runs(config: Config) -> int:
    return _stack(config) * config.count("H_cycles") * (config.count("L_cycles") + 1)


def _is_low(dims: Dims) -> bool:
    return dims.layer < dims["hidden_layers"]


def _is_high(dims: Dims) -> bool:
    return 0 <= dims.layer - dims["hidden_layers"] < dims["hidden_layers"]


_LAYER = join_rows(
    row(
        "attn.gqkv_proj",
        "attn_gate attn_q attn_k attn_v",
        "q embd, q embd, k embd, v embd",
        Split(-2),
        bias=False,
    ),
    row("attn.o_proj", "attn_output", "embd out", bias=False),
    row("mlp.gate_up_proj", "ffn_gate ffn_up", "ff embd, ff embd", Split(-2), bias=False),
    row("mlp.down_proj", "ffn_down", "embd ff", bias=False),
)
HRM_TEXT = Architecture(
    "hrm_text",
    ("HrmTextForCausalLM",),
    "hrm_text",
    (
        *with_keys(DECODER, computed("block_count", "u32", _runs, lambda _: {})),
        computed("rope.dimension_count", "u32", head_dim),
        f32("embedding_scale", "embedding_scale"),
        computed(_STACK, "u32", _stack, "num_hidden_layers"),
        u32("hrm.h_cycles", "H_cycles"),
        u32("hrm.l_cycles", "L_cycles"),
        flag("hrm.prefix_lm", "prefix_lm"),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        OUTPUT,
        plain("model.z_L_init", "hrm.z_l_init", "embd"),
        in_layers(_is_low, block("model.L_module.layers.{i}.", _LAYER)),
        in_layers(_is_high, block("model.H_module.layers.{n}.", _LAYER)),
    ),
    defaults=default_fields(2048, rms_norm_eps=1e-6, prefix_lm=False),
    dims={"hidden_layers": lambda dims: dims.key(_STACK)},
    config=config_fields(
        hidden_act="silu", num_layers_per_stack=lambda dims: dims["hidden_layers"]
    ),
)
