"""What a written GGUF says besides the vocabulary: names, and what was assumed for it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from support import FIXTURES, shared_tokenizer

import mtkit
from mtkit.formats import gguf
from mtkit.formats.contract import WriteOptions
from mtkit.gguf import open_gguf
from mtkit.spec import ChatTemplate, replace

if TYPE_CHECKING:
    from pathlib import Path

BBPE = FIXTURES / "bbpe-8k"


def test_named_templates_are_listed(tmp_path: Path) -> None:
    """As the converter of llama.cpp lists them: the default one has no name."""
    templates = tuple(ChatTemplate(name, f"{name}!") for name in ("tool_use", "default", "rag"))
    spec = replace(mtkit.load(BBPE / "tokenizer.json").spec, chat_templates=templates)
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf.write(spec, WriteOptions()).files[".gguf"])
    metadata = open_gguf(path).metadata
    assert list(metadata["tokenizer.chat_templates"]) == ["rag", "tool_use"]
    assert metadata["tokenizer.chat_template.rag"] == "rag!"
    assert metadata["tokenizer.chat_template"] == "default!"
    assert sorted(mtkit.load(path).spec.chat_templates, key=lambda one: one.name) == sorted(
        templates, key=lambda one: one.name
    )


def test_without_named_templates_there_is_no_list(tmp_path: Path) -> None:
    mtkit.convert(BBPE, tmp_path / "x.gguf")
    assert "tokenizer.chat_templates" not in open_gguf(tmp_path / "x.gguf").metadata


@pytest.mark.parametrize(
    ("said", "name"),
    [("Qwen/Qwen3-0.6B", "Qwen3-0.6B"), ("gpt2", "gpt2"), ("/home/me/model", ""), ("./here/x", ""),
     ("", ""), (3, ""), ("a/b/c", ""), ("x/..", "")],
)  # fmt: skip
def test_the_name_is_the_one_that_the_configuration_says(
    said: object, name: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(BBPE, tmp_path / "folder")
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "name_or_path": said}))
    mtkit.convert(folder, tmp_path / "x.gguf")
    assert open_gguf(tmp_path / "x.gguf").metadata["general.name"] == name
    again = mtkit.convert(folder, f"{tmp_path}/again/", to="hf")
    kept = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert kept["name_or_path"] == said, again


def test_a_repository_of_the_cache_gives_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    shutil.copytree(BBPE, tmp_path / "hub" / "models--Own--tiny-v2" / "snapshots" / "0a")
    mtkit.convert("Own/tiny-v2", tmp_path / "x.gguf")
    assert open_gguf(tmp_path / "x.gguf").metadata["general.name"] == "tiny-v2"


def test_what_the_source_does_not_say_is_listed_as_assumed(tmp_path: Path) -> None:
    done = mtkit.convert(BBPE, tmp_path / "x.gguf")
    metadata = open_gguf(tmp_path / "x.gguf").metadata
    pre, architecture = metadata["tokenizer.ggml.pre"], metadata["general.architecture"]
    assert f'pre-tokenizer named "{pre}" (its rules are the same)' in done.assumptions
    assert f'architecture "{architecture}" (the tokenizer names none)' in done.assumptions
    again = mtkit.convert(tmp_path / "x.gguf", tmp_path / "y.gguf")
    assert not [said for said in again.assumptions if "architecture" in said]


@pytest.mark.parametrize(
    ("name", "pre"), [("gpt2", "gpt-2"), ("llama-3", "llama-bpe"), ("qwen3", "qwen2")]
)
def test_the_most_widely_known_name_is_taken(name: str, pre: str, tmp_path: Path) -> None:
    mtkit.convert(shared_tokenizer(name) / "tokenizer.json", tmp_path / "x.gguf",
                  allow_loss=("ids-possible",))  # fmt: skip
    assert open_gguf(tmp_path / "x.gguf").metadata["tokenizer.ggml.pre"] == pre
