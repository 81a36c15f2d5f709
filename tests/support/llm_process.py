"""Statements run in a process of their own: an abort or a segmentation fault is seen as one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

from llm_models import tiny
from support import reference

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
from mtkit.errors import MtkitError
from mtkit.llama import *
from mtkit.api.generation import generate
from mtkit.settings import SamplerSettings
from mtkit.llm.sampling import Sampler
import sys
path = sys.argv[1]
def said(what, *arguments, **options):
    try:
        what(*arguments, **options)
    except MtkitError as error:
        print(type(error).__name__, error)
    else:
        raise SystemExit("no error")
"""


def run(body: str, model: Path | None = None) -> str:
    """Run statements in a new process; returns what they print."""
    reference("llama_cpp")
    script = HEAD + textwrap.dedent(body) + "\nprint('alive')\n"
    done = subprocess.run(
        [sys.executable, "-c", script, str(model or tiny())],
        capture_output=True, check=False, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    assert done.stdout.endswith("alive\n"), done.stdout
    assert done.stderr == ""
    return done.stdout
