"""Llama-2's tokenizer gives the same ids from every file that holds it, where references agree.

The references (sentencepiece, tokenizers, run.c, llama.cpp) differ on few of the 531 texts: those
that spell out special tokens or U+2581; docs/llama-2.md explains each class.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest
from support import SHARED, shared, shared_json_lines, shared_tokenizer

import mtkit
from mtkit.conversion import convert

if TYPE_CHECKING:
    from pathlib import Path


def _inputs() -> list[str]:
    shared("tokenizers/golden/inputs.json")
    text = (SHARED / "tokenizers" / "golden" / "inputs.json").read_text("utf-8")
    inputs: list[str] = json.loads(text)["inputs"]
    return inputs


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
    assert len(agreed()) >= 515


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
    inputs = _inputs()
    unlike = [
        i
        for i, ids in agreed().items()
        if tokenizer.encode_ids(inputs[i], add_special_tokens=False) != ids
    ]
    assert not unlike, [inputs[i] for i in unlike[:3]]
