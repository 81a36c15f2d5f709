"""The hand-written stub of the native core says what the compiled module says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mtkit


def declarations(source: str) -> dict[str, str]:
    """Name (Class.method for methods) -> signature without docstrings."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    found[f"{node.name}.{inner.name}"] = signature(inner)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = signature(node)
    return found


def signature(node: ast.FunctionDef) -> str:
    node.body = [ast.Expr(ast.Constant(...))]
    text = ast.unparse(node)
    # The generator spells what it imports in full.
    for prefix in ("typing.", "collections.abc.", "mtkit._native."):
        text = text.replace(prefix, "")
    return text


def test_stub_is_what_the_module_says() -> None:
    native = pytest.importorskip("mtkit._native")
    stubgen = pytest.importorskip("nanobind.stubgen")
    generator = stubgen.StubGen(native, quiet=True)
    generator.put(native)
    generated = declarations(generator.get())
    assert "build_info" in generated
    stub = Path(mtkit.__file__).with_name("_native.pyi")
    assert declarations(stub.read_text(encoding="utf-8")) == generated
