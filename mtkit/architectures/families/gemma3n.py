"""Gemma 3n, text alone: embeddings of each layer, several streams (AltUp), low-rank residuals.

Source: llama.cpp, conversion/gemma.py (``Gemma3NModel``), src/models/gemma3n.cpp; transformers,
models/gemma3n.
"""

from __future__ import annotations

from mtkit.architectures.changes import Change
from mtkit.architectures.decoder_rows import (
    FEED_FORWARD,
    HEAD_NORMS,
    IN_LAYER,
    SLIDING_WINDOW,
    attention,
    default_fields,
    layer_types,
    only,
)
from mtkit.architectures.families.gemma import GEMMA_3
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.architectures.table import (
    Architecture,
    block,
    in_layers,
    join_rows,
    optional,
    plain,
    row,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

    Shape = tuple[int, ...]

_PER_LAYER = ("model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight")


class FilledUp(Change):
    """Rows of ids that the folder has not are zeros in the GGUF."""

    keeps_order = False

    def sources(self, shapes: Sequence[Shape], count: int, dims: Dims) -> list[Shape]:
        """Return the shape in the folder, where it is known."""
        rows, width = shapes[0]
        return [(min(dims.shapes.get(_PER_LAYER[0], shapes[0])[0], rows), width)]

    def forward(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Put zeros behind."""
        import numpy as np

        return [np.pad(arrays[0], ((0, shapes[0][0] - len(arrays[0])), (0, 0)))]

    def back(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Keep the zeros."""
        return list(arrays)


def _widths(config: Config) -> list[int]:
    width, layers = config.get("intermediate_size"), config.count("num_hidden_layers")
    if type(width) is int:
        return [width] * min(layers, 1 << 16)
    if not isinstance(width, list) or not all(type(part) is int for part in width):
        raise config.wrong("is not a list of whole numbers", "intermediate_size")
    return width


def _sparsity(config: Config) -> list[float]:
    """Return how many deviations above the mean an activation must be, by its rank."""
    from math import inf
    from statistics import NormalDist

    pattern = config.get("activation_sparsity_pattern")
    if not isinstance(pattern, list) or not all(
        isinstance(share, (int, float)) and 0 <= share < 1 for share in pattern
    ):
        raise config.wrong("is not a list of shares", "activation_sparsity_pattern")
    return [NormalDist().inv_cdf(share) if share else -inf for share in pattern]


def _pattern(value: Any) -> dict[str, Any]:
    from statistics import NormalDist

    return {"activation_sparsity_pattern": [round(NormalDist().cdf(v), 6) for v in value]}


def _default_sparsity(config: Config) -> list[float]:
    layers = min(config.count("num_hidden_layers"), 1 << 16)
    return [0.95 * (layer < 10) for layer in range(layers)]


PER_LAYER_ROWS = join_rows(
    plain("model.per_layer_model_projection.weight", "per_layer_model_proj.weight", "each embd"),
    plain("model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight", "input"),
)
PER_LAYER_KEY = u32("embedding_length_per_layer_input", "hidden_size_per_layer_input")
PER_LAYER_DIMS: Mapping[str, Callable[[Dims], int]] = {
    "input": lambda dims: dims.key("embedding_length_per_layer_input"),
    "each": lambda dims: dims.key("block_count") * dims["input"],
}
PER_LAYER = join_rows(
    row("per_layer_input_gate", "inp_gate", "input embd", bias=False),
    row("per_layer_projection", "proj", "embd input", bias=False),
    row("post_per_layer_input_norm", "post_norm", "embd", bias=False),
)
NORMS = join_rows(
    row("input_layernorm", "attn_norm", "embd", bias=False),
    row("post_attention_layernorm", "post_attention_norm", "embd", bias=False),
    row("pre_feedforward_layernorm", "ffn_norm", "embd", bias=False),
    row("post_feedforward_layernorm", "post_ffw_norm", "embd", bias=False),
)
EMBEDDINGS = join_rows(
    row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
    row("model.norm", "output_norm", "embd", bias=False),
)
SHARED_KEY = u32("attention.shared_kv_layers", "num_kv_shared_layers")
_ATTENTION = attention()
QUERY, KEY_VALUE = (*_ATTENTION[:1], *_ATTENTION[6:7], *HEAD_NORMS[:1]), (
    *_ATTENTION[2:3], *_ATTENTION[4:5], *HEAD_NORMS[1:],
)  # fmt: skip
"""Queries and what comes out; keys and values, which the last layers take from one before."""


def has_own_keys(dims: Dims) -> bool:
    """Tell whether a layer has keys and values of its own."""
    return dims.layer < dims.key("block_count") - dims.key(SHARED_KEY.name, 0)


def is_head(name: str, config: Config) -> bool:
    """Tell whether a tensor is the head, which is the embedding once more."""
    return name == "lm_head.weight"


def _projections(name: str) -> str:
    return " ".join(f"model.{name}.{number}.weight" for number in range(3))


GEMMA_3N = Architecture(
    "gemma3n",
    ("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"),
    "gemma3n_text",
    (
        *with_keys(
            GEMMA_3.keys,
            SLIDING_WINDOW,
            computed("feed_forward_length", "u32", _widths, "intermediate_size"),
        ),
        u32("altup.active_idx", "altup_active_idx"),
        u32("altup.num_inputs", "altup_num_inputs"),
        PER_LAYER_KEY,
        SHARED_KEY,
        computed("activation_sparsity_scale", "f32[]", _sparsity, _pattern),
        layer_types(lambda layer: (layer + 1) % 5 != 0),
    ),
    join_rows(
        EMBEDDINGS,
        PER_LAYER_ROWS,
        plain(*_PER_LAYER, "vocab each", FilledUp()),
        plain(_projections("altup_projections"), "altup_proj.weight", "3 embd embd"),
        plain(_projections("altup_unembed_projections"), "altup_unembd_proj.weight", "3 embd embd"),
        block(
            IN_LAYER,
            NORMS,
            QUERY,
            in_layers(has_own_keys, KEY_VALUE),
            in_layers(lambda dims: not has_own_keys(dims), optional(KEY_VALUE)),
            FEED_FORWARD,
            PER_LAYER,
            plain("altup.correct_output_scale", "altup_correct_scale.weight", "embd"),
            row("altup.correction_coefs", "altup_correct_coef", "streams streams", bias=False),
            row("altup.prediction_coefs", "altup_predict_coef", "streams^2 streams", bias=False),
            row("altup.modality_router", "altup_router", "streams embd", bias=False),
            row("altup.router_norm", "altup_router_norm", "embd", bias=False),
            row("laurel.linear_left", "laurel_l", "64 embd", bias=False),
            row("laurel.linear_right", "laurel_r", "embd 64", bias=False),
            row("laurel.post_laurel_norm", "laurel_post_norm", "embd", bias=False),
        ),
    ),
    checks=(only("altup_num_inputs", 4), only("laurel_rank", 64)),
    defaults=default_fields(
        32768, rms_norm_eps=1e-6, num_attention_heads=8, num_key_value_heads=2, head_dim=256,
        sliding_window=512, rope_theta=1000000.0, rope_local_base_freq=10000.0,
        hidden_size_per_layer_input=256, num_kv_shared_layers=15, altup_active_idx=0,
        altup_num_inputs=4, final_logit_softcapping=30.0,
        activation_sparsity_pattern=_default_sparsity,
    ),
    dims={
        "streams": lambda dims: dims.key("altup.num_inputs"),
        "streams^2": lambda dims: dims["streams"] ** 2,
        **PER_LAYER_DIMS,
    },
    skips=is_head,
    config=lambda dims, tensor: {
        "hidden_activation": "gelu_pytorch_tanh",
        "laurel_rank": 64,
        "vocab_size_per_layer_input": dims["vocab"],
    },
)  # fmt: skip
