"""Baichuan 1 and 2, whose query, key and value are one matrix.

Source: llama.cpp, conversion/baichuan.py (``BaichuanModel``); modeling_baichuan.py beside the
models.
"""

from __future__ import annotations

from mtkit.architectures.changes import SplitHeads
from mtkit.architectures.decoder_rows import DECODER, FEED_FORWARD, NORMS, config_fields, decoder
from mtkit.architectures.metadata import always, computed, head_dim, without_keys
from mtkit.architectures.table import Architecture, plain, row

BAICHUAN = Architecture(
    "baichuan",
    ("BaichuanForCausalLM", "BaiChuanForCausalLM"),
    "baichuan",
    (
        *without_keys(DECODER, "attention.head_count_kv"),
        always("tensor_data_layout", "string", "Meta AI original pth"),
        computed("rope.dimension_count", "u32", head_dim),
    ),
    decoder(
        NORMS,
        plain(
            "self_attn.W_pack.weight",
            "attn_q.weight attn_k.weight attn_v.weight",
            "q embd, k embd, v embd",
            SplitHeads(),
        ),
        row("self_attn.o_proj", "attn_output", "embd out", bias=False),
        FEED_FORWARD,
    ),
    defaults=lambda _: {"rms_norm_eps": 1e-6},
    config=config_fields(hidden_act="silu"),
)
