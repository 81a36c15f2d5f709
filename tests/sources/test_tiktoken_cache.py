"""A published encoding is found by its name, or a model's, where tiktoken keeps it."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from pathlib import Path

import pytest
from support import reference

from mtkit.errors import FormatError, UsageError
from mtkit.formats import tiktoken
from mtkit.sources import encodings
from mtkit.sources.locate import locate
from mtkit.tokenizer.load import load


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.mark.parametrize("encoding", sorted(encodings._RANK_FILES))
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
    assert encodings.find_ranks(encoding) is None
    (cache / asked[0]).write_bytes(b"")
    assert encodings.find_ranks(encoding) == str(cache / asked[0])
    assert locate(encoding).path == str(cache / asked[0])
    assert locate(encoding).overrides == {
        "encoding": encoding,
        "published": True,
    }


def test_models_have_the_encoding_that_tiktoken_gives_them() -> None:
    """The tables that count without tiktoken are those of the version that is installed."""
    model = reference("tiktoken.model")
    names, beginnings = encodings.own_model_tables()
    assert names == model.MODEL_TO_ENCODING
    assert beginnings == model.MODEL_PREFIX_TO_ENCODING
    assert encodings.encoding_of("gpt-4o-mini") == "o200k_base"
    assert encodings.encoding_of("gpt2") == "gpt2"
    assert encodings.encoding_of("llama") is None
    assert encodings.encoding_of("o1x") is None


def test_without_tiktoken_its_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken.model", None)
    encodings.model_tables.cache_clear()
    try:
        assert encodings.model_encoding("gpt-5.1") == "o200k_base"
        assert encodings.model_tables() == encodings.own_model_tables()
    finally:
        encodings.model_tables.cache_clear()


def test_the_older_variable_counts_too(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(cache))
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    (cache / encodings._RANK_FILES["cl100k_base"]).write_bytes(b"")
    assert encodings.find_ranks("cl100k_base") is not None


@pytest.mark.parametrize("name", ["cl100k_base", "gpt2", "gpt-4", "o200k_harmony"])
def test_only_the_published_ranks_are_taken(
    name: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache's default folder is one in /tmp that anybody can have made."""
    ranks = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))
    encoding = str(encodings.encoding_of(name))
    small = tiktoken.Encoding(".+", {})
    monkeypatch.setitem(tiktoken.ENCODINGS, encoding, lambda: small)
    path = cache / encodings._RANK_FILES[encoding]
    digest = hashlib.sha256(ranks).hexdigest()
    monkeypatch.setitem(tiktoken._FILES, digest, (encoding,))
    path.write_bytes(ranks)
    assert load(name).encode("a").ids == [97]
    more = b"aGU= 256\n"
    for forged in (
        ranks + more,
        ranks[: -len(b"/w== 255\n")],
        ranks.replace(b"YQ== 97", b"Yg== 97"),
    ):
        path.write_bytes(forged)
        with pytest.raises(FormatError, match=f"is not the published rank file of {encoding}"):
            load(name)
    path.write_bytes(ranks + more)
    assert load(path, overrides={"encoding": encoding}).encode("he").ids == [256]


@pytest.mark.parametrize("published", sorted(encodings._RANK_FILES))
def test_the_hashes_are_those_that_tiktoken_expects(
    published: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = reference("tiktoken_ext.openai_public")
    asked: list[str] = []
    monkeypatch.setattr(
        registry, "load_tiktoken_bpe", lambda _, expected_hash: asked.append(expected_hash) or {}
    )
    getattr(registry, "r50k_base" if published == "gpt2" else published)()
    assert published in tiktoken._FILES[asked[0]]


@pytest.mark.usefixtures("cache")
def test_what_would_fetch_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="lacks the encoding o200k_base") as caught:
        load("gpt-4o")
    assert 'tiktoken.get_encoding("o200k_base")' in caught.value.hint
    with pytest.raises(UsageError, match="download=True"):
        load("gpt2")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt-4o").mkdir()
    with pytest.raises(UsageError, match="is an empty folder"):
        load("gpt-4o")
    assert os.path.exists("gpt-4o")
