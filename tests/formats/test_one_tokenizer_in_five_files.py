"""Llama-2's tokenizer gives the same ids from every file that holds it, where references agree.

The references (sentencepiece, tokenizers, run.c, llama.cpp) differ on few of the 531 texts: those
that spell out special tokens or U+2581; docs/llama-2.md explains each class.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from support import golden_inputs, shared, shared_json_lines, shared_tokenizer

import mtkit
from mtkit.conversion.tokenizer import convert

if TYPE_CHECKING:
    from pathlib import Path


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
