"""BitNet b1.58, whose matrices hold -1, 0 and 1 times one number.

The converter rounds them so; what the folder had before is lost.
Source: llama.cpp, conversion/bitnet.py (``BitnetModel``); transformers, models/bitnet.
"""

from __future__ import annotations

from mtkit.architectures.changes import Change
from mtkit.architectures.decoder_rows import (
    DECODER,
    EMBEDDINGS,
    IN_LAYER,
    NORMS,
    config_fields,
    default_fields,
)
from mtkit.architectures.metadata import always, with_keys
from mtkit.architectures.table import Architecture, block, join_rows, row
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.architectures.metadata import Dims

    Shape = tuple[int, ...]


class _Ternary(Change):
    """Values rounded to -1, 0 and 1 times their mean distance from 0, in F16 where they are F16.

    The last bit of that mean depends on the order in which PyTorch adds, which depends on the CPU.
    """

    computes = True
    keeps_order = False

    def forward(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Round."""
        import numpy as np

        (array,) = arrays
        scale = np.float32(max(np.abs(array).mean(dtype=np.float64), 1e-5))
        inverse = np.float32(1) / scale
        rounded = np.clip(np.rint(array * inverse), -1, 1) / inverse
        is_bf16 = not (array.view(np.uint32) & 0xFFFF).any()
        with np.errstate(over="ignore"):
            is_f16 = not is_bf16 and np.array_equal(array, array.astype(np.float16))
        return [rounded.astype(np.float16).astype(np.float32) if is_f16 else rounded]

    def back(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Refuse: rounding again would give another factor."""
        what = "holds weights rounded to -1, 0 and 1; those of the model folder do not come back"
        raise UnsupportedError(what, field="general.architecture")


_TERNARY = _Ternary()
BITNET = Architecture(
    "bitnet",
    ("BitNetForCausalLM", "BitnetForCausalLM"),
    "bitnet",
    with_keys(
        DECODER,
        always("rope.scaling.type", "string", "linear"),
        always("rope.scaling.factor", "f32", 1.0),
    ),
    join_rows(
        EMBEDDINGS,
        block(
            IN_LAYER,
            NORMS,
            row("self_attn.q_proj", "attn_q", "q embd", _TERNARY, bias=False),
            row("self_attn.k_proj", "attn_k", "k embd", _TERNARY, bias=False),
            row("self_attn.v_proj", "attn_v", "v embd", _TERNARY, bias=False),
            row("self_attn.o_proj", "attn_output", "embd out", _TERNARY, bias=False),
            row("self_attn.inner_attn_ln", "attn_sub_norm", "embd", bias=False),
            row("mlp.gate_proj", "ffn_gate", "ff embd", _TERNARY, bias=False),
            row("mlp.up_proj", "ffn_up", "ff embd", _TERNARY, bias=False),
            row("mlp.down_proj", "ffn_down", "embd ff", _TERNARY, bias=False),
            row("mlp.ffn_layernorm", "ffn_sub_norm", "ff", bias=False),
        ),
    ),
    defaults=default_fields(2048, rms_norm_eps=1e-5, rope_theta=500000.0),
    # The names of transformers, which the converter does not know.
    renamed=lambda name: name.replace("attn_sub_norm", "inner_attn_ln").replace(
        "ffn_sub_norm", "ffn_layernorm"
    ),
    config=config_fields(hidden_act="relu2"),
)
