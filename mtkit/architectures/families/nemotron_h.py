"""Nemotron H and Nemotron 3 (Nano, Super): a layer is Mamba 2, attention, or a feed-forward part.

What predicts a further token is two layers in a folder (``mtp.layers.0`` and ``1``), one in a GGUF.
Puzzle's experts differ from layer to layer; what predicts its tokens is left out, and said.
Source: llama.cpp, conversion/nemotron.py (``NemotronHModel``, ``NemotronHPuzzleModel``),
src/models/nemotron-h.cpp; the configuration published with nvidia/NVIDIA-Nemotron-Nano-9B-v2.
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME, Change, Permuted
from mtkit.architectures.decoder_rows import (
    EXPERT_FEED_FORWARD,
    OUTPUT,
    attention,
    default_fields,
    only,
)
from mtkit.architectures.families.granite import GRANITE
from mtkit.architectures.metadata import always, computed, f32, flag, u32, with_keys
from mtkit.architectures.next_tokens import NEXT_DIMS, hidden_layers, is_next
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
from mtkit.base.record import replace

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


_BLOCKS = "block_configs"


def _each_block(config: Config, field: str) -> list[Any]:
    """Return a field of each of Puzzle's layers."""
    blocks = config.get(_BLOCKS)
    if not isinstance(blocks, list) or not all(isinstance(each, dict) for each in blocks):
        raise config.wrong("is not an object for each layer", _BLOCKS)
    return [each.get(field) for each in blocks]


def _number_of_each(field: str) -> Callable[[Config], list[int]]:
    def value(config: Config) -> list[int]:
        numbers = [number or 0 for number in _each_block(config, field)]
        if not all(type(number) is int and 0 <= number < 1 << 31 for number in numbers):
            raise config.wrong(f"does not have a whole number for {field}", _BLOCKS)
        return numbers

    return value


def _pattern(config: Config) -> str:
    """Return a letter for each layer."""
    letters = config.get("hybrid_override_pattern")
    kinds = config.get("layers_block_type") or config.get("layer_types")
    if config.get(_BLOCKS) is not None:
        letters, kinds = None, _each_block(config, "block_type")
    if letters is None and isinstance(kinds, list):
        letters = "".join(_LETTERS.get(kind, "?") for kind in kinds)
    if not isinstance(letters, str) or not letters or set(letters) - set("M*E-"):
        raise config.wrong("is not a kind for each layer", "hybrid_override_pattern")
    return letters


def _width(config: Config) -> list[int]:
    is_moe = config.whole("num_experts_per_tok") is not None
    width = config.count("moe_intermediate_size" if is_moe else "intermediate_size")
    widths = [width if letter in "E-" else 0 for letter in _pattern(config)]
    return widths + [width] * (_next(config) or 0)


_NEXT = "num_nextn_predict_layers"


def _next(config: Config) -> int | None:
    """Return the number of layers that predict further tokens; only experts alike have them."""
    is_moe = config.whole("num_experts_per_tok") is not None and config.get(_BLOCKS) is None
    return (config.whole(_NEXT) or None) if is_moe else None


def _widest(field: str) -> Callable[[Any], dict[str, Any]]:
    return lambda widths: {field: max(widths, default=0)}


def _inner(config: Config) -> int:
    return config.count("mamba_num_heads") * config.count("mamba_head_dim")


def _is_wide(dims: Dims) -> bool:
    return bool(dims["ff"])


def _config(letter: str) -> Callable[[Dims, Callable[[str], Any]], Mapping[str, Any]]:
    def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
        layers = [dims.at(layer) for layer in range(hidden_layers(dims)["num_hidden_layers"])]
        letters = ("*" if is_attention(at) else letter if _is_wide(at) else "M" for at in layers)
        return {
            "mlp_hidden_act": "relu2",
            "mamba_hidden_act": "silu",
            "mamba_head_dim": head_width(dims),
            "hybrid_override_pattern": "".join(letters),
            **hidden_layers(dims),
        }

    return config


class _Narrow(Change):
    """The values of a router that the converter does not know by its name, and makes small."""

    narrows = True


_NARROW = _Narrow()


def _heads_of(config: Config) -> list[bool]:
    return [kind == "*" for kind in _pattern(config)] + [True] * (_next(config) or 0)


def _layers(prefix: str, *layer: Rows) -> Rows:
    """Return the rows of a model; ``layer`` are those of a feed-forward part."""
    return join_rows(
        row(f"{prefix}embeddings", "token_embd", "vocab embd", bias=False),
        row(f"{prefix}norm_f", "output_norm", "embd", bias=False),
        OUTPUT,
        in_layers(
            lambda dims: not is_next(dims),
            block(
                f"{prefix}layers.{{i}}.",
                row("norm", "attn_norm", "embd", bias=False),
                in_layers(
                    lambda dims: not is_attention(dims) and not _is_wide(dims),
                    mixer("mixer."),
                    mixer_norm("mixer.norm"),
                ),
                in_layers(is_attention, _ATTENTION),
                in_layers(_is_wide, *layer),
            ),
        ),
    )


