"""GLM-4 of 2025 (GLM-4-0414, GLM-Z1), the text part of GLM-4.1V and of GLM-OCR.

Norms stand on both sides of attention and feed-forward part.
Source: llama.cpp, conversion/glm.py (``Glm4Model``, ``GlmOCRModel``); transformers, models/glm4,
models/glm4v, models/glm_ocr.
"""

from __future__ import annotations

from mtkit.architectures.changes import Change
from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    END_OF_TURN,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
    rotary_part,
)
from mtkit.architectures.metadata import computed, head_dim, with_keys
from mtkit.architectures.next_tokens import NEXT_DIMS, NEXT_ROWS, hidden_layers, next_keys
from mtkit.architectures.table import Architecture, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

SECTIONS = "rope.dimension_sections"


class Halved(Change):
    """Rows of heads, whose rotary pairs are neighbors in the folder.

    Where positions have sections, the GGUF has all first elements of a head's pairs, then all
    second ones.
    """

    keeps_order = False
    moves_rows = True

    def forward(self, arrays: Sequence[Any], shapes: Any, dims: Dims) -> list[Any]:
        """Take the two elements of a pair apart."""
        return [self._exchange(arrays[0], dims, (-1, 2))]

    def back(self, arrays: Sequence[Any], shapes: Any, dims: Dims) -> list[Any]:
        """Bring the two elements of a pair together."""
        return [self._exchange(arrays[0], dims, (2, -1))]

    def _exchange(self, array: Any, dims: Dims, split: tuple[int, int]) -> Any:
        import numpy as np

        if SECTIONS not in dims.keys:
            return array
        heads = array.reshape(-1, dims["key"], *array.shape[1:])
        turned, rest = np.split(heads, [dims["rope"]], 1)
        pairs = turned.reshape(len(heads), *split, *array.shape[1:]).swapaxes(1, 2)
        return np.concatenate([pairs.reshape(turned.shape), rest], 1).reshape(array.shape)


def rotary(config: Config) -> int:
    """Return the number of a head's elements that are rotated."""
    share = config.rope().number("partial_rotary_factor")
    if share is None or not 0 <= share <= 1:
        raise config.wrong(f"is {share}, not in the range 0 to 1", "partial_rotary_factor")
    return int(head_dim(config) * share)


SPECIAL_TOKENS = {"eos": "<|endoftext|>", "eot": "<|user|>", "unknown": "<|endoftext|>"}
ROTARY = computed("rope.dimension_count", "u32", rotary)
_BOS = {"bos": "<|endoftext|>"}


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    fields = config_fields(
        hidden_act="silu", attention_bias=ATTENTION_BIAS, partial_rotary_factor=rotary_part
    )
    return {**fields(dims, tensor), **hidden_layers(dims)}


GLM_4 = Architecture(
    "glm4",
    ("Glm4ForCausalLM", "Glm4vForConditionalGeneration", "GlmOcrForConditionalGeneration"),
    "glm4",
    with_keys((*DECODER, END_OF_TURN, ROTARY), *next_keys()),
    decoder(
        NORMS,
        row("post_self_attn_layernorm", "post_attention_norm", "embd", bias=False),
        row("post_mlp_layernorm", "post_ffw_norm", "embd", bias=False),
        attention(q=Halved(), k=Halved())[:-1],  # no bias of the output
        row("mlp.gate_up_proj", "ffn_up", "ff*2 embd", bias=False),
        row("mlp.down_proj", "ffn_down", "embd ff", bias=False),
        NEXT_ROWS,
    ),
    defaults=default_fields(
        131072, num_key_value_heads=2, partial_rotary_factor=0.5, rms_norm_eps=1.5625e-7
    ),
    dims=NEXT_DIMS,
    special_tokens={**SPECIAL_TOKENS, **_BOS},
    config=_config,
)
