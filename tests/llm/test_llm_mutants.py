"""Hostile model files run or are refused in one line; ``tools/fuzz_models.py`` draws more of them.

``MTKIT_MUTANTS`` sets how many are drawn.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from llm_models import tiny
from model_mutants import mutant
from support import TESTS, reference

MUTANTS = int(os.environ.get("MTKIT_MUTANTS") or 40)
TOOL = TESTS.parent / "tools" / "fuzz_models.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tool forks")
def test_no_mutant_ends_the_process() -> None:
    reference("llama_cpp")
    tiny()  # or skip: without the shared folder there is one model, too large to mutate in a test
    argv = [sys.executable, str(TOOL), "--count", str(MUTANTS), "--seed", "20"]
    done = subprocess.run(argv, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts: Counter[str] = Counter()
    for count, name in re.findall(r"^ *(\d+) (\w+: exit code \d)", done.stdout, re.MULTILINE):
        counts[name] += int(count)
    assert sum(n for name, n in counts.items() if name.startswith("generate")) == MUTANTS
    assert counts["generate: exit code 0"] > MUTANTS // 10  # it is not all refused early
    assert counts["generate: exit code 3"] > MUTANTS // 10
    assert counts["chat: exit code 0"] > 0


def test_mutants_can_be_made_again() -> None:
    bases = [tiny("llama", n_embd=64, n_ff=64), tiny("t5", n_embd=64, n_ff=64)]
    made = [mutant(bases, 3, number) for number in range(12)]
    assert [mutant(bases, 3, number) for number in range(12)] == made
    assert len({content for content, _ in made}) == 12
    assert mutant(bases, 4, 0) != made[0]
