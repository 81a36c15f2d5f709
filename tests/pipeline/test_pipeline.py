"""The pipeline walks a text as the reference does: small cases and the shared seed example."""

import json

import pytest
from support import shared

from mtkit.base.binary import Source
from mtkit.errors import UsageError
from mtkit.formats import hf
from mtkit.pipeline import Pipeline
from mtkit.pipeline.trace import trace, trace_decode


@pytest.fixture(scope="module")
def seed() -> Pipeline:
    path = shared("tokenizers/seed-example/tokenizer.json")
    return Pipeline(hf.read(Source.open(str(path)), {}).spec)


def test_trace_is_the_articles(seed: Pipeline) -> None:
    expected = json.loads(shared("tokenizers/seed-example/trace.json").read_text("utf-8"))
    walked = trace(seed, expected["text"])
    assert walked.ids == expected["ids"] == seed.encode_ids(expected["text"])
    assert walked.tokens == expected["tokens"]
    words = walked.to_json()["words"]
    found = {word["word"]: {key: word[key] for key in ("start", "steps", "ids")} for word in words}
    article = expected["merge_traces"]["article (seed-example/tokenizer.json)"]
    assert json.loads(json.dumps(found)) == article
    assert list(found) == ["Hello", ",", "ĠMNN", "!"]


def test_trace_of_decoding_ends_in_the_text(seed: Pipeline) -> None:
    walked = trace_decode(seed, [9419, 11, 380, 9455, 0])
    assert walked.text == "Hello, MNN!"
    assert walked.tokens == ("Hello", ",", "ĠM", "NN", "!")
    assert [step.name for step in walked.steps] == ["ByteLevel"]


def test_lone_surrogate_is_named(seed: Pipeline) -> None:
    with pytest.raises(UsageError, match=r"U\+D834 at character 2"):
        seed.encode("ab\ud834")


def test_bytes_that_are_no_utf8_are_named(seed: Pipeline) -> None:
    with pytest.raises(UsageError, match="byte FF"):
        seed.encode(b"ab\xff")
