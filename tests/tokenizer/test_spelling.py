"""Tokens have one spelling, and stand for the bytes that decoding them alone would give."""

from __future__ import annotations

import pytest
from support import FIXTURES

import mtkit

NAMES = ["bbpe-8k/tokenizer.json", "spm-bpe/tokenizer.model", "wordpiece/vocab.txt"]


@pytest.mark.parametrize("name", NAMES)
def test_a_token_and_its_id_name_each_other(name: str) -> None:
    tokenizer = mtkit.load(FIXTURES / name)
    pieces = [tokenizer.id_to_piece(token_id) for token_id in range(tokenizer.vocab_size)]
    assert len(set(pieces)) == len(pieces) > 1000
    for token_id, piece in enumerate(pieces):
        assert piece is not None
        assert tokenizer.token_to_id(piece) == token_id
    assert tokenizer.id_to_piece(-1) is None
    assert tokenizer.id_to_piece(tokenizer.vocab_size) is None
    assert tokenizer.id_to_token(tokenizer.vocab_size) is None
    assert tokenizer.token_to_id("no such token") is None
    for ask in (tokenizer.id_to_token, tokenizer.token_bytes, tokenizer.token_kind):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            ask("a")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES[:2])
def test_the_bytes_of_the_tokens_are_those_of_the_text(name: str) -> None:
    tokenizer = mtkit.load(FIXTURES / name)
    text = "Hello, wörld! 你好 \U0001f600 a\tb"
    ids = tokenizer.encode_ids(text, add_special_tokens=False)
    assert b"".join(map(tokenizer.token_bytes, ids)).strip() == text.encode()


def test_a_lone_byte_is_shown_escaped() -> None:
    tokenizer = mtkit.load(FIXTURES / "bbpe-8k/tokenizer.json")
    token_id = tokenizer.token_to_id("Ã")  # the byte alphabet's letter for 0xC3
    assert token_id is not None
    assert tokenizer.token_bytes(token_id) == b"\xc3"
