"""Every stored answer of sentencepiece, tiktoken, mistral-common, llama2.c and RWKV is ours, too.

The engine gives all of them, the pipeline every fifth: ids with and without special tokens, pieces,
decoded text. ``test_hf_golden`` does the same for tokenizer.json.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support import FIXTURES, golden_inputs, golden_names, shared_json_lines, shared_tokenizer

import mtkit
from mtkit.pipeline import Pipeline
from mtkit.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = {
    "spm": ("tokenizer.model",),
    "tiktoken": ("tokenizer.tiktoken",),
    "tekken": ("tekken.json",),
    "llama2c": ("tokenizer.bin", "tok512.bin"),
    "rwkv": ("rwkv_vocab_v20230424.txt",),
}
SAMPLED = 5
"""The pipeline gives every so manieth answer."""


def checks(tokenizer: Tokenizer, kind: str, text: str, row: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (what, expected, made)."""
    ids, special = row["ids"], row.get("sp", row["ids"])
    plain: dict[str, bool] = {}
    full: dict[str, bool] = {}
    if kind == "tiktoken":  # "special" means that those written in the text are recognized
        plain, full = {"parse_special": False}, {"parse_special": True}
    elif kind == "tekken":
        plain = {"add_special_tokens": False}
    yield "ids", ids, tokenizer.encode_ids(text, **plain)
    yield "ids with special tokens", special, tokenizer.encode_ids(text, **full)
    decoded = row.get("d", text)
    if "dx" in row:
        decoded = bytes.fromhex(row["dx"]).decode("utf-8", "replace")
    given = special if kind == "tiktoken" else ids
    yield "decoded", decoded, tokenizer.decode(given, skip_special_tokens=False)
    if "p" in row:
        yield "pieces", row["p"], tokenizer.encode(text).tokens


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind in FILES for name in golden_names(kind)]
)
def test_stored_answers(name: str, kind: str) -> None:
    folder = shared_tokenizer(name)
    path = next(folder / file for file in FILES[kind] if (folder / file).exists())
    tokenizer = mtkit.load(path)
    assert tokenizer.format_name == kind
    pipeline = Tokenizer(tokenizer.spec, engine=Pipeline(tokenizer.spec))
    texts = golden_inputs()
    rows = shared_json_lines(f"tokenizers/golden/{name}.{kind}.jsonl.gz")
    rows = [row for row in rows if "ids" in row]
    assert len(rows) > 500
    unlike = []
    for number, row in enumerate(rows):
        text = texts[row["i"]]
        for made_by in [tokenizer, pipeline][: 1 + (number % SAMPLED == 0)]:
            for what, expected, made in checks(made_by, kind, text, row):
                if made != expected:
                    unlike.append((made_by.engine.name, what, text, expected, made))
    assert unlike[:3] == []


@pytest.mark.parametrize("name", ["spm-bpe", "spm-unigram", "spm-unigram-id"])
def test_own_models(name: str) -> None:
    """Answers of sentencepiece that need no shared folder."""
    tokenizer = mtkit.load(FIXTURES / name / "tokenizer.model")
    pipeline = Pipeline(tokenizer.spec)
    lines = (FIXTURES / name / "cases.jsonl").read_text("utf-8").splitlines()
    assert len(lines) > 100
    for case in map(json.loads, lines):
        assert tokenizer.encode_ids(case["text"]) == case["ids"], case["text"]
        assert pipeline.encode_ids(case["text"]) == case["ids"], case["text"]
