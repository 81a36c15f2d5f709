"""Records and vocabularies of a specification."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import mtkit.spec
from mtkit.base.packed import Numbers, Pieces
from mtkit.formats import FORMATS
from mtkit.spec import TokenType, Vocabulary

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


# What a vocabulary says of its ids.


def test_ids_of_a_type() -> None:
    pieces = Pieces.of([b"a", b"b", b"c", b"d"])
    types = [TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.ABSENT, TokenType.USER_DEFINED]
    typed = Vocabulary(pieces, Numbers.of("B", types))
    assert typed.of_type(TokenType.USER_DEFINED) == [1, 3]
    assert typed.of_type(TokenType.ABSENT, TokenType.NORMAL) == [0, 2]
    assert typed.of_type(TokenType.BYTE) == []
    plain = Vocabulary(pieces)
    assert plain.of_type(TokenType.NORMAL) == plain.of_type(6, TokenType.NORMAL) == [0, 1, 2, 3]
    assert plain.of_type(TokenType.CONTROL) == []
