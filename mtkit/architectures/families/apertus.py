"""Apertus: Llama without the gate, with xIELU, whose numbers of each layer are metadata in a GGUF.

Source: llama.cpp, conversion/llama.py (``ApertusModel``); transformers, models/apertus.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    HEAD_NORMS,
    IN_LAYER,
    UP_AND_DOWN,
    attention,
    decoder,
    default_fields,
)
from mtkit.architectures.families import llama
from mtkit.architectures.table import Architecture, LayerNumber, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_SHAPES = {"alpha_n": "1", "alpha_p": "1", "beta": "", "eps": ""}


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    is_unsaid = not {"rope_scaling", "rope_parameters"} & config.fields.keys()
    scaling = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    usual = default_fields(65536, rms_norm_eps=1e-5, rope_theta=12000000.0)(config)
    return {**usual, **({"rope_scaling": scaling} if is_unsaid else {})}


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    # Where the field is missing transformers takes Llama 3's factors.
    unscaled = {} if "rope.scaling.type" in dims.keys else {"rope_scaling": None}
    return {**unscaled, **llama.config(dims, tensor), "hidden_act": "xielu"}


APERTUS = Architecture(
    "apertus",
    ("ApertusForCausalLM",),
    "apertus",
    llama.KEYS,
    decoder(
        row("attention_layernorm", "attn_norm", "embd", bias=False),
        attention(),
        HEAD_NORMS,
        row("feedforward_layernorm", "ffn_norm", "embd", bias=False),
        UP_AND_DOWN,
    ),
    defaults=defaults,
    generated=(llama.LLAMA_3,),
    layer_numbers=tuple(
        LayerNumber(f"xielu.{name}", f"{IN_LAYER}mlp.act_fn.{name}", axes)
        for name, axes in _SHAPES.items()
    ),
    config=config,
)
