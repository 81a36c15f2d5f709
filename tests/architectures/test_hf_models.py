"""Folders of 40 architectures become what llama.cpp's converter makes of them, and come back."""

from __future__ import annotations

import hashlib
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import hf_models
import pytest
from support import reference

from mtkit.architectures import architectures
from mtkit.checkpoints import model_folder
from mtkit.conversion.folder_writer import convert_to_folder
from mtkit.conversion.model import convert_model, plan_gguf
from mtkit.errors import LossError, UnsupportedError
from mtkit.gguf import GgufFile, open_gguf
from mtkit.gguf.digests import digests

NAMES = hf_models.names()
PAGE = Path(__file__).parents[2] / "docs" / "models.md"
LOSSES = ("ids", "ids-possible")
"""Of the fixtures' tokenizers, which are not those of the models."""
COMPUTED = ("ssm_a", "A_log")
"""Ends of tensors whose last bit depends on whose exponential function it is (docs/models.md)."""
FILLED_UP = "model.embed_tokens_per_layer.weight"
"""Gemma 3n has fewer ids there, and comes back with zeros for the others."""
LEFT_OUT = {
    "pooler.dense.weight", "pooler.dense.bias", "transformer.rotary_pos_emb.inv_freq",
    "model.mtp_layers.0.eh_proj.weight",
}  # fmt: skip
"""BERT's pooler, computed frequencies and Hy4's further tokens have no place in a GGUF."""
BEHIND = (
    ".mlp.experts.bias", "decoder.weight", "decoder.bias", "vocab_layer_norm.weight",
    "vocab_layer_norm.bias", "vocab_projector.bias", "vocab_transform.weight",
    "vocab_transform.bias",
)  # fmt: skip
"""Ends of names that have no place either: heads of an encoder's training, Nomic's shared bias."""
WITH_EXPERTS = {
    "model.layers.1.shared_mlp.output_linear.weight": "blk.1.ffn_down_shexp.weight",
}
"""Name in a folder -> what the gguf package calls it where Granite 4 has experts besides."""
OWN_TOKENIZERS = dict.fromkeys(("RWKV7", "Rwkv6", "Rwkv7"), "greedy longest match") | (
    dict.fromkeys(("PLaMo", "Plamo"), "shortest path")
)
"""Beginning of a name -> why no folder is made: no tokenizer.json holds their tokenizer."""
OTHER_NAMES = (
    "DistilBertForMaskedLM", "EuroBertModel", "FalconH1", "Gemma4Unified", "JinaBertForMaskedLM",
    "JinaBertModel-code", "Lfm2Bidirectional", "Lfm2Model", "LlamaBidirectional", "LlamaModel",
    "NemotronHPuzzleForCausalLM-backbone", "NeoBERT", *OWN_TOKENIZERS,
)  # fmt: skip
"""Cases that come back with the prefix of their class, or with products as weights."""
_REQUANTIZED = "its experts of 4 bits, and what was FP8, come back in BF16"
OTHERWISE = {
    "DeepseekV4ForCausalLM": _REQUANTIZED,
    "DeepseekV4ForCausalLM-vl": _REQUANTIZED,
    "KimiK3ForConditionalGeneration": "products of tensors do not say their factors",
    "HYV4ForCausalLM-dense": "its F32 connections come back in the type of the matrices",
    "Glm5NextForConditionalGeneration": "its F32 vectors come back in the type of the matrices",
    "Qwen3OmniMoeForConditionalGeneration": "it comes back as Qwen3-VL, whose experts are stacked",
}
"""Cases that do not come back with the same bytes, and why."""
RENAMED = {
    "classifier.weight": "classifier.out_proj.weight",
    "classifier.bias": "classifier.out_proj.bias",
    "model.layers.1.mlp.expert_bias": "model.layers.1.mlp.expert_bias.bias",
    "model.layers.1.mlp.gate.expert_bias": "model.layers.1.mlp.gate.expert_bias.bias",
    "model.layers.1.moe.router_bias": "model.layers.1.moe.router_bias.bias",
    "model.layers.1.feed_forward.expert_bias": "model.layers.1.feed_forward.expert_bias.bias",
}
"""Names that the converter itself changes before it looks them up."""
UNEQUAL = frozenset({"deepseek-v3", "exaone4", "phi3", "bert", "t5"})
"""llama.cpp itself computes something else than transformers, or has no logits."""


