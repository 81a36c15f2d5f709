"""Every tokenizer comes back from every format that can hold it, less exactly the listed losses.

A format writes into memory and reads back: no field differs that no loss names, no input gets other
ids that no loss foresees. What is written as GGUF, llama.cpp itself loads, and gives the ids that
mtkit gives for the file. ``MTKIT_FULL=1`` also takes the largest vocabularies through every format.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from conversions_back import WRITABLE, trip, written
from llama import Llama
from support import FIXTURES, SHARED, golden_inputs, shared_tokenizer

import mtkit
from mtkit.conversion.verification import spec_equal
from mtkit.formats.contract import Loss
from mtkit.spec import replace
from mtkit.tokenizer import comparison

if TYPE_CHECKING:
    from pathlib import Path

    from mtkit.tokenizer.tokenizer import Tokenizer

FULL = bool(os.environ.get("MTKIT_FULL"))
LARGE_BYTES = 3_000_000
"""Of a file: from here on an ordinary run writes only the format itself and .mtok."""
NO_TOKENIZER = ("llama-3/tokenizer.tiktoken",)
"""Ranks without a pattern: mtkit asks for it."""
ENDINGS = ("tokenizer.json", "tekken.json", ".model", ".tiktoken", ".bin", ".txt", ".gguf")
BESIDE = ("merges.txt",)


def own() -> list[str]:
    return sorted(
        f"{file.parent.name}/{file.name}"
        for file in FIXTURES.glob("*/*")
        if file.name.endswith((*ENDINGS, "vocab.json")) and file.name not in BESIDE
    )


def stored() -> list[str]:
    """Return the shared files, or one to be skipped."""
    names = []
    for file in (SHARED / "tokenizers" / "tokenizers").glob("*/*"):
        name = f"{file.parent.name}/{file.name.removesuffix('.xz')}"
        if name.endswith(ENDINGS) and name not in NO_TOKENIZER and not name.endswith(BESIDE):
            names.append(name)
    return sorted(names) or ["none/tokenizer.json"]


def goals(tokenizer: Tokenizer, path: Path) -> tuple[str, ...]:
    if FULL or path.stat().st_size < LARGE_BYTES:
        return WRITABLE
    return tuple(name for name in WRITABLE if name in ("mtok", tokenizer.format_name))


def check(path: Path, texts: list[str]) -> None:
    tokenizer = mtkit.load(path)
    arrived = []
    for to in goals(tokenizer, path):
        found = trip(tokenizer, to, texts)
        if found is None:
            continue
        arrived.append(to)
        assert not found.fields, (to, found.fields, found.losses)
        assert not found.ids, (to, found.ids[:3], len(found.ids), found.losses)
        if to == "mtok":
            assert not [loss for loss in found.losses if loss.code != "metadata"]
            assert not found.explained
    assert "mtok" in arrived
    assert tokenizer.format_name in arrived


@pytest.mark.parametrize("name", own())
def test_own_fixture(name: str) -> None:
    check(FIXTURES / name, comparison.probe_texts())


@pytest.mark.parametrize("name", stored())
def test_shared_tokenizer(name: str) -> None:
    folder, file = name.split("/")
    check(shared_tokenizer(folder) / file, golden_inputs())


@pytest.mark.parametrize("name", stored())
def test_llama_cpp_gives_what_mtkit_gives_for_the_file(name: str, tmp_path: Path) -> None:
    folder, file = name.split("/")
    path = shared_tokenizer(folder) / file
    if not FULL and path.stat().st_size >= LARGE_BYTES:
        pytest.skip("a large vocabulary; MTKIT_FULL=1 takes it")
    tokenizer = mtkit.load(path)
    made = written(tokenizer.spec, "gguf")
    if made is None:
        return  # llama.cpp has no such tokenizer; the law of refusing has its tests elsewhere
    target = tmp_path / "out.gguf"
    target.write_bytes(next(iter(made.files.values())))
    back = mtkit.load(target)
    llama = Llama(target)
    try:
        for text in golden_inputs():
            for add, parse in ((False, False), (True, True)):
                ids = back.encode_ids(text, add_special_tokens=add, parse_special=parse)
                assert ids == llama.encode(text.encode(), add=add, parse=parse), text
    finally:
        llama.close()


def test_the_comparison_notices() -> None:
    """A field, a field of a stage, and one that only a loss of another stage names."""
    spec = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json").spec
    other = replace(spec, model=replace(spec.model, ignore_merges=True, fuse_unk=True))
    one, two = Loss("ids", "model.ignore_merges", ""), Loss("ids", "model.fuse_unk", "")
    assert not spec_equal(spec, other, ())
    assert not spec_equal(spec, other, (one,))
    assert not spec_equal(spec, other, (Loss("ids", "normalizer", ""),))
    assert spec_equal(spec, other, (one, two))
    assert spec_equal(spec, other, (Loss("ids", "model", ""),))
    assert not spec_equal(spec, replace(spec, join="+"), (one, two))
