"""Reading tokenizer.model: ids, pieces and decoding are sentencepiece's, for every shared model."""

from __future__ import annotations

import json

import pytest
from support import FIXTURES, shared, shared_json_lines, shared_tokenizer

from mtkit.binary import Source
from mtkit.formats import spm
from mtkit.pipeline import Pipeline

MODELS = [
    "chinese-llama-2",
    "llama-2",
    "marian-en-pt",
    "mistral-v0.3",
    "nmt-marian",
    "sp-test-ja",
    "sp-test-unigram",
    "syn-sp-bpe-opts",
    "syn-sp-char",
    "syn-sp-uni-fallback",
    "syn-sp-uni-suffix",
    "syn-sp-word",
    "t5-small",
    "xlnet-base-cased",
]
OWN = ["spm-bpe", "spm-unigram", "spm-unigram-id"]


@pytest.mark.parametrize("name", MODELS)
def test_shared_models(name: str) -> None:
    source = Source.open(str(shared_tokenizer(name) / "tokenizer.model"))
    assert spm.sniff(source)
    spec = spm.read(source, {}).spec
    pipeline = Pipeline(spec)
    inputs = json.loads(shared("tokenizers/golden/inputs.json").read_text("utf-8"))["inputs"]
    lines = shared_json_lines(f"tokenizers/golden/{name}.spm.jsonl.gz")
    assert len(lines) == 531
    for line in lines:
        text = inputs[line["i"]]
        ids = pipeline.encode_ids(text)
        assert ids == line["ids"], text
        assert pipeline.decode(ids) == line.get("d", text), text
        # An unknown piece is spelled as the text has it, any other as the vocabulary has it.
        pieces = [spec.vocabulary.pieces[i].decode() for i in ids]
        for piece, wanted, token_id in zip(pieces, line["p"], ids, strict=True):
            assert piece == wanted or token_id == spec.special_ids.unk


@pytest.mark.parametrize("name", OWN)
def test_own_models(name: str) -> None:
    source = Source.open(str(FIXTURES / name / "tokenizer.model"))
    assert spm.sniff(source)
    pipeline = Pipeline(spm.read(source, {}).spec)
    lines = (FIXTURES / name / "cases.jsonl").read_text("utf-8").splitlines()
    assert len(lines) > 100
    for line in lines:
        case = json.loads(line)
        assert pipeline.encode_ids(case["text"]) == case["ids"], case["text"]
