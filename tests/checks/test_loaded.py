"""``check`` finds what llama.cpp's loader refuses, asked llama.cpp itself, and nothing else.

Models of the shared folder's architectures with one thing wrong, of the kinds that loaders are
most often said to refuse: a tensor is missing, has another shape or type, or is of no use; an array
has not a number for each layer, or 0 heads in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import hf_models
import pytest
from loading import Loading
from model_folders import write_folder
from support import reference

from mtkit.architectures import architectures_of_name
from mtkit.architectures.tensor_match import recognize
from mtkit.checks import check, loader
from mtkit.conversion.model import convert_model
from mtkit.gguf import GgufFile, open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.file import Tensor
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor

STOPS = ("llama.cpp gives up", "requires ctx_other")
"""llama.cpp loads a model and aborts while it computes, or needs another model beside it."""
TRUE_FINDINGS = {"LLaDAMoEModelLM": "gguf-id-range"}
"""The converter writes the mask token of the published vocabulary, beyond a small one."""
ENDLESS = ("Plamo2ForCausalLM", "PLaMo2ForCausalLM")
"""llama.cpp does not come to an end when it computes these small models."""
NAMES = [name for name in hf_models.names() if name not in ENDLESS]
VOCABULARY = "phi3"
"""llama.cpp refuses the small tokenizer of this one."""
DRAWN = [name for name in NAMES if name != VOCABULARY][::2]
SIBLINGS = 20
F32 = TENSOR_TYPES[0]
TYPES = {one.name: one for one in TENSOR_TYPES.values()}
ODD_TYPES = ("F16", "BF16", "F64", "I8", "I16", "I32", "I64", "Q8_0")
MORE = (
    "blk.{}.foo.weight", "mystery.weight", "blk.{}.attn_norm_2.weight", "blk.{}.ffn_norm.bias",
    "output.bias", "blk.{}.attn_sinks.weight", "blk.{}.ssm_d", "position_embd.weight",
    "blk.{}.ffn_gate_up_exps.weight", "blk.{}.attn_qkv.weight",
)  # fmt: skip
PER_LAYER = ("attention.head_count", "attention.head_count_kv", "feed_forward_length")


@pytest.fixture(scope="module")
def llama_cpp() -> Iterator[Loading]:
    reference("llama_cpp")
    with Loading() as loading:
        yield loading


def converted(name: str, run_folder: Path) -> GgufFile:
    return open_gguf(str(hf_models.converted(run_folder, name, "f32")))


def refusal(llama_cpp: Loading, path: Path, sound: str) -> str:
    """Return why llama.cpp refuses a file, apart from what stops it for the sound one as well."""
    why = llama_cpp.refusal(path)
    return "" if any(stop in why and stop in sound for stop in STOPS) else why


def filled(tensor: Tensor, shape: tuple[int, ...], kind: Any = F32) -> NewTensor:
    count = 1
    for axis in shape:
        count *= axis
    data = b"\x3c" * (count // kind.block * kind.block_bytes)
    return NewTensor(tensor.name, shape, kind, data)


def spoiled(file: GgufFile, kind: str, rng: Random) -> tuple[Draft, str]:
    """Return a model with one thing wrong, and what."""
    draft = Draft.of(file)
    tensor = rng.choice(file.tensors)
    architecture = file.metadata["general.architecture"]
    layers = file.metadata[f"{architecture}.block_count"]
    if kind == "missing":
        del draft.tensors[tensor.name]
        return draft, tensor.name
    if kind == "shape":
        axis = rng.randrange(len(tensor.shape))
        sizes = list(tensor.shape)
        sizes[axis] = rng.choice((sizes[axis] + 32, sizes[axis] * 2, max(sizes[axis] // 2, 1)))
        draft.tensors[tensor.name] = filled(tensor, tuple(sizes))
        return draft, f"{tensor.name} {tensor.shape} {sizes}"
    if kind == "type":
        odd = TYPES[rng.choice(ODD_TYPES)]
        if tensor.shape[0] % odd.block == 0:
            draft.tensors[tensor.name] = filled(tensor, tensor.shape, odd)
        return draft, f"{tensor.name} {odd.name}"
    if kind == "surplus":
        name = rng.choice(MORE).format(rng.randrange(layers))
        if name not in draft.tensors:
            draft.tensors[name] = NewTensor(name, (8,), F32, b"\x3c" * 32)
        return draft, name
    there = [name for name in PER_LAYER if f"{architecture}.{name}" in file.metadata]
    key = f"{architecture}.{rng.choice(there)}"
    value = file.metadata[key]
    values = [value] * layers if isinstance(value, int) else list(value)
    if kind == "short":
        values.pop()
    elif kind == "long":
        values.append(values[-1])
    else:
        values[rng.randrange(layers)] = 0
    draft.set(Key(key, "u32[]", values))
    return draft, f"{key} {values}"


KINDS = ("missing", "shape", "type", "surplus", "short", "long", "zero")


@pytest.mark.parametrize("name", DRAWN)
def test_what_llama_cpp_refuses_is_found(
    name: str, llama_cpp: Loading, run_folder: Path, tmp_path: Path
) -> None:
    file = converted(name, run_folder)
    sound = llama_cpp.refusal(file.name)
    rng, target = Random(name), tmp_path / "spoiled.gguf"
    refused = set()
    for number in range(len(KINDS) + SIBLINGS):
        kind = KINDS[number % len(KINDS)]
        draft, what = spoiled(file, kind, rng)
        target.unlink(missing_ok=True)
        target.write_bytes(b"".join(draft.chunks()))
        why = refusal(llama_cpp, target, sound)
        if why:
            assert check(str(target)).exit_code == 1, (kind, what, why)
            refused.add(kind)
    assert len(refused) > 3


@pytest.mark.parametrize("name", DRAWN)
def test_a_download_that_did_not_end_is_found(name: str, run_folder: Path, tmp_path: Path) -> None:
    """Zeros from anywhere in the data to the end, as of a file whose place was kept."""
    file = converted(name, run_folder)
    last = max((one for one in file.tensors if len(one.shape) > 1), key=lambda one: one.offset)
    end = file.data_offset + last.offset
    rng, target = Random(name), tmp_path / "unfinished.gguf"
    for _ in range(5):
        start = rng.randrange(file.data_offset, end + 1)
        target.unlink(missing_ok=True)
        target.write_bytes(bytes(file.data[:start]) + bytes(len(file.data) - start))
        report = check(str(target))
        assert "data-unfinished" in {one.rule.code for one in report.findings}, start
        assert report.exit_code == 1


def test_a_trial_says_what_no_rule_knows(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference("llama_cpp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = converted(VOCABULARY, run_folder)
    assert check(file.name).exit_code == 0
    report = check(file.name, runs_on=["llama.cpp"])
    (finding,) = (one for one in report.findings if one.rule.code == "runs-model")
    assert finding.what.startswith("cannot be loaded: llama.cpp says: ")
    assert report.exit_code == 1
    sound = converted("llama-spm", run_folder)
    assert check(sound.name, runs_on=["llama.cpp"]).exit_code == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_file_has_no_finding(name: str, llama_cpp: Loading, run_folder: Path) -> None:
    """A file that llama.cpp loads has no finding; one of the converter's that it refuses has."""
    file = converted(name, run_folder)
    report = check(file.name, deep=True)
    found = [one for one in report.findings if one.rule.severity != "note"]
    found = [one for one in found if one.rule.code != TRUE_FINDINGS.get(name)]
    why = llama_cpp.refusal(file.name) if name != VOCABULARY else ""
    assert bool(found) == ("cannot be loaded" in why), (found, why)
    if found:
        pytest.skip(f"llama.cpp refuses the converter's own file: {why}")
    if any(stop in why for stop in STOPS):
        pytest.skip(f"llama.cpp loads it and cannot compute: {why}")
    assert why == ""


