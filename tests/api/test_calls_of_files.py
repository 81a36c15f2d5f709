"""What ``mtkit`` exports that takes paths gives what the commands print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from snippets import make_files
from support import FIXTURES

import mtkit

MODEL = mtkit.__path__[0] + "/data/default-model.gguf"
KINDS = ["model.gguf", "tokenizer.json", "tokenizer.model", "tokenizer.bin", "Qwen3-0.6B",
         "Qwen3-0.6B/model.safetensors"]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_inspect_is_the_document_of_the_command(mtkit: Any, files: Path, name: str) -> None:
    from mtkit import inspect

    path = str(files / name)
    done = mtkit("inspect", path, "--json", "-q", cwd=files)
    assert inspect(path) == json.loads(done.stdout)


@pytest.mark.parametrize("name", ["model.gguf", "Qwen3-0.6B", "tokenizer.json"])
def test_check_and_compare_and_diff(files: Path, name: str) -> None:
    path = files / name
    assert mtkit.check(path).exit_code == 0
    if name != "Qwen3-0.6B":
        same = mtkit.compare(path, mtkit.load(path))
        assert same.equal
        assert same.texts > 150
    if name != "tokenizer.json":
        assert mtkit.diff(path, path, values=True).equal


def test_compare_with_texts_of_ones_own() -> None:
    one, other = FIXTURES / "spm-bpe" / "tokenizer.model", FIXTURES / "bbpe-8k" / "tokenizer.json"
    done = mtkit.compare(one, other, ["a text", "another"], most=1)
    assert (done.texts, done.different, len(done.differences)) == (2, 2, 1)
    assert done.sides == (str(one), str(other))
    assert repr(done) == f"<Comparison of {one} and {other}: 2 texts, 2 differ>"
    assert "all ids are equal" in repr(mtkit.compare(one, one, ["a"]))


def test_answers_say_in_one_line_what_they_are(files: Path) -> None:
    path = files / "model.gguf"
    assert repr(mtkit.check(path)).startswith(f"<Report on {path} (gguf): 0 findings, ")
    file = mtkit.open_gguf(path)
    number = len(file.tensors)
    assert repr(mtkit.diff(path, path)) == f"<Difference: 0 keys and 0 of {number} tensors differ>"
    first = file.tensors[0]
    assert file.tensors[first.name] is first
    assert file.tensor_data(first.name) == file.tensor_data(first)
    assert first.name in file.tensors
    assert first in file.tensors
    assert "nothing" not in file.tensors
    assert file.tensors[:2] == (first, file.tensors[1])
    with pytest.raises(KeyError, match=f"did you mean {first.name}"):
        file.tensors[f"{first.name}x"]
    assert (
        repr(first)
        == f"<Tensor {first.name!r}: {first.type.name}, {first.shape}, {first.n_bytes} bytes>"
    )
    assert repr(file.tensors).startswith(f"<Tensors: {number} by number or name, {first.name!r}")


VALUES = [
    ("general.name", "a: b", "string"),
    ("general.version", "string:x", "string"),
    ("new.text", "é\n", "string"),
    ("new.flag", True, "bool"),
    ("new.count", 7, "u32"),
    ("new.offset", -7, "i32"),
    ("new.share", 0.5, "f32"),
    ("new.texts", ["a", "b"], "string[]"),
    ("new.counts", [1, 2], "u32[]"),
    ("new.offsets", [1, -2], "i32[]"),
    ("llama.rope.freq_base", 500, "f32"),
]


@pytest.mark.parametrize(("name", "value", "kind"), VALUES, ids=[name for name, *_ in VALUES])
def test_edit_sets_values_of_python(tmp_path: Path, name: str, value: Any, kind: str) -> None:
    file = mtkit.edit(MODEL, tmp_path / "new.gguf", keys={name: value})
    stored = file.metadata[name]
    assert (stored if isinstance(value, (str, bool, int, float)) else list(stored)) == value
    assert file.metadata.type_name(name) == kind
    assert mtkit.diff(MODEL, tmp_path / "new.gguf").keys[0].key == name


def test_edit_does_what_the_command_does(tmp_path: Path) -> None:
    new = tmp_path / "new.gguf"
    file = mtkit.edit(
        MODEL,
        new,
        unset=["general.name"],
        rename_keys={"general.file_type": "x.file_type"},
        rename_tensors={"output_norm.weight": "x"},
    )
    assert "general.name" not in file.metadata
    assert "x.file_type" in file.metadata
    assert "x" in file.names
    mtkit.edit(new, keys={"general.architecture": "LLAMA"})
    assert mtkit.open_gguf(new).metadata["general.architecture"] == "LLAMA"
    with pytest.raises(mtkit.UsageError, match="already exists"):
        mtkit.edit(MODEL, new)
    with pytest.raises(mtkit.UsageError, match="in place"):
        mtkit.edit(new, keys={"new.key": "a long text " * 10})
    for value in ([], [1, "a"]):
        with pytest.raises(mtkit.UsageError, match="one type"):
            mtkit.edit(MODEL, keys={"new.key": value})  # type: ignore[dict-item]


def test_convert_takes_models_and_tokenizers(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    mtkit.convert(MODEL, folder, to="hf-model", allow_loss=["ids", "ids-possible"])
    whole = mtkit.convert(folder, tmp_path / "whole.gguf", kind="f16", allow_loss=["ids-possible"])
    assert whole.model is not None
    assert whole.model.type == "F16"
    picture = mtkit.diff(MODEL, whole.path, values=True)._repr_html_()
    assert "relative RMSE" in picture
    assert "%</span>" in picture
    alone = mtkit.convert(
        folder, tmp_path / "alone.gguf", vocab_only=True, allow_loss=["ids-possible"]
    )
    assert alone.model is None
    assert mtkit.convert(folder, tmp_path / "made.mtok", to="mtok").model is None
    with pytest.raises(mtkit.UsageError, match="not for a tokenizer") as error:
        mtkit.convert(FIXTURES / "spm-bpe" / "tokenizer.model", tmp_path / "x.mtok", kind="f16")
    assert error.value.field == "kind"
    with pytest.raises(mtkit.UsageError, match="of a GGUF"):
        mtkit.convert(mtkit.load(), to="hf-model")


def test_convert_takes_what_the_command_takes(files: Path, tmp_path: Path) -> None:
    base, adapter = files / "Qwen3-0.6B", files / "adapter"
    named = {"general.name": "Mine"}
    shards = mtkit.convert(
        base, tmp_path / "a.gguf", kind="f16", max_tensors=10, first_without_tensors=True,
        metadata=named, allow_loss=["ids-possible"],
    )  # fmt: skip
    assert len(shards.paths) > 2
    assert mtkit.open_gguf(shards.path)["general.name"] == "Mine"
    dry = mtkit.convert(
        base, tmp_path / "b-{ftype}.gguf", dry_run=True, allow_loss=["ids-possible"]
    )
    assert not dry.is_written
    assert not Path(dry.path).exists()
    checkpoint = mtkit.convert(
        files / "stories260K.bin", tmp_path / "c.gguf", tokenizer=files / "tok512.bin",
        metadata=named,
    )  # fmt: skip
    assert mtkit.open_gguf(checkpoint.path)["general.name"] == "Mine"
    merged = mtkit.convert(adapter, tmp_path / "d.gguf", base=base, kind="f32")
    assert mtkit.open_gguf(merged.path)["general.type"] == "adapter"
    wrong: list[tuple[Path, dict[str, Any]]] = [
        (adapter, {"max_bytes": 10**6}), (base, {"tokenizer": files / "tok512.bin"}),
        (base, {"base": base}), (base, {"metadata": {"general.file_type": 1}}),
        (files / "stories260K.bin", {"tokenizer": files / "tok512.bin", "kind": "f16"}),
        (files / "tokenizer.json", {"dense_modules": True}),
        (base, {"vocab_only": True, "kind": "f16"}),
    ]  # fmt: skip
    for source, arguments in wrong:
        with pytest.raises(mtkit.UsageError, match=r"is not for|is not a key"):
            mtkit.convert(source, tmp_path / "wrong.gguf", **arguments)


def test_a_tokenizer_has_a_length_and_says_what_it_is() -> None:
    path = FIXTURES / "spm-bpe" / "tokenizer.model"
    tokenizer = mtkit.load(path)
    assert len(tokenizer) == tokenizer.vocab_size
    assert repr(tokenizer) == f"<Tokenizer {path}: {len(tokenizer)} ids, spm>"
