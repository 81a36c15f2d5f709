"""The hand-written stub says what the compiled core says; a core of other sources is refused."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import mtkit
from mtkit.engine.opcodes import PROGRAM_VERSION
from mtkit.errors import UsageError

NATIVE = Path(__file__).parents[2] / "native"
OWN_SPELLING = re.compile(
    r"gnu::|__attribute__|__builtin_(?!cpu_)|__declspec|__forceinline|__GNUC__|_MSC_VER"
)
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
    assert found == (23, 7, 1245860151), (
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


def test_what_compilers_spell_in_their_own_way_is_in_one_header() -> None:
    files = [file for file in NATIVE.rglob("*.?pp") if file.name != "compiler.hpp"]
    assert len(files) > 50
    found = [
        f"{file.relative_to(NATIVE)}: {line}"
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if OWN_SPELLING.search(line)
    ]
    assert not found


@pytest.mark.parametrize("level", ["nonsense", "avx", "sse2", "riscv"])
def test_a_level_that_the_machine_does_not_have_is_an_error(level: str) -> None:
    native = pytest.importorskip("mtkit._native")
    done = subprocess.run(
        [sys.executable, "-m", "mtkit", "encode", "a"],
        env={**os.environ, "MTKIT_SIMD": level, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    levels = ", ".join(native.simd_levels())
    assert done.returncode == 2
    assert done.stderr == f"mtkit: MTKIT_SIMD is {level}; this machine has {levels}\n"


def test_each_level_of_the_machine_can_be_named() -> None:
    native = pytest.importorskip("mtkit._native")
    for level in ["", *native.simd_levels()]:
        done = subprocess.run(
            [sys.executable, "-c", "import mtkit._native as n; print(n.simd())"],
            env={**os.environ, "MTKIT_SIMD": level, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == (level or native.simd_levels()[-1])