_ATTENTION = attention("mixer.", Permuted("head"), Permuted("head_kv"))


def _nemotron(
    name: str, letter: str, keys: tuple[KeyRow, ...], rows: Rows, field: str
) -> Architecture:
    is_moe = letter == "E"
    return Architecture(
        name,
        ("NemotronHForCausalLM",),
        "nemotron_h",
        with_keys(
            GRANITE.keys,
            computed(
                "block_count",
                "u32",
                lambda config: len(_pattern(config)) + (_next(config) or 0),
                "num_hidden_layers",
            ),
            always("context_length", "u32", 1 << 20),
            computed("feed_forward_length", "i32[]", _width, _widest(field)),
            u32("attention.key_length", "head_dim", "attention_head_dim"),
            u32("attention.value_length", "head_dim", "attention_head_dim"),
            heads_where(_heads_of),
            always("rope.scaling.finetuned", "bool", value=False),
            *ssm_keys("conv_kernel", "ssm_state_size", "n_groups", "mamba_num_heads", _inner),
            *keys,
        ),
        rows,
        prefix="backbone.",
        skips=lambda name, config: name.startswith("mtp.") and not _next(config),
        accepts=(lambda config: config.get("num_experts_per_tok") is not None) if is_moe else None,
        defaults=default_fields(
            1 << 18, rms_norm_eps=1e-5, layer_norm_epsilon=1e-5, rope_theta=None
        ),
        checks=(only(_NEXT, 0, 1),) if is_moe else (),
        dims={
            **SSM_DIMS,
            **NEXT_DIMS,
            "latent": lambda dims: dims.key("moe_latent_size", dims["embd"]),
        },
        renamed=lambda name: name.replace("model.layers.", "backbone.layers.", 1),
        config=_config(letter),
    )


NEMOTRON_H = _nemotron(
    "nemotron_h",
    "-",
    (),
    _layers(
        "backbone.",
        row("mixer.up_proj", "ffn_up", "ff embd"),
        row("mixer.down_proj", "ffn_down", "embd ff"),
    ),
    "intermediate_size",
)


def _experts(router: Change = SAME) -> Rows:
    return join_rows(
        row("mixer.gate", "ffn_gate_inp", "expert embd", router, bias=False),
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


_MOE = _experts()
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
        computed("nextn_predict_layers", "u32", _next, _NEXT),
    ),
    join_rows(
        _layers("backbone.", _MOE),
        in_layers(
            is_next,
            block(
                "mtp.layers.0.",
                row("enorm", "nextn.enorm", "embd", bias=False),
                row("hnorm", "nextn.hnorm", "embd", bias=False),
                row("eh_proj", "nextn.eh_proj", "embd 2embd", bias=False),
                row("norm", "attn_norm", "embd", bias=False),
                _ATTENTION,
            ),
            block(
                "mtp.layers.1.",
                row("norm", "post_attention_norm", "embd", bias=False),
                row("final_layernorm", "nextn.shared_head_norm", "embd", bias=False),
                _experts(_NARROW),
            ),
        ),
    ),
    "moe_intermediate_size",
)


def _name_in_puzzle(name: str) -> str:
    return name.replace("backbone.", "model.", 1).replace(
        "score_correction.b", "score_correction_b"
    )


def _puzzle(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    layers = [dims.at(layer) for layer in range(dims.key("block_count"))]
    return {
        "mlp_hidden_act": "relu2",
        "mamba_hidden_act": "silu",
        "mamba_head_dim": head_width(dims),
        _BLOCKS: [_block(layer) for layer in layers],
    }


def _block(dims: Dims) -> dict[str, Any]:
    if not _is_wide(dims):
        return {"block_type": "attention" if is_attention(dims) else "mamba"}
    numbers = {field: dims.key(key) for key, field in _OF_BLOCKS if key != "feed_forward_length"}
    return {"block_type": "moe", **numbers}


_OF_BLOCKS = (
    ("feed_forward_length", "moe_intermediate_size"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_used_count", "num_experts_per_tok"),
)
NEMOTRON_H_PUZZLE = replace(
    NEMOTRON_H_MOE,
    classes=("NemotronHPuzzleForCausalLM",),
    model_type="nemotron_h_puzzle",
    keys=with_keys(
        NEMOTRON_H_MOE.keys,
        *(
            computed(key, "i32[]", _number_of_each(field), lambda _: {})
            for key, field in _OF_BLOCKS
        ),
    ),
    rows=_layers("model.", _MOE),
    prefix="model.",
    skips=lambda name, config: name.startswith("mtp."),
    accepts=None,
    fits=lambda dims: isinstance(dims.keys.get("expert_used_count"), list),
    checks=(),
    renamed=_name_in_puzzle,
    config=_puzzle,
)
