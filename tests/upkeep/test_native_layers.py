"""The folders of the native core include only from those below them; one knows Python."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
LAYERS = [
    {"base"},
    {"text"},
    {"tables"},
    {"steps"},
    {"models"},
    {"encode", "decode", "files", "search"},
    {"bind", "fuzz"},
]
"""From the ground up; folders of one layer do not know each other."""
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SOURCES = sorted(NATIVE.rglob("*.?pp"))


def included(path: Path) -> list[str]:
    """Return the headers of the core that a file includes."""
    return re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)


def test_includes_point_down() -> None:
    assert len(SOURCES) > 100
    for path in SOURCES:
        folder = path.relative_to(NATIVE).parts[0]
        assert folder in LEVEL, f"{path}: no layer in tests/upkeep/test_native_layers.py"
        for header in included(path):
            assert (NATIVE / header).exists(), f"{path.name} includes {header}"
            other = header.split("/")[0]
            assert other == folder or LEVEL[other] < LEVEL[folder], f"{path.name}: {header}"


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
@pytest.mark.parametrize("folder", sorted({*LEVEL} - {"base", "bind", "fuzz"}))
def test_the_files_of_a_folder_compile_as_one(folder: str) -> None:
    """An installation compiles them so: a name means one thing in all files of a folder."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    unit = "".join(f'#include "{path}"\n' for path in sorted((NATIVE / folder).glob("*.cpp")))
    options = ["-std=c++20", "-fsyntax-only", "-I", str(NATIVE), "-x", "c++", "-"]
    subprocess.run([compiler, *options], input=unit.encode(), check=True)