@pytest.mark.parametrize("name", [name for name in NAMES if name != VOCABULARY])
def test_the_rows_that_can_be_missing_are_the_loaders(
    name: str, llama_cpp: Loading, run_folder: Path, tmp_path: Path
) -> None:
    """Which of a layer's tensors llama.cpp can do without, and no finding then, else one."""
    file = converted(name, run_folder)
    sound = llama_cpp.refusal(file.name)
    shapes = {tensor.name: tensor.shape[::-1] for tensor in file.tensors}
    architecture = recognize(file.metadata, shapes).architecture
    optional = {
        tuple(re.sub(r"\{i\}", "1", part) for part in row.gguf)
        for row in architecture.rows
        if row.optional
    }
    target, there = tmp_path / "without.gguf", {tensor.name for tensor in file.tensors}
    for names in sorted(optional):
        if not there.issuperset(names):
            continue
        draft = Draft.of(file)
        for part in names:
            del draft.tensors[part]
        target.unlink(missing_ok=True)
        target.write_bytes(b"".join(draft.chunks()))
        why = refusal(llama_cpp, target, sound)
        assert check(str(target)).exit_code == (why != ""), (names, why)


CLASSES = ("LlamaForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM", "Qwen3MoeForCausalLM",
           "Gemma2ForCausalLM", "Phi3ForCausalLM", "OlmoeForCausalLM")  # fmt: skip
