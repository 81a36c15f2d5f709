"""Grok 1, in the names of its port to transformers, and Grok 2.

Source: llama.cpp, conversion/grok.py (``GrokModel``).
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    FEED_FORWARD,
    OUTPUT,
    attention,
    default_fields,
    experts,
)
from mtkit.architectures.metadata import computed, f32, head_dim, u32, with_keys
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow


_FEED_FORWARD = FEED_FORWARD[::2]


def _is_dense_too(dims: Dims) -> bool:
    """Tell whether a layer has a part that is no expert (Grok 2)."""
    names = (
        f"{start}.{dims.layer}.{name}"
        for row in _FEED_FORWARD
        for start, (name,) in (("model.layers", row.folder), ("blk", row.gguf))
    )
    return not dims.shapes or dims.has(*names)


def _scaled(config: Config) -> bool:
    # "original" seems to be meant as yarn.
    return config.text("rope_type") in ("yarn", "original")


def _yarn(name: str, *fields: str) -> KeyRow:
    def value(config: Config) -> float | None:
        return config.number(*fields) if _scaled(config) else None

    return computed(f"rope.scaling.{name}", "f32", value, fields[0])


def _or(field: str, usual: Callable[[Config], float]) -> Callable[[Config], float]:
    def value(config: Config) -> float:
        number = config.number(field)
        return usual(config) if number is None else number

    return value


def _first_context(config: Config) -> int | None:
    return config.count("original_max_position_embeddings") if _scaled(config) else None


GROK = Architecture(
    "grok",
    ("Grok1ForCausalLM", "GrokForCausalLM"),
    "grok-1",
    (
        *with_keys(
            DECODER,
            computed(
                "rope.scaling.type", "string",
                lambda config: "yarn" if _scaled(config) else None, "rope_type",
            ),
            _yarn("factor", "scaling_factor"),
            computed("rope.scaling.original_context_length", "u32", _first_context,
                     "original_max_position_embeddings"),
            _yarn("yarn_ext_factor", "extrapolation_factor"),
            _yarn("yarn_attn_factor", "attn_factor"),
            _yarn("yarn_beta_fast", "beta_fast"),
            _yarn("yarn_beta_slow", "beta_slow"),
        ),
        computed("attn_logit_softcapping", "f32", _or("attn_logit_softcapping", lambda _: 30.0),
                 "attn_logit_softcapping"),
        computed("router_logit_softcapping", "f32",
                 _or("router_logit_softcapping", lambda _: 30.0), "router_logit_softcapping"),
        computed("final_logit_softcapping", "f32",
                 lambda config: config.number("final_logit_softcapping") or None,
                 "final_logit_softcapping"),
        u32("expert_feed_forward_length", "moe_intermediate_size"),
        computed("attention.temperature_length", "u32",
                 lambda config: config.whole("attn_temperature_len") or None,
                 "attn_temperature_len"),
        computed("attention.output_scale", "f32",
                 _or("attn_output_multiplier", lambda config: head_dim(config) ** -0.5),
                 "attn_output_multiplier"),
        f32("embedding_scale", "embedding_multiplier_scale"),
        f32("logit_scale", "output_multiplier_scale"),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        row("model.norm", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            "model.layers.{i}.",
            row("pre_attn_norm", "attn_norm", "embd", bias=False),
            row("post_attn_norm", "attn_output_norm", "embd", bias=False),
            row("pre_moe_norm", "ffn_norm", "embd", bias=False),
            row("post_moe_norm", "post_ffw_norm", "embd", bias=False),
            attention(),
            # All three or none: llama.cpp aborts where a part of them is there.
            in_layers(_is_dense_too, _FEED_FORWARD),
            row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd", bias=False),
            experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
        ),
    ),
    defaults=default_fields(
        8192, rms_norm_eps=1e-5, embedding_multiplier_scale=1.0, output_multiplier_scale=1.0
    ),
    config=lambda dims, tensor: {"hidden_act": "gelu"},
)  # fmt: skip
