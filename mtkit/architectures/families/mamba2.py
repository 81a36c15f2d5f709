"""Mamba 2, and Codestral Mamba.

Source: llama.cpp, conversion/mamba.py (``Mamba2Model``); transformers, models/mamba2.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import OUTPUT, config_fields
from mtkit.architectures.families import mamba
from mtkit.architectures.metadata import always, f32, pick_keys
from mtkit.architectures.state_space import SSM_DIMS, head_width, mixer, mixer_norm, ssm_keys
from mtkit.architectures.table import Architecture, block, join_rows, row
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config


_WRAPPED = ("model.backbone.", "model.lm_head.")
"""Names in Codestral Mamba."""


def _inner(config: Config) -> int:
    inner = config.count("hidden_size", "d_model") * (config.whole("expand") or 2)
    width = config.whole("head_dim") or 64
    heads = config.whole("num_heads")
    if heads is not None and heads * width != inner:
        what = f"is {heads} of {width}; llama.cpp runs {inner // width}"
        raise UnsupportedError(what, source=config.source, field="num_heads")
    return inner


MAMBA_2 = Architecture(
    "mamba2",
    ("Mamba2ForCausalLM",),
    "mamba2",
    (
        *pick_keys(mamba.MAMBA.keys, "context_length", "embedding_length", "block_count"),
        always("feed_forward_length", "u32", 0),
        always("attention.head_count", "u32", 0),
        *ssm_keys("conv_kernel", "state_size", "n_groups", "num_heads", _inner),
        f32("attention.layer_norm_rms_epsilon", "layer_norm_epsilon", "rms_norm_eps"),
    ),
    join_rows(
        row("backbone.embeddings", "token_embd", "vocab embd", bias=False),
        row("backbone.norm_f", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            "backbone.layers.{i}.",
            row("norm", "attn_norm", "embd", bias=False),
            mixer("mixer."),
            mixer_norm("mixer.norm"),
        ),
    ),
    prefix="backbone.",
    defaults=lambda config: {
        "state_size": 128,
        "conv_kernel": 4,
        "n_groups": 1,
        "layer_norm_epsilon": 1e-5,
        "num_heads": _inner(config) // (config.whole("head_dim") or 64),
    },
    dims=SSM_DIMS,
    renamed=lambda name: name.removeprefix("model.") if name.startswith(_WRAPPED) else name,
    config=config_fields(
        hidden_act="silu",
        expand=lambda dims: dims["ssm_inner"] // dims["embd"],
        head_dim=head_width,
    ),
)
