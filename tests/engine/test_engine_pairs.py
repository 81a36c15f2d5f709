"""Pairs that cannot merge are told by a bit, without a look into the table of pairs."""

from __future__ import annotations

import random

import pytest
from support import FIXTURES

pytest.importorskip("mtkit._native")
from engine_cases import TEXTS

from mtkit import load
from mtkit.engine import Engine, tables
from mtkit.errors import FormatError


@pytest.fixture(scope="module")
def made() -> tuple[Engine, dict[str, bytes]]:
    spec = load(FIXTURES / "bbpe-8k/tokenizer.json").spec
    sections = tables(spec)
    return Engine(sections, lambda: spec), sections


def test_bits_are_asked_first(made: tuple[Engine, dict[str, bytes]]) -> None:
    """A table whose bits are all forged to zero merges nothing."""
    engine, sections = made
    forged = Engine(
        sections | {"PBIT": bytes(len(sections["PBIT"])), "OWNW": b""}, lambda: engine.spec
    )
    short, long = "files and directories", "configuration" * 9
    for text in short, long:
        assert forged.encode_ids(text) == [engine.encode_ids(c)[0] for c in text]
        assert len(engine.encode_ids(text)) < len(text) / 2


def test_ids_are_those_without_bits(made: tuple[Engine, dict[str, bytes]]) -> None:
    engine, sections = made
    asking = Engine({tag: s for tag, s in sections.items() if tag != "PBIT"}, lambda: engine.spec)
    rng = random.Random(4)
    texts = [text for text in TEXTS if isinstance(text, str)]
    texts += ["".join(rng.choices("abcdehilorst .", k=60)) for _ in range(200)]
    for text in texts:
        assert engine.encode_ids(text) == asking.encode_ids(text)


def test_most_pairs_need_no_look(made: tuple[Engine, dict[str, bytes]]) -> None:
    bits = made[1]["PBIT"]
    assert 0.02 < int.from_bytes(bits, "little").bit_count() / (8 * len(bits)) < 0.17


@pytest.mark.parametrize("size", [7, 24])
def test_bits_of_another_size_are_refused(made: tuple[Engine, dict[str, bytes]], size: int) -> None:
    engine, sections = made
    with pytest.raises(FormatError, match="PBIT"):
        Engine(sections | {"PBIT": bytes(size)}, lambda: engine.spec)
