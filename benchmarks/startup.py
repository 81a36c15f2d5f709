"""Start-up of whole processes against ``python -c pass``: CPU time, minimum of interleaved runs.

Usage: python benchmarks/startup.py [RUNS]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "mtkit --version": ["-m", "mtkit", "--version"],
    "mtkit --help": ["-m", "mtkit", "--help"],
    'mtkit encode "Hello, MNN!"': ["-m", "mtkit", "encode", "Hello, MNN!"],
    'mtkit encode "Hello, MNN!" --json': ["-m", "mtkit", "encode", "Hello, MNN!", "--json"],
}


def cpu_seconds(args: list[str], folder: str) -> float:
    """Run one process and return its user and system time."""
    environment = {**os.environ, "XDG_CONFIG_HOME": folder}
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


def measure(runs: int) -> dict[str, float]:
    """Return the least CPU time of each command over interleaved runs, in seconds."""
    best = dict.fromkeys(COMMANDS, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for name, args in COMMANDS.items():
                best[name] = min(best[name], cpu_seconds(args, folder))
    return best


def main() -> None:
    """Print the table."""
    best = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    base = best["python -c pass"]
    for name, seconds in best.items():
        print(f"{name:36} {seconds * 1000:7.1f} ms  {seconds / base:5.1f} x")


if __name__ == "__main__":
    main()