CODES = {rule.code for rule in loader.TENSOR_RULES}


def found(path: Path, draft: Draft) -> list[tuple[str, str]]:
    """Return code and place of what the table says of a file."""
    data = b"".join(draft.chunks())  # of the file that is mapped
    path.unlink()
    path.write_bytes(data)
    report = check(str(path))
    assert loader.TENSORS_PART not in dict(report.skipped)
    return [(one.rule.code, one.field) for one in report.findings if one.rule.code in CODES]


@pytest.mark.parametrize("name", CLASSES)
def test_each_tensor_is_missed_and_held_to_its_shape(tmp_path: Path, name: str) -> None:
    target = tmp_path / "made.gguf"
    experts = {"moe_intermediate_size": 32}
    folder = write_folder(tmp_path / "model", name, config=experts, tokenizer="bbpe-8k")
    convert_model(folder, target, allow_loss=("ids", "ids-possible"))
    file = open_gguf(str(target))
    assert found(target, Draft.of(file)) == []
    rng, tried = Random(name), 0
    architectures = architectures_of_name(file.metadata["general.architecture"])
    rows = [row for architecture in architectures for row in architecture.rows]
    optional = {part.replace("{i}", "0") for row in rows if row.optional for part in row.gguf}
    for tensor in file.tensors:
        if tensor.name == "token_embd.weight" or tensor.block not in (None, 0):
            continue
        without = Draft.of(file)
        del without.tensors[tensor.name]
        missed = found(target, without)
        if tensor.name in optional:
            assert missed == []
        else:
            assert missed == [("model-tensor-missing", f"tensor '{tensor.name}'")]
            tried += 1
        other = Draft.of(file)
        axis = rng.randrange(len(tensor.shape))
        shape = tuple(size + 32 * (at == axis) for at, size in enumerate(tensor.shape))
        size = 4
        for one in shape:
            size *= one
        other.tensors[tensor.name] = NewTensor(tensor.name, shape, F32, bytes(size))
        if not tensor.name.endswith("ffn_up.weight"):  # loader-feed-forward speaks of it
            place = f"tensor '{tensor.name}'"
            assert ("model-tensor-shape", place) in found(target, other)
    assert tried > 5


def test_a_tensor_of_no_model_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "made.gguf"
    convert_model(write_folder(tmp_path / "model"), target)
    draft = Draft.of(open_gguf(str(target)))
    draft.tensors["blk.0.more"] = NewTensor("blk.0.more", (4,), F32, bytes(16))
    assert found(target, draft) == [("model-tensor-surplus", "tensor 'blk.0.more'")]
    assert check(str(target)).exit_code == 1


def test_what_was_not_looked_at_is_said(tmp_path: Path) -> None:
    target = tmp_path / "made.gguf"
    convert_model(write_folder(tmp_path / "model"), target)
    draft = Draft.of(open_gguf(str(target)))
    draft.set(Key("llama.attention.head_count", "u32", 3))
    target = tmp_path / "other.gguf"
    target.write_bytes(b"".join(draft.chunks()))
    report = check(str(target))
    assert [one.rule.code for one in report.findings] == ["loader-heads"]
    said = dict(report.skipped)[loader.TENSORS_PART]
    assert said == "the problems above have to be solved first"
    draft.set(Key("general.architecture", "string", "minicpm"))
    target = tmp_path / "unknown.gguf"
    target.write_bytes(b"".join(draft.chunks()))
    assert loader.TENSORS_PART in dict(check(str(target)).skipped)
