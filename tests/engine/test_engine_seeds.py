"""A .mtok can know the words of a corpus from the start; ids stay those that the model gives."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import pytest
from support import FIXTURES

pytest.importorskip("mtkit._native")
from mtkit import load
from mtkit.base.record import replace
from mtkit.conversion.convert import convert
from mtkit.engine import Engine, load_engine, stored_tables
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import mtok
from mtkit.formats.contract import WriteOptions

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

NAMES = ["bbpe-8k/tokenizer.json", "wordpiece/tokenizer.json", "spm-bpe/tokenizer.model"]
CORPUS = "The file system of the kernel, the user's files \u6587\u4ef6 and the shell.\n" * 3


def _texts(rng: random.Random) -> list[str]:
    words = [*CORPUS.split(), "thefile", "xyzzy", "'s", "\u6587", "  ", "\n", "UPPER"]
    return [" ".join(rng.choices(words, k=rng.randint(1, 40))) for _ in range(100)]


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_without(name: str) -> None:
    spec = load(FIXTURES / name).spec
    tables = stored_tables(spec, [CORPUS.encode()])
    assert len(tables["SEED"]) >= 128
    seeded, plain = Engine(tables, lambda: spec), load_engine(spec)
    for text in _texts(random.Random(3)):
        assert seeded.encode_ids(text) == plain.encode_ids(text)


def test_the_first_text_finds_them() -> None:
    """What the table says is what is answered, so a forged one shows that it is asked."""
    spec = load(FIXTURES / NAMES[0]).spec
    tables = stored_tables(spec, [b"kernel kernel kernel"])
    slots = [tables["SEED"][at : at + 32] for at in range(0, len(tables["SEED"]), 32)]
    used = [slot for slot in slots if any(slot)]
    assert {slot[: slot[15] & 15] for slot in used} == {b" kernel"}
    forged = b"".join(struct.pack("<16s4I", s[:16], 7, 0, 0, 1) if any(s) else s for s in slots)
    engine = Engine(tables | {"SEED": forged}, lambda: spec)
    ids = load_engine(spec).encode_ids("a kernel")
    assert engine.encode_ids("a kernel") == [ids[0], 7]


def test_parts_of_words_are_known() -> None:
    """Runs of Han are cut where merges cannot reach over; what lies between is a word of its own.

    Its kind stands above its size in the last byte of the key.
    """
    spec = load(FIXTURES / NAMES[0]).spec
    table = stored_tables(spec, ["\u6587\u4ef6\u7cfb\u7edf\u6587".encode() * 3])["SEED"]
    assert any(table[at + 15] >> 4 for at in range(0, len(table), 32))


def test_rare_words_are_left_out() -> None:
    spec = load(FIXTURES / NAMES[0]).spec
    assert "SEED" not in stored_tables(spec, [b"each word comes only once"])
    assert "SEED" not in stored_tables(spec)


@pytest.mark.parametrize("size", [8, 64, 384])
def test_a_table_of_another_size_is_refused(size: int) -> None:
    spec = load(FIXTURES / NAMES[0]).spec
    with pytest.raises(FormatError, match="SEED"):
        Engine(stored_tables(spec) | {"SEED": bytes(size)}, lambda: spec)


def test_convert_reads_corpora(tmp_path: Path, mtkit: Run) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text(CORPUS)
    second.write_bytes(b"\xff" + b" shellfile" * 9)
    source = FIXTURES / NAMES[0]
    corpora = "--seed-corpus", first, "--seed-corpus", second
    done = mtkit("convert", source, tmp_path / "x.mtok", *corpora)
    assert done.returncode == 0, done.stderr
    made: Any = load(tmp_path / "x.mtok")
    assert made.encode_ids(CORPUS) == load(source).encode_ids(CORPUS)
    values = tuple(("seed_corpus", str(path)) for path in (first, second))
    convert(source, tmp_path / "y.mtok", to="mtok", options=WriteOptions(values=values))
    data = (tmp_path / "y.mtok").read_bytes()
    assert data == (tmp_path / "x.mtok").read_bytes()
    both = first.read_bytes() + second.read_bytes()
    done = mtkit("convert", source, tmp_path / "z.mtok", "--seed-corpus", "-", stdin=both)
    assert done.returncode == 0, done.stderr
    assert data == (tmp_path / "z.mtok").read_bytes()
    assert b" shellfile" in data


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--to", "hf"], "go with --to mtok"), (["--to", "mtok", "--no-tables"], "left out"),
     (["--to", "mtok", "--no-extension"], "left out"), (["--to", "mtok"], "No such file")],
)  # fmt: skip
def test_what_makes_no_sense(more: list[str], said: str, tmp_path: Path, mtkit: Run) -> None:
    corpus = "--seed-corpus", "nowhere"
    done = mtkit("convert", FIXTURES / NAMES[0], "-o", tmp_path / "x", *corpus, *more)
    assert done.returncode == 2
    assert said.encode() in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"a word\n\0", "not text"), (b"\n\n", "no words")]
)
def test_what_is_no_text_is_refused(content: bytes, said: str, tmp_path: Path, mtkit: Run) -> None:
    corpus = tmp_path / "corpus"
    corpus.write_bytes(content)
    done = mtkit("convert", FIXTURES / NAMES[0], tmp_path / "x.mtok", "--seed-corpus", corpus)
    assert done.returncode == 2
    assert said.encode() in done.stderr
    assert b"corpus" in done.stderr
    assert list(tmp_path.iterdir()) == [corpus]


def test_words_that_no_tables_can_hold_are_refused(tmp_path: Path) -> None:
    """Sampling is the pipeline's: written without tables, the corpus would be passed over."""
    (tmp_path / "a.txt").write_text(CORPUS)
    spec = load(FIXTURES / "spm-bpe/tokenizer.json").spec
    spec = replace(spec, model=replace(spec.model, dropout=0.5))
    corpus = (("seed_corpus", str(tmp_path / "a.txt")),)
    with pytest.raises(UnsupportedError):
        mtok.write(spec, WriteOptions(values=corpus))
