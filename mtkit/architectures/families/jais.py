"""Jais 1, a GPT-2 with gates and ALiBi, whose embedding and head are scaled by config.json.

What comes back to a folder is scaled already. The slopes of ALiBi are computed by llama.cpp.
Source: llama.cpp, conversion/jais.py (``JaisModel``); configuration_jais.py beside the models.
"""

from __future__ import annotations

from mtkit.architectures.changes import Computed, Transposed
from mtkit.architectures.decoder_rows import OUTPUT, only
from mtkit.architectures.metadata import always, f32, u32
from mtkit.architectures.table import Architecture, block, join_rows, row
from mtkit.base.record import replace
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.changes import Change
    from mtkit.architectures.config import Config
    from mtkit.architectures.table import Rows


def _scaled(factor: float) -> Change:
    return Computed(lambda array: array * array.dtype.type(factor), lambda array: array)


def _scales(config: Config) -> tuple[float, float]:
    """Return the factors of the embedding and of the head."""
    embedding = config.number("mup_embeddings_scale", "embeddings_scale")
    alpha = config.number("mup_output_alpha")
    width = config.number("width_scale" if alpha is None else "mup_width_scale")
    for value, field in ((embedding, "embeddings_scale"), (width, "width_scale")):
        if value is None:
            raise FormatError("is missing", source=config.source, field=field)
    return embedding or 0.0, (width or 0.0) * (1.0 if alpha is None else alpha)


_LAYERS = block(
    "transformer.h.{i}.",
    row("ln_1", "attn_norm", "embd"),
    row("attn.c_attn", "attn_qkv", "qkv embd", Transposed()),
    row("attn.c_proj", "attn_output", "embd embd", Transposed()),
    row("ln_2", "ffn_norm", "embd"),
    row("mlp.c_fc", "ffn_up", "ff embd", Transposed()),
    row("mlp.c_fc2", "ffn_gate", "ff embd", Transposed()),
    row("mlp.c_proj", "ffn_down", "embd ff", Transposed()),
)


def _rows(config: Config) -> Rows:
    embedding, head = _scales(config)
    return join_rows(
        row("transformer.wte", "token_embd", "vocab embd", _scaled(embedding), bias=False),
        row("transformer.ln_f", "output_norm", "embd"),
        tuple(replace(r, change=_scaled(head)) for r in OUTPUT if r.gguf == ("output.weight",)),
        _LAYERS,
    )


JAIS = Architecture(
    "jais",
    ("JAISLMHeadModel",),
    "jais",
    (
        u32("block_count", "n_layer"),
        u32("context_length", "n_positions"),
        u32("embedding_length", "n_embd"),
        u32("feed_forward_length", "n_inner"),
        u32("attention.head_count", "n_head"),
        f32("attention.layer_norm_epsilon", "layer_norm_epsilon"),
        always("attention.max_alibi_bias", "f32", 8.0),
    ),
    join_rows(
        row("transformer.wte", "token_embd", "vocab embd", _scaled(1.0), bias=False),
        row("transformer.ln_f", "output_norm", "embd"),
        tuple(r for r in OUTPUT if r.gguf == ("output.weight",)),
        _LAYERS,
    ),
    checks=(only("activation_function", "swiglu"), only("position_embedding_type", "alibi")),
    defaults=lambda _: {"n_positions": 2048, "layer_norm_epsilon": 1e-5},
    prefix="transformer.",
    skips=lambda name, config: name.endswith(("relative_pe.slopes", ".attn.bias")),
    rows_of=_rows,
    config=lambda dims, tensor: {
        "activation_function": "swiglu",
        "position_embedding_type": "alibi",
        "embeddings_scale": 1.0,
        "width_scale": 1.0,
    },
)
