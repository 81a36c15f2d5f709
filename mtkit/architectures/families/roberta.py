"""RoBERTa and XLM-RoBERTa: BERT with other positions and tokenizers.

The first two positions stand for padding and stay out of a GGUF: they come back as zeros.

Source: llama.cpp, conversion/bert.py (``RobertaModel``, ``XLMRobertaModel``); transformers,
models/roberta, models/xlm_roberta.
"""

from __future__ import annotations

from mtkit.architectures.changes import Behind
from mtkit.architectures.decoder_rows import only
from mtkit.architectures.families import bert
from mtkit.architectures.metadata import computed, with_keys
from mtkit.architectures.table import Architecture, block, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Writer

PADDING = 2
"""Positions of RoBERTa begin behind the id of padding, which is 1."""
BODY = join_rows(bert.embeddings(Behind(PADDING)), block("encoder.layer.{i}.", bert.LAYER))
KEYS = with_keys(
    bert.KEYS,
    computed(
        "context_length",
        "u32",
        lambda config: config.count("max_position_embeddings") - PADDING,
        lambda value: {"max_position_embeddings": value + PADDING},
    ),
)
CHECKS = (*bert.CHECKS, only("pad_token_id", PADDING - 1))


def _config(kind: str) -> Writer:
    def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
        if dims.keys.get(bert.MODEL) != "t5":
            return bert.ACTIVATION
        return {
            **bert.ACTIVATION,
            "architectures": [f"XLMRoberta{kind}"],
            "model_type": "xlm-roberta",
        }

    return config


ROBERTA_CLASSIFIER = Architecture(
    "bert",
    ("RobertaForSequenceClassification", "XLMRobertaForSequenceClassification"),
    "roberta",
    KEYS,
    join_rows(
        block("roberta.", BODY, gguf=""),
        row("classifier.dense", "cls", "embd embd"),
        row("classifier.out_proj", "cls.output", "labels embd"),
    ),
    checks=CHECKS,
    prefix="roberta.",
    defaults=lambda config: {**bert.defaults(config), **bert.TWO},
    skips=bert.skips,
    fits=bert.is_roberta,
    dims={**bert.DIMS, **bert.LABELED},
    config=_config("ForSequenceClassification"),
)
ROBERTA = Architecture(
    "bert",
    ("RobertaModel", "XLMRobertaModel"),
    "roberta",
    KEYS,
    BODY,
    checks=CHECKS,
    prefix="",
    defaults=bert.defaults,
    skips=bert.skips,
    fits=bert.is_roberta,
    dims=bert.DIMS,
    renamed=bert.renamed,
    config=_config("Model"),
)
