"""Mutants of files of every format give tokenizers or clear errors (`make fuzz-files` has more)."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

import pytest
from mutants import mutant, wholes
from support import TESTS

from mtkit import formats
from mtkit.spec import rules

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.slow

SEED = 1
PARTS = 4
CASES = 200


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return tools/fuzz_files.py; the repository's root may not be on the path."""
    location = spec_from_file_location("fuzz_files", TESTS.parent / "tools" / "fuzz_files.py")
    assert location
    assert location.loader
    module = module_from_spec(location)
    monkeypatch.setattr(sys, "path", [*sys.path])
    location.loader.exec_module(module)
    return module


def run(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, *options: object) -> int:
    monkeypatch.setattr(sys, "argv", ["fuzz_files", *map(str, options)])
    return tool.main()


@pytest.mark.parametrize("part", range(PARTS))
def test_mutants(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    part: int,
) -> None:
    status = run(tool, monkeypatch, "--seed", SEED, "--from", part * CASES, "--cases", CASES)
    said = capsys.readouterr().out
    assert status == 0, said
    total, _, read = said.splitlines()[-1].split()[:3]
    assert int(total) == CASES
    assert int(read) > CASES / 5


@pytest.mark.parametrize("kind", ["gguf", "safetensors", "folders", "manifests", "answers"])
def test_mutants_of_what_the_workbench_reads(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    status = run(tool, monkeypatch, "--kind", kind, "--seed", SEED, "--cases", CASES)
    said = capsys.readouterr().out
    assert status == 0, said
    total, _, read = said.splitlines()[-1].split()[:3]
    assert int(total) == CASES
    assert int(read) > CASES / 20


def test_mutants_are_made_of_every_format_and_are_the_same_each_time() -> None:
    assert {name.partition(":")[0] for name in wholes()} == {*formats.FORMATS}
    for number in range(50):
        first, again = mutant(SEED, number), mutant(SEED, number)
        assert first.name == again.name
        assert bytes(first.source.data) == bytes(again.source.data)
        assert first.source._siblings == again.source._siblings


def test_without_the_rules_of_a_specification_something_is_found(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rules, "check", lambda spec: None)
    assert run(tool, monkeypatch, "--seed", SEED, "--cases", 40, "--file", "mtok:of spm") == 1
    assert f"--seed {SEED} --only " in capsys.readouterr().out


@pytest.mark.parametrize(("name", "body"), [
    ("TookTooLong", "while True: pass"),
    ("hang", "import time; time.sleep(60)"),
    ("process ended with -6", "import os; os.abort()"),
    ("MemoryError", "b'x' * (1 << 40)"),
])  # fmt: skip
def test_what_does_not_end_well_is_found(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    body: str,
) -> None:
    import file_uses

    monkeypatch.setattr(tool, "CPU_SECONDS", 0.1)
    monkeypatch.setattr(tool, "WALL_SECONDS", 0.5 if name == "hang" else 60)
    monkeypatch.setattr(file_uses, "use", lambda source, rng: exec(body))
    assert run(tool, monkeypatch, "--seed", SEED, "--cases", 2) == 1
    said = capsys.readouterr().out
    assert said.count(name) >= 2
    assert f"--seed {SEED} --only 1" in said
