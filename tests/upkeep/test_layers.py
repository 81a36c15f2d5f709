"""Packages, and folders of the native core, take only from those below them."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import mtkit
from mtkit.formats import FORMATS

ROOT = Path(mtkit.__file__).parent

# From the ground up; a package may import from those above it here, never from its own line.
LAYERS = [
    {"_version", "_native", "errors"},
    {"base"},
    {"spec", "unicode", "gguf"},
    {"patterns"},
    {"pipeline"},
    {"engine"},
    {"architectures", "formats", "chat", "memory_plan", "sources"},
    {"checkpoints"},
    {"inspection", "settings", "tokenizer"},
    {"llama"},
    {"conversion", "corpus", "llm"},
    {"checks", "speculative"},
    {"api", "hf", "report", "serve", "tiktoken"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = {
    ".".join(("mtkit", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sorted(ROOT.rglob("*.py"))
}


def imported(path: Path) -> set[str]:
    """Modules of mtkit that a file imports, at run time or for types."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                names.add(name if name in MODULES or node.module == "mtkit" else str(node.module))
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "mtkit"}


IMPORTS = {name: imported(path) - {name} for name, path in MODULES.items() if name != "mtkit"}
"""Without the package itself, whose public names come from every layer."""


def test_imports_point_down() -> None:
    assert len(IMPORTS) > 200
    for name, targets in IMPORTS.items():
        package = name.split(".")[1]
        assert package in LEVEL, f"{name}: no layer in tests/upkeep/test_layers.py"
        for target in targets - {"mtkit"}:
            other = target.split(".")[1]
            if other != package and not other.startswith("__"):
                assert LEVEL[other] < LEVEL[package], f"{name} imports {target}"


def test_no_circle() -> None:
    """Take away, again and again, the modules that import nothing of what is left."""
    left = {name: targets & set(IMPORTS) for name, targets in IMPORTS.items()}
    while free := {name for name, targets in left.items() if not targets & set(left)}:
        left = {name: targets for name, targets in left.items() if name not in free}
    circles = {name: sorted(targets & set(left)) for name, targets in left.items()}
    assert not circles, circles


def test_the_native_core_has_one_door() -> None:
    importers = {name for name, targets in IMPORTS.items() if "mtkit._native" in targets}
    assert importers == {"mtkit.base.native"}


def test_only_llama_calls_llama_cpp() -> None:
    callers = set()
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                names += [a.value for a in node.args if isinstance(a, ast.Constant)]
            if any(str(imported).split(".")[0] == "llama_cpp" for imported in names):
                callers.add(name.split(".")[1])
                assert node not in tree.body, f"{name}: imported before it is needed"
    assert callers == {"llama"}


def test_format_families_do_not_know_each_other() -> None:
    """A module of a family imports of ``formats`` its own family and what no family owns."""
    families = {module.split(".")[2] for module in FORMATS.values()}
    assert len(families) > 10
    for name, targets in IMPORTS.items():
        parts = name.split(".")
        if parts[1] != "formats" or len(parts) < 3:
            continue
        for target in targets:
            others = target.split(".")
            if others[1] == "formats" and len(others) > 2 and others[2] in families:
                assert others[2] == parts[2], f"{name} imports {target}"


def test_gguf_container_knows_no_tokenizer() -> None:
    for name, targets in IMPORTS.items():
        if name.split(".")[1] == "gguf":
            assert {target.split(".")[1] for target in targets} <= {"gguf", "base", "errors"}, name


NATIVE = Path(__file__).parents[2] / "native"
NATIVE_LAYERS = [
    {"base"},
    {"text"},
    {"tables"},
    {"steps"},
    {"models"},
    {"encode", "decode", "files", "search"},
    {"bind", "fuzz"},
]
"""From the ground up; folders of one layer do not know each other."""
NATIVE_LEVEL = {name: level for level, names in enumerate(NATIVE_LAYERS) for name in names}
SOURCES = sorted(NATIVE.rglob("*.?pp"))


def included(path: Path) -> list[str]:
    """Return the headers of the core that a file includes."""
    return re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)


def test_includes_point_down() -> None:
    assert len(SOURCES) > 100
    for path in SOURCES:
        folder = path.relative_to(NATIVE).parts[0]
        assert folder in NATIVE_LEVEL, f"{path}: no layer in tests/upkeep/test_layers.py"
        for header in included(path):
            assert (NATIVE / header).exists(), f"{path.name} includes {header}"
            other = header.split("/")[0]
            assert other == folder or NATIVE_LEVEL[other] < NATIVE_LEVEL[folder], (
                f"{path.name}: {header}"
            )


def test_only_bindings_know_python() -> None:
    knowing = {
        path.relative_to(NATIVE).parts[0]
        for path in SOURCES
        if re.search(r"#include <(nanobind|Python)", path.read_text(encoding="utf-8"))
    }
    assert knowing == {"bind"}


def test_no_function_is_long() -> None:
    """A function, or a lambda that stands for one, has at most eighty lines."""
    for path in SOURCES:
        opened: list[tuple[int, bool]] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            code = re.sub(r'//.*|"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "", line)
            for at, brace in enumerate(code):
                if brace == "{":
                    other = r"\b(namespace|class|struct|enum|union)\b"
                    opened.append((number, not re.search(other, code[:at])))
                elif brace == "}":
                    start, is_code = opened.pop()
                    assert not is_code or number - start < 80, f"{path.name}:{start}"


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted({*NATIVE_LEVEL} - {"base", "bind", "fuzz"}))
def test_the_files_of_a_folder_compile_as_one(folder: str) -> None:
    """An installation compiles them so: a name means one thing in all files of a folder."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    unit = "".join(f'#include "{path}"\n' for path in sorted((NATIVE / folder).glob("*.cpp")))
    options = ["-std=c++20", "-fsyntax-only", "-I", str(NATIVE), "-x", "c++", "-"]
    subprocess.run([compiler, *options], input=unit.encode(), check=True)
