"""Words that the core passes in one look at many bytes; every level gives the pipeline's ids."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from engine_beside_pipeline import Both
from support import at_level, shared_tokenizer

pytest.importorskip("mtkit._native")
from mtkit import load

NAMES = ["gpt2", "qwen3", "llama-3", "o200k_base", "bert-base-uncased", "llama-2"]
WHOLE = """
import json, sys
from mtkit import load
for name, texts in json.load(sys.stdin):
    engine = load(name).engine
    print(json.dumps([[engine.encode_ids(text) for text in texts] for _ in range(2)]))
"""


def texts(seed: int, count: int) -> list[str]:
    """Draw texts of runs: of letters, blanks, digits, Han and others, some longer than a look."""
    rng = random.Random(seed)
    runs = [
        *["abcxyz", "ABZ", "aZ", " ", " ", "\n", " \n\t", "0123456789", "'", "'st", "re'", "(){}"],
        *["的一是不", "かなカー", "한글", "。，", "é\u0301", "Ж", "🙂", "\u3000", "\x7f[`@{", "\0"],
    ]

    def run() -> str:
        return "".join(rng.choices(rng.choice(runs), k=rng.choice([1, 1, 2, 3, 5, 9, 17, 40])))

    return ["".join(run() for _ in range(rng.randint(1, 60))) for _ in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_runs(name: str) -> None:
    drawn = texts(len(name), 60)
    with Both(load(shared_tokenizer(name)).spec) as both:
        both.engine._native.warm()
        for text in [*drawn, *drawn[:10]]:
            both.same("encode_ids", text)


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx512"])
def test_each_level_gives_the_same_ids(level: str) -> None:
    asked = [(str(shared_tokenizer(name)), texts(7, 100)) for name in NAMES]
    child = subprocess.run(
        [sys.executable, "-c", WHOLE],
        input=json.dumps(asked),
        env=at_level(level),
        capture_output=True,
        text=True,
        check=True,
    )
    for (name, drawn), line in zip(asked, child.stdout.splitlines(), strict=True):
        engine = load(name).engine
        assert json.loads(line) == [[engine.encode_ids(text) for text in drawn]] * 2
