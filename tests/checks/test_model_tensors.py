"""A GGUF of each architecture has the tensors of the table, and what is wrong with one is found."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from model_folders import write_folder

from mtkit.architectures import architectures_of_name
from mtkit.checks import check, loader
from mtkit.conversion.model import convert_model
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = ("LlamaForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM", "Qwen3MoeForCausalLM",
           "Gemma2ForCausalLM", "Phi3ForCausalLM", "OlmoeForCausalLM")  # fmt: skip
F32 = TENSOR_TYPES[0]
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
