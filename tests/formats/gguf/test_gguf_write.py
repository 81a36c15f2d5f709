"""What is written as GGUF is loaded by llama.cpp, gives its ids, and lost only what is listed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import gguf_golden as golden
import pytest
from llama import Llama
from support import FIXTURES, shared, shared_tokenizer

from mtkit.base.binary import Source, package_file
from mtkit.errors import UnsupportedError
from mtkit.formats import gguf
from mtkit.formats.contract import WriteOptions, Written
from mtkit.formats.gguf.losses import losses_of
from mtkit.formats.gguf.plan import plan_of
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, fields
from mtkit.tokenizer import comparison

READERS = {
    "tokenizer.json": "hf",
    "tokenizer.model": "spm",
    "tokenizer.bin": "llama2c",
    "rwkv_vocab_v20230424.txt": "rwkv",
    "tok512.bin": "llama2c",
    "vocab.gguf": "gguf",
}
OWN = (
    "bbpe-8k/tokenizer.json",
    "bbpe-8k/vocab.gguf",
    "spm-bpe/tokenizer.bin",
    "spm-bpe/tokenizer.json",
    "spm-bpe/tokenizer.model",
    "spm-bpe/vocab.gguf",
    "spm-unigram/tokenizer.model",
    "spm-unigram/vocab.gguf",
    "wordpiece/tokenizer.json",
    "wordpiece/vocab.gguf",
)
ALMOST = (
    "spm-unigram/tokenizer.model",  # sums of scores in another precision part ties
    "wordpiece/tokenizer.json",  # Hangul loses all but its first letter with the accents
)
PUBLISHED = (
    "chinese-llama-2/tokenizer.model",
    "deepseek-coder/tokenizer.json",
    "deepseek-v3/tokenizer.json",
    "falcon/tokenizer.json",
    "gpt2/tokenizer.json",
    "llama-2/tokenizer.json",
    "llama-2/tokenizer.model",
    "llama-3/tokenizer.json",
    "minimind/tokenizer.json",
    "phi-3-vision/tokenizer.json",
    "rwkv-world/rwkv_vocab_v20230424.txt",
    "smollm/tokenizer.json",
    "tok512/tok512.bin",
)
"""Ordinary text gets the same ids here."""
REFUSED = {
    "clip": "prefix or suffix",
    "syn-bl-prefix": "a space in front",
    "syn-split-isolated": "aeiou",
    "syn-wordlevel": "WordLevel",
    "syn-wp-nocleanup": "##",
}


def read(path: Path) -> TokenizerSpec:
    module = import_module(f"mtkit.formats.{READERS[path.name]}")
    spec: TokenizerSpec = module.read(Source.open(str(path)), {}).spec
    return spec


def written(spec: TokenizerSpec, path: Path) -> tuple[Written, TokenizerSpec]:
    result = gguf.write(spec, WriteOptions())
    (content,) = result.files.values()
    path.write_bytes(content)
    return result, gguf.read(Source.open(str(path)), {}).spec


def check_law(spec: TokenizerSpec, result: Written, back: TokenizerSpec) -> None:
    """Every field that differs is listed, and nothing else is."""
    listed = {loss.field.split(".")[0] for loss in result.losses}
    differing = {
        name
        for name in fields(spec)
        if name != "name" and getattr(spec, name) != getattr(back, name)
    }
    assert differing == listed


def check_ids(spec: TokenizerSpec, back: TokenizerSpec, path: Path, *, same: bool) -> None:
    llama = Llama(path)
    before, after = Pipeline(spec), Pipeline(back)
    for text in comparison.probe_texts():
        for add, parse in ((False, False), (True, True)):
            ids = after.encode_ids(text, add_special_tokens=add, parse_special=parse)
            assert ids == llama.encode(text.encode(), add=add, parse=parse), text
        if same and text not in spelled():
            ids = after.encode_ids(text, add_special_tokens=False, parse_special=False)
            assert ids == before.encode_ids(text, add_special_tokens=False), text
    llama.close()


def spelled() -> frozenset[str]:
    import json
    from pathlib import Path

    file = Path(package_file("probes.json"))
    return frozenset(json.loads(file.read_text(encoding="utf-8"))["spelled"])


@pytest.mark.parametrize("name", OWN)
def test_own_fixture(name: str, tmp_path: Path) -> None:
    spec = read(FIXTURES / name)
    result, back = written(spec, tmp_path / "out.gguf")
    check_law(spec, result, back)
    if name.endswith(".gguf"):
        assert result.losses == ()
    check_ids(spec, back, tmp_path / "out.gguf", same=name not in ALMOST)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_tokenizer(name: str, tmp_path: Path) -> None:
    folder, file = name.split("/")
    spec = read(shared_tokenizer(folder) / file)
    result, back = written(spec, tmp_path / "out.gguf")
    check_law(spec, result, back)
    assert not [loss for loss in result.losses if loss.code == "ids"]
    check_ids(spec, back, tmp_path / "out.gguf", same=True)


def test_composition_is_listed(tmp_path: Path) -> None:
    spec = read(shared_tokenizer("qwen3") / "tokenizer.json")
    result, back = written(spec, tmp_path / "out.gguf")
    check_law(spec, result, back)
    assert ("ids-possible", "normalizer") in {(loss.code, loss.field) for loss in result.losses}
    # The key point of that loss: decomposed text, and nothing else among ordinary texts.
    before, after = Pipeline(spec), Pipeline(back)
    import unicodedata

    for text in comparison.probe_texts():
        if text in spelled():
            continue
        same = after.encode_ids(text, add_special_tokens=False, parse_special=False) == (
            before.encode_ids(text, add_special_tokens=False)
        )
        assert same or not unicodedata.is_normalized("NFC", text), text


@pytest.mark.parametrize(
    "name", ["bert-bge", "gemma-4", "gpt-2", "llama-spm", "nomic-bert-moe", "plamo2-synth"]
)
def test_vocabulary_of_llama_cpp_is_kept_whole(name: str, tmp_path: Path) -> None:
    shared(f"gguf-vocab/ggml-vocab-{name}.gguf")
    spec = golden.load(name, {})
    result, back = written(spec, tmp_path / "out.gguf")
    assert result.losses == ()
    assert back == spec
    check_ids(spec, back, tmp_path / "out.gguf", same=False)


@pytest.mark.parametrize("name", REFUSED)
def test_what_llama_cpp_cannot_run_is_refused(name: str) -> None:
    spec = read(shared_tokenizer(name) / "tokenizer.json")
    with pytest.raises(UnsupportedError, match=REFUSED[name]):
        gguf.write(spec, WriteOptions())


def test_losses_name_every_field() -> None:
    spec = read(FIXTURES / "spm-bpe" / "tokenizer.model")
    other = read(FIXTURES / "wordpiece" / "vocab.gguf")
    names = {loss.field.split(".")[0] for loss in losses_of(other, spec, plan_of(other))}
    differing = {name for name in fields(spec) if getattr(spec, name) != getattr(other, name)} - {
        "name"
    }
    assert names == differing
