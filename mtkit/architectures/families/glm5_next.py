"""GLM 5.3's text part: linear attention (KDA), compressed keys with an indexer, hyper-connections.

Source: llama.cpp, conversion/glm.py (``Glm5NextModel``), src/models/glm5-next.cpp; transformers,
models/glm5_next.
"""

from __future__ import annotations

from mtkit.architectures.changes import DECAY
from mtkit.architectures.decoder_rows import NORMS, decoder, default_fields
from mtkit.architectures.expert_rows import ROUTED
from mtkit.architectures.families.deepseek import LATENT
from mtkit.architectures.families.deepseek_sparse import GLM_DSA, INDEXER
from mtkit.architectures.families.kimi_linear import (
    GATE,
    LINEAR_DIMS,
    is_full,
    is_linear,
    linear,
    linear_number,
    linear_row,
)
from mtkit.architectures.metadata import KeyRow, always, computed, f32, flag, u32, with_keys
from mtkit.architectures.next_tokens import NEXT_ROWS, is_next
from mtkit.architectures.table import exact, in_layers, optional, plain
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

_NEXT = "num_nextn_predict_layers"


def _heads_kv(config: Config) -> list[int]:
    kinds = [int(kind != "linear_attention") for kind in config.kinds_of_layers()]
    return kinds + [1] * min(config.whole(_NEXT) or 0, len(kinds))


def _limits(name: str) -> KeyRow:
    def value(config: Config) -> list[float] | None:
        limit = config.number("swiglu_limit")
        layers = config.count("num_hidden_layers") + (config.whole(_NEXT) or 0)
        return None if limit is None else [limit] * min(layers, 1 << 16)

    return computed(name, "f32[]", value, lambda limits: {"swiglu_limit": limits[0]})


def _kinds(dims: Dims) -> dict[str, Any]:
    layers = range(dims.key("block_count") - dims.key("nextn_predict_layers", 0))
    names = ("deepseek_sparse_attention", "linear_attention")
    return {"layer_types": [names[is_linear(dims.at(layer))] for layer in layers]}


def connections(part: str) -> Rows:
    """Return the rows of hyper-connections around a part of a layer."""
    return exact(
        plain(f"hc_{part}_fn", f"hc_{part}_fn.weight", "mix streams"),
        plain(f"hc_{part}_base", f"hc_{part}_base.weight", "mix"),
        plain(f"hc_{part}_scale", f"hc_{part}_scale.weight", "3"),
    )


CONNECTION_KEYS = (
    u32("hyper_connection.count", "hc_mult"),
    u32("hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters"),
    f32("hyper_connection.epsilon", "hc_eps"),
)
CONNECTION_DIMS: Mapping[str, Callable[[Dims], int]] = {
    "streams": lambda dims: dims.key("hyper_connection.count") * dims["embd"],
    "mix": lambda dims: (
        dims.key("hyper_connection.count") * (2 + dims.key("hyper_connection.count"))
    ),
}
_POOL = "self_attn.indexer.index_kpool_compress_"


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        **(GLM_DSA.config(dims, tensor) if GLM_DSA.config else {}),
        **_kinds(dims),
        "mla_use_nope": True,
        "mhc": True,
        "linear_attn_config": {"num_heads": dims["head"]},
    }


GLM_5_NEXT = replace(
    GLM_DSA,
    name="glm5-next",
    classes=("Glm5NextForConditionalGeneration",),
    model_type="glm5_next",
    keys=(
        *with_keys(
            GLM_DSA.keys,
            computed("attention.head_count_kv", "u32", _heads_kv),
            u32("rope.dimension_count", "qk_rope_head_dim"),
        ),
        always("attention.layer_norm_epsilon", "f32", 1e-6),
        linear_row("ssm.conv_kernel", "short_conv_kernel_size"),
        linear_row("kda.head_dim", "head_dim"),
        linear_number("kda.gate_lower_bound", "gate_lower_bound"),
        u32("attention.indexer.kpool", "index_kpool"),
        flag("attention.indexer.kpool_select_tail", "index_kpool_always_select_tail"),
        *CONNECTION_KEYS,
        _limits("swiglu_clamp_exp"),
        _limits("swiglu_clamp_shexp"),
    ),
    rows=decoder(
        NORMS,
        in_layers(lambda dims: not is_next(dims), connections("attn"), connections("ffn")),
        in_layers(is_linear, linear(plain("self_attn.A_log", "ssm_a", "head", DECAY), GATE)),
        in_layers(
            is_full,
            LATENT,
            optional(
                INDEXER,
                exact(
                    plain(f"{_POOL}gate", "indexer_compressor_gate.weight", "index_key embd"),
                    plain(f"{_POOL}ape", "indexer_compressor_ape.weight", "pool index_key"),
                ),
            ),
        ),
        ROUTED,
        NEXT_ROWS,
    ),
    defaults=default_fields(
        1048576, rms_norm_eps=1e-5, rope_theta=None, qk_rope_head_dim=0,
        index_kpool_always_select_tail=True,
    ),
    dims={
        **GLM_DSA.dims,
        **LINEAR_DIMS,
        **CONNECTION_DIMS,
        "pool": lambda dims: dims.key("attention.indexer.kpool"),
    },
    config=_config,
)  # fmt: skip