@cache
def kept_differences() -> dict[str, str]:
    """Return the keys that the page lists as written otherwise: key -> cases, "any" or names."""
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.M)
    return {key: cases.strip() for key, cases in rows}


def is_kept(key: str, case: str) -> bool:
    cases = kept_differences().get(key)
    names = [] if cases is None else cases.replace("`", "").split(", ")
    return cases == "any" or any(fnmatchcase(case, name) for name in names)


EVERY = [(name, kind) for name in NAMES for kind in hf_models.KINDS] + [
    (name, kind) for name in hf_models.more_names() for kind in ("auto", "f32", "q8_0")
]


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_tensors_are_the_converters(name: str, kind: str) -> None:
    """Names, types, shapes and the bytes of every tensor, in the same order."""
    plan = plan_gguf(str(hf_models.folder(name)), kind)
    made = []
    for tensor in plan.tensors():
        digest = hashlib.sha256()
        for piece in tensor.pieces():
            digest.update(piece)
        made.append([tensor.name, tensor.type.name, list(tensor.shape), digest.hexdigest()])
    wanted = hf_models.case(name)["expected"][kind]["tensors"]
    made = [tensor for tensor in made if not is_kept(tensor[0], name)]
    assert sorted(map(_comparable, made)) == sorted(map(_comparable, wanted))


def _comparable(tensor: list[Any]) -> list[Any]:
    return tensor[:3] if tensor[0].endswith(COMPUTED) else tensor


NO_WAY_BACK = {"BitNetForCausalLM": "rounded to -1, 0 and 1"}
"""Case -> what is said."""
RESTATED = (
    "general.", "tokenizer.ggml.scores", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.token_type",
    "llama.attention.key_length", "llama.attention.value_length", "tokenizer.ggml.suppress_tokens",
)  # fmt: skip
"""Keys of the folder's name, and what the files of a written folder say another way."""
OWN_TOKENIZER = "b-xlmr"
"""XLM-R's SentencePiece model has other rows in transformers; its tokenizer is tested by itself."""


@pytest.mark.parametrize(
    "name", [*NAMES, *(n for n in hf_models.more_names() if not n.startswith(OWN_TOKENIZER))]
)
def test_keys_are_the_converters(name: str, run_folder: Path) -> None:
    """Keys, types and values; what is kept different is a line of docs/models.md."""
    found = hf_models.keys_of(open_gguf(str(hf_models.converted(run_folder, name))))
    wanted = hf_models.expected_keys(name, "auto")
    different = {
        key: (wanted.get(key), found.get(key))
        for key in {**wanted, **found}
        if wanted.get(key) != found.get(key) and not is_kept(key, name)
    }
    assert not different


@pytest.mark.parametrize("name", NAMES)
def test_llama_cpp_computes_what_transformers_does(name: str, run_folder: Path) -> None:
    """The 16 largest logits of the F32 file, within 0.5 % of the deviation of all of them."""
    if name in UNEQUAL:
        pytest.skip("llama.cpp computes something else than transformers for this architecture")
    case = hf_models.cases()[name].get("transformers")
    if case is None:
        pytest.skip("transformers' logits were not kept for this case")
    reference("llama_cpp")
    from reference_logits import last_logits

    logits = last_logits(str(hf_models.converted(run_folder, name, "f32")), case["ids"])
    for token, value in case["top"]:
        assert abs(logits[token] - value) <= 0.005 * case["std"], token


