"""The hand-written stub says what the compiled core says; a core of other sources is refused."""

from __future__ import annotations

import ast
import sys
import zlib
from pathlib import Path

import pytest

import mtkit
from mtkit.engine.opcodes import PROGRAM_VERSION
from mtkit.errors import UsageError

STUB = Path(mtkit.__file__).with_name("_native.pyi").read_text(encoding="utf-8")


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
    assert "Engine.encode_ids" in generated
    assert declarations(STUB) == generated


def test_the_number_of_the_interface_changes_with_it() -> None:
    native = pytest.importorskip("mtkit._native")
    told = "\n".join(f"{name}: {text}" for name, text in sorted(declarations(STUB).items()))
    found = native.INTERFACE, PROGRAM_VERSION, zlib.crc32(told.encode())
    assert found == (18, 6, 2409128860), (
        "raise INTERFACE in base/native.py and native/bind/module.cpp, and write all three here"
    )


def test_a_core_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    native = pytest.importorskip("mtkit._native")
    spec = mtkit.load().spec
    from mtkit.engine import load_engine

    monkeypatch.setattr(native, "INTERFACE", 0)
    for name in ("mtkit.base.native", "mtkit.engine.sections", "mtkit.engine.decode_program"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(UsageError, match="other sources"):
        load_engine(spec)
