"""The specification says what a tokenizer does, never whose it is or which file it came from."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import mtkit.spec
from mtkit.formats import FORMATS

# BERT and RoBERTa are models: their rules have no other name.
PROGRAMS = {
    "ggml", "hugging", "huggingface", "json", "llama", "mistral", "mnn", "rust", "sentencepiece",
    "tokenizers", "transformers",
}  # fmt: skip
FOREIGN = PROGRAMS | {*FORMATS} - {"wordpiece"}  # which is an algorithm, too


def words(name: str) -> set[str]:
    """``prepend_scheme`` and ``PrependScheme`` are the words prepend and scheme."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return {*re.split(r"[^a-z0-9]+", spaced.lower()), name.lower()}


def public_names(source: str) -> set[str]:
    """Names of classes, their fields, and the values that a Literal allows."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
            names |= {
                value.value
                for value in ast.walk(node.annotation)
                if isinstance(value, ast.Constant) and isinstance(value.value, str)
            }
    return names


def test_no_name_in_the_specification_is_that_of_a_program_or_a_format() -> None:
    paths = sorted(Path(mtkit.spec.__file__).parent.glob("*.py"))
    names = {name for path in paths for name in public_names(path.read_text(encoding="utf-8"))}
    assert {"TokenizerSpec", "prepend_scheme", "leftmost_longest"} <= names
    assert not {name for name in names if words(name) & FOREIGN}


@pytest.mark.parametrize("name", ["hf_rules", "LikeLlama", "gguf", "as_SPM"])
def test_such_names_would_be_found(name: str) -> None:
    assert words(name) & FOREIGN
