"""A bare .mtok means what MNN's loader makes of it: decodings of every stored file."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from support import shared, shared_json_lines

from mtkit.base.binary import Source
from mtkit.engine import load_engine
from mtkit.errors import FormatError
from mtkit.formats import mtok
from mtkit.pipeline import Pipeline
from mtkit.pipeline.byte_decoders import decode_single_token

if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec

FILES = (
    "bert_uncased",
    "gpt2",
    "phi3",
    "t5_small",
    "t_bert",
    "t_gemma",
    "t_gpt2",
    "t_llama2",
    "t_llama3",
    "t_qwen",
    "t_t5",
    "t_uni_bf",
)


@lru_cache(maxsize=2)
def spec_of(name: str) -> TokenizerSpec:
    return mtok.other_readings()["mnn"].read(Source.open(str(shared(f"mtok/{name}.mtok")))).spec


@pytest.mark.parametrize("name", FILES)
def test_decodes_as_upstream(name: str) -> None:
    spec = spec_of(name)
    pipeline = Pipeline(spec)
    rows = shared_json_lines(f"mtok/{name}.jsonl.gz")
    assert len(rows) == 819
    for row in rows:
        ids = row["ids_nopost"]
        assert pipeline.decode_bytes(ids) == base64.b64decode(row["decode_b64"]), row["text"]
        singles = [decode_single_token(spec, token_id) for token_id in ids]
        assert b"".join(singles) == base64.b64decode(row["stream_b64"]), row["text"]
        assert [len(piece) for piece in singles] == row["stream_lens"]


@pytest.mark.parametrize("name", FILES)
def test_encodes_as_upstream(name: str) -> None:
    pipeline = Pipeline(spec_of(name))
    for row in shared_json_lines(f"mtok/{name}.jsonl.gz"):
        assert pipeline.encode_ids(row["text"]) == row["ids"], row["text"]
        plain = pipeline.encode_ids(row["text"], add_special_tokens=False)
        assert plain == row["ids_nopost"], row["text"]


@pytest.mark.parametrize("name", FILES)
def test_the_engine_encodes_as_upstream(name: str) -> None:
    pytest.importorskip("mtkit._native")
    engine = load_engine(spec_of(name))
    for row in shared_json_lines(f"mtok/{name}.jsonl.gz"):
        assert engine.encode_ids(row["text"]) == row["ids"], row["text"]
        plain = engine.encode_ids(row["text"], add_special_tokens=False)
        assert plain == row["ids_nopost"], row["text"]
        decoded = engine.decode_bytes(row["ids_nopost"])
        assert decoded == base64.b64decode(row["decode_b64"]), row["text"]


BOUNDARIES = {72, 76, 78, 79, 81}
"""Lengths at which the sample of the cut files ends between two blocks."""


def edge_cases() -> list[dict]:
    return shared_json_lines("mtok/edge_cases.jsonl.gz")


def readable(case: dict) -> bool:
    if case["name"].startswith("cut_"):
        return int(case["name"].removeprefix("cut_")) in BOUNDARIES
    return case["rc"] == 0


def test_edge_cases_encode_and_decode_as_upstream() -> None:
    cases = [case for case in edge_cases() if readable(case)]
    assert len(cases) > 65
    for case in cases:
        source = Source(case["name"], base64.b64decode(case["file_b64"]))
        assert mtok.sniff(source)
        spec = mtok.other_readings()["mnn"].read(source).spec
        pipeline = Pipeline(spec)
        for text, (with_post, without) in zip(case["texts"], case["answers"]["enc"], strict=True):
            for tokenizer in (pipeline, load_engine(spec)):
                assert tokenizer.encode_ids(text) == with_post, (case["name"], text)
                plain = tokenizer.encode_ids(text, add_special_tokens=False)
                assert plain == without, (case["name"], text)
        for ids, expected in zip(case["ids"], case["answers"]["dec"], strict=False):
            assert pipeline.decode_bytes(ids) == base64.b64decode(expected), case["name"]
        for token_id, expected in enumerate(case["answers"]["dec1"]):
            found = decode_single_token(spec, token_id)
            assert found == base64.b64decode(expected), (case["name"], token_id)


def test_what_upstream_refuses_or_crashes_on_is_one_clear_error() -> None:
    cases = [case for case in edge_cases() if not readable(case)]
    assert len(cases) > 80
    for case in cases:
        with pytest.raises(FormatError) as caught:
            mtok.other_readings()["mnn"].read(
                Source(case["name"], base64.b64decode(case["file_b64"]))
            )
        assert "\n" not in str(caught.value)
