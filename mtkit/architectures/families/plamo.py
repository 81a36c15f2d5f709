"""PLaMo 1 to 3: the first with shared heads in turn, the second with layers of Mamba 2 besides.

From the second on, norms stand around both halves of a layer, as distances from three numbers.
Source: llama.cpp, conversion/plamo.py; pfnet/plamo-2-1b, modeling_plamo.py.
"""

from __future__ import annotations

from mtkit.architectures.changes import LOG_DECAY, PLUS_ONE, Change, Computed, Reshaped
from mtkit.architectures.decoder_rows import (
    DECODER,
    FEED_FORWARD,
    OUTPUT,
    VOCAB_SIZE,
    default_fields,
)
from mtkit.architectures.metadata import always, computed, pick_keys, u32, with_keys
from mtkit.architectures.state_space import SSM_DIMS, is_attention, is_recurrent
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_LAYER = "model.layers.layers.{i}."
_EMBEDDING = row("model.embed_tokens", "token_embd", "vocab embd", bias=False)


class _InTurn(Change):
    """Heads of queries: the one of a group next to that of the next in the folder.

    Args:
        rows: Whether they are rows; else columns.
    """

    keeps_order = False

    def __init__(self, *, rows: bool) -> None:
        self._rows = rows
        self.moves_rows = rows

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the same shapes."""
        if not dims["head"] or dims["head"] % dims["head_kv"]:
            raise FormatError(
                f"is {dims['head']}, not a multiple of 5", field="num_attention_heads"
            )
        return list(shapes)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Bring the heads of a group together."""
        return self._moved(arrays[0], dims["head"] // dims["head_kv"], dims["head_kv"])

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Put them in turn."""
        return self._moved(arrays[0], dims["head_kv"], dims["head"] // dims["head_kv"])

    def _moved(self, array: Any, outer: int, inner: int) -> list[Any]:
        matrix = array if self._rows else array.T
        heads = matrix.reshape(outer, inner, -1, matrix.shape[-1]).swapaxes(0, 1)
        moved = heads.reshape(matrix.shape)
        return [moved if self._rows else moved.T]


PLAMO = Architecture(
    "plamo",
    ("PlamoForCausalLM",),
    "plamo",
    (
        *pick_keys(
            DECODER,
            "block_count", "embedding_length", "feed_forward_length", "attention.head_count",
            "attention.layer_norm_rms_epsilon",
        ),
        always("context_length", "u32", 4096),
        always("attention.head_count_kv", "u32", 5),
    ),
    join_rows(
        _EMBEDDING,
        row("model.norm", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            _LAYER,
            row("norm", "attn_norm", "embd", bias=False),
            row("self_attn.q_proj", "attn_q", "q embd", _InTurn(rows=True), bias=False),
            row("self_attn.k_proj", "attn_k", "k embd", bias=False),
            row("self_attn.v_proj", "attn_v", "v embd", bias=False),
            row("self_attn.o_proj", "attn_output", "embd out", _InTurn(rows=False), bias=False),
            FEED_FORWARD,
        ),
    ),
    defaults=default_fields(4096, rms_norm_eps=1e-6),
    config=lambda dims, tensor: {
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "n_shared_head": dims["head"] // max(dims["head_kv"], 1),
        "num_key_value_heads": dims["head"],
    },
)  # fmt: skip


def _plus(number: float) -> Computed:
    def forward(array: Any) -> Any:
        import numpy as np

        return array + np.float32(number)

    def back(array: Any) -> Any:
        import numpy as np

        return array - np.float32(number)

    return Computed(forward, back)


_NORMS = block(
    _LAYER,
    row("pre_mixer_norm", "attn_norm", "embd", PLUS_ONE, bias=False),
    plain("post_mixer_norm.weight", "post_attention_norm", "embd", _plus(1 / 5)),
    row("pre_mlp_norm", "ffn_norm", "embd", PLUS_ONE, bias=False),
    plain("post_mlp_norm.weight", "post_ffw_norm", "embd", _plus(1 / 5**1.5)),
    row("mlp.gate_up_proj", "ffn_up", "ff*2 embd", bias=False),
    row("mlp.down_proj", "ffn_down", "embd ff", bias=False),
)
_AROUND = join_rows(
    _EMBEDDING,
    OUTPUT,
    row("model.norm", "output_norm", "embd", PLUS_ONE, bias=False),
    _NORMS,
)
_PROJECTIONS = join_rows(
    row("mixer.qkv_proj", "attn_qkv", "qkv embd", bias=False),
    row("mixer.o_proj", "attn_output", "embd out", bias=False),
)
_RANK = 64
_HEADS = ("attention.head_count", "attention.head_count_kv")


def _is_state(config: Config) -> list[bool]:
    layers, step = min(config.count("num_hidden_layers"), 1 << 16), config.count("mamba_step")
    if layers <= step // 2:  # the last layer has attention
        return [layer != layers - 1 for layer in range(layers)]
    return [layer % step != step // 2 for layer in range(layers)]


def _heads(field: str) -> Callable[[Config], list[int] | None]:
    def value(config: Config) -> list[int] | None:
        if config.flag("mamba_enabled") is False:
            return None
        return [0 if state else config.count(field) for state in _is_state(config)]

    return value


def _most(field: str) -> Callable[[Any], dict[str, Any]]:
    return lambda heads: {field: max(heads, default=0)}


def _step(dims: Dims) -> int:
    """Return every which layer has attention: the one in the middle of so many."""
    kinds = [is_attention(dims.at(layer)) for layer in range(dims.key("block_count"))]
    first = kinds.index(True) if True in kinds else 0
    places = [layer for layer, full in enumerate(kinds) if full]
    return places[1] - places[0] if len(places) > 1 else 2 * max(first, 1)


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "mamba_step": _step(dims),
        "mamba_enabled": True,
    }


PLAMO_2 = Architecture(
    "plamo2",
    ("Plamo2ForCausalLM", "PLaMo2ForCausalLM"),
    "plamo2",
    (
        *pick_keys(
            DECODER,
            "context_length", "embedding_length", "block_count", "feed_forward_length",
            "attention.layer_norm_rms_epsilon", "rope.freq_base",
        ),
        VOCAB_SIZE,
        computed(_HEADS[0], "i32[]", _heads("num_attention_heads"), _most("num_attention_heads")),
        computed(_HEADS[1], "i32[]", _heads("num_key_value_heads"), _most("num_key_value_heads")),
        u32("attention.key_length", "hidden_size_per_head"),
        u32("attention.value_length", "hidden_size_per_head"),
        u32("ssm.state_size", "mamba_d_state"),
        u32("ssm.conv_kernel", "mamba_d_conv"),
        u32("ssm.time_step_rank", "mamba_num_heads"),
        computed(
            "ssm.inner_size",
            "u32",
            lambda c: c.count("mamba_num_heads") * c.count("hidden_size_per_head"),
        ),
        always("ssm.group_count", "u32", 0),
    ),
    join_rows(
        _AROUND,
        block(
            _LAYER,
            in_layers(
                is_attention,
                _PROJECTIONS,
                plain("mixer.q_weight", "attn_q_norm.weight", "head key"),
                plain("mixer.k_weight", "attn_k_norm.weight", "head_kv key"),
            ),
            in_layers(
                is_recurrent,
                row("mixer.in_proj", "ssm_in", "ssm_inner*2 embd", bias=False),
                plain(
                    "mixer.conv1d.weight",
                    "ssm_conv1d.weight",
                    "ssm_inner ssm_kernel",
                    Reshaped("ssm_inner 1 ssm_kernel"),
                ),
                row("mixer.bcdt_proj", "ssm_x", "ssm_x ssm_inner", bias=False),
                row("mixer.dt_proj", "ssm_dt", "ssm_heads ssm_rank", bias=False),
                plain("mixer.dt_bias", "ssm_dt.bias", "ssm_heads"),
                plain("mixer.A_log", "ssm_a", "ssm_heads", Computed(*LOG_DECAY)),
                plain("mixer.D", "ssm_d", "ssm_heads"),
                plain("mixer.dt_norm_weight", "ssm_dt_norm", "ssm_rank"),
                plain("mixer.B_norm_weight", "ssm_b_norm", "ssm_state"),
                plain("mixer.C_norm_weight", "ssm_c_norm", "ssm_state"),
                row("mixer.out_proj", "ssm_out", "embd ssm_inner", bias=False),
            ),
        ),
    ),
    defaults=default_fields(
        2048,
        rms_norm_eps=1e-6,
        num_key_value_heads=4,
        num_attention_heads=32,
        hidden_size=4096,
        intermediate_size=13312,
        hidden_size_per_head=128,
        mamba_step=2,
        mamba_d_state=64,
        mamba_d_conv=4,
        mamba_num_heads=64,
    ),
    dims={
        **SSM_DIMS,
        "key": lambda dims: dims.key("attention.key_length"),
        "value": lambda dims: dims.key("attention.value_length"),
        "ssm_inner*2": lambda dims: 2 * dims["ssm_inner"],
        "ssm_state": lambda dims: dims.key("ssm.state_size"),
        "ssm_rank": lambda dims: max(_RANK, dims["embd"] // 16),
        "ssm_x": lambda dims: dims["ssm_rank"] + 2 * dims["ssm_state"],
    },
    config=_config,
)  # fmt: skip


def _has_yarn(config: Config) -> bool:
    return (config.number("rope_scaling_factor") or 1) != 1


def _yarn(name: str, kind: str, value: Callable[[Config], Any], field: str = "") -> Any:
    return computed(
        f"rope.scaling.{name}", kind, lambda c: value(c) if _has_yarn(c) else None, field
    )


PLAMO_3 = Architecture(
    "plamo3",
    ("Plamo3ForCausalLM", "PLaMo3ForCausalLM"),
    "plamo3",
    (
        *with_keys(
            DECODER,
            _yarn("type", "string", lambda _: "yarn"),
            _yarn(
                "factor", "f32", lambda c: c.number("rope_scaling_factor"), "rope_scaling_factor"
            ),
            _yarn(
                "original_context_length", "u32", lambda c: c.count("initial_context_length"),
                "initial_context_length",
            ),
            _yarn("yarn_beta_fast", "f32", lambda _: 32.0),
            _yarn("yarn_beta_slow", "f32", lambda _: 1.0),
        ),
        VOCAB_SIZE,
        u32("attention.sliding_window", "window_size", "sliding_window"),
        u32("attention.sliding_window_pattern", "sliding_window_pattern"),
    ),
    join_rows(
        _AROUND,
        block(
            _LAYER,
            _PROJECTIONS,
            row("mixer.q_norm", "attn_q_norm", "key", PLUS_ONE, bias=False),
            row("mixer.k_norm", "attn_k_norm", "key", PLUS_ONE, bias=False),
        ),
    ),
    defaults=default_fields(4096, rms_norm_eps=1e-6),
    config=lambda dims, tensor: {"hidden_act": "silu"},
)  # fmt: skip
