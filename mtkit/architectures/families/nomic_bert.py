"""Nomic Embed: BERT with rotary positions, and with experts in every other layer (v2).

The bias that the experts share has no place in a GGUF: it is left out, and said.
Source: llama.cpp, conversion/bert.py (``NomicBertModel``); the configuration published with
nomic-ai/nomic-bert-2048.
"""

from __future__ import annotations

from mtkit.architectures.changes import Reshaped, Transposed
from mtkit.architectures.decoder_rows import config_fields, only
from mtkit.architectures.families import bert
from mtkit.architectures.metadata import computed, u32, with_fields, with_keys
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

_CONTEXTS = {8192: 2048, 2048: 512}
"""``n_positions`` -> the length that the model was trained with."""
_PERIOD = "moe_every_n_layers"


def _context(config: Config) -> int:
    positions, trained = config.count("n_positions"), config.whole("max_trained_positions")
    if positions not in _CONTEXTS or trained != 2048:
        what = f"is {positions} with max_trained_positions {trained}: no published model has these"
        raise UnsupportedError(what, source=config.source, field="n_positions")
    return _CONTEXTS[positions]


def _positions(context: int) -> dict[str, Any]:
    return {"n_positions": {v: k for k, v in _CONTEXTS.items()}.get(context, context)}


def _is_moe(config: Config) -> bool:
    return bool(config.whole(_PERIOD))


def _has_experts(dims: Dims) -> bool:
    return dims.layer % max(dims.key(_PERIOD, 0), 1) == 1


_KEYS = with_fields(
    with_keys(bert.KEYS, computed("context_length", "u32", _context, _positions)),
    block_count="n_layer",
    embedding_length="n_embd",
    feed_forward_length="n_inner",
    attention__head_count="n_head",
    attention__layer_norm_epsilon="layer_norm_epsilon",
    rope__freq_base="rotary_emb_base",
)
_FIELDS = {
    "prenorm": False, "causal": False, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
}  # fmt: skip
_BIASES = ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")


def _nomic(name: str, activation: str, layer: Rows, *, is_moe: bool) -> Architecture:
    biased = dict.fromkeys(_BIASES, is_moe)
    fields = {**_FIELDS, **biased, "activation_function": activation}
    return Architecture(
        name,
        ("NomicBertModel",),
        "nomic_bert",
        (
            *_KEYS,
            *((u32(_PERIOD, _PERIOD), u32("expert_used_count", "moe_top_k")) if is_moe else ()),
        ),
        join_rows(
            row("embeddings.word_embeddings", "token_embd", "vocab embd", bias=False),
            row("embeddings.token_type_embeddings", "token_types", "types embd", bias=False),
            row("emb_ln", "token_embd_norm", "embd", bias=True),
            block(
                "encoder.layers.{i}.",
                row("attn.Wqkv", "attn_qkv", "qkv embd"),
                row("attn.out_proj", "attn_output", "embd out"),
                row("norm1", "attn_output_norm", "embd", bias=True),
                layer,
                row("norm2", "layer_output_norm", "embd", bias=True),
            ),
        ),
        checks=tuple(only(field, value) for field, value in fields.items()),
        prefix="",
        skips=lambda name, config: name.endswith("mlp.experts.bias") or bert.skips(name, config),
        accepts=_is_moe if is_moe else None,
        dims={**bert.DIMS, "expert*ff": lambda dims: dims["expert"] * dims["ff"]},
        renamed=bert.renamed,
        defaults=lambda config: {"type_vocab_size": 2, "max_trained_positions": 2048},
        config=config_fields(max_trained_positions=2048, rotary_emb_scale_base=None, **fields),
    )


NOMIC_BERT = _nomic(
    "nomic-bert",
    "swiglu",
    join_rows(
        row("mlp.fc11", "ffn_up", "ff embd"),
        row("mlp.fc12", "ffn_gate", "ff embd", bias=False),
        row("mlp.fc2", "ffn_down", "embd ff"),
    ),
    is_moe=False,
)
_EXPERTS = "mlp.experts.mlp."
NOMIC_BERT_MOE = _nomic(
    "nomic-bert-moe",
    "gelu",
    join_rows(
        in_layers(
            lambda dims: not _has_experts(dims),
            row("mlp.fc1", "ffn_up", "ff embd"),
            row("mlp.fc2", "ffn_down", "embd ff"),
        ),
        in_layers(
            _has_experts,
            row("mlp.router.layer", "ffn_gate_inp", "expert embd", bias=False),
            plain(
                f"{_EXPERTS}w1", "ffn_up_exps.weight", "expert ff embd", Reshaped("expert*ff embd")
            ),
            plain(
                f"{_EXPERTS}w2",
                "ffn_down_exps.weight",
                "expert embd ff",
                Transposed("expert*ff embd"),
            ),
        ),
    ),
    is_moe=True,
)
