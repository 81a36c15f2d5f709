"""A folder stands for the tokenizer in it, whatever published repositories call the file."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest
from small_files import MERGES, PATTERN, sources

import mtkit
from mtkit.errors import UsageError
from mtkit.sources.hub import TOKENIZER_FILES
from mtkit.sources.locate import TOKENIZER, locate

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = [
    ("spm", "tokenizer.model"),  # Llama, Gemma
    ("spm", "spiece.model"),  # T5, ALBERT, XLNet, Pegasus
    ("spm", "sentencepiece.bpe.model"),  # XLM-R, mBART, NLLB
    ("spm", "sentencepiece.model"),  # RemBERT
    ("spm", "spm.model"),  # DeBERTa v2
    ("spm", "tokenizer.model.v3"),  # Mistral
    ("spm", "mistral_instruct_tokenizer_240323.model.v3"),
    ("spm", "ice_text.model"),  # ChatGLM
    ("tiktoken", "tiktoken.model"),  # Kimi-K2
    ("tiktoken", "tokenizer.model"),  # Llama 3
    ("tiktoken", "qwen.tiktoken"),
    ("tekken", "tekken.json"),
    ("tekken", "tekken_240911.json"),
    ("hf", "tokenizer.json"),
    ("vocab-merges", "vocab.json"),
    ("wordpiece", "vocab.txt"),
    ("rwkv", "rwkv_vocab_v20230424.txt"),
    ("mnn-text", "tokenizer.txt"),
    ("mtok", "tokenizer.mtok"),
    ("mtok", "qwen.mtok"),
    ("llama2c", "tokenizer.bin"),
    ("gguf", "ggml-vocab.gguf"),
]


def content(kind: str) -> bytes:
    files = sources()
    return bytes(next(files[key].data for key in files if key.partition(":")[0] == kind))


@pytest.mark.parametrize(("kind", "name"), PUBLISHED)
def test_a_folder_with_one_file_is_that_tokenizer(kind: str, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / name).write_bytes(content(kind))
    for other in ("config.json", "README.md", "model.safetensors"):
        (folder / other).write_bytes(b"{}")
    if kind == "vocab-merges":
        (folder / "merges.txt").write_bytes(MERGES)
    if kind == "tiktoken":
        (folder / "pattern.json").write_bytes(PATTERN)
    assert locate(str(folder)).path == str(folder / name)
    loaded = mtkit.load(folder)
    assert loaded.format_name == kind
    assert loaded.encode_ids("ab") == mtkit.load(folder / name).encode_ids("ab")


def test_what_is_looked_for_is_fetched() -> None:
    """Each name of a folder is among those that --download fetches, weights and GGUFs apart."""
    for name in TOKENIZER.files:
        plain = name.replace("*", "x")
        if name not in ("*.gguf", "tokenizer.bin"):
            assert any(fnmatchcase(plain, pattern) for pattern in TOKENIZER_FILES), name


def test_a_vocab_json_without_merges_is_not_a_tokenizer(tmp_path: Path) -> None:
    """M2M100 and speech models have one beside, or without, the SentencePiece model."""
    (tmp_path / "vocab.json").write_bytes(b'{"a": 0}')
    with pytest.raises(UsageError, match=r"looked for tokenizer\.json, .*vocab\.json"):
        locate(str(tmp_path))
    (tmp_path / "x.model").write_bytes(content("spm"))
    assert locate(str(tmp_path)).path.endswith("x.model")