@pytest.mark.parametrize("name", [n for n in NAMES if n not in hf_models.cases_with_parts()])
def test_a_folder_comes_back(name: str, run_folder: Path, tmp_path: Path) -> None:
    """HF → GGUF of the same type → HF: the same bytes of every tensor."""
    if name.startswith(OTHER_NAMES):
        pytest.skip("the folder comes back with other names or numbers, and makes the same GGUF")
    if name in OTHERWISE:
        pytest.skip(OTHERWISE[name])
    source = hf_models.folder(name)
    path = hf_models.converted(run_folder, name, hf_models.own_kind(name))
    back = convert_to_folder(str(path), tmp_path / "back", allow_loss=LOSSES)
    before, after = (model_folder.read(str(path)).tensors for path in (source, back.path))
    left = {key for key in before if key in LEFT_OUT or key.endswith(BEHIND)}
    assert sorted(after) == sorted(before.keys() - left)
    for key, other in after.items():
        stored = before[key]
        if key == FILLED_UP:
            assert bytes(other.data).startswith(bytes(stored.data))
            continue
        assert (stored.weight.type, stored.weight.shape) == (other.weight.type, other.weight.shape)
        assert stored.data == other.data or key.endswith(COMPUTED), key


@pytest.mark.parametrize(
    "name",
    [n for n in NAMES if n in hf_models.cases_with_parts() or n.startswith(OTHER_NAMES)],
)
def test_a_gguf_comes_back(name: str, run_folder: Path, tmp_path: Path) -> None:
    """HF → GGUF → HF → GGUF: the same bytes of every tensor, from names of the first class."""
    kind = hf_models.own_kind(name)
    first = hf_models.converted(run_folder, name, kind)
    own = (why for start, why in OWN_TOKENIZERS.items() if name.startswith(start))
    reason = next(own, NO_WAY_BACK.get(name))
    if reason is not None:
        with pytest.raises((LossError, UnsupportedError), match=reason):
            convert_to_folder(str(first), tmp_path / "back", allow_loss=LOSSES)
        return
    back = convert_to_folder(str(first), tmp_path / "back", allow_loss=LOSSES)
    second = convert_model(back.path, tmp_path / "second.gguf", kind=kind, allow_loss=LOSSES)
    ours, again = open_gguf(str(first)), open_gguf(second.path)
    assert _tensors(again) == _tensors(ours)
    wanted, found = (hf_models.keys_of(one) for one in (ours, again))
    different = {key for key in {**wanted, **found} if wanted.get(key) != found.get(key)}
    different -= {key for key in different if key.endswith(".pooling_type")}
    assert {key for key in different if not key.startswith(RESTATED)} == set()


def _tensors(file: GgufFile) -> list[str]:
    return sorted(map(str, (one for one in digests([file], ["sha256"]) if one[-1])))


AHEAD = ("layer_output_norm", "attn_qkv")
"""Names of tensors that the converter writes for MiMo V2."""


@pytest.mark.parametrize("name", sorted(architectures()))
def test_names_are_those_of_gguf(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the table maps names as the gguf package does, where it knows them."""
    gguf = reference("gguf")
    names = dict(gguf.TensorNameMap.block_mappings_cfg)  # Arctic's names change those of all
    monkeypatch.setattr(gguf.TensorNameMap, "block_mappings_cfg", names)
    architecture = architectures()[name]
    numbers = [k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == architecture.name]
    if not numbers:
        pytest.skip(f"the released gguf package does not know {architecture.name}")
    number = numbers[0]
    known = gguf.get_tensor_name_map(number, 2)
    tensors = {gguf.TENSOR_NAMES[one] for one in gguf.MODEL_TENSORS[number]}
    for row in architecture.rows:
        for ours in row.gguf:
            stem = re.sub(r"\.(weight|bias|scale)$", "", ours).replace("{i}", "{bid}")
            # The converter is ahead of the released package, which knows these of few.
            is_ahead = ".nextn." in stem or stem.endswith(AHEAD) or row.optional
            assert stem in tensors or is_ahead, ours
        if len(row.folder) == len(row.gguf) == 1 and "{e}" not in row.folder[0]:
            _check_name(known, row.folder[0].replace("{i}", "1"), row.gguf[0].replace("{i}", "1"))


def _check_name(known: Any, theirs: str, ours: str) -> None:
    theirs = RENAMED.get(theirs, theirs)
    found = known.get_name(theirs, try_suffixes=(".weight", ".bias"))
    places = (None, ours, ours.removesuffix(".weight"), WITH_EXPERTS.get(theirs))
    assert found in places, (theirs, ours, found)
