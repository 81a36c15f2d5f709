"""A tokenizer's file that is truncated while it is in use does not end the process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import FIXTURES

from mtkit.sources.locate import TOKENIZER, shipped

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
import mtkit, os, sys
tokenizer = mtkit.load(sys.argv[1])
os.truncate(sys.argv[1], 100)
tokenizer.encode_ids("hello")
tokenizer.encode("hello")
tokenizer.decode([1, 2])
"""


@pytest.mark.parametrize("name", ["default.mtok", "bbpe-8k/vocab.gguf", "bbpe-8k/tokenizer.json"])
def test_truncated_after_loading(name: str, tmp_path: Path) -> None:
    source = shipped(TOKENIZER) if name == "default.mtok" else FIXTURES / name
    path = tmp_path / name.replace("/", "-")
    shutil.copy(source, path)
    done = subprocess.run([sys.executable, "-c", CODE, str(path)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
