"""Tensors that most decoders have under the same names."""

from __future__ import annotations

from mtkit.architectures.changes import SAME
from mtkit.architectures.table import block, joined, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.changes import Change
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.table import Rows

IN_LAYER = "model.layers.{i}."
"""Stands in front of what a layer has."""
EMBEDDINGS = joined(
    row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
    row("model.norm", "output_norm", "embd"),
)
OUTPUT = row("lm_head", "output", "vocab embd", optional=True)
"""Missing where the embedding serves for it."""
NORMS = joined(
    row("input_layernorm", "attn_norm", "embd"),
    row("post_attention_layernorm", "ffn_norm", "embd"),
)
HEAD_NORMS = joined(
    row("self_attn.q_norm", "attn_q_norm", "key", bias=False),
    row("self_attn.k_norm", "attn_k_norm", "key", bias=False),
)
"""Of queries and keys, head by head."""
WIDE_NORMS = joined(
    row("self_attn.q_norm", "attn_q_norm", "q", bias=False),
    row("self_attn.k_norm", "attn_k_norm", "k", bias=False),
)
"""Of all queries, of all keys."""
FEED_FORWARD = joined(
    row("mlp.gate_proj", "ffn_gate", "ff embd"),
    row("mlp.up_proj", "ffn_up", "ff embd"),
    row("mlp.down_proj", "ffn_down", "embd ff"),
)
UP_AND_DOWN = FEED_FORWARD[2:]
"""A feed-forward part without a gate."""


def decoder(*layer: Rows, head: Rows = OUTPUT) -> Rows:
    """Return the rows of a decoder.

    Args:
        layer: Those of a layer, without ``IN_LAYER``.
        head: Those of what predicts tokens.
    """
    return joined(EMBEDDINGS, head, block(IN_LAYER, *layer))


def attention(prefix: str = "self_attn.", q: Change = SAME, k: Change = SAME) -> Rows:
    """Return the four projections of attention."""
    return joined(
        row(f"{prefix}q_proj", "attn_q", "q embd", q),
        row(f"{prefix}k_proj", "attn_k", "k embd", k),
        row(f"{prefix}v_proj", "attn_v", "v embd"),
        row(f"{prefix}o_proj", "attn_output", "embd out"),
    )


def experts(
    folder: str, names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
) -> Rows:
    """Return the feed-forward parts of experts, each a tensor of its own in the folder."""
    gate, up, down = names
    return joined(
        row(f"{folder}.{gate}", "ffn_gate_exps", "expert ff_exp embd", bias=False),
        row(f"{folder}.{up}", "ffn_up_exps", "expert ff_exp embd", bias=False),
        row(f"{folder}.{down}", "ffn_down_exps", "expert embd ff_exp", bias=False),
    )


def shared_expert(folder: str, *, bias: bool | None = False) -> Rows:
    """Return the feed-forward part that every token goes through besides its experts."""
    return joined(
        row(f"{folder}.gate_proj", "ffn_gate_shexp", "ff_shexp embd", bias=bias),
        row(f"{folder}.up_proj", "ffn_up_shexp", "ff_shexp embd", bias=bias),
        row(f"{folder}.down_proj", "ffn_down_shexp", "embd ff_shexp", bias=bias),
    )


def is_dense(dims: Dims) -> bool:
    """Tell whether a layer is one of the first, which have no experts."""
    return dims.layer < dims.key("leading_dense_block_count")


def is_sparse(dims: Dims) -> bool:
    """Tell whether a layer has experts, behind the first that have none."""
    return not is_dense(dims)
