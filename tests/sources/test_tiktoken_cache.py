"""A published encoding is found by its name, or a model's, where tiktoken keeps it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from support import reference

from mtkit.errors import UsageError
from mtkit.sources import tiktoken_cache, tiktoken_models
from mtkit.sources.locate import locate
from mtkit.tokenizer.load import load, named_encoding

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.mark.parametrize("encoding", sorted(tiktoken_cache._FILES))
def test_tiktoken_itself_finds_the_same_file(
    encoding: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is found by name is the one that the library reads for that encoding."""
    registry = reference("tiktoken_ext.openai_public")
    asked: list[str] = []

    def load_tiktoken_bpe(address: str, expected_hash: str | None = None) -> dict[bytes, int]:
        from hashlib import sha1

        asked.append(sha1(address.encode()).hexdigest())
        return {}

    monkeypatch.setattr(registry, "load_tiktoken_bpe", load_tiktoken_bpe)
    # GPT-2's are in two files of their own there; the ranks are those of r50k_base.
    getattr(registry, "r50k_base" if encoding == "gpt2" else encoding)()
    assert tiktoken_cache.find(encoding) is None
    (cache / asked[0]).write_bytes(b"")
    assert tiktoken_cache.find(encoding) == str(cache / asked[0])
    assert locate(encoding) == str(cache / asked[0])
    assert named_encoding(encoding, locate(encoding)) == {"encoding": encoding}


def test_models_have_the_encoding_that_tiktoken_gives_them() -> None:
    """The tables that count without tiktoken are those of the version that is installed."""
    model = reference("tiktoken.model")
    names, beginnings = tiktoken_models.own_tables()
    assert names == model.MODEL_TO_ENCODING
    assert beginnings == model.MODEL_PREFIX_TO_ENCODING
    assert tiktoken_cache.encoding_of("gpt-4o-mini") == "o200k_base"
    assert tiktoken_cache.encoding_of("gpt2") == "gpt2"
    assert tiktoken_cache.encoding_of("llama") is None
    assert tiktoken_cache.encoding_of("o1x") is None


def test_without_tiktoken_its_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken.model", None)
    tiktoken_models.tables.cache_clear()
    try:
        assert tiktoken_models.encoding_of_model("gpt-5.1") == "o200k_base"
        assert tiktoken_models.tables() == tiktoken_models.own_tables()
    finally:
        tiktoken_models.tables.cache_clear()


def test_the_older_variable_counts_too(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(cache))
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    (cache / tiktoken_cache._FILES["cl100k_base"]).write_bytes(b"")
    assert tiktoken_cache.find("gpt-4") is not None


@pytest.mark.usefixtures("cache")
def test_what_would_fetch_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="lacks the encoding o200k_base") as caught:
        load("gpt-4o")
    assert 'tiktoken.get_encoding("o200k_base")' in caught.value.hint
    with pytest.raises(UsageError, match="--download"):
        load("gpt2")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt-4o").mkdir()
    with pytest.raises(UsageError, match="is a folder without a tokenizer"):
        load("gpt-4o")
    assert os.path.exists("gpt-4o")
