"""ModernBERT: rotary positions, and windows in all layers but every third.

llama.cpp needs the epsilon of a LayerNorm, which its converter finds only in a config.json that
has it a second time (``layer_norm_eps``); mtkit writes it from ``norm_eps`` as well.
Source: llama.cpp, conversion/bert.py (``ModernBertModel``), src/models/modern-bert.cpp;
transformers, models/modernbert.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import VOCAB_SIZE, config_fields, only
from mtkit.architectures.families import bert
from mtkit.architectures.metadata import (
    KeyRow,
    always,
    computed,
    f32,
    u32,
    with_fields,
    with_keys,
    without_keys,
)
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config
    from mtkit.architectures.table import Rows

_POOLING = {"mean": 1, "cls": 2}


def _classifier_pooling(config: Config) -> int | None:
    mode = config.text("classifier_pooling") or ""
    if mode not in _POOLING:
        raise config.wrong(f"is not one of {', '.join(_POOLING)}", "classifier_pooling")
    return _POOLING[mode]


_DEFAULTS = {
    "max_position_embeddings": 8192, "norm_eps": 1e-5, "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0, "global_attn_every_n_layers": 3, "local_attention": 128,
    "hidden_activation": "gelu", "classifier_pooling": "cls", **bert.TWO,
}  # fmt: skip
_KEYS = with_fields(
    with_keys(
        without_keys(bert.KEYS, bert.TYPES),
        f32(
            "attention.layer_norm_epsilon",
            "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps",
        ),
        computed(
            "classifier.pooling_type", "u32", _classifier_pooling,
            lambda value: {"classifier_pooling": {1: "mean"}.get(value, "cls")},
        ),
        u32("attention.sliding_window", "local_attention"),
        u32("attention.sliding_window_pattern", "global_attn_every_n_layers"),
        always("rope.scaling.type", "string", "none"),
        VOCAB_SIZE,
        KeyRow(
            "hidden_activation", "string", lambda config: config.text("hidden_activation"),
            "hidden_activation",
        ),
    ),
    rope__freq_base="global_rope_theta",
    rope__freq_base_swa="local_rope_theta",
    attention__layer_norm_epsilon="norm_eps",
    attention__layer_norm_rms_epsilon="norm_eps",
)  # fmt: skip
_BODY = join_rows(
    row("embeddings.tok_embeddings", "token_embd", "vocab embd", bias=False),
    row("embeddings.norm", "token_embd_norm", "embd", bias=False),
    row("final_norm", "output_norm", "embd", bias=False),
    block(
        "layers.{i}.",
        in_layers(lambda dims: dims.layer > 0, row("attn_norm", "attn_norm", "embd", bias=False)),
        row("attn.Wqkv", "attn_qkv", "qkv embd", bias=False),
        row("attn.Wo", "attn_output", "embd out", bias=False),
        row("mlp_norm", "ffn_norm", "embd", bias=False),
        row("mlp.Wi", "ffn_up", "ff*2 embd", bias=False),
        row("mlp.Wo", "ffn_down", "embd ff", bias=False),
    ),
)
_HEAD = join_rows(
    row("head.dense", "cls", "embd embd", bias=False),
    row("head.norm", "cls.norm", "embd", bias=False),
)
_BEHIND = join_rows(block("model.", _BODY, gguf=""), _HEAD)


def _modern_bert(name: str, rows: Rows, prefix: str = "model.") -> Architecture:
    return Architecture(
        "modern-bert",
        (name,),
        "modernbert",
        _KEYS,
        rows,
        checks=tuple(only(f"{part}_bias", False) for part in ("norm", "attention", "mlp")),
        prefix=prefix,
        defaults=lambda config: _DEFAULTS,
        skips=lambda name, config: name.startswith("decoder."),
        dims=bert.LABELED,
        config=config_fields(norm_bias=False, attention_bias=False, mlp_bias=False),
    )


MODERN_BERT = _modern_bert("ModernBertModel", _BODY, "")
MODERN_BERT_TOKENS = _modern_bert("ModernBertForMaskedLM", _BEHIND)
MODERN_BERT_CLASSIFIER = _modern_bert(
    "ModernBertForSequenceClassification",
    join_rows(_BEHIND, row("classifier", "cls.output", "labels embd", bias=True)),
)
