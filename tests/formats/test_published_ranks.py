"""Rank files as published, made anew from the shared tokenizers: found by hash, and as tiktoken."""

from __future__ import annotations

import base64
import json
import random
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

import pytest
from support import golden_inputs, reference, shared_tokenizer

import mtkit
from mtkit.errors import FormatError
from mtkit.formats.tiktoken import ENCODINGS, encodings_of_ranks, parse_ranks
from mtkit.unicode.utf8 import bytes_of_letters

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = {
    "r50k_base": ("gpt2", 50256),
    "whisper": ("whisper-tiny", 50257),
    "qwen": ("qwen3", 151643),
}
"""First name of a published file -> the tokenizer that has its ranks, and how many there are."""


@cache
def ranks(name: str) -> dict[bytes, int]:
    """Read the ranks out of a tokenizer.json, whose vocabulary spells them as letters."""
    source, count = SOURCES[name]
    table = json.loads((shared_tokenizer(source) / "tokenizer.json").read_bytes())
    found = {bytes_of_letters(text): rank for text, rank in table["model"]["vocab"].items()}
    return {piece: rank for piece, rank in found.items() if piece is not None and rank < count}


@cache
def special(source: str) -> dict[str, int]:
    table = json.loads((shared_tokenizer(source) / "tokenizer.json").read_bytes())
    return {token["content"]: token["id"] for token in table["added_tokens"]}


def spelled(table: dict[bytes, int]) -> bytes:
    rows = sorted(table.items(), key=lambda row: row[1])
    return b"".join((base64.b64encode(piece) or b"=") + b" %d\n" % rank for piece, rank in rows)


def encodings() -> list[tuple[str, str]]:
    return [("r50k_base", "whisper_en"), ("whisper", "whisper"), ("whisper", "whisper_v3"),
            ("qwen", "qwen")]  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_a_published_file_is_known_by_its_ranks(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    path.write_bytes(spelled(ranks(name)))
    assert encodings_of_ranks(path.read_bytes())[0] == name
    ours = mtkit.load(path)
    assert f"of {name}, known by its ranks" in ours.assumptions[0]
    for other in encodings_of_ranks(path.read_bytes())[1:]:
        assert other in ours.assumptions[0]
    done = mtkit.convert(path, tmp_path / "again.tiktoken", to="tiktoken")
    assert not done.losses
    assert (tmp_path / "again.tiktoken").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("file", "name"), encodings())
def test_ids_are_those_of_tiktoken(file: str, name: str, tmp_path: Path) -> None:
    tiktoken = reference("tiktoken")
    path = tmp_path / "x.tiktoken"
    path.write_bytes(spelled(ranks(file)))
    encoding = ENCODINGS[name]()
    theirs = tiktoken.Encoding(
        name,
        pat_str=encoding.pattern,
        mergeable_ranks=ranks(file),
        special_tokens=encoding.special,
        explicit_n_vocab=len(ranks(file)) + len(encoding.special),
    )
    ours = mtkit.load(path, overrides={"encoding": name})
    rng = random.Random(5)
    parts = [*"e\u0301\u0323\u1100\u1161\u212b\u0338>|<"]
    parts += ["<|im_start|>", "<|endoftext|>", "<|0.00|>"]
    drawn = ["".join(rng.choices(parts, k=rng.randrange(12))) for _ in range(500)]
    for text in [*golden_inputs(), *drawn]:
        given = unicodedata.normalize(encoding.form, text) if encoding.form else text
        assert ours.encode_ids(text) == theirs.encode_ordinary(given), text
        ids = theirs.encode(given, allowed_special="all")
        assert ours.encode_ids(text, parse_special=True) == ids, text
    every = list(range(ours.vocab_size))
    assert ours.decode(every, skip_special_tokens=False) == theirs.decode(every)


def test_whisper_has_the_special_tokens_of_its_model() -> None:
    known = special("whisper-tiny")
    ours = {**ENCODINGS["whisper"]().special}
    ours["<|nocaptions|>"] = ours.pop("<|nospeech|>")  # as transformers calls it
    assert known.items() <= ours.items()
    times = {f"<|{step * 0.02:.2f}|>" for step in range(1501)}
    assert ours.keys() - known.keys() <= times
    assert len(ours) == 51865 - 50257
    v3 = ENCODINGS["whisper_v3"]().special
    assert (v3["<|su|>"], v3["<|yue|>"], v3["<|translate|>"]) == (50357, 50358, 50359)
    assert max(v3.values()) == 51865


def test_qwen_has_the_special_tokens_of_its_successors() -> None:
    known, ours = special("qwen3"), ENCODINGS["qwen"]().special
    for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        assert ours[text] == known[text]
    assert (min(ours.values()), max(ours.values())) == (151643, 151850)


def test_multilingual_tiktoken_ends_in_a_token_of_no_bytes(tmp_path: Path) -> None:
    """Whisper's file: the line ``= 50256`` is a token that only decodes, to nothing."""
    path = tmp_path / "multilingual.tiktoken"
    path.write_bytes(spelled(ranks("whisper")))
    assert path.read_bytes().endswith(b"\n= 50256\n")
    ours = mtkit.load(path)
    assert ours.decode([64, 50256, 65]) == "ab"
    assert ours.encode_ids("") == []


BYTES = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))


def test_lines_are_read_as_tiktoken_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")  # it keeps what it read by path
    load = reference("tiktoken.load").load_tiktoken_bpe
    rng = random.Random(11)
    texts = [b"=", b"==", b"YWI=", b"YWI", b"Y W", b"Y*WI=", b"YWI=YWI=", b"A", b"QQ=="]
    texts += [b"\xff", b"", b"\xc3\xa9", b"YWJj", b"=YWJj"]
    numbers = [b"300", b"+301", b"3_02", b"-1", b"x", b"", b"303.0", b"0300", b"\xb2"]
    blanks = [b" ", b"\t", b"  ", b"\x0b", b"\x0c", b"\xa0", b""]
    ends = [b"\n", b"\r", b"\r\n", b"\n\n", b" \n", b"\x0b", b"\x85", b"\x1e", b""]
    path = tmp_path / "x.tiktoken"
    taken = 0
    for _ in range(3000):
        line = rng.choice(texts) + rng.choice(blanks) + rng.choice(numbers) + rng.choice(ends)
        data = BYTES + line + rng.choice([b"", b"YWJjZA== 400", b"\n"])
        path.write_bytes(data)
        try:
            theirs = load(str(path))
        except ValueError:
            theirs = None
        if theirs is None or min(theirs.values()) < 0:  # which its engine then refuses
            with pytest.raises(FormatError):
                parse_ranks(data)
        else:
            assert parse_ranks(data) == theirs, data[len(BYTES) :]
            taken += 1
    assert 300 < taken < 2700
