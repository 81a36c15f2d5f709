"""Qwen3 and its mixtures of experts.

Source: llama.cpp, conversion/qwen.py (``Qwen3Model``, ``Qwen3MoeModel``); transformers,
models/qwen3, models/qwen3_moe.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    FEED_FORWARD,
    HEAD_NORMS,
    NORMS,
    POOLING,
    RERANK,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.families.qwen2 import ALL_SPARSE, EXPERTS, MOE_KEYS
from mtkit.architectures.metadata import KeyRow
from mtkit.architectures.table import Architecture

_QUESTION = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
    "answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
"""What llama.cpp puts before a reranker; the same text as its converter writes."""


def _of_reranker(name: str, kind: str, value: object) -> KeyRow:
    return KeyRow(name, kind, lambda config: None if config.get(RERANK) is None else value)


_RERANKER = (
    _of_reranker("classifier.output_labels", "string[]", ["yes", "no"]),
    _of_reranker("tokenizer.chat_template.rerank", "string", _QUESTION),
    _of_reranker("tokenizer.chat_templates", "string[]", ["rerank"]),
)

QWEN3 = Architecture(
    "qwen3",
    ("Qwen3ForCausalLM", "Qwen3Model"),
    "qwen3",
    (*DECODER, POOLING, *_RERANKER),
    decoder(NORMS, attention(), HEAD_NORMS, FEED_FORWARD),
    defaults=default_fields(32768, rms_norm_eps=1e-6, head_dim=128),
    config=config_fields(hidden_act="silu", attention_bias=ATTENTION_BIAS),
)
QWEN3_MOE = Architecture(
    "qwen3moe",
    ("Qwen3MoeForCausalLM",),
    "qwen3_moe",
    MOE_KEYS,
    decoder(NORMS, attention(), HEAD_NORMS, EXPERTS),
    checks=ALL_SPARSE,
    defaults=default_fields(
        32768,
        rms_norm_eps=1e-6,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768,
        num_key_value_heads=4,
    ),
    # llama.cpp scales the weights of the experts that it uses to a sum of 1.
    config=config_fields(hidden_act="silu", attention_bias=ATTENTION_BIAS, norm_topk_prob=True),
)
