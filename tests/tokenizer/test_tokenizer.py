"""The tokenizer of the library: many texts, what an encoding shows, and calls by mistake."""

from __future__ import annotations

import os
import re

import pytest
from support import FIXTURES

import mtkit

SOURCES = ["bbpe-8k/tokenizer.json", "spm-unigram/tokenizer.model", "wordpiece/vocab.gguf"]
TEXTS = ["Hello, MNN!", "", "caf\u00e9 \u4e2d\u6587", b"bytes", "\U0001f642"]


@pytest.fixture(scope="module", params=SOURCES)
def tokenizer(request: pytest.FixtureRequest) -> mtkit.Tokenizer:
    return mtkit.load(FIXTURES / request.param)


@pytest.mark.parametrize("add_special_tokens", [True, False])
def test_many_texts_get_the_ids_of_each(
    tokenizer: mtkit.Tokenizer, add_special_tokens: bool
) -> None:
    options = {"add_special_tokens": add_special_tokens}
    found = tokenizer.encode_batch_ids(iter(TEXTS), **options)
    assert found == [tokenizer.encode_ids(text, **options) for text in TEXTS]
    assert found == [made.ids for made in tokenizer.encode_batch(TEXTS, **options)]


def test_a_text_that_the_core_hands_over_is_encoded_among_others() -> None:
    tokenizer = mtkit.load(FIXTURES / "spm-bpe/tokenizer.model")
    texts = ["one", b"\xff\xfe", "two"]
    assert tokenizer.encode_batch_ids(texts) == [tokenizer.encode_ids(text) for text in texts]


def test_an_encoding_has_a_length_and_shows_its_tokens(tokenizer: mtkit.Tokenizer) -> None:
    encoding = tokenizer.encode("Hello", add_special_tokens=False)
    assert len(encoding) == len(encoding.ids)
    start, end = encoding.offsets[0]
    assert f"{encoding.ids[0]} {'Hello'[start:end]!r}" in repr(encoding)
    long = repr(tokenizer.encode("Hello " * 1000))
    assert re.match(r"<Encoding of \d+ tokens: .*, …>$", long)
    assert len(long) < 200


def test_an_encoding_shows_characters_whole() -> None:
    tokenizer = mtkit.load(FIXTURES / "bbpe-8k/tokenizer.json")
    text = "a 世界 🙂 <|im_end|>"
    encoding = tokenizer.encode(text)
    assert any(text[start:end] not in token for token, (start, end) in
               zip(encoding.tokens, encoding.offsets, strict=True))  # fmt: skip
    for shown in (encoding, tokenizer.encode_batch([text])[0], tokenizer.encode(text.encode())):
        parts = re.findall(r"((?:\d+ )+)'([^']*)'", repr(shown))
        assert "".join(part for _, part in parts) == text
        assert [int(one) for ids, _ in parts for one in ids.split()] == encoding.ids
    pair = repr(tokenizer.encode("世", "界"))
    assert "'世'" in pair
    assert "'界'" in pair
    # Where bytes are not UTF-8, offsets count what the reference makes of them.
    raw = mtkit.load(FIXTURES / "spm-bpe/tokenizer.model").encode(b"a\xff")
    assert f"{raw.ids[0]} {raw.tokens[0]!r}" in repr(raw)


@pytest.mark.parametrize("name", ["encode_ids", "encode_array", "encode"])
def test_a_list_by_mistake_names_the_call_for_many(tokenizer: mtkit.Tokenizer, name: str) -> None:
    with pytest.raises(TypeError, match="not list; encode_batch_ids"):
        getattr(tokenizer, name)(["a", "b"])
    with pytest.raises(TypeError, match="not NoneType"):
        getattr(tokenizer, name)(None)


@pytest.mark.parametrize("name", ["encode_batch_ids", "encode_batch"])
def test_one_text_by_mistake_names_the_call_for_one(tokenizer: mtkit.Tokenizer, name: str) -> None:
    with pytest.raises(TypeError, match="use encode_ids or encode"):
        getattr(tokenizer, name)("Hello")


def test_a_buffer_is_a_text(tokenizer: mtkit.Tokenizer) -> None:
    expected = tokenizer.encode_ids("Hello")
    assert tokenizer.encode_ids(bytearray(b"Hello")) == expected
    assert tokenizer.encode_ids(memoryview(b"Hello")) == expected


def test_a_path_may_be_text_bytes_or_an_object() -> None:
    path = FIXTURES / "spm-bpe" / "tokenizer.model"
    ids = mtkit.load(path).encode_ids("Hello, MNN!")
    assert mtkit.load(str(path)).encode_ids("Hello, MNN!") == ids
    assert mtkit.load(os.fsencode(path)).encode_ids("Hello, MNN!") == ids
