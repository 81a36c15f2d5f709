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
    assert mine.encode_batch(iter(["a b"])) == theirs.encode_batch(iter(["a b"]))
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


def test_unfinished_texts(encodings) -> None:
    theirs, mine = encodings
    special = sorted(theirs.special_tokens_set)[0]
    texts = [
        "", "hello fanta", "x\n \n", "  \t", f"a{special}", f"{special} b\n ", "a\u3000", "\n0",
    ]  # fmt: skip
    for text in texts:
        for allowed in (set(), "all"):
            options = {"allowed_special": allowed, "disallowed_special": ()}
            stable, found = mine.encode_with_unstable(text, **options)
            wanted, completions = theirs.encode_with_unstable(text, **options)
            assert stable == wanted, text
            assert sorted(found) == sorted(completions), text


def test_bytes_that_are_no_text(encodings) -> None:
    theirs, mine = encodings
    rng = random.Random(8)
    cases = [b"", b"\xff", b" \xec\x8b\xa4\xed", b"a \n \xf0\x9f", b"\x80\n"]
    cases += [text.encode("utf-8", "ignore")[: rng.randrange(60)] for text in TEXTS]
    cases += [rng.randbytes(rng.randrange(30)) for _ in range(100)]
    for raw in cases:
        assert mine._encode_bytes(raw) == theirs._encode_bytes(raw), raw
        if raw:
            assert mine._encode_single_piece(raw) == theirs._encode_single_piece(raw), raw


def test_an_encoding_is_extended(encodings) -> None:
    """As tiktoken's README shows it, and with a pickle on the way."""
    import pickle

    theirs, mine = encodings
    assert mine._pat_str == theirs._pat_str
    assert mine._mergeable_ranks == theirs._mergeable_ranks
    assert mine._special_tokens == theirs._special_tokens
    made = [
        kind(
            name="extended",
            pat_str=encoding._pat_str,
            mergeable_ranks=encoding._mergeable_ranks,
            special_tokens={**encoding._special_tokens, "<|im_start|>": 300_000},
        )
        for kind, encoding in ((type(theirs), theirs), (ours.Encoding, mine))
    ]
    made.append(pickle.loads(pickle.dumps(made[1])))
    for text in ("a<|im_start|>b", *TEXTS[:8]):
        answers = [answer(one.encode, text, allowed_special="all") for one in made]
        assert answers[1:] == answers[:1] * 2, text
    for name in ("n_vocab", "max_token_value", "name"):
        assert len({getattr(one, name) for one in made}) == 1
    hole = 299_999
    assert [answer(one.decode, [5, hole]) for one in made] == [KeyError] * 3
    with pytest.raises(AssertionError):
        ours.Encoding(
            "x", pat_str=".", mergeable_ranks={b"a": 0}, special_tokens={}, explicit_n_vocab=2
        )
    ranks = {bytes([byte]): byte for byte in range(256)}
    for kind in (type(theirs), ours.Encoding):
        with pytest.raises(ValueError):
            kind("x", pat_str="(", mergeable_ranks=ranks, special_tokens={})


def test_words_for_a_token_that_is_not_allowed(encodings) -> None:
    """Code that looks for these words in the error finds them."""
    for encoding in encodings:
        with pytest.raises(ValueError, match=r"disallowed special token '<\|endoftext\|>'"):
            encoding.encode("a<|endoftext|>")


def test_ranks_are_loaded_and_dumped(tmp_path) -> None:
    ranks = pair("own")[1]._mergeable_ranks
    path = str(tmp_path / "own.tiktoken")
    ours.load.dump_tiktoken_bpe(ranks, path)
    assert ours.load.load_tiktoken_bpe(path) == ranks
    assert reference("tiktoken.load").load_tiktoken_bpe(path) == ranks
    with pytest.raises(ValueError, match="Hash mismatch"):
        ours.load.load_tiktoken_bpe(path, "00")
    with pytest.raises(UsageError, match="cache"):
        ours.load.load_tiktoken_bpe("https://example.org/nothing.tiktoken")
    (tmp_path / "bad").write_bytes(b"YQ== 0\nYg==\n")
    with pytest.raises(ValueError, match="Error parsing line"):
        ours.load.load_tiktoken_bpe(str(tmp_path / "bad"))


def test_files_of_gpt2(tmp_path) -> None:
    theirs = reference("tiktoken.load")
    alphabet = theirs.data_gym_to_mergeable_bpe_ranks
    single = [byte for byte in range(256) if chr(byte).isprintable() and byte != 32]
    letters = {byte: chr(byte) for byte in single}
    for number, byte in enumerate(byte for byte in range(256) if byte not in letters):
        letters[byte] = chr(256 + number)
    pieces = [*letters.values(), "ab", letters[32] + "ab", "<|endoftext|>"]
    vocab, merges = tmp_path / "encoder.json", tmp_path / "vocab.bpe"
    vocab.write_text(json.dumps({piece: rank for rank, piece in enumerate(pieces)}))
    merges.write_text(f"#version: 0.2\na b\n{letters[32]} ab\n", encoding="utf-8")
    ranks = alphabet(str(merges), str(vocab))
    assert ours.load.data_gym_to_mergeable_bpe_ranks(str(merges), str(vocab)) == ranks
    vocab.write_text("{}")
    with pytest.raises(ValueError, match="vocabulary"):
        ours.load.data_gym_to_mergeable_bpe_ranks(str(merges), str(vocab))


def test_a_plug_in_names_an_encoding(tmp_path, monkeypatch) -> None:
    (tmp_path / "tiktoken_ext").mkdir()
    (tmp_path / "tiktoken_ext" / "ours.py").write_text(
        "ENCODING_CONSTRUCTORS = {'bytes': lambda: {'name': 'bytes', 'pat_str': '.', "
        "'mergeable_ranks': {bytes([i]): i for i in range(256)}, 'special_tokens': {}}}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(ours.registry, "ENCODINGS", {})
    ours.registry.plug_ins.cache_clear()
    try:
        assert "bytes" in ours.list_encoding_names()
        assert ours.get_encoding("bytes").encode("ab") == [97, 98]
    finally:
        ours.registry.plug_ins.cache_clear()


def test_modules_are_named_as_there() -> None:
    from mtkit.tiktoken.core import Encoding
    from mtkit.tiktoken.load import load_tiktoken_bpe
    from mtkit.tiktoken.model import MODEL_TO_ENCODING

    assert Encoding is ours.Encoding
    assert load_tiktoken_bpe is ours.load.load_tiktoken_bpe
    assert MODEL_TO_ENCODING == reference("tiktoken.model").MODEL_TO_ENCODING


def test_names(monkeypatch, tmp_path) -> None:
    theirs = reference("tiktoken.model")
    names = [*theirs.MODEL_TO_ENCODING, *(f"{one}x" for one in theirs.MODEL_PREFIX_TO_ENCODING)]
    for name in (*names, "gpt-5.2-codex", "ft:gpt-4o-2024-08-06:org::id", "nothing", "o1x"):
        wanted = answer(theirs.encoding_name_for_model, name)
        assert answer(ours.encoding_name_for_model, name) == wanted, name
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert {"cl100k_base", "o200k_base"} <= set(ours.list_encoding_names())
    with pytest.raises(ValueError, match="Unknown encoding nothing"):
        ours.get_encoding("nothing")
    with pytest.raises(KeyError):
        ours.encoding_for_model("nothing")
    with pytest.raises(UsageError, match="tiktoken's cache"):
        ours.encoding_for_model("gpt-4o")
    assert json.dumps(ours.from_file(FIXTURES / "bbpe-8k").encode("Hello"))
