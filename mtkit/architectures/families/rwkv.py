"""RWKV 6 (Finch) and 7 (Goose): no attention, a state for each head.

The first layer of RWKV 7 has no residual of values; llama.cpp asks for its tensors all the same,
and its converter gives those of the learning rate.
Source: llama.cpp, conversion/rwkv.py, src/models/rwkv6.cpp, rwkv7.cpp; the configurations published
with RWKV/v6-Finch-1B6-HF and fla-hub/rwkv7-1.5B-world.
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME, Change, Reshaped, Transposed
from mtkit.architectures.decoder_rows import config_fields
from mtkit.architectures.metadata import always, computed, f32, u32
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow

_RESCALE = "rescale_every_n_layers"
_LARGE = 4096
"""Width from which the layers of RWKV 6 have twice the extra dimensions."""


class _Rescaled(Change):
    """Values halved every few layers, which keeps those of F16 in range."""

    computes = True
    keeps_order = False

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Divide."""
        return [array / self._factor(dims) for array in arrays]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Multiply."""
        return [array * self._factor(dims) for array in arrays]

    def _factor(self, dims: Dims) -> Any:
        import numpy as np

        every = dims.key(_RESCALE, 0)
        return np.float32(2.0 ** min(dims.layer // every, 100) if every else 1)


class Twice(Change):
    """A tensor that is two in the GGUF.

    Args:
        inner: What becomes of its values besides.
    """

    keeps_order = False

    def __init__(self, inner: Change = SAME) -> None:
        self._inner = inner
        self.moves_rows = inner is SAME

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of either."""
        return self._inner.sources(shapes[:1], 1, dims)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Give it twice."""
        if not self._inner.keeps_order:
            arrays = self._inner.forward(arrays, shapes[:1], dims)
        return [arrays[0].reshape(shapes[0])] * len(shapes)

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Take the first."""
        if not self._inner.keeps_order:
            return self._inner.back(arrays[:1], shapes, dims)
        return [arrays[0].reshape(shapes[0])]


def wider(usual: int) -> Callable[[Config], int]:
    """Return a function for a number that large models have twice."""
    return lambda config: 2 * usual if config.count("hidden_size") == _LARGE else usual


def _width(config: Config) -> int:
    wide = config.whole("intermediate_size")
    return int(config.count("hidden_size") * 3.5) // 32 * 32 if wide is None else wide


def _rank(field: str, exponent: float, factor: float) -> Callable[[Config], int]:
    def value(config: Config) -> int:
        usual = max(1, round(config.count("hidden_size") ** exponent * factor / 32)) * 32
        rank = config.whole(field)
        return usual if rank is None else rank

    return value


def _lora(key: str, field: str, exponent: float, factor: float) -> KeyRow:
    name = f"attention.{key}_lora_rank"
    return computed(name, "u32", _rank(field, exponent, factor), field)


KEYS = (
    always("context_length", "u32", 1 << 20),
    u32("embedding_length", "hidden_size"),
    u32("block_count", "num_hidden_layers"),
    always("attention.head_count", "u32", 0),
)
DIMS: dict[str, Callable[[Dims], int]] = {
    "mix": lambda dims: dims.key("time_mix_extra_dim"),
    "5mix": lambda dims: 5 * dims.key("time_mix_extra_dim"),
    "decay": lambda dims: dims.key("time_decay_extra_dim"),
    "w": lambda dims: dims.key("attention.decay_lora_rank"),
    "a": lambda dims: dims.key("attention.iclr_lora_rank"),
    "v": lambda dims: dims.key("attention.value_residual_mix_lora_rank"),
    "g": lambda dims: dims.key("attention.gate_lora_rank"),
    "wkv": lambda dims: dims.key("wkv.head_size"),
    "wkv_heads": lambda dims: dims["embd"] // max(dims["wkv"], 1),
}
ROW = Reshaped("1 1 embd")
RWKV_6 = Architecture(
    "rwkv6",
    ("Rwkv6ForCausalLM",),
    "rwkv6",
    (
        *KEYS,
        f32("attention.layer_norm_epsilon", "layer_norm_epsilon"),
        u32(_RESCALE, "rescale_every"),
        u32("wkv.head_size", "head_size"),
        computed("time_mix_extra_dim", "u32", wider(32)),
        computed("time_decay_extra_dim", "u32", wider(64)),
        computed("feed_forward_length", "u32", _width, "intermediate_size"),
    ),
    join_rows(
        row("rwkv.embeddings", "token_embd", "vocab embd", bias=False),
        row("rwkv.blocks.0.pre_ln", "token_embd_norm", "embd", bias=True),
        row("rwkv.ln_out", "output_norm", "embd", bias=True),
        row("head", "output", "vocab embd", bias=False),
        block(
            "rwkv.blocks.{i}.",
            row("ln1", "attn_norm", "embd", bias=True),
            row("ln2", "attn_norm_2", "embd", bias=True),
            plain("attention.time_maa_x", "time_mix_lerp_x.weight", "embd", ROW),
            plain(
                " ".join(f"attention.time_maa_{part}" for part in "wkvrg"),
                "time_mix_lerp_fused.weight",
                "5 1 1 embd",
            ),
            plain("attention.time_maa_w1", "time_mix_w1.weight", "5mix embd", Transposed()),
            plain("attention.time_maa_w2", "time_mix_w2.weight", "5 embd mix", Transposed()),
            plain("attention.time_decay", "time_mix_decay.weight", "embd", ROW),
            plain(
                "attention.time_decay_w1", "time_mix_decay_w1.weight", "decay embd", Transposed()
            ),
            plain(
                "attention.time_decay_w2", "time_mix_decay_w2.weight", "embd decay", Transposed()
            ),
            plain("attention.time_faaaa", "time_mix_first.weight", "wkv_heads wkv"),
            *(
                row(f"attention.{part}", f"time_mix_{part}", "embd embd", bias=False)
                for part in ("receptance", "key", "value", "gate")
            ),
            row("attention.output", "time_mix_output", "embd embd", _Rescaled(), bias=False),
            row("attention.ln_x", "time_mix_ln", "embd", bias=True),
            plain("feed_forward.time_maa_k", "channel_mix_lerp_k.weight", "embd", ROW),
            plain("feed_forward.time_maa_r", "channel_mix_lerp_r.weight", "embd", ROW),
            row("feed_forward.key", "channel_mix_key", "ff embd", bias=False),
            row("feed_forward.receptance", "channel_mix_receptance", "embd embd", bias=False),
            row("feed_forward.value", "channel_mix_value", "embd ff", _Rescaled(), bias=False),
        ),
    ),
    prefix="rwkv.",
    defaults=lambda config: {"layer_norm_epsilon": 1e-5, "rescale_every": 6, "head_size": 64},
    dims=DIMS,
    config=config_fields(attention_hidden_size=lambda dims: dims["embd"], head_size_divisor=8),
)


