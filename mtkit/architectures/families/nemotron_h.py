"""Nemotron H and Nemotron 3 (Nano, Super): a layer is Mamba 2, attention, or a feed-forward part.

The layers that predict further tokens (``mtp.``) are left out, and said.
Source: llama.cpp, conversion/nemotron.py (``NemotronHModel``), src/models/nemotron-h.cpp; the
configuration published with nvidia/NVIDIA-Nemotron-Nano-9B-v2.
"""

from __future__ import annotations

from mtkit.architectures.changes import Permuted
from mtkit.architectures.decoder_rows import EXPERT_FEED_FORWARD, OUTPUT, attention, default_fields
from mtkit.architectures.families.granite import GRANITE
from mtkit.architectures.metadata import always, computed, f32, flag, u32, with_keys
from mtkit.architectures.state_space import (
    SSM_DIMS,
    head_width,
    heads_where,
    is_attention,
    mixer,
    mixer_norm,
    ssm_keys,
)
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.table import Rows

_LETTERS = {
    "mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "moe": "E",
    "mlp": "-",
}  # fmt: skip


def _pattern(config: Config) -> str:
    """Return a letter for each layer."""
    letters = config.get("hybrid_override_pattern")
    kinds = config.get("layers_block_type") or config.get("layer_types")
    if letters is None and isinstance(kinds, list):
        letters = "".join(_LETTERS.get(kind, "?") for kind in kinds)
    if not isinstance(letters, str) or not letters or set(letters) - set("M*E-"):
        raise config.wrong("is not a kind for each layer", "hybrid_override_pattern")
    return letters


def _width(config: Config) -> list[int]:
    is_moe = config.whole("num_experts_per_tok") is not None
    width = config.count("moe_intermediate_size" if is_moe else "intermediate_size")
    return [width if letter in "E-" else 0 for letter in _pattern(config)]


def _widest(field: str) -> Callable[[Any], dict[str, Any]]:
    return lambda widths: {field: max(widths, default=0)}


def _inner(config: Config) -> int:
    return config.count("mamba_num_heads") * config.count("mamba_head_dim")


def _is_wide(dims: Dims) -> bool:
    return bool(dims["ff"])


def _config(letter: str) -> Callable[[Dims, Callable[[str], Any]], Mapping[str, Any]]:
    def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
        layers = [dims.at(layer) for layer in range(dims.key("block_count"))]
        letters = ("*" if is_attention(at) else letter if _is_wide(at) else "M" for at in layers)
        return {
            "mlp_hidden_act": "relu2",
            "mamba_hidden_act": "silu",
            "mamba_head_dim": head_width(dims),
            "hybrid_override_pattern": "".join(letters),
        }

    return config


def _nemotron(name: str, letter: str, keys: tuple[KeyRow, ...], *layer: Rows) -> Architecture:
    is_moe = letter == "E"
    field = "moe_intermediate_size" if is_moe else "intermediate_size"
    return Architecture(
        name,
        ("NemotronHForCausalLM",),
        "nemotron_h",
        with_keys(
            GRANITE.keys,
            computed("block_count", "u32", lambda c: len(_pattern(c)), "num_hidden_layers"),
            always("context_length", "u32", 1 << 20),
            computed("feed_forward_length", "i32[]", _width, _widest(field)),
            u32("attention.key_length", "head_dim", "attention_head_dim"),
            u32("attention.value_length", "head_dim", "attention_head_dim"),
            heads_where(lambda config: [kind == "*" for kind in _pattern(config)]),
            always("rope.scaling.finetuned", "bool", value=False),
            *ssm_keys("conv_kernel", "ssm_state_size", "n_groups", "mamba_num_heads", _inner),
            *keys,
        ),
        join_rows(
            row("backbone.embeddings", "token_embd", "vocab embd", bias=False),
            row("backbone.norm_f", "output_norm", "embd", bias=False),
            OUTPUT,
            block(
                "backbone.layers.{i}.",
                row("norm", "attn_norm", "embd", bias=False),
                in_layers(
                    lambda dims: not is_attention(dims) and not _is_wide(dims),
                    mixer("mixer."),
                    mixer_norm("mixer.norm"),
                ),
                in_layers(is_attention, attention("mixer.", Permuted("head"), Permuted("head_kv"))),
                in_layers(_is_wide, *layer),
            ),
        ),
        prefix="backbone.",
        skips=lambda name, config: name.startswith("mtp."),
        accepts=(lambda config: config.get("num_experts_per_tok") is not None) if is_moe else None,
        defaults=default_fields(
            1 << 18, rms_norm_eps=1e-5, layer_norm_epsilon=1e-5, rope_theta=None
        ),
        dims={**SSM_DIMS, "latent": lambda dims: dims.key("moe_latent_size", dims["embd"])},
        renamed=lambda name: name.replace("model.layers.", "backbone.layers.", 1),
        config=_config(letter),
    )


NEMOTRON_H = _nemotron(
    "nemotron_h",
    "-",
    (),
    row("mixer.up_proj", "ffn_up", "ff embd"),
    row("mixer.down_proj", "ffn_down", "embd ff"),
)
NEMOTRON_H_MOE = _nemotron(
    "nemotron_h_moe",
    "E",
    (
        EXPERT_FEED_FORWARD,
        u32("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"),
        u32("expert_count", "n_routed_experts"),
        u32("expert_shared_count", "n_shared_experts"),
        flag("expert_weights_norm", "norm_topk_prob"),
        f32("expert_weights_scale", "routed_scaling_factor"),
        u32("moe_latent_size", "moe_latent_size"),
    ),
    row("mixer.gate", "ffn_gate_inp", "expert embd", bias=False),
    plain("mixer.gate.e_score_correction_bias", "exp_probs_b.bias", "expert"),
    row("mixer.experts.{e}.up_proj", "ffn_up_exps", "expert ff_exp latent", bias=False),
    row("mixer.experts.{e}.down_proj", "ffn_down_exps", "expert latent ff_exp", bias=False),
    row("mixer.shared_experts.up_proj", "ffn_up_shexp", "ff_shexp embd", bias=False),
    row("mixer.shared_experts.down_proj", "ffn_down_shexp", "embd ff_shexp", bias=False),
    in_layers(
        lambda dims: dims.key("moe_latent_size", 0) > 0,
        row("mixer.fc1_latent_proj", "ffn_latent_down", "latent embd", bias=False),
        row("mixer.fc2_latent_proj", "ffn_latent_up", "embd latent", bias=False),
    ),
)
