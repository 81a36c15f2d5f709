"""Every class of the table: a small folder becomes a GGUF that llama.cpp loads, and comes back."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import hf_models
import pytest
from forked import forked
from model_folders import write_folder
from reference_logits import loads
from support import reference

from mtkit.architectures import architectures
from mtkit.architectures.config import class_named
from mtkit.checkpoints import model_folder
from mtkit.conversion.folder_writer import convert_to_folder
from mtkit.conversion.model import convert_model
from mtkit.gguf import open_gguf
from mtkit.gguf.digests import digests

_LFM2 = {
    "layer_types": ["conv", "full_attention"],
    "conv_L_cache": 3,
    "block_auto_adjust_ff_dim": False,
}
_T5 = {
    "d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 2, "num_decoder_layers": 2,
    "num_heads": 4, "feed_forward_proj": "gated-gelu",
}  # fmt: skip
_LATENT = {"q_lora_rank": 24, "kv_lora_rank": 32, "num_hidden_layers": 3}
_ROUTED = {
    "n_routed_experts": 2, "n_shared_experts": 1, "moe_intermediate_size": 32,
    "first_k_dense_replace": 1, "num_hidden_layers": 3, "head_dim": 16,
}  # fmt: skip
_SEES = {"rope_scaling": {"rope_type": "default", "mrope_section": [2, 3, 3]}, "head_dim": 16}
_LLAMA_4 = {
    "intermediate_size": 32, "intermediate_size_mlp": 96, "interleave_moe_layer_step": 2,
    "head_dim": 16,
}  # fmt: skip
_LINEAR = {
    "num_hidden_layers": 4, "head_dim": 16, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32, "mtp_num_hidden_layers": 1,
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "Llama4ForCausalLM": {
        "intermediate_size": 32,
        "intermediate_size_mlp": 96,
        "interleave_moe_layer_step": 2,
        "head_dim": 16,
    },
    "Qwen2VLForConditionalGeneration": _SEES,
    "Qwen3VLForConditionalGeneration": _SEES,
    "Qwen3VLMoeForConditionalGeneration": {**_SEES, "moe_intermediate_size": 32},
    "Qwen3NextForCausalLM": _LINEAR,
    "Qwen3_5ForCausalLM": _LINEAR,
    "Qwen3_5ForConditionalGeneration": _LINEAR,
    "Qwen3_5MoeForConditionalGeneration": _LINEAR,
    "Qwen3_5MoeForCausalLM": _LINEAR,
    "AfmoeForCausalLM": {
        "num_shared_experts": 1,
        "num_dense_layers": 1,
        "moe_intermediate_size": 32,
        "head_dim": 16,
    },
    "DeepseekForCausalLM": _ROUTED,
    "Dots1ForCausalLM": {**_ROUTED, "num_key_value_heads": 4},
    "Glm4MoeForCausalLM": {**_ROUTED, "num_nextn_predict_layers": 1},
    "DeepseekV2ForCausalLM": _LATENT,
    "Mistral4ForCausalLM": {
        **_LATENT,
        "n_routed_experts": 2,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "vocab_size": 8000,
    },
    "DeepseekV3ForCausalLM": _LATENT,
    "PlamoForCausalLM": {"hidden_size": 160, "num_attention_heads": 10},
    "Glm4ForCausalLM": {"head_dim": 32, "eos_token_id": [5, 7, 9]},
    "InternLM2ForCausalLM": {"bias": False},
    "Lfm2MoeForCausalLM": {**_LFM2, "moe_intermediate_size": 32, "num_dense_layers": 1},
    "OlmoeForCausalLM": {"num_key_value_heads": 4},
    "Lfm2ForCausalLM": _LFM2,
    "LFM2ForCausalLM": _LFM2,
    "T5ForConditionalGeneration": _T5,
    "T5WithLMHeadModel": _T5,
    "MT5ForConditionalGeneration": _T5,
    "UMT5ForConditionalGeneration": _T5,
    "UMT5Model": _T5,
    "T5EncoderModel": _T5,
    **hf_models.fields_of("hf_cases_hybrids.json.xz"),
    **hf_models.fields_of("hf_cases_rest.json.xz"),
}
"""Class -> fields of config.json that it asks for besides those of ``model_folders``."""
HEAD = "lm_head.weight"
OPTIONAL: dict[str, tuple[str, ...]] = {
    "BertForSequenceClassification": (".bias", "pooler"),
    "DistilBertModel": (".bias",),
    "DistilBertForSequenceClassification": (".bias",),
    "CamembertModel": (".bias",),
    "JinaBertModel": (".bias",),
    "JinaBertForMaskedLM": (".bias",),
    "Glm4ForCausalLM": (HEAD, "_proj.bias"),
    "Glm4MoeForCausalLM": (HEAD, "_norm", "embed_tokens", "shared_head.head"),
    "OrionForCausalLM": (HEAD, "norm.bias"),
    "Lfm2MoeForCausalLM": ("expert_bias",),
    "PhiMoEForCausalLM": (HEAD, ".bias"),
    "RobertaForSequenceClassification": (".bias", "pooler"),
    "RobertaModel": (".bias",),
}
"""Class -> parts of names of tensors that its rows call optional and a model of it has."""
CONVERTED = {
    "Glm4ForCausalLM": "18e189f7a9b60fc642738559d3b896cd5071a051abda5e01a4bfa0180ceb2146",
    "InternLM2ForCausalLM": "292be42a3e554e8dd8c4809fff646c09e760ded0542bd34646768979d9242db2",
}
"""Class that no case of hf-models has -> SHA-256 of the lines NAME SHA-256, sorted, of the tensors
that llama.cpp's converter makes of the folder."""
LOSSES = ("ids", "ids-possible")
"""Of the fixtures' tokenizer, which is no model's."""
PREFIXES = ("roberta.", "bert.")
"""Names in front that mean the same."""
LEFT_OUT = {"position_embeddings.weight": "Roberta", "lm_head.weight": "Mamba"}
"""Ends of tensors -> part of the class of whose models a GGUF holds less: positions of padding, a
head that is the embedding."""


