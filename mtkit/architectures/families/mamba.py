"""Mamba and Falcon Mamba.

``A_log`` becomes -exp(A_log), rounded to float32 from float64; torch's own result differs in the
last bit of some, as its library does it. What comes back is the logarithm of that: A_log
itself where the folder has it in BF16 or F16, close to it in F32.

Source: llama.cpp, conversion/mamba.py (``MambaModel``); transformers, models/mamba,
models/falcon_mamba.
"""

from __future__ import annotations

from mtkit.architectures.changes import DECAY, Reshaped
from mtkit.architectures.decoder_rows import OUTPUT
from mtkit.architectures.metadata import always, computed, f32, u32
from mtkit.architectures.table import Architecture, block, join_rows, plain, row
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

FALCON = {"architectures": ["FalconMambaForCausalLM"], "model_type": "falcon_mamba"}
NORMED = "ssm.dt_b_c_rms"


def _inner(config: Config) -> int:
    width = config.count("hidden_size", "d_model")
    inner = config.whole("intermediate_size", "d_inner") or 2 * width
    if inner != 2 * width:
        what = f"is {inner}; llama.cpp runs twice the width, {2 * width}"
        raise UnsupportedError(what, source=config.source, field="intermediate_size")
    return inner


def _rank(config: Config) -> int:
    if config.get("time_step_rank", "dt_rank") in (None, "auto"):
        return -(config.count("hidden_size", "d_model") // -16)
    return config.count("time_step_rank", "dt_rank")


def _skips(name: str, config: Config) -> bool:
    return name == "lm_head.weight" and config.flag("tie_word_embeddings") is not False


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    return {"state_size": config.get("d_state") or 16, "conv_kernel": config.get("d_conv") or 4}


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    return {
        "hidden_act": "silu",
        "expand": 2,
        "use_bias": dims.has("blk.0.ssm_in.bias"),
        "use_conv_bias": dims.has("blk.0.ssm_conv1d.bias"),
        **(FALCON if dims.keys.get(NORMED) else {}),
    }


def mixer(folder: str) -> Rows:
    """Return the rows of a layer's mixer."""
    return block(
        folder,
        row("in_proj", "ssm_in", "2inner embd"),
        plain(
            "conv1d.weight",
            "ssm_conv1d.weight",
            "inner kernel",
            Reshaped("inner 1 kernel"),
        ),
        plain("conv1d.bias", "ssm_conv1d.bias", "inner", optional=True),
        row("x_proj", "ssm_x", "x inner", bias=False),
        row("dt_proj", "ssm_dt", "inner rank", bias=True),
        plain("A_log", "ssm_a", "inner state", DECAY),
        plain("D", "ssm_d", "inner"),
        row("out_proj", "ssm_out", "embd inner"),
        gguf="",
    )


DIMS: dict[str, Callable[[Dims], int]] = {
    "inner": lambda dims: dims.key("ssm.inner_size"),
    "2inner": lambda dims: 2 * dims.key("ssm.inner_size"),
    "kernel": lambda dims: dims.key("ssm.conv_kernel"),
    "rank": lambda dims: dims.key("ssm.time_step_rank"),
    "state": lambda dims: dims.key("ssm.state_size"),
    "x": lambda dims: dims.key("ssm.time_step_rank") + 2 * dims.key("ssm.state_size"),
}
MAMBA = Architecture(
    "mamba",
    ("MambaForCausalLM", "MambaLMHeadModel", "FalconMambaForCausalLM"),
    "mamba",
    (
        always("context_length", "u32", 1 << 20),
        u32("embedding_length", "hidden_size", "d_model"),
        always("feed_forward_length", "u32", 0),
        always("attention.head_count", "u32", 0),
        u32("block_count", "num_hidden_layers", "n_layer"),
        u32("ssm.conv_kernel", "conv_kernel"),
        computed("ssm.inner_size", "u32", _inner, "intermediate_size"),
        u32("ssm.state_size", "state_size"),
        computed("ssm.time_step_rank", "u32", _rank, "time_step_rank"),
        f32("attention.layer_norm_rms_epsilon", "layer_norm_epsilon", "rms_norm_eps"),
        computed(NORMED, "bool", lambda config: config.get("model_type") == "falcon_mamba"),
    ),
    join_rows(
        row("backbone.embeddings", "token_embd", "vocab embd", bias=False),
        row("backbone.norm_f", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            "backbone.layers.{i}.",
            row("norm", "attn_norm", "embd", bias=False),
            mixer("mixer."),
        ),
    ),
    prefix="backbone.",
    defaults=lambda config: {**defaults(config), "layer_norm_epsilon": 1e-5},
    dims=DIMS,
    skips=_skips,
    renamed=lambda name: name.replace("backbone.embedding.", "backbone.embeddings."),
    config=config,
)
