"""How long threads spin before they sleep, by what the OpenMP library says that it read."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from mtkit.llm.threads import cores

pytest.importorskip("llama_cpp")

_PROGRAM = """
import os, sys
from mtkit.llama import library
from mtkit.llm.threads import choose_waiting
given = sys.argv[2].split(",")
before = {name: os.environ.get(name) for name in given}
print(choose_waiting(sys.argv[1]))
assert {name: os.environ.get(name) for name in given} == before
library()
"""
_GIVEN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@pytest.mark.parametrize(
    ("asked", "given", "spins", "said"),
    [
        ("auto", {}, str(200 * cores()), "they spin some microseconds, then sleep"),
        ("auto", {"GOMP_SPINCOUNT": "7"}, "7", "as GOMP_SPINCOUNT says"),
        ("auto", {"OMP_WAIT_POLICY": "passive"}, "0", "as OMP_WAIT_POLICY says"),
        ("passive", {}, "0", "passive, as asked"),
        ("active", {}, "30000000000", "active, as asked"),
        ("default", {}, "300000", "the OpenMP library's default, as asked"),
    ],
)
def test_what_the_library_reads(asked: str, given: dict[str, str], spins: str, said: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in _GIVEN}
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, asked, ",".join(_GIVEN)],
        env=environment | given | {"OMP_DISPLAY_ENV": "verbose"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.strip() == said
    read = re.search(r"GOMP_SPINCOUNT = '(\d+)'", ran.stderr)
    if read is None:
        pytest.skip("llama.cpp was not built with libgomp")
    assert read[1] == spins