def _without_own_case() -> list[str]:
    """Return the classes but for those that go and come back in test_hf_models.py."""
    cases = hf_models.cases_with_parts().values()
    known = {class_named(case["files"]["config.json"]) for case in cases}
    own = hf_models.own_cases().keys() - CASES.keys()
    return sorted(
        name
        for name, architecture in architectures().items()
        if name not in own and not known.intersection(architecture.classes)
    )


@pytest.mark.parametrize("name", _without_own_case())
def test_a_class_goes_and_comes_back(name: str, tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "model", name, config=CASES.get(name), optional=OPTIONAL.get(name, (HEAD,))
    )
    done = convert_model(folder, tmp_path / "model.gguf", allow_loss=LOSSES)
    architecture = architectures()[name]
    assert done.model is not None
    assert done.model.architecture == architecture.name
    back = convert_to_folder(done.path, tmp_path / "back", allow_loss=LOSSES)
    before, after = (model_folder.read(str(path)) for path in (folder, back.path))
    named = class_named(after.config)
    assert architectures()[named].name == architecture.name
    wanted, found = _data(before, name), _data(after, name)
    if named != name:  # a GGUF does not tell these classes apart, which differ in names
        wanted, found = (dict(enumerate(sorted(one.values()))) for one in (wanted, found))
    assert found == wanted


@pytest.mark.parametrize("name", CONVERTED)
def test_tensors_are_the_converters(name: str, tmp_path: Path) -> None:
    """What moves a row to a wrong place and back again is seen here alone."""
    folder = write_folder(
        tmp_path / "model", name, config=CASES.get(name), optional=OPTIONAL.get(name, (HEAD,))
    )
    done = convert_model(folder, tmp_path / "model.gguf", allow_loss=LOSSES)
    found = digests([open_gguf(done.path)], ["sha256"])
    lines = sorted(f"{tensor} {digest}\n" for _, digest, tensor in found if tensor)
    assert sha256("".join(lines).encode()).hexdigest() == CONVERTED[name]


def test_the_second_id_that_ends_a_text_ends_a_turn(tmp_path: Path) -> None:
    """llama.cpp does not know the one of GLM-4 by its spelling, and would not stop there."""
    name = "Glm4ForCausalLM"
    folder = write_folder(tmp_path / "model", name, config=CASES[name])
    done = convert_model(folder, tmp_path / "model.gguf", allow_loss=LOSSES)
    assert open_gguf(done.path).metadata["tokenizer.ggml.eot_token_id"] == 7


def _data(folder: model_folder.ModelFolder, class_name: str) -> dict[Any, tuple[str, bytes]]:
    """Return name -> type and bytes of the tensors that a GGUF holds."""
    found = {}
    for name, one in folder.tensors.items():
        for prefix in PREFIXES:
            name = name.removeprefix(prefix)
        is_left = any(name.endswith(end) and part in class_name for end, part in LEFT_OUT.items())
        if not is_left:
            found[name] = one.weight.type, bytes(one.data)
    return found


def _without_a_case() -> list[str]:
    """Return a class of each architecture that no case of hf-models has: llama.cpp runs those."""
    known = {class_named(case["files"]["config.json"]) for case in hf_models.known().values()}
    found = {id(one): one.classes for one in architectures().values()}
    return sorted(classes[0] for classes in found.values() if not known.intersection(classes))


@pytest.mark.parametrize("name", _without_a_case())
def test_llama_cpp_loads_a_class(name: str, tmp_path: Path) -> None:
    """It looks for the tensors that it needs, and refuses any besides."""
    reference("llama_cpp")
    folder = write_folder(
        tmp_path / "model", name, config=CASES.get(name), optional=OPTIONAL.get(name, (HEAD,))
    )
    done = convert_model(folder, tmp_path / "model.gguf", allow_loss=LOSSES)
    is_loaded, _ = forked(lambda: loads(done.path))  # llama.cpp may abort
    assert is_loaded
