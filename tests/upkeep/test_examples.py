"""Every script in examples/ runs on the files that a clone has, and says something."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import FIXTURES, reference

ROOT = Path(__file__).parents[2]
HF, SPM = FIXTURES / "bbpe-8k" / "tokenizer.json", FIXTURES / "spm-bpe" / "tokenizer.model"
GIVEN: dict[str, tuple[list[object], tuple[str, ...]]] = {
    "inspect_files": ([HF, HF.parent.parent / "none"], ()),
    "convert_tokenizer": ([SPM, "made.gguf"], ()),
    "encode_corpus": ([ROOT / "LICENSE", HF], ()),
    "instead_of_transformers": ([HF], ("transformers",)),
    "instead_of_tiktoken": ([HF], ("tiktoken",)),
    "generate_text": ([], ("llama_cpp",)),
    "serve_to_openai": ([], ("llama_cpp", "uvicorn", "openai")),
    "speculative_decoding": ([], ("llama_cpp",)),
}
"""Arguments, and the libraries that a script needs."""


def test_every_script_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(GIVEN)


@pytest.mark.parametrize("name", GIVEN)
def test_a_script_runs(tmp_path: Path, name: str) -> None:
    arguments, needed = GIVEN[name]
    for module in needed:
        if importlib.util.find_spec(module) is None:
            reference(module)
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *map(str, arguments)],
        cwd=tmp_path,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path),
             "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
