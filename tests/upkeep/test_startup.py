"""What a command loads at start-up is a short, known list: nothing heavy slips in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import FIXTURES

from mtkit.base.binary import package_file

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
# typer itself needs these for completion.
TYPER = {"dataclasses", "importlib.metadata"}
# The command, where the file is, the tables in it, the engine on them, and how the ids are printed.
ENCODE = {
    "mtkit",
    "mtkit._native",
    "mtkit._version",
    "mtkit.base",
    "mtkit.base.binary",
    "mtkit.cli",
    "mtkit.commands",
    "mtkit.commands.options",
    "mtkit.commands.encode",
    "mtkit.commands.inputs",
    "mtkit.commands.output",
    "mtkit.commands.command",
    "mtkit.sources.config",
    "mtkit.base.native",
    "mtkit.engine",
    "mtkit.errors",
    "mtkit.base.escape",
    "mtkit.formats",
    "mtkit.formats.mnn_header",
    "mtkit.formats.mtok",
    "mtkit.formats.mtok.extension",
    "mtkit.sources",
    "mtkit.tokenizer",
    "mtkit.tokenizer.tokenizer",
    "mtkit.tokenizer.load",
    "mtkit.sources.locate",
    "mtkit.base.record",
}


RUN = """
import sys
from mtkit.cli import main
code = main(sys.argv[1:])
sys.stderr.write("\\n".join(sys.modules))
sys.exit(code)
"""


def loaded(tmp_path: Path, *args: str, **env: str) -> set[str]:
    """Names of the modules that a run of mtkit loads."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *args],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), **env},
    )
    names = set(done.stderr.splitlines())
    assert "mtkit.cli" in names
    return names


@pytest.mark.parametrize("args", [["--version"], ["--help"]])
def test_version_and_help_load_next_to_nothing(tmp_path: Path, args: list[str]) -> None:
    names = loaded(tmp_path, *args)
    assert {n for n in names if n.startswith("mtkit")} <= {
        "mtkit",
        "mtkit.cli",
        "mtkit._version",
    }
    assert not names & (HEAVY | {"typer", "json", "typing", "pathlib", "re"})


def test_encode_loads_only_the_way_to_its_ids(tmp_path: Path) -> None:
    pytest.importorskip("mtkit._native", reason="without the core, the pipeline encodes")
    names = loaded(tmp_path, "encode", "Hello, MNN!")
    assert not names & (HEAVY | {"typer", "typing", "re"})
    assert {n for n in names if n.startswith("mtkit")} == ENCODE


@pytest.mark.parametrize(
    "line",
    [
        "config",
        "count -p Hello",
        "decode 39 --lines",
        "dump metadata VOCAB.gguf",
        "explain Hello --json",
        "formats",
        "inspect VOCAB.gguf --metadata",
        "token 5 --json",
        "inspect --help",
        "quantize -h",
        "corpus count --help",
        "help encode",
    ],
)
def test_a_plain_line_needs_no_typer(tmp_path: Path, line: str) -> None:
    words = line.replace("VOCAB.gguf", str(FIXTURES / "bbpe-8k" / "vocab.gguf")).split()
    assert not loaded(tmp_path, *words) & (HEAVY | {"typer", "inspect"})


LOOKS = {
    "check MODEL.gguf": 96,
    "compare TOKENIZER TOKENIZER": 81,
    "config": 15,
    "diff MODEL.gguf MODEL.gguf": 42,
    "dump metadata MODEL.gguf": 33,
    "explain Hello": 76,
    "formats": 57,
    "generate --help": 17,
    "hash MODEL.gguf": 34,
    "inspect MODEL.gguf": 46,
    "inspect TOKENIZER": 93,
    "token 5": 57,
}
"""What only looks -> the most modules of mtkit that it loads, each a quarter of a millisecond."""
BESIDE_THEM = {"ast", "inspect", "pkgutil", "shutil", "subprocess", "threading", "typing", "uuid"}
"""Modules of Python that take milliseconds to load."""


@pytest.mark.parametrize("line", LOOKS)
def test_a_command_that_looks_loads_what_it_looks_with(tmp_path: Path, line: str) -> None:
    files = {
        "MODEL.gguf": package_file("default-model.gguf"),
        "TOKENIZER": FIXTURES / "bbpe-8k" / "tokenizer.json",
    }
    names = loaded(tmp_path, *(str(files.get(word, word)) for word in line.split()))
    allowed = {"typing"} if "generate" in line else set()  # settings are read from their types
    assert not names & ((HEAVY | BESIDE_THEM) - allowed)
    assert sum(name.split(".")[0] == "mtkit" for name in names) <= LOOKS[line]


def test_a_template_s_jinja_is_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text("{{ messages[0].content }}", encoding="utf-8")
    names = loaded(tmp_path, "template", str(file), "--user", "hi")
    assert not names & (HEAVY | {"typer"})


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("mtkit ", ""),
        ("mtkit help ", ""),
        ("mtkit dump te", "mtkit.commands.dump"),
        ("mtkit quantize x --type q", "mtkit.commands.quantize"),
        ("mtkit generate --te", "mtkit.commands.generate"),
    ],
)
def test_a_tab_loads_no_command_but_its_own(tmp_path: Path, line: str, command: str) -> None:
    bash = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    names = loaded(tmp_path, _MTKIT_COMPLETE="complete_bash", **bash)
    assert not names & (HEAVY - TYPER)
    modules = {"mtkit.commands.dump", "mtkit.commands.quantize", "mtkit.commands.generate",
               "mtkit.commands.serve", "mtkit.commands.convert", "mtkit.llama"}  # fmt: skip
    assert names & modules == {command} - {""}
