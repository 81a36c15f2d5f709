"""BERT and DistilBERT: encoders for embeddings, and with a classifier on top.

A GGUF has no token-prediction head, and the pooler (``cls``) only below a classifier. llama.cpp's
converter omits that pooler, and label names if they are the default two; mtkit writes the pooler.

Source: llama.cpp, conversion/bert.py (``BertModel`` …); transformers, models/bert,
models/distilbert.
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME
from mtkit.architectures.decoder_rows import DECODER, POOLING, config_fields, only
from mtkit.architectures.metadata import always, computed, u32, with_fields, with_keys
from mtkit.architectures.table import Architecture, block, join_rows, row
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.changes import Change
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

LABELS = "classifier.output_labels"
TYPES = "tokenizer.ggml.token_type_count"
MODEL = "tokenizer.ggml.model"
_HEADS = ("pooler.dense.", "cls.predictions.", "cls.seq_relationship.", "lm_head.", "vocab_")
_ENDS = {".gamma": ".weight", ".beta": ".bias"}
"""Names of weight and bias of a norm in the oldest checkpoints."""


def _renamed_norm(name: str) -> str:
    for old, new in _ENDS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def renamed(name: str) -> str:
    """Return a name as the rows have it."""
    name = _renamed_norm(name)
    for start in ("bert.", "roberta.", "distilbert."):
        name = name.removeprefix(start)
    return name


def skips(name: str, config: Config) -> bool:
    """Tell whether a tensor is one of a head, or of positions that are computed anyway."""
    name = renamed(name)
    return name.startswith(_HEADS) or name == "embeddings.position_ids"


def _labels(config: Config) -> list[str] | None:
    table = config.get("id2label")
    if not isinstance(table, dict) or not table:
        return None
    ordered = (table.get(str(number)) for number in range(len(table)))
    names = [name for name in ordered if isinstance(name, str)]
    if len(names) < len(table):
        raise config.wrong("is not a name for each number from 0 on", "id2label")
    # Two of these are what transformers gives a model without a classifier as well.
    is_usual = len(names) == 2 and names[0] == "LABEL_0"
    return None if is_usual and "Classification" not in str(config.get("architectures")) else names


def _of_labels(names: list[str]) -> dict[str, Any]:
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


def embeddings(change: Change = SAME, *, types: bool = True) -> Rows:
    """Return the rows of the embeddings; those of positions are changed."""
    kinds = row("embeddings.token_type_embeddings", "token_types", "types embd", bias=False)
    return join_rows(
        row("embeddings.word_embeddings", "token_embd", "vocab embd", bias=False),
        row("embeddings.position_embeddings", "position_embd", "ctx embd", change, bias=False),
        kinds if types else (),
        row("embeddings.LayerNorm", "token_embd_norm", "embd"),
    )


ATTENTION = join_rows(
    row("attention.self.query", "attn_q", "q embd"),
    row("attention.self.key", "attn_k", "k embd"),
    row("attention.self.value", "attn_v", "v embd"),
    row("attention.output.dense", "attn_output", "embd out"),
    row("attention.output.LayerNorm", "attn_output_norm", "embd"),
)
LAYER = join_rows(
    ATTENTION,
    row("intermediate.dense", "ffn_up", "ff embd"),
    row("output.dense", "ffn_down", "embd ff"),
    row("output.LayerNorm", "layer_output_norm", "embd"),
)
BODY = join_rows(embeddings(), block("encoder.layer.{i}.", LAYER))
DIMS = {"types": lambda dims: dims.key(TYPES)}
KEYS = with_keys(
    DECODER,
    always("attention.causal", "bool", value=False),
    computed(LABELS, "string[]", _labels, _of_labels),
    u32(TYPES, "type_vocab_size"),
    POOLING,
)
CHECKS = (only("position_embedding_type", "absolute"), only("lora_adaptations"))


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    return {"max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12}


def _count(names: object) -> int:
    return len(names) if isinstance(names, list) else 0


def is_roberta(dims: Dims) -> bool:
    """Tell by its tokenizer a GGUF of RoBERTa, whose tensors are BERT's."""
    return dims.keys.get(MODEL) in ("gpt2", "t5")