def is_first(dims: Dims) -> bool:
    """Tell whether a layer is the first, which has no residual of values."""
    return dims.layer == 0


def is_later(dims: Dims) -> bool:
    """Tell whether a layer adds a residual of values."""
    return dims.layer > 0


_A, _V = "attn.a_lora.lora.", "attn.v_lora.lora."
RWKV_7 = Architecture(
    "rwkv7",
    ("RWKV7ForCausalLM", "Rwkv7ForCausalLM"),
    "rwkv7",
    (
        *KEYS,
        f32("attention.layer_norm_epsilon", "norm_eps", "layer_norm_epsilon"),
        u32("wkv.head_size", "head_dim", "head_size"),
        _lora("decay", "decay_low_rank_dim", 0.5, 1.8),
        _lora("iclr", "a_low_rank_dim", 0.5, 1.8),
        _lora("value_residual_mix", "v_low_rank_dim", 0.5, 1.3),
        _lora("gate", "gate_low_rank_dim", 0.8, 0.6),
        computed(
            "feed_forward_length",
            "u32",
            lambda config: config.whole("intermediate_size") or 4 * config.count("hidden_size"),
            "intermediate_size",
        ),
    ),
    join_rows(
        row("model.embeddings", "token_embd", "vocab embd", bias=False),
        row("model.layers.0.pre_norm", "token_embd_norm", "embd", bias=True),
        row("model.norm", "output_norm", "embd", bias=True),
        row("lm_head", "output", "vocab embd", bias=False),
        block(
            "model.layers.{i}.",
            row("attn_norm", "attn_norm", "embd", bias=True),
            row("ffn_norm", "attn_norm_2", "embd", bias=True),
            plain(
                " ".join(f"attn.x_{part}" for part in "rwkvag"),
                "time_mix_lerp_fused.weight",
                "6 1 1 embd",
            ),
            plain("attn.w_lora.lora.0.weight", "time_mix_w1.weight", "w embd"),
            plain("attn.w_lora.lora.2.weight", "time_mix_w2.weight", "embd w"),
            plain("attn.w_lora.lora.2.bias", "time_mix_w0.weight", "embd"),
            in_layers(
                is_first,
                plain(
                    f"{_A}0.weight",
                    "time_mix_a1.weight time_mix_v1.weight",
                    "a embd, a embd",
                    Twice(),
                ),
                plain(
                    f"{_A}2.weight",
                    "time_mix_a2.weight time_mix_v2.weight",
                    "embd a, embd a",
                    Twice(),
                ),
                plain(
                    f"{_A}2.bias", "time_mix_a0.weight time_mix_v0.weight", "embd, embd", Twice()
                ),
            ),
            in_layers(
                is_later,
                plain(f"{_A}0.weight", "time_mix_a1.weight", "a embd"),
                plain(f"{_A}2.weight", "time_mix_a2.weight", "embd a"),
                plain(f"{_A}2.bias", "time_mix_a0.weight", "embd"),
                plain(f"{_V}0.weight", "time_mix_v1.weight", "v embd"),
                plain(f"{_V}2.weight", "time_mix_v2.weight", "embd v"),
                plain(f"{_V}2.bias", "time_mix_v0.weight", "embd"),
            ),
            plain("attn.g_lora.lora.0.weight", "time_mix_g1.weight", "g embd"),
            plain("attn.g_lora.lora.2.weight", "time_mix_g2.weight", "embd g"),
            plain("attn.k_k", "time_mix_k_k.weight", "embd"),
            plain("attn.k_a", "time_mix_k_a.weight", "embd"),
            plain("attn.r_k", "time_mix_r_k.weight", "embd", Reshaped("wkv_heads wkv")),
            *(
                row(f"attn.{part[0]}_proj", f"time_mix_{part}", "embd embd", bias=False)
                for part in ("receptance", "key", "value", "output")
            ),
            row("attn.g_norm", "time_mix_ln", "embd", bias=True),
            plain("ffn.x_k", "channel_mix_lerp_k.weight", "embd"),
            row("ffn.key", "channel_mix_key", "ff embd", bias=False),
            row("ffn.value", "channel_mix_value", "embd ff", bias=False),
        ),
    ),
    skips=lambda name, config: name.startswith(f"model.layers.0.{_V}"),
    defaults=lambda config: {"norm_eps": 1e-5, "head_dim": 64},
    dims=DIMS,
    config=config_fields(hidden_act="sqrelu", norm_first=True, norm_bias=True),
)
