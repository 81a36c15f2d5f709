"""RWKV in place of the attention of Qwen 2.5: QRWKV 6, ARWKV 7.

Source: llama.cpp, conversion/rwkv.py (``RWKV6Qwen2Model``, ``ARwkv7Model``),
src/models/rwkv6qwen2.cpp, arwkv7.cpp; the configurations published with the models.
"""

from __future__ import annotations

from mtkit.architectures.changes import Reshaped, Transposed
from mtkit.architectures.decoder_rows import (
    EMBEDDINGS,
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    OUTPUT,
    config_fields,
    only,
)
from mtkit.architectures.families.rwkv import DIMS, KEYS, ROW, Twice, is_first, is_later, wider
from mtkit.architectures.metadata import always, computed, f32, head_dim, u32
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shapes
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.table import Rows

_KEYS = (
    *KEYS,
    f32("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    u32("feed_forward_length", "intermediate_size"),
    always("token_shift_count", "u32", 1),
)


class _Reordered(Transposed):
    """Transposed, and parts in the order r k v w g become w k v r g."""

    _order = (3, 1, 2, 0, 4)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Transpose, then exchange the two parts."""
        (array,) = super().forward(arrays, shapes, dims)
        return [self._exchange(array)]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Exchange them again."""
        return super().back([self._exchange(array) for array in arrays], shapes, dims)

    def _exchange(self, array: Any) -> Any:
        parts = array.reshape(len(self._order), -1, array.shape[-1])
        return parts[list(self._order)].reshape(array.shape)


def _rank(key: str, field: str, usual: int) -> KeyRow:
    def value(config: Config) -> int:
        rank = config.whole(field)
        return wider(usual)(config) if rank is None else rank

    return computed(key, "u32", value, field)


def _decoder(*layer: Rows) -> Rows:
    return join_rows(EMBEDDINGS, OUTPUT, block(IN_LAYER, NORMS, FEED_FORWARD, *layer))


_KV = "heads_kv"
RWKV_6_QWEN_2 = Architecture(
    "rwkv6qwen2",
    ("RWKV6Qwen2ForCausalLM",),
    "rwkv6qwen2",
    (
        *_KEYS,
        computed("wkv.head_size", "u32", head_dim),
        _rank("time_mix_extra_dim", "lora_rank_tokenshift", 32),
        _rank("time_decay_extra_dim", "lora_rank_decay", 64),
        u32("attention.head_count_kv", "num_key_value_heads"),
    ),
    _decoder(
        block(
            "self_attn.",
            plain("time_maa_x", "time_mix_lerp_x.weight", "embd", ROW),
            plain(
                " ".join(f"time_maa_{part}" for part in "wkvrg"),
                "time_mix_lerp_fused.weight",
                "5 1 1 embd",
            ),
            plain("time_maa_w1", "time_mix_w1.weight", "5mix embd", _Reordered()),
            plain("time_maa_w2", "time_mix_w2.weight", "5 embd mix", _Reordered()),
            plain("time_decay", "time_mix_decay.weight", "embd", ROW),
            plain("time_decay_w1", "time_mix_decay_w1.weight", "decay embd", Transposed()),
            plain("time_decay_w2", "time_mix_decay_w2.weight", "embd decay", Transposed()),
            plain("time_faaaa", "time_mix_first.weight", "wkv_heads wkv", optional=True),
            row("q_proj", "time_mix_receptance", "embd embd"),
            row("k_proj", "time_mix_key", f"{_KV} embd"),
            row("v_proj", "time_mix_value", f"{_KV} embd"),
            row("gate", "time_mix_gate", "embd embd", bias=False),
            row("o_proj", "time_mix_output", "embd embd", bias=False),
            gguf="",
        ),
    ),
    checks=(only("rescale_every", 0),),
    defaults=lambda config: {
        "rms_norm_eps": 1e-6,
        "num_key_value_heads": config.get("num_attention_heads"),
    },
    dims={**DIMS, _KV: lambda dims: dims["head_kv"] * dims["wkv"]},
    config=config_fields(
        hidden_act="silu",
        num_attention_heads=lambda dims: dims["wkv_heads"],
        attention_bias=lambda dims: dims.has("blk.0.time_mix_receptance.bias"),
    ),
)
_GATE = "attention.gate_lora_rank"


def _has_gate(dims: Dims) -> bool:
    return dims.key(_GATE) > 0


def _has_none(dims: Dims) -> bool:
    return not _has_gate(dims)


def _lora(letter: str, parts: str = "", *, is_twice: bool = False) -> Rows:
    """Return the rows of a projection of low rank; ``parts`` are those of the GGUF."""

    def two(part: str, axes: str, change: Reshaped | Transposed) -> Rows:
        names = " ".join(f"time_mix_{name}{part}.weight" for name in parts or letter)
        shapes = ", ".join([axes] * len(parts or letter))
        return plain(f"{letter}{part}", names, shapes, Twice(change) if is_twice else change)

    return join_rows(
        two("1", f"{letter} embd", Transposed()),
        two("2", f"embd {letter}", Transposed()),
        two("0", "embd", ROW) if letter != "g" else (),
    )


def _mix(letters: str) -> Rows:
    names = " ".join(f"x_{letter}" for letter in letters)
    return plain(names, "time_mix_lerp_fused.weight", f"{len(letters)} 1 1 embd")


def _gate(config: Config) -> int:
    return 128 if config.flag("wkv_has_gate") else 0


_WRITTEN: dict[str, Callable[[Dims], object]] = {
    "wkv_has_gate": _has_gate,
    "wkv_has_group_norm": lambda dims: dims.has("blk.0.time_mix_ln.weight"),
    "num_attention_heads": lambda dims: dims["wkv_heads"],
    "num_wkv_heads": lambda dims: dims["wkv_heads"],
}
ARWKV_7 = Architecture(
    "arwkv7",
    ("RwkvHybridForCausalLM",),
    "rwkv_hybrid",
    (
        *_KEYS,
        u32("wkv.head_size", "head_size"),
        always("attention.decay_lora_rank", "u32", 64),
        always("attention.iclr_lora_rank", "u32", 64),
        always("attention.value_residual_mix_lora_rank", "u32", 32),
        computed(_GATE, "u32", _gate),
    ),
    _decoder(
        block(
            "self_attn.time_mixer.",
            in_layers(_has_gate, _mix("rwkvag"), _lora("g")),
            in_layers(_has_none, _mix("rwkva")),
            _lora("w"),
            in_layers(is_first, _lora("a", "av", is_twice=True)),
            in_layers(is_later, _lora("a"), _lora("v")),
            plain("k_k", "time_mix_k_k.weight", "embd", ROW),
            plain("k_a", "time_mix_k_a.weight", "embd", ROW),
            plain("r_k", "time_mix_r_k.weight", "embd", Reshaped("wkv_heads wkv")),
            *(
                row(part, f"time_mix_{part}", "embd embd", bias=False)
                for part in ("receptance", "key", "value", "output")
            ),
            row("ln_x", "time_mix_ln", "embd", bias=True, optional=True),
            gguf="",
        ),
    ),
    checks=(only("wkv_version", 7),),
    skips=lambda name, config: name.startswith(
        tuple(f"model.layers.0.self_attn.time_mixer.v{part}" for part in "012")
    ),
    defaults=lambda config: {"rms_norm_eps": 1e-6, "wkv_has_gate": True},
    dims=DIMS,
    config=config_fields(hidden_act="silu", wkv_version=7, wkv_layers="full", **_WRITTEN),
)
