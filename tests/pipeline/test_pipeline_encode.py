"""Whole tokenizers with generated parts equal the library's: ids, offsets, pairs, decoding."""

from __future__ import annotations

import random
from typing import Any

import pipeline_cases as cases
from pipeline_tokenizers import draw_tokenizer
from support import reference

ROUNDS = 150
TEXTS = 6


def test_encoding_and_decoding() -> None:
    rng = random.Random("encode")
    failed = 0
    for _ in range(ROUNDS):
        tokenizer = draw_tokenizer(rng)
        ours = cases.pipeline_of(tokenizer)
        for _ in range(TEXTS):
            failed += compare_text(rng, tokenizer, ours)
    assert failed < ROUNDS * TEXTS / 20


def compare_text(rng: random.Random, tokenizer: Any, ours: Any) -> bool:
    """Compare one text or pair; tells whether the library failed."""
    text, pair = cases.text(rng), cases.text(rng) if rng.random() < 0.3 else None
    special, encode_special = rng.random() < 0.7, rng.random() < 0.2
    tokenizer.encode_special_tokens = encode_special
    expected = cases.answer(library_columns, tokenizer, text, pair, special)
    got = cases.answer(columns, ours, text, pair, special, not encode_special)
    where = (tokenizer.to_str()[:3000], text, pair, special, encode_special)
    assert got == expected, where
    if expected == "fails":
        return True
    ids = list(expected[0])
    rng.shuffle(ids)
    ids.append(rng.randrange(60))
    for skip in (False, True):
        expected = cases.answer(tokenizer.decode, ids, skip_special_tokens=skip)
        got = cases.answer(ours.decode, ids, skip_special_tokens=skip)
        assert got == expected, (tokenizer.to_str()[:3000], ids, skip)
        assert cases.answer(streamed, ours, ids, skip) == expected, (str(tokenizer.decoder), ids)
    return False


def library_columns(tokenizer: Any, text: str, pair: str | None, special: bool) -> Any:
    encoding = tokenizer.encode(text, pair, add_special_tokens=special)
    return (
        encoding.ids,
        encoding.offsets,
        encoding.type_ids,
        encoding.special_tokens_mask,
        encoding.attention_mask,
    )


def columns(ours: Any, text: str, pair: str | None, special: bool, parse_special: bool) -> Any:
    encoded = ours.encode(
        text,
        pair,
        add_special_tokens=special,
        parse_special=parse_special,
        padding="file",
        truncation="file",
    )
    return (
        encoded.ids,
        encoded.offsets,
        encoded.type_ids,
        encoded.special_tokens_mask,
        encoded.attention_mask,
    )


def streamed(ours: Any, ids: list[int], skip: bool) -> str:
    stream = ours.decode_stream(skip_special_tokens=skip)
    return "".join([stream.push(token_id) for token_id in ids]) + stream.finish()


def test_batch_padding() -> None:
    tokenizers = reference("tokenizers")
    rng = random.Random("batch")
    for _ in range(20):
        tokenizer = draw_tokenizer(rng)
        tokenizer.enable_padding(
            direction=rng.choice(["left", "right"]),
            pad_id=3,
            pad_type_id=1,
            pad_token="[PAD]",
            pad_to_multiple_of=rng.choice([None, 4]),
        )
        assert tokenizers.__version__
        ours = cases.pipeline_of(tokenizer)
        texts = [cases.text(rng) for _ in range(4)]
        expected = cases.answer(tokenizer.encode_batch, texts)
        got = cases.answer(ours.encode_batch, texts, padding="file", truncation="file")
        if expected != "fails":
            expected = [(one.ids, one.attention_mask, one.type_ids) for one in expected]
            got = [(one.ids, one.attention_mask, one.type_ids) for one in got]
        assert got == expected
