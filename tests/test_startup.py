"""What a command loads at start-up is a short, known list: nothing heavy slips in."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {
    "asyncio",
    "dataclasses",
    "gguf",
    "huggingface_hub",
    "importlib.metadata",
    "jinja2",
    "llama_cpp",
    "numpy",
    "rich.console",
    "rich.table",
    "sentencepiece",
    "tokenizers",
    "transformers",
}
# typer itself needs these for any command.
TYPER = {"dataclasses", "importlib.metadata"}


def loaded(tmp_path: Path, *args: str) -> set[str]:
    """Names of the modules that a run of mtkit loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mtkit", *args],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert len(lines) > 20
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize("args", [["--version"], ["--help"]])
def test_version_and_help_load_next_to_nothing(tmp_path: Path, args: list[str]) -> None:
    names = loaded(tmp_path, *args)
    assert {n for n in names if n.startswith("mtkit")} <= {
        "mtkit",
        "mtkit.cli",
        "mtkit._version",
        "mtkit.__main__",
    }
    assert not names & (HEAVY | {"typer", "json", "typing", "pathlib", "re"})


def test_encode_loads_only_the_way_to_its_ids(tmp_path: Path) -> None:
    names = loaded(tmp_path, "encode", "Hello, MNN!")
    assert not names & (HEAVY - TYPER)
