"""Hyper-parameters of a model, by the names that llama.cpp's loader gives them.

The keys begin with the architecture's name (``llama.block_count``). Where a file leaves one out,
llama.cpp derives it from others; such values are marked as derived.
Source: llama-arch.cpp (key names), llama-model.cpp ``load_hparams`` (defaults).
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.gguf import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.gguf import GgufFile


class HyperParameter(Record):
    """One hyper-parameter.

    Attributes:
        name: llama.cpp's name for it.
        label: The same for people.
        value: int, float, bool, str or a list with one value for each layer.
        key: Key of the metadata; empty where the value is derived.
    """

    name: str
    label: str
    value: Any
    key: str


MOST_LAYERS = 4096
"""A longer array is not a list of values by layer (llama.cpp's limit is 512)."""

# llama.cpp's name, key behind the architecture, label.
_TABLE = (
    ("n_layer", "block_count", "layers"),
    ("n_embd", "embedding_length", "embedding"),
    ("n_ff", "feed_forward_length", "feed-forward"),
    ("n_head", "attention.head_count", "heads"),
    ("n_head_kv", "attention.head_count_kv", "key/value heads"),
    ("n_embd_head_k", "attention.key_length", "key length"),
    ("n_embd_head_v", "attention.value_length", "value length"),
    ("n_ctx_train", "context_length", "context"),
    ("n_rot", "rope.dimension_count", "rope dimensions"),
    ("rope_freq_base_train", "rope.freq_base", "rope base"),
    ("rope_scaling_type_train", "rope.scaling.type", "rope scaling"),
    ("rope_scaling_factor", "rope.scaling.factor", "rope scaling factor"),
    ("n_ctx_orig_yarn", "rope.scaling.original_context_length", "context before scaling"),
    ("f_norm_eps", "attention.layer_norm_epsilon", "norm epsilon"),
    ("f_norm_rms_eps", "attention.layer_norm_rms_epsilon", "RMS norm epsilon"),
    ("n_swa", "attention.sliding_window", "sliding window"),
    ("causal_attn", "attention.causal", "causal"),
    ("f_attention_scale", "attention.scale", "attention scale"),
    ("f_clamp_kqv", "attention.clamp_kqv", "QKV clamp"),
    ("f_max_alibi_bias", "attention.max_alibi_bias", "ALiBi bias"),
    ("n_lora_q", "attention.q_lora_rank", "query LoRA rank"),
    ("n_lora_kv", "attention.kv_lora_rank", "key/value LoRA rank"),
    ("n_expert", "expert_count", "experts"),
    ("n_expert_used", "expert_used_count", "experts used"),
    ("n_expert_shared", "expert_shared_count", "shared experts"),
    ("n_ff_exp", "expert_feed_forward_length", "expert feed-forward"),
    ("n_ff_shexp", "expert_shared_feed_forward_length", "shared expert feed-forward"),
    ("n_layer_dense_lead", "leading_dense_block_count", "leading dense layers"),
    ("f_logit_scale", "logit_scale", "logit scale"),
    ("f_embedding_scale", "embedding_scale", "embedding scale"),
    ("f_residual_scale", "residual_scale", "residual scale"),
    ("f_attn_logit_softcapping", "attn_logit_softcapping", "attention softcap"),
    ("f_final_logit_softcapping", "final_logit_softcapping", "final softcap"),
    ("pooling_type", "pooling_type", "pooling"),
    ("ssm_d_conv", "ssm.conv_kernel", "SSM convolution"),
    ("ssm_d_inner", "ssm.inner_size", "SSM inner size"),
    ("ssm_d_state", "ssm.state_size", "SSM state"),
    ("ssm_dt_rank", "ssm.time_step_rank", "SSM time step rank"),
    ("ssm_n_group", "ssm.group_count", "SSM groups"),
    ("wkv_head_size", "wkv.head_size", "WKV head size"),
    ("dec_n_layer", "decoder_block_count", "decoder layers"),
    ("n_vocab", "vocab_size", "vocabulary"),
)
_LABELS = {name: label for name, _, label in _TABLE}
ROPE_FREQ_BASE = 10000.0
"""llama.cpp's default where the file has no ``rope.freq_base``."""


def hyperparameters(file: GgufFile) -> tuple[HyperParameter, ...]:
    """Return the hyper-parameters of a model in the loader's order; empty without architecture."""
    metadata = file.metadata
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        return ()
    found: dict[str, HyperParameter] = {}
    for name, suffix, label in _TABLE:
        key = f"{architecture}.{suffix}"
        if key in metadata:
            found[name] = HyperParameter(name, label, _plain(metadata[key]), key)
    for name, value in _derived(found, file):
        if name not in found:
            found[name] = HyperParameter(name, _LABELS[name], value, "")
    return tuple(found[name] for name, _, _ in _TABLE if name in found)


def count(values: tuple[HyperParameter, ...], name: str) -> int | None:
    """Return a hyper-parameter that is one positive whole number, or None."""
    for item in values:
        if item.name == name and type(item.value) is int and item.value > 0:
            return item.value
    return None


def _plain(value: Any) -> Any:
    if not isinstance(value, GgufArray):
        return value
    return list(value) if len(value) <= MOST_LAYERS else f"{len(value)} values"


def _derived(found: dict[str, HyperParameter], file: GgufFile) -> list[tuple[str, Any]]:
    values = tuple(found.values())
    derived: list[tuple[str, Any]] = []
    if "n_head" in found:
        derived.append(("n_head_kv", found["n_head"].value))
        width, heads = count(values, "n_embd"), count(values, "n_head")
        if width and heads:
            derived += [(name, width // heads) for name in ("n_embd_head_k", "n_embd_head_v")]
    if "n_rot" in found:
        derived.append(("rope_freq_base_train", ROPE_FREQ_BASE))
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, GgufArray):
        derived.append(("n_vocab", len(tokens)))
    return derived
