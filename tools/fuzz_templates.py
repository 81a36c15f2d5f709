"""Hostile chat templates, rendered by the library and by the command, each measured by itself.

Templates are drawn from the families in tests/support/hostile_templates.py. None may take longer
than its limit, a second and what an empty template takes just before (its process has to start,
which a busy machine does slowly), or more memory than ``--mebibytes`` (the process that renders and
its child together), write what only the interpreter has, or end in anything but a text or one of
mtkit's errors. What does is printed on one line; exit status 1.

    python -m tools.fuzz_templates --count 340 --seed 1
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
RENDER = (sys.executable, "-m", "tools.fuzz_templates")
hostile_templates: Any = importlib.import_module("hostile_templates")


def main() -> int:
    """Render, measure and print; 1 where a template did what it may not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=340)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of a rendering")
    parser.add_argument("--mebibytes", type=int, default=600, help="memory of both processes")
    parser.add_argument("--only", type=int, help="number of one template")
    parser.add_argument("--command", type=int, default=8, help="every n-th by the command")
    parser.add_argument("--one", nargs=2, metavar=("FAMILY", "MODE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        family, mode = asked.one
        return _render(family, mode, asked.seconds)
    violations = 0
    slowest, largest = 0.0, 0
    for number, hostile in enumerate(hostile_templates.drawn(asked.seed, asked.count)):
        if asked.only not in (None, number):
            continue
        mode = "command" if number % asked.command == asked.command - 1 else "library"
        seconds, size, wrong = _measured(hostile, mode, asked.seconds)
        slowest, largest = max(slowest, seconds), max(largest, size >> 20)
        if seconds > (asked.seconds if mode == "library" else 10.0) + 1:
            wrong += f" took {seconds:.1f} s"
        if size >> 20 > asked.mebibytes:
            wrong += f" took {size >> 20} MiB"
        if wrong:
            violations += 1
            where = f"--seed {asked.seed} --only {number} ({hostile.family}, {mode})"
            sys.stdout.write(f"{where}: {wrong.strip()}: {hostile.text[:200]!r}\n")
            sys.stdout.flush()
        sys.stderr.write(f"\r{number + 1} of {asked.count}, {violations} violations ")
    sys.stderr.write("\n")
    sys.stdout.write(f"{violations} violations; at most {slowest:.1f} s, {largest} MiB\n")
    return int(violations > 0)


def _measured(hostile: Any, mode: str, seconds: float) -> tuple[float, int, str]:
    """Run a template in a fresh process; return wall seconds, peak bytes and what is wrong."""
    done = subprocess.run(
        [*RENDER, "--seconds", str(seconds), "--one", hostile.family, mode],
        input=hostile.text.encode("utf-8", "surrogatepass"),
        capture_output=True,
        check=False,
        env={**os.environ, "MTKIT_CANARY": hostile_templates.CANARY},
    )
    try:
        took, size, wrong = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return 0.0, 0, f"exit status {done.returncode}: {done.stderr[-300:]!r}"
    return took, size, wrong


def _render(family: str, mode: str, seconds: float) -> int:
    """Render what stands on standard input; print time, memory and what is wrong as JSON."""
    text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    hostile = hostile_templates.Hostile(family, text)
    from mtkit.chat.template import MEMORY, render

    began = time.monotonic()
    render("", hostile_templates.MESSAGES, seconds=60)
    start = time.monotonic() - began
    if mode == "library":
        wrong, took = hostile_templates.attempt(hostile, seconds, MEMORY)
    else:
        wrong, took = _by_command(text)
    chat_pool: Any = importlib.import_module("mtkit.chat.process")
    chat_pool.end_all()
    sys.stdout.write(json.dumps([max(took - start, 0.0), hostile_templates.peak(), wrong]) + "\n")
    return 0


def _by_command(text: str) -> tuple[str, float]:
    """Run the command on a template in this process, its output in a file."""
    from mtkit.cli import main as command

    importlib.import_module("mtkit.commands.template")  # the time to start is nobody's fault
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        template, messages = Path(folder, "hostile.jinja"), Path(folder, "messages.json")
        template.write_bytes(text.encode("utf-8", "surrogatepass"))
        messages.write_text(json.dumps(hostile_templates.MESSAGES), encoding="utf-8")
        kept = os.dup(1), os.dup(2)
        for fd, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT), fd)
        code = command(["template", str(template), "--messages", str(messages)])
        sys.stdout.flush()
        took = time.monotonic() - began
        for fd, old in enumerate(kept, 1):
            os.dup2(old, fd)
        said = Path(folder, "err").read_bytes()
        with Path(folder, "out").open(encoding="utf-8", errors="replace") as lines:
            found = any(hostile_templates.ESCAPED.search(line) for line in lines)
    if code not in (0, 2, 3, 4, 5) or (code and said.count(b"\n") != 1):
        return f"exit status {code}: {said[-300:]!r}", took
    return ("wrote what only the interpreter has" if found else ""), took


if __name__ == "__main__":
    sys.exit(main())
