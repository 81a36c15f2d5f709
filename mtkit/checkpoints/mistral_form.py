"""A model as Mistral publishes it: params.json and consolidated.safetensors.

Its fields and tensors get the names of transformers. The rotary pairs of queries and keys are
neighbors there, as in a GGUF, and halves apart in transformers.

Source: llama.cpp, conversion/mistral.py (``MistralModel``); transformers,
models/mistral/convert_mistral_weights_to_hf.py.
"""

from __future__ import annotations

import re
from math import prod

from mtkit.base.escape import shown
from mtkit.base.record import replace
from mtkit.checkpoints.folder_files import INDEX, TORCH_INDEX, ComputedTensor, is_weights
from mtkit.checkpoints.quantized import bits_of
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from mtkit.checkpoints.folder_files import StoredTensor

PARAMS = "params.json"
PROJECTOR = "PixtralModel"
"""llama.cpp's class of what sees beside such a model."""
INDEXES = (INDEX, TORCH_INDEX)
_WEIGHTS = re.compile(r"consolidated(-\d{5}-of-\d{5})?\.safetensors")
_FIELDS = {
    "dim": "hidden_size", "n_layers": "num_hidden_layers", "hidden_dim": "intermediate_size",
    "n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads", "head_dim": "head_dim",
    "norm_eps": "rms_norm_eps", "rope_theta": "rope_theta", "vocab_size": "vocab_size",
    "tied_embeddings": "tie_word_embeddings",
}  # fmt: skip
_LENGTHS = ("max_position_embeddings", "max_seq_len")
_OTHER = (*_LENGTHS, "llama_4_scaling", "yarn", "quantization", "vision_encoder", "model_type")
_END = 2
"""The id of </s> in all tokenizers of Mistral; their SentencePiece models have no padding."""
_USUAL_LENGTH = 32768
"""That of Mistral 7B 0.2 and 0.3, whose params.json says none."""
_NAMES = {
    "tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head",
    "attention.wq": "self_attn.q_proj", "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj",
    "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
}  # fmt: skip
_NAME = re.compile(r"(?:(layers\.\d+\.)(.+)|(.+))\.([a-z_]+)")


def weights_in(names: Collection[str]) -> list[str]:
    """Return the files of weights of a folder in this form; none where transformers reads others.

    Publishers put a config.json beside both kinds of weights; the other kind comes first.
    """
    others = any(is_weights(name) or name.endswith(INDEXES) for name in names)
    if PARAMS not in names or ("config.json" in names and others):
        return []
    return [name for name in names if _WEIGHTS.fullmatch(name)]


def config_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of transformers that those of a params.json stand for."""
    if params.get("moe") is not None:
        raise UnsupportedError(
            "describes experts, which mtkit does not read in Mistral's own form",
            field="moe",
            hint="take the model*.safetensors of the repository, with its config.json",
        )
    config = {_FIELDS.get(name, name): value for name, value in params.items()
              if name not in _OTHER and value is not None}  # fmt: skip
    config["pad_token_id"] = _END
    config["vision_config"] = params.get("vision_encoder")
    lengths = (params[name] for name in _LENGTHS if params.get(name) is not None)
    config["max_position_embeddings"] = next(lengths, _USUAL_LENGTH)
    config["architectures"], config["model_type"] = ["MistralForCausalLM"], "mistral"
    scaling, yarn = params.get("llama_4_scaling"), params.get("yarn")
    if isinstance(scaling, dict):
        config["architectures"], config["model_type"] = ["Ministral3ForCausalLM"], "ministral3"
    if isinstance(yarn, dict):
        rope = {
            "rope_type": "yarn",
            "rope_theta": params.get("rope_theta"),
            "factor": yarn.get("factor"),
            "beta_fast": yarn.get("beta"),
            "beta_slow": yarn.get("alpha"),
            "original_max_position_embeddings": yarn.get("original_max_position_embeddings"),
            "mscale_all_dim": 0.0 if yarn.get("apply_scale") else 1.0,
        }
        if isinstance(scaling, dict):
            rope["llama_4_scaling_beta"] = scaling.get("beta")
        config["rope_parameters"] = {name: v for name, v in rope.items() if v is not None}
    packed = params.get("quantization")
    if packed is not None:
        kind = packed.get("qformat_weight") if isinstance(packed, dict) else packed
        if kind != "fp8_e4m3":
            raise UnsupportedError(f"is {shown(str(kind))}", field="quantization.qformat_weight")
        config["quantization_config"] = {"quant_method": "fp8"}
    return config


def renamed(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Return the tensors under transformers' names; others, as those for pictures, as they are."""
    return {_renamed(name): stored for name, stored in tensors.items()}


def _renamed(name: str) -> str:
    match = _NAME.fullmatch(name)
    new = _NAMES.get(match[2] or match[3]) if match else None
    if match is None or new is None:
        return name
    return f"model.{match[1]}{new}.{match[4]}" if match[1] else f"{new}.{match[4]}"


def in_halves(
    tensors: Mapping[str, StoredTensor], config: Mapping[str, Any]
) -> dict[str, StoredTensor]:
    """Return tensors with the rows of queries and keys in the order of transformers."""
    heads = config.get("num_attention_heads")
    counts = {"q_proj": heads, "k_proj": config.get("num_key_value_heads", heads)}
    ordered = {}
    for name, stored in tensors.items():
        part = name.removesuffix(".weight").rpartition(".")[2]
        ordered[name] = _in_halves(stored, counts[part]) if part in counts else stored
    return ordered


def _in_halves(stored: StoredTensor, heads: Any) -> StoredTensor:
    shape = stored.weight.shape
    if type(heads) is not int or heads < 1 or not shape or shape[0] % (2 * heads):
        raise FormatError(
            f"has the shape {list(shape)}, which {shown(str(heads))} heads do not fit",
            source=stored.path,
            field=f"tensor {shown(stored.weight.name)}",
        )
    width = shape[0] // heads

    def rows(start: int, stop: int) -> Any:
        import numpy as np

        first, last = start // width * width, -(-stop // width) * width  # whole heads
        if isinstance(stored, ComputedTensor):
            bits = stored.rows(first, last)
        else:
            bits = bits_of(stored)[first:last]
        pairs = np.reshape(bits, (-1, width // 2, 2, prod(shape[1:])))
        halves = pairs.swapaxes(1, 2).reshape(last - first, *shape[1:])
        return halves[start - first : stop - first]

    return ComputedTensor(replace(stored.weight), memoryview(b""), stored.path, rows, (stored,))
