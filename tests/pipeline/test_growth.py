"""Time grows with the length of a text, not with its square, for each kind of model."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from support import TESTS

sys.path.append(str(TESTS.parent))
growth = importlib.import_module("benchmarks.growth")
MODELS = dict(growth.small_models())
FROM, TO = 1 << 14, 1 << 17
DOUBLINGS = 3
IN_PIPELINE = ("one letter", "only marks", "random letters")


@pytest.mark.parametrize("name", MODELS)
def test_engine(name: str) -> None:
    block = bytearray(growth.ALLOCATOR)
    del block
    found = growth.makers(MODELS[name])
    assert "engine" in found
    for kind in growth.KINDS:
        for rounds in (1, 4, 16):  # more patience where the machine is busy
            first, last = growth.growths(found["engine"], kind, (FROM, TO), rounds)
            if last < max(first, growth.SMALL["engine"]) * growth.LIMIT**DOUBLINGS:
                break
        assert last < max(first, growth.SMALL["engine"]) * growth.LIMIT**DOUBLINGS, kind


@pytest.mark.parametrize("name", MODELS)
def test_pipeline(name: str) -> None:
    found = growth.makers(MODELS[name])
    sizes = (growth.PIPELINE_SIZES[0], growth.PIPELINE_SIZES[-1])
    for kind in IN_PIPELINE:
        for rounds in (1, 3, 9):
            first, last = growth.growths(found["pipeline"], kind, sizes, rounds)
            if last < max(first, growth.SMALL["pipeline"]) * growth.LIMIT**2:
                break
        assert last < max(first, growth.SMALL["pipeline"]) * growth.LIMIT**2, kind


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_a_huge_word_is_given_back() -> None:
    code = (
        "import mtkit\n"
        "def resident():\n"
        "    with open('/proc/self/statm') as file:\n"
        "        return int(file.read().split()[1]) * 4096 >> 20\n"
        "tokenizer = mtkit.load()\n"
        "before = resident()\n"
        "tokenizer.encode_array('a' * 4_000_000)\n"
        "print(resident() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60  # 112 MB for the symbols of the word alone
