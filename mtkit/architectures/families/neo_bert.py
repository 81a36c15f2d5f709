"""NeoBERT: RMSNorm before each part, SwiGLU of two thirds of the width that config.json says.

Source: llama.cpp, conversion/bert.py (``NeoBert``); chandar-lab/NeoBERT, model.py.
"""

from __future__ import annotations

from mtkit.architectures.families import bert
from mtkit.architectures.metadata import always, computed, f32, u32, with_fields, with_keys
from mtkit.architectures.table import Architecture, block, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.table import Rows

_CLS = 2
"""``PoolingType``, in gguf-py/gguf/constants.py."""
_KEYS = with_keys(
    with_fields(bert.KEYS, context_length="max_length"),
    computed(
        "feed_forward_length",
        "u32",
        lambda config: 2 * config.count("intermediate_size") // 3,
        lambda value: {"intermediate_size": -(-3 * value // 2)},
    ),
    always("rope.freq_base", "f32", 10000.0),
    always("rope.scaling.type", "string", "none"),
    f32("attention.layer_norm_rms_epsilon", "norm_eps"),
    always("pooling_type", "u32", _CLS),
    u32(bert.TYPES, "type_vocab_size"),
)
_BODY = join_rows(
    row("encoder", "token_embd", "vocab embd", bias=False),
    row("layer_norm", "enc.output_norm", "embd", bias=False),
    block(
        "transformer_encoder.{i}.",
        row("attention_norm", "attn_norm", "embd", bias=False),
        row("qkv", "attn_qkv", "qkv embd", bias=False),
        row("wo", "attn_output", "embd out", bias=False),
        row("ffn_norm", "ffn_norm", "embd", bias=False),
        row("ffn.w12", "ffn_up", "ff*2 embd", bias=False),
        row("ffn.w3", "ffn_down", "embd ff", bias=False),
    ),
)


def _neo_bert(names: tuple[str, ...], prefix: str, *head: Rows) -> Architecture:
    return Architecture(
        "neo-bert",
        names,
        "neobert",
        _KEYS,
        join_rows(block(prefix, _BODY, gguf=""), *head),
        prefix=prefix,
        defaults=lambda config: {"norm_eps": 1e-6, "type_vocab_size": 1, **bert.TWO},
        skips=lambda name, config: name.startswith("decoder."),
        dims=bert.LABELED,
    )


NEO_BERT = _neo_bert(("NeoBERTLMHead", "NeoBERT"), "model.")
NEO_BERT_CLASSIFIER = _neo_bert(
    ("NeoBERTForSequenceClassification",),
    "model.",
    row("dense", "cls", "embd embd", bias=True),
    row("classifier", "cls.output", "labels embd", bias=True),
)
