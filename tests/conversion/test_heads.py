"""Heads are compared with the embedding; rerankers and dense layers are as the converter's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folder_additions import change_json
from model_folders import values, write_folder, write_weights
from support import FIXTURES

from mtkit.checkpoints.folder_files import MODEL_CONFIG, WEIGHTS
from mtkit.checkpoints.folder_files import tensors_of as stored_in
from mtkit.checkpoints.safetensors import NewWeight, file_chunks
from mtkit.conversion.model import convert_model, plan_gguf
from mtkit.errors import MtkitError, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.values import encode_values

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
F32 = next(kind for kind in TENSOR_TYPES.values() if kind.name == "F32")
LOSSES = ("ids", "ids-possible")


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change the values of the tensors of a folder; they are written as F32."""
    arrays = {one.weight.name: one.floats() for one in stored_in(str(path / WEIGHTS))}
    change(arrays)
    weights = []
    for name, array in arrays.items():
        data = bytes(encode_values(np.ascontiguousarray(array), F32))
        weights.append(NewWeight(name, "F32", array.shape, len(data), lambda d=data: iter((d,))))
    (path / WEIGHTS).write_bytes(b"".join(file_chunks(weights)))
    return path


def model(path: Path, architecture: str, ties: bool | None, head: str) -> Path:
    """Write a model with the head that is asked for: none, same or other."""
    config = {} if ties is None else {"tie_word_embeddings": ties}
    write_folder(path, architecture, config=config, optional=())

    def change(arrays: dict[str, Any]) -> None:
        arrays.pop(HEAD, None)
        if head != "none":
            arrays[HEAD] = arrays[EMBEDDING] * (1 if head == "same" else 2)

    return changed(path, change)


SAID = [
    ("Qwen2ForCausalLM", True, "other", "lm_head.weight differs"),
    ("LlamaForCausalLM", True, "other", "lm_head.weight differs"),
    ("HunYuanDenseV1ForCausalLM", True, "other", "lm_head.weight differs"),
    ("Gemma3ForCausalLM", None, "other", "lm_head.weight differs"),
    ("Qwen2ForCausalLM", False, "none", "tie_word_embeddings is false"),
    ("MistralForCausalLM", None, "none", "tie_word_embeddings is not set"),
    ("Qwen2ForCausalLM", True, "same", ""),
    ("Qwen2ForCausalLM", True, "none", ""),
    ("Qwen2ForCausalLM", None, "other", ""),
    ("Gemma3ForCausalLM", False, "other", ""),
    ("GemmaForCausalLM", True, "same", ""),
    ("Gemma2ForCausalLM", None, "none", ""),
    ("CohereForCausalLM", None, "same", ""),
]


@pytest.mark.parametrize(("architecture", "ties", "head", "said"), SAID)
def test_a_head_that_contradicts_the_config_is_said(
    tmp_path: Path, architecture: str, ties: bool | None, head: str, said: str
) -> None:
    plan = plan_gguf(str(model(tmp_path / "model", architecture, ties, head)))
    notes = [note for note in plan.folder_notes if HEAD in note]
    assert len(notes) == bool(said), plan.folder_notes
    assert said in "".join(notes)
    names = [tensor.name for tensor in plan.tensors()]
    is_copied = (architecture, head) == ("Qwen2ForCausalLM", "same")  # as the converter does
    assert ("output.weight" in names) == (head == "other" or is_copied)


@pytest.mark.parametrize("ties", [True, False, None])
@pytest.mark.parametrize(
    "architecture", ["GemmaForCausalLM", "Gemma2ForCausalLM", "CohereForCausalLM"]
)
def test_a_head_without_a_place_is_refused(
    tmp_path: Path, architecture: str, ties: bool | None
) -> None:
    path = model(tmp_path / "model", architecture, ties, "other")
    with pytest.raises(UnsupportedError, match=HEAD):
        plan_gguf(str(path))


def reranker(path: Path, ties: bool = True, **config: object) -> Path:
    fields = {"tie_word_embeddings": ties, "head_dim": 16, **config}
    optional = () if ties else (HEAD,)
    architecture = "Qwen3ForCausalLM"
    write_folder(path, architecture, config=fields, optional=optional, tokenizer="bbpe-8k")
    return path


@pytest.mark.parametrize("name", ["GemmaForCausalLM", "Gemma2ForCausalLM", "CohereForCausalLM"])
@pytest.mark.parametrize("ties", [None, True, False])
def test_a_missing_head_without_a_place(tmp_path: Path, name: str, ties: bool | None) -> None:
    config = {} if ties is None else {"tie_word_embeddings": ties}
    path = write_folder(tmp_path / "model", name, config=config, optional=(), tokenizer="")
    heads = [note for note in plan_gguf(str(path)).folder_notes if "lm_head" in note]
    assert bool(heads) == (ties is False)


