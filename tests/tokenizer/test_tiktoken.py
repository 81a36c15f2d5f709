"""``mtkit.tiktoken`` answers every call as tiktoken does, errors included."""

from __future__ import annotations

import base64
import json
import os
import random
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_texts import nasty_text
from support import FIXTURES, reference, shared_tokenizer

import mtkit
import mtkit.tiktoken as ours
from mtkit.errors import UsageError

TEXTS = [
    "", "Hello, world!", "a<|endoftext|>b", "<|endoftext|><|endofprompt|> x", "\ud83d\ude00 \ud800",
    *(nasty_text(random.Random(seed), 40) for seed in range(20)),
]  # fmt: skip


@lru_cache
def pair(name: str):
    """Return tiktoken's encoding of some ranks and ours."""
    if name == "own":
        tokenizer = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json")
    else:
        path = shared_tokenizer(name) / "tokenizer.tiktoken"
        tokenizer = mtkit.load(path, overrides={"encoding": name})
    with tempfile.TemporaryDirectory() as folder:
        mtkit.convert(tokenizer, folder + os.sep, to="tiktoken")
        lines = (Path(folder) / "tokenizer.tiktoken").read_bytes().splitlines()
        beside = json.loads((Path(folder) / "pattern.json").read_bytes())
        mine = ours.from_file(folder)
    ranks = {base64.b64decode(piece): int(rank) for piece, rank in map(bytes.split, lines)}
    theirs = reference("tiktoken").Encoding(
        name, pat_str=beside["pattern"], mergeable_ranks=ranks,
        special_tokens=beside["special_tokens"],
    )  # fmt: skip
    return theirs, mine


@pytest.fixture(params=["own", "cl100k_base", "o200k_base"])
def encodings(request):
    return pair(request.param)


def answer(call, *args, **options):
    """Return what a call gives, or the kind of its error."""
    try:
        found = call(*args, **options)
    except (KeyError, ValueError, OverflowError) as error:
        return type(error)
    return found.tolist() if isinstance(found, np.ndarray) else found


def test_encoding(encodings) -> None:
    theirs, mine = encodings
    special = sorted(theirs.special_tokens_set)
    choices = [set(), "all", {special[0]}, set(special[-1:])]
    for text in TEXTS:
        assert mine.encode_ordinary(text) == theirs.encode_ordinary(text)
        for allowed in choices:
            for disallowed in ("all", (), {special[0]}):
                options = {"allowed_special": allowed, "disallowed_special": disallowed}
                wanted = answer(theirs.encode, text, **options)
                assert answer(mine.encode, text, **options) == wanted, (text, options)
                # Theirs refuses lone surrogates as an array, not as a list.
                assert answer(mine.encode_to_numpy, text, **options) == wanted
                if "\ud800" not in text:
                    assert answer(theirs.encode_to_numpy, text, **options) == wanted
                wanted = answer(theirs.encode_batch, TEXTS, **options)
                assert answer(mine.encode_batch, TEXTS, **options) == wanted
    assert mine.encode_ordinary_batch(TEXTS) == theirs.encode_ordinary_batch(TEXTS)


def test_decoding(encodings) -> None:
    theirs, mine = encodings
    rng = random.Random(3)
    numbers = [*range(0, theirs.n_vocab, max(theirs.n_vocab // 500, 1))]
    lists = [theirs.encode(text, disallowed_special=()) for text in TEXTS]
    lists += [rng.sample(numbers, 8) for _ in range(20)] + [[theirs.n_vocab], [-1]]
    for ids in lists:
        for name in ("decode", "decode_bytes", "decode_tokens_bytes", "decode_with_offsets"):
            wanted = answer(getattr(theirs, name), ids)
            assert answer(getattr(mine, name), ids) == wanted, (name, ids)
        assert answer(mine.decode, ids, "ignore") == answer(mine.decode, ids, errors="ignore")
    good = lists[: len(TEXTS)]
    assert mine.decode_batch(good) == theirs.decode_batch(good)
    assert mine.decode_bytes_batch(good) == theirs.decode_bytes_batch(good)


def test_tokens(encodings) -> None:
    theirs, mine = encodings
    for name in ("n_vocab", "max_token_value", "special_tokens_set", "eot_token"):
        assert answer(getattr, mine, name) == answer(getattr, theirs, name), name
    assert mine.token_byte_values() == theirs.token_byte_values()
    for number in [*range(300), mine.eot_token, mine.max_token_value]:
        piece = answer(theirs.decode_single_token_bytes, number)
        assert answer(mine.decode_single_token_bytes, number) == piece
        assert mine.is_special_token(number) == theirs.is_special_token(number)
        if isinstance(piece, bytes):
            assert mine.encode_single_token(piece) == theirs.encode_single_token(piece)
    for text in ("Hello", "no token at all", "<|endoftext|>", b"\xff"):
        assert answer(mine.encode_single_token, text) == answer(theirs.encode_single_token, text)


@given(text=st.text(), allowed=st.sampled_from([set(), "all"]))
def test_drawn_texts(text, allowed) -> None:
    theirs, mine = pair("own")
    options = {"allowed_special": allowed}
    assert answer(mine.encode, text, **options) == answer(theirs.encode, text, **options)


def test_names(monkeypatch, tmp_path) -> None:
    theirs = reference("tiktoken")
    for name in ("gpt-4o", "gpt-3.5-turbo-0125", "nothing"):
        wanted = answer(theirs.encoding_name_for_model, name)
        assert answer(ours.encoding_name_for_model, name) == wanted
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert {"cl100k_base", "o200k_base"} <= set(ours.list_encoding_names())
    with pytest.raises(ValueError, match="Unknown encoding nothing"):
        ours.get_encoding("nothing")
    with pytest.raises(KeyError):
        ours.encoding_for_model("nothing")
    with pytest.raises(UsageError, match="tiktoken's cache"):
        ours.encoding_for_model("gpt-4o")
    assert json.dumps(ours.from_file(FIXTURES / "bbpe-8k").encode("Hello"))
