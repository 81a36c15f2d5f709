"""Names in the package are nouns and verbs of the field: the list of what is no name is short."""

from __future__ import annotations

import ast
from pathlib import Path

import mtkit

ROOT = Path(mtkit.__file__).parent
BANNED = {
    "another", "asked", "begun", "done", "found", "given", "got", "heard", "made", "meant", "one",
    "said", "sent", "spelled", "told", "wanted",
}  # fmt: skip
"""Participles and pronouns: a reader has to find out each time what they stand for."""
MOST_LINES = 700


def _bound(tree: ast.Module) -> set[tuple[int, str]]:
    """Lines and names: of variables, parameters, attributes, functions and classes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            names.add((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add((node.lineno, node.attr))
    return names


def test_no_participle_and_no_pronoun_is_a_name() -> None:
    paths = sorted(ROOT.rglob("*.py"))
    assert len(paths) > 300
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in paths
        for line, name in sorted(_bound(ast.parse(path.read_text(encoding="utf-8"))))
        if name.lstrip("_") in BANNED
    ]
    assert not wrong, wrong


def test_a_module_is_not_longer_than_one_reads() -> None:
    sizes = {path: path.read_text(encoding="utf-8").count("\n") for path in ROOT.rglob("*.py")}
    assert not {str(path): size for path, size in sizes.items() if size > MOST_LINES}