ACTIVATION = {"hidden_act": "gelu"}


def _with_pooler(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    if not dims.has("cls.weight"):
        what = (
            "is missing: the converter left out the pooler, without which the classifier is wrong"
        )
        raise UnsupportedError(what, field="tensor 'cls.weight'")
    return ACTIVATION


TWO = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}
"""Transformers' defaults."""
LABELED = {"labels": lambda dims: _count(dims.keys.get(LABELS))}
BERT_CLASSIFIER = Architecture(
    "bert",
    ("BertForSequenceClassification",),
    "bert",
    KEYS,
    join_rows(
        block("bert.", BODY, row("pooler.dense", "cls", "embd embd", optional=True), gguf=""),
        row("classifier", "cls.output", "labels embd"),
    ),
    checks=CHECKS,
    prefix="bert.",
    defaults=lambda config: {**defaults(config), **TWO},
    skips=lambda name, config: not name.startswith("bert.pooler.") and skips(name, config),
    fits=lambda dims: not is_roberta(dims),
    dims={**DIMS, **LABELED},
    renamed=_renamed_norm,
    config=_with_pooler,
)
BERT = Architecture(
    "bert",
    ("BertModel", "BertForMaskedLM", "CamembertModel"),
    "bert",
    KEYS,
    BODY,
    checks=CHECKS,
    prefix="",
    defaults=defaults,
    skips=skips,
    fits=lambda dims: not is_roberta(dims),
    dims=DIMS,
    renamed=renamed,
    config=config_fields(**ACTIVATION),
)
_DISTILBERT_KEYS = with_keys(
    with_fields(
        KEYS,
        block_count="n_layers",
        embedding_length="dim",
        feed_forward_length="hidden_dim",
        attention__head_count="n_heads",
    ),
    always("attention.layer_norm_epsilon", "f32", 1e-12),
    always(TYPES, "u32", 1),
)
_DISTILBERT_BODY = join_rows(
    embeddings(types=False),
    block(
        "transformer.layer.{i}.",
        row("attention.q_lin", "attn_q", "q embd"),
        row("attention.k_lin", "attn_k", "k embd"),
        row("attention.v_lin", "attn_v", "v embd"),
        row("attention.out_lin", "attn_output", "embd out"),
        row("sa_layer_norm", "attn_output_norm", "embd"),
        row("ffn.lin1", "ffn_up", "ff embd"),
        row("ffn.lin2", "ffn_down", "embd ff"),
        row("output_layer_norm", "layer_output_norm", "embd"),
    ),
)
DISTILBERT = Architecture(
    "bert",
    ("DistilBertModel", "DistilBertForMaskedLM"),
    "distilbert",
    _DISTILBERT_KEYS,
    _DISTILBERT_BODY,
    checks=CHECKS,
    prefix="",
    defaults=lambda config: {"max_position_embeddings": 512},
    skips=skips,
    fits=lambda dims: not is_roberta(dims),
    renamed=renamed,
    config=config_fields(activation="gelu"),
)
DISTILBERT_CLASSIFIER = Architecture(
    "bert",
    ("DistilBertForSequenceClassification",),
    "distilbert",
    _DISTILBERT_KEYS,
    join_rows(
        block("distilbert.", _DISTILBERT_BODY, gguf=""),
        row("pre_classifier", "cls", "embd embd", bias=True),
        row("classifier", "cls.output", "labels embd", bias=True),
    ),
    checks=CHECKS,
    prefix="distilbert.",
    defaults=lambda config: {"max_position_embeddings": 512, **TWO},
    skips=skips,
    fits=lambda dims: not is_roberta(dims),
    dims=LABELED,
    renamed=_renamed_norm,
    config=config_fields(activation="gelu"),
)
