"""Start-up of whole processes beside ``python -c pass``: CPU time, medians of interleaved runs.

Usage: python benchmarks/startup.py [RUNS] [BEFORE]

BEFORE is a checkout of another commit, which is measured in the same run. The table is the one of
docs/performance.md.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "mtkit/data/default-model.gguf"
TOKENIZER = ROOT / "tests/fixtures/bbpe-8k/tokenizer.json"
PASS = "python -c pass"
COMMANDS = [
    "--version",
    "--help",
    "config",
    "encode Hello",
    "decode 39",
    "count -p Hello",
    "formats",
    "inspect MODEL",
    "dump tensors MODEL",
    "dump metadata MODEL",
    "hash MODEL",
    "diff MODEL MODEL",
    "check MODEL",
    "inspect TOKENIZER",
    "compare TOKENIZER TOKENIZER",
    "check TOKENIZER",
    "token 64",
    "explain Hello",
    "inspect --help",
    "check --help",
    "generate --help",
    "serve --help",
]


def cpu_seconds(args: list[str], folder: str, tree: str) -> float:
    """Run one process and return its user and system time, that of its children included."""
    environment = {**os.environ, "XDG_CONFIG_HOME": folder, "PYTHONPATH": tree}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # it would measure the compiler
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *args],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(runs: int, trees: list[str]) -> dict[tuple[str, str], float]:
    """Return the median CPU time of each command of each tree, in seconds."""
    files = {"MODEL": str(MODEL), "TOKENIZER": str(TOKENIZER)}
    lines = {(PASS, trees[0]): ["-c", "pass"]}
    for line in COMMANDS:
        for tree in trees:
            words = (files.get(word, word) for word in line.split())
            lines[line, tree] = ["-m", "mtkit", *words]
    times: dict[tuple[str, str], list[float]] = {line: [] for line in lines}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs + 1):
            for case, args in lines.items():
                times[case].append(cpu_seconds(args, folder, case[1]))
    return {case: median(values[1:]) for case, values in times.items()}  # the first one compiles


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    trees = [str(ROOT), *sys.argv[2:3]]
    times = measure(runs, trees)
    base = times[PASS, trees[0]]
    head = ["command", "ms", "× python", *(["before", "× python"] if trees[1:] else [])]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    print(f"| {PASS} | {base * 1e3:.0f} |{' |' * (len(head) - 2)}")
    for line in COMMANDS:
        cells = [
            f"{times[line, tree] * 1e3:.0f} | {times[line, tree] / base:.1f}" for tree in trees
        ]
        print(f"| {line} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
