"""Stored answers of sentencepiece, tiktoken, mistral-common, llama2.c and RWKV, one tokenizer in
five files, and the matrix of ``tools/matrix.py`` on the fixtures.

The engine gives all of the answers, the pipeline every fifth: ids with and without special tokens,
pieces, decoded text. ``test_hf_read`` does the same for tokenizer.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conversions_back import WRITABLE
from libraries import OPENERS
from matrix import Comparison, cell
from support import (
    FIXTURES,
    golden_inputs,
    golden_names,
    shared,
    shared_json_lines,
    shared_tokenizer,
)

import mtkit
from mtkit.conversion.tokenizer import convert
from mtkit.formats import hf
from mtkit.formats.contract import Loss, WriteOptions
from mtkit.pipeline import Pipeline
from mtkit.spec import normalizers, replace
from mtkit.tokenizer.tokenizer import Tokenizer

FILES = {
    "spm": ("tokenizer.model",),
    "tiktoken": ("tokenizer.tiktoken",),
    "tekken": ("tekken.json",),
    "llama2c": ("tokenizer.bin", "tok512.bin"),
    "rwkv": ("rwkv_vocab_v20230424.txt",),
}
SAMPLED = 5
"""The pipeline gives every so manieth answer."""


def checks(tokenizer: Tokenizer, kind: str, text: str, row: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (what, expected, made)."""
    ids, special = row["ids"], row.get("sp", row["ids"])
    plain: dict[str, bool] = {}
    full: dict[str, bool] = {}
    if kind == "tiktoken":  # "special" means that those written in the text are recognized
        plain, full = {"parse_special": False}, {"parse_special": True}
    elif kind == "tekken":
        plain = {"add_special_tokens": False}
    yield "ids", ids, tokenizer.encode_ids(text, **plain)
    yield "ids with special tokens", special, tokenizer.encode_ids(text, **full)
    decoded = row.get("d", text)
    if "dx" in row:
        decoded = bytes.fromhex(row["dx"]).decode("utf-8", "replace")
    given = special if kind == "tiktoken" else ids
    yield "decoded", decoded, tokenizer.decode(given, skip_special_tokens=False)
    if "p" in row:
        yield "pieces", row["p"], tokenizer.encode(text).tokens


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind in FILES for name in golden_names(kind)]
)
def test_stored_answers(name: str, kind: str) -> None:
    folder = shared_tokenizer(name)
    path = next(folder / file for file in FILES[kind] if (folder / file).exists())
    tokenizer = mtkit.load(path)
    assert tokenizer.format_name == kind
    pipeline = Tokenizer(tokenizer.spec, engine=Pipeline(tokenizer.spec))
    texts = golden_inputs()
    rows = shared_json_lines(f"tokenizers/golden/{name}.{kind}.jsonl.gz")
    rows = [row for row in rows if "ids" in row]
    assert len(rows) > 500
    unlike = []
    for number, row in enumerate(rows):
        text = texts[row["i"]]
        for made_by in [tokenizer, pipeline][: 1 + (number % SAMPLED == 0)]:
            for what, expected, made in checks(made_by, kind, text, row):
                if made != expected:
                    unlike.append((made_by.engine.name, what, text, expected, made))
    assert unlike[:3] == []


@pytest.mark.parametrize("name", ["spm-bpe", "spm-unigram", "spm-unigram-id"])
def test_own_models(name: str) -> None:
    """Answers of sentencepiece that need no shared folder."""
    tokenizer = mtkit.load(FIXTURES / name / "tokenizer.model")
    pipeline = Pipeline(tokenizer.spec)
    lines = (FIXTURES / name / "cases.jsonl").read_text("utf-8").splitlines()
    assert len(lines) > 100
    for case in map(json.loads, lines):
        assert tokenizer.encode_ids(case["text"]) == case["ids"], case["text"]
        assert pipeline.encode_ids(case["text"]) == case["ids"], case["text"]


def _golden(kind: str) -> dict[int, list[int]]:
    rows = shared_json_lines(f"tokenizers/golden/llama-2.{kind}.jsonl.gz")
    found = {row["i"]: row["ids"] for row in rows if "i" in row and "ids" in row}
    assert len(found) > 500
    if kind == "llama2c":  # run.c always puts BOS in front
        return {i: ids[1:] for i, ids in found.items()}
    return found


def _llama_cpp() -> dict[int, list[int]]:
    rows = shared_json_lines("gguf-vocab/golden/llama-spm.jsonl.gz")
    return {row["i"]: row["ids"] for row in rows if "i" in row}