@pytest.mark.parametrize("sign", ["card", "name", "folder", "class"])
@pytest.mark.parametrize("ties", [True, False])
def test_a_reranker_by_each_of_its_signs(tmp_path: Path, sign: str, ties: bool) -> None:
    path = reranker(tmp_path / ("Qwen3-Reranker-4B" if sign == "folder" else "model"), ties)
    config = json.loads((path / MODEL_CONFIG).read_text())
    if sign == "card":
        (path / "README.md").write_text("---\nlicense: mit\n---\n# Qwen3-VL-Reranker of mine\n")
    config.update({"name": {"_name_or_path": "me/my-Qwen3-Reranker-0.6B"},
                   "class": {"architectures": ["Qwen3ForSequenceClassification"]},
                   }.get(sign, {}))  # fmt: skip
    (path / MODEL_CONFIG).write_text(json.dumps(config))
    done = convert_model(path, tmp_path / "m.gguf", kind="f32")
    file = open_gguf(done.path)
    arrays = {one.weight.name: one.floats() for one in stored_in(str(path / WEIGHTS))}
    source = arrays[EMBEDDING if ties else HEAD]
    rows = np.frombuffer(file.tensor_data(file.names["cls.output.weight"]), "<f4")
    np.testing.assert_array_equal(rows.reshape(2, -1), source[[5943, 1098]])
    assert "output.weight" not in file.names
    assert file.metadata["qwen3.pooling_type"] == 4
    assert list(file.metadata["qwen3.classifier.output_labels"]) == ["yes", "no"]
    assert "{document}" in file.metadata["tokenizer.chat_template.rerank"]
    assert any("reranker" in note for note in done.model.notes)


def test_other_models_are_no_rerankers(tmp_path: Path) -> None:
    path = reranker(tmp_path / "model")
    (path / "README.md").write_text("# Qwen3\nSee also Qwen3-Reranker.\n")
    assert not plan_gguf(str(path)).folder_notes
    assert "cls.output.weight" not in {tensor.name for tensor in plan_gguf(str(path)).tensors()}


def embedder(path: Path, *kinds: str, dense: dict[str, object] | None = None) -> Path:
    """Write an EmbeddingGemma with modules behind it."""
    write_folder(path, "Gemma3TextModel", config={"head_dim": 16}, optional=())
    modules = []
    for number, kind in enumerate(("Transformer", *kinds)):
        place = f"{number}_{kind}" if number else ""
        modules.append(
            {"idx": number, "path": place, "type": f"sentence_transformers.models.{kind}"}
        )
        (path / place).mkdir(exist_ok=True)
        if kind == "Pooling":
            (path / place / MODEL_CONFIG).write_text('{"pooling_mode_mean_tokens": true}')
        if kind == "Dense":
            rows, columns = (128, 64) if number == 2 else (64, 128)
            (path / place / MODEL_CONFIG).write_text(json.dumps(dense or {}))
            write_weights(path / place / WEIGHTS, {"linear.weight": (rows, columns)}, "F32")
    (path / "modules.json").write_text(json.dumps(modules))
    return path


def test_dense_layers(tmp_path: Path) -> None:
    path = embedder(tmp_path / "model", "Pooling", "Dense", "Dense", "Normalize")
    plan = plan_gguf(str(path))
    (note,) = plan.folder_notes
    assert "'2_Dense' and '3_Dense'" in note
    assert "dense_modules=True" in note
    assert not any(tensor.name.startswith("dense") for tensor in plan.tensors())
    done = convert_model(path, tmp_path / "m.gguf", kind="f32", dense_modules=True)
    assert not done.model.notes
    file = open_gguf(done.path)
    for name, shape in (("dense_2", (128, 64)), ("dense_3", (64, 128))):
        data = np.frombuffer(file.tensor_data(file.names[f"{name}.weight"]), "<f4")
        np.testing.assert_array_equal(data.reshape(shape), values("linear.weight", shape))
        sizes = [file.metadata[f"gemma-embedding.{name}_feat_{end}"] for end in ("out", "in")]
        assert tuple(sizes) == shape


@pytest.mark.parametrize(
    ("kinds", "dense", "what"),
    [
        (("Pooling", "Dense"), {"activation_function": "torch.nn.modules.activation.Tanh"}, "Tanh"),
        (("Pooling", "Dense", "Dense", "Dense"), {}, "two dense layers"),
        (("Pooling", "Normalize", "Dense"), {}, "asks for 64"),
    ],
)
def test_dense_layers_that_llama_cpp_has_not(
    tmp_path: Path, kinds: tuple[str, ...], dense: dict[str, object], what: str
) -> None:
    path = embedder(tmp_path / "model", *kinds, dense=dense)
    assert "dense_modules=True" in plan_gguf(str(path)).folder_notes[0]
    with pytest.raises(MtkitError, match=what):
        plan_gguf(str(path), dense_modules=True)


def test_modules_of_other_kinds_are_named(tmp_path: Path) -> None:
    path = embedder(tmp_path / "model", "Pooling", "LSTM")
    assert any("LSTM" in note for note in plan_gguf(str(path)).folder_notes)


def test_what_a_client_of_sentence_transformers_does_is_said(tmp_path: Path) -> None:
    path = embedder(tmp_path / "model", "Pooling", "Normalize")
    assert not plan_gguf(str(path)).folder_notes
    (path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    (path / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}')
    change_json(path / "1_Pooling" / MODEL_CONFIG, zebra=1)
    notes = plan_gguf(str(path)).folder_notes
    assert len(notes) == 3
    assert all(any(name in note for note in notes) for name in ("zebra", "do_lower_case", "query"))
    change_json(path / "1_Pooling" / MODEL_CONFIG, pooling_mode_max_tokens=True)
    with pytest.raises(UnsupportedError, match="mean and max_tokens"):
        plan_gguf(str(path))


def test_fixtures_have_the_answers() -> None:
    import mtkit

    tokenizer = mtkit.load(FIXTURES / "bbpe-8k")
    assert [tokenizer.token_to_id(text) for text in ("yes", "no")] == [5943, 1098]
