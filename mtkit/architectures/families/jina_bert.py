"""Jina Embeddings v2: BERT with ALiBi in the place of positions, and a gate (GEGLU).

The model for code spells some names in another way; they come back as the others have them.
Source: llama.cpp, conversion/bert.py (``JinaBertV2Model``); jinaai/jina-bert-implementation.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import config_fields, only
from mtkit.architectures.families import bert
from mtkit.architectures.table import Architecture, block, join_rows, optional, row

_CODE = {
    ".mlp.up_gated_layer.": ".mlp.gated_layers.",
    ".mlp.down_layer.": ".mlp.wo.",
    ".layer_norm_2.": ".mlp.layernorm.",
}


def _renamed(name: str) -> str:
    for old, new in _CODE.items():
        name = name.replace(old, new)
    return bert.renamed(name)


JINA_BERT = Architecture(
    "jina-bert-v2",
    ("JinaBertModel", "JinaBertForMaskedLM"),
    "bert",
    bert.KEYS,
    join_rows(
        row("embeddings.word_embeddings", "token_embd", "vocab embd", bias=False),
        row("embeddings.token_type_embeddings", "token_types", "types embd", bias=False),
        row("embeddings.LayerNorm", "token_embd_norm", "embd"),
        block(
            "encoder.layer.{i}.",
            bert.ATTENTION,
            optional(
                row("attention.self.layer_norm_q", "attn_q_norm", "embd"),
                row("attention.self.layer_norm_k", "attn_k_norm", "embd"),
                row("layer_norm_1", "attn_norm_2", "embd"),
            ),
            row("mlp.gated_layers", "ffn_up", "ff*2 embd"),
            row("mlp.wo", "ffn_down", "embd ff"),
            row("mlp.layernorm", "layer_output_norm", "embd"),
        ),
    ),
    checks=(only("position_embedding_type", "alibi"), only("feed_forward_type", "geglu")),
    prefix="",
    defaults=bert.defaults,
    skips=bert.skips,
    dims=bert.DIMS,
    renamed=_renamed,
    config=config_fields(
        position_embedding_type="alibi", feed_forward_type="geglu", **bert.ACTIVATION
    ),
)
