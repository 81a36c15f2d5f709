"""Vocabularies of GGUF files give what llama.cpp gives: ids, text, pieces, roles."""

import json

import gguf_golden as golden
import pytest
from support import SHARED, shared

from mtkit.errors import UnsupportedError
from mtkit.formats.gguf.roles import roles_of

VOCABULARIES = (
    "bert-bge",
    "command-r",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "nomic-bert-moe",
    "plamo2-synth",
    "qwen35",
    "rwkv-world",
    "starcoder",
)
VARIANTS = (
    "bert-bge-5",
    "bert-bge-6",
    "gemma4-as-gpt2-pre-gemma4",
    "gemma4-as-sarvam-moe",
    "gemma4-as-whitespace",
    "gemma4-as-whitespace-lower",
    "gpt-2-7",
    "gpt-2-8",
    "gpt2-as-hybriddna",
    "gpt2-as-test",
    "llama-spm-0",
    "llama-spm-1",
    "nomic-bert-moe-2",
    "nomic-bert-moe-3",
    "nomic-bert-moe-4",
)
TESTED = ("bert-bge", "command-r", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "llama-bpe",
          "llama-spm", "qwen35", "starcoder")  # fmt: skip
SEPARATOR = b"\n__ggml_vocab_test__\n"


def test_every_golden_file_is_named_here() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in golden.golden_files()} == {
        *VOCABULARIES
    }
    assert {path.name.removesuffix(".jsonl.gz") for path in golden.golden_files("variants")} == {
        *VARIANTS
    }


@pytest.mark.parametrize("name", [*VOCABULARIES, *(f"variants/{variant}" for variant in VARIANTS)])
def test_equals_llama_cpp(name: str) -> None:
    path = golden.FOLDER / f"{name}.jsonl.gz"
    if not path.exists():
        shared(f"gguf-vocab/golden/{name}.jsonl.gz")
    header, rows = golden.read_golden(path)
    assert len(rows) > 500
    if name == "variants/gpt2-as-test":  # llama.cpp's stand-in for its own tests
        with pytest.raises(UnsupportedError, match="stand-in"):
            golden.load(header["file"], header["override"])
        return
    spec = golden.load(header["file"], header["override"])
    assert spec.vocab_size == header["n_vocab"]
    roles = roles_of(spec)
    for role, token_id in header["special"].items():
        if role != "nl":  # no role of its own: what a line feed is encoded as
            assert roles.ids.get(role) == (None if token_id < 0 else token_id), role
    assert list(roles.stop) == header["eog"]
    assert golden.attributes_digest(spec) == header["attrs_sha256"]
    assert golden.pieces_digest(spec) == header["pieces_sha256"]
    assert golden.mismatches(spec, rows) == []
    assert golden.engine_mismatches(spec, rows) == []


@pytest.mark.parametrize("name", TESTED)
def test_passes_the_tests_of_llama_cpp(name: str) -> None:
    from mtkit.pipeline import Pipeline

    stem = f"gguf-vocab/ggml-vocab-{name}.gguf"
    texts = shared(f"{stem}.inp").read_bytes().split(SEPARATOR)
    if not texts[-1]:
        texts.pop()
    wanted = shared(f"{stem}.out").read_text().split("\n")[: len(texts)]
    assert len(texts) >= 46
    pipeline = Pipeline(golden.load(name, {}))
    for text, line in zip(texts, wanted, strict=True):
        ids = pipeline.encode_ids(
            text.decode("utf-8"), add_special_tokens=False, parse_special=False
        )
        assert ids == [int(number) for number in line.split()], text


def test_all_test_files_are_used() -> None:
    if not (SHARED / "gguf-vocab").is_dir():
        shared("gguf-vocab/README.md")
    found = {path.name for path in (SHARED / "gguf-vocab").glob("*.inp")}
    assert found == {f"ggml-vocab-{name}.gguf.inp" for name in TESTED}
    assert json.loads((golden.FOLDER / "inputs.json").read_bytes())["inputs"]