@cache
def agreed() -> dict[int, list[int]]:
    """Return the texts on which all references agree, with their ids."""
    answers = [_golden("spm"), _golden("hf"), _golden("llama2c"), _llama_cpp()]
    common = set.intersection(*(set(answer) for answer in answers))
    return {i: answers[0][i] for i in common if all(a[i] == answers[0][i] for a in answers)}


def test_references_differ_on_few() -> None:
    assert len(agreed()) == 520


def test_the_document_names_every_class() -> None:
    """Texts on which references differ: who stands alone there, and why."""
    inputs = golden_inputs()
    answers = {"spm": _golden("spm"), "hf": _golden("hf"), "llama2c": _golden("llama2c"),
               "llama.cpp": _llama_cpp()}  # fmt: skip
    counts = {"special": 0, "U+2581": 0, "NUL": 0}
    for number in sorted(set(range(len(inputs))) - set(agreed())):
        text = inputs[number]
        groups: dict[tuple[int, ...] | None, list[str]] = {}
        for name, answer in answers.items():
            ids = tuple(answer[number]) if number in answer else None
            groups.setdefault(ids, []).append(name)
        alone = [names[0] for names in groups.values() if len(names) == 1]
        assert len(groups) == 2
        if "\0" in text:
            kind, who = "NUL", "llama2c"
        elif "\u2581" in text:
            kind, who = "U+2581", "llama2c"
        else:
            assert any(token in text for token in ("<s>", "</s>", "<unk>")), text
            kind, who = "special", "hf"
        assert alone == [who], text
        counts[kind] += 1
    assert counts == {"special": 5, "U+2581": 4, "NUL": 2}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("tokenizer.model", "spm"), ("tokenizer.bin", "llama2c"), ("tokenizer.json", "hf")],
)
def test_where_they_differ_the_files_own_reference_counts(name: str, kind: str) -> None:
    tokenizer = mtkit.load(shared_tokenizer("llama-2") / name)
    wanted, inputs = _golden(kind), golden_inputs()
    for number in set(wanted) - set(agreed()):
        ids = tokenizer.encode_ids(inputs[number], add_special_tokens=False)
        assert ids == wanted[number], inputs[number]


@pytest.mark.parametrize(
    "name", ["tokenizer.model", "tokenizer.bin", "tokenizer.json", "gguf", "mtok"]
)
def test_ids_are_the_same(name: str, tmp_path: Path) -> None:
    folder = shared_tokenizer("llama-2")
    if name == "gguf":
        path = shared("gguf-vocab/ggml-vocab-llama-spm.gguf")
    elif name == "mtok":
        path = tmp_path / "tokenizer.mtok"
        convert(str(folder / "tokenizer.model"), str(path), to="mtok")
    else:
        path = folder / name
    tokenizer = mtkit.load(path)
    inputs = golden_inputs()
    unlike = [
        i
        for i, ids in agreed().items()
        if tokenizer.encode_ids(inputs[i], add_special_tokens=False) != ids
    ]
    assert not unlike, [inputs[i] for i in unlike[:3]]


SOURCES = (
    "bbpe-8k/tokenizer.json",
    "spm-bpe/tokenizer.model",
    "spm-unigram/tokenizer.model",
    "wordpiece/vocab.txt",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_libraries_give_what_the_source_gives_or_a_loss_says_so(name: str) -> None:
    source = mtkit.load(FIXTURES / name)
    cells = {to: cell(source, to) for to in WRITABLE}
    assert not [line for found in cells.values() for line in found.unnamed]
    held = {to for to, found in cells.items() if not found.refused}
    assert held >= {"mtok", "hf", "gguf", source.format_name}
    # Each library is asked about each text, two of them about what is written for transformers.
    assert all(cells[to].texts >= 200 * len(OPENERS.get(to, "x")) for to in held)


def compared(tmp_path: Path, losses: tuple[Loss, ...]) -> Comparison:
    """Compare a tokenizer with a file of another one: it lower-cases its text."""
    source = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json")
    other = replace(source.spec, normalizer=normalizers.Lowercase())
    path = tmp_path / "tokenizer.json"
    for name, content in hf.write(other, WriteOptions()).files.items():
        (tmp_path / name).write_bytes(content)
    made = Comparison(source, losses)
    made.open(path, "hf")
    return made


@pytest.mark.slow
def test_the_comparison_notices_what_no_loss_names(tmp_path: Path) -> None:
    assert set(compared(tmp_path, ()).unnamed) >= {"tokenizers plain", "tokenizers whole"}


@pytest.mark.slow
def test_a_loss_of_ids_names_it(tmp_path: Path) -> None:
    made = compared(tmp_path, (Loss("ids", "normalizer", "is skipped"),))
    assert not made.unnamed
    assert made.named
