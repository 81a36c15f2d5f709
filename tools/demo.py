"""Show mtkit's main job on the files that ship with it; run by ``make demo``.

Two tokenizers (the default one, and a SentencePiece model of the test fixtures) are inspected,
converted to every format and back, and encode one text in each form. The ids must be equal
everywhere; a format that cannot hold a tokenizer says why. On a terminal each command shows its
screen, and the time so far stands before each step.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
import time

import mtkit
from mtkit.sources.locate import TOKENIZER, shipped

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "demo-out")
TEXT = "Hello, MNN!"
MTKIT = os.path.join(os.path.dirname(sys.executable), "mtkit")
START = time.monotonic()
NEXT = """\
What to type next:

  . .venv/bin/activate
  mtkit encode "Hello, MNN!"
  mtkit inspect tests/fixtures/spm-bpe/tokenizer.model
  mtkit convert tests/fixtures/spm-bpe/tokenizer.model --to hf -o demo-out/mine/"""


def step(text: str) -> None:
    """Say what comes, and when."""
    print()
    say(f"[{time.monotonic() - START:3.0f} s] {text}", 8)


def say(text: str, indent: int) -> None:
    """Print a line; a terminal gets it folded between words."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000
    print(textwrap.fill(text, width, subsequent_indent=" " * indent), flush=True)


def show(*args: str) -> None:
    """Run mtkit as a user does: the command, then what it prints."""
    print(f"$ mtkit {_shown(args)}", flush=True)
    code = subprocess.run([MTKIT, *args], check=False, cwd=ROOT).returncode
    if code:
        sys.exit(f"demo: mtkit {_shown(args)} ended with exit code {code}")


def answer(*args: str) -> tuple[str, str]:
    """Return what mtkit prints with ``--json``, or why it refuses (exit 4)."""
    done = subprocess.run(
        [MTKIT, *args, "--json"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode not in (0, 4):
        what = f"mtkit {_shown(args)} ended with exit code {done.returncode}"
        sys.exit(f"demo: {what}: {done.stderr}")
    why = done.stderr.rstrip().removeprefix("mtkit: ").replace(ROOT + os.sep, "")
    return (done.stdout, "") if not done.returncode else ("", why)


def _shown(args: tuple[str, ...]) -> str:
    return shlex.join(arg.replace(ROOT + os.sep, "") for arg in args)


def ids_of(path: str) -> list[int]:
    """Return the ids of the demo text, without special tokens."""
    found: list[int] = json.loads(answer("encode", TEXT, "-t", path, "--no-special")[0])["ids"]
    return found


def tour(title: str, source: str, origin: str, formats: list[str]) -> tuple[int, int]:
    """Inspect a tokenizer, convert it to each format and back; return how many did, and did not."""
    step(title)
    show("inspect", source)
    expected = ids_of(source)
    ids = " ".join(map(str, expected))
    step(f"to every format and back: {TEXT!r} is {ids} in each; what cannot hold it says why")
    held = refused = 0
    home = os.path.join("demo-out", os.path.basename(os.path.dirname(source)) or "default")
    for name in formats:
        folder = os.path.join(home, name) + os.sep
        written, why = answer("convert", source, "--to", name, "-o", folder)
        if why:
            refused += 1
            why = (why.partition(f": {name} ")[2] or why).partition(";")[0]
            say(f"  - {name:13}{why.replace('cannot hold it (ids): ', '')}", 17)
            continue
        path = json.loads(written)["output"]
        _check(name, ids_of(path), expected)
        back, why = answer("convert", path, "--to", origin, "-o", f"{folder}to-{origin}{os.sep}")
        if not why:
            _check(f"{name} back to {origin}", ids_of(json.loads(back)["output"]), expected)
        again = f"and back to {origin}" if not why else f"{origin} cannot hold it"
        print(f"  ✓ {name:13}equal ids, {again}", flush=True)
        held += 1
    return held, refused


def _check(name: str, found: list[int], expected: list[int]) -> None:
    if found != expected:
        sys.exit(f"demo: {name} gives {found}")


def installed() -> str:
    """Return how large the installation is, and how long it took where make has noted that."""
    own, everything = _size(os.path.dirname(mtkit.__file__)), _size(sys.prefix)
    said = (
        f"installed in {os.path.relpath(sys.prefix, ROOT)}: mtkit {own / 1e6:.0f} MB, with what it "
        f"depends on {everything / 1e6:.0f} MB"
    )
    try:
        with open(os.path.join(sys.prefix, "installed"), encoding="ascii") as file:
            return f"{said}, in {int(file.read())} s"
    except (OSError, ValueError):
        return said


def _size(folder: str) -> int:
    return sum(
        os.lstat(os.path.join(where, name)).st_size
        for where, _, names in os.walk(folder)
        for name in names
    )


def main() -> None:
    """Run the demo."""
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(os.path.join(OUT, "default"))
    show("--version")
    rows = json.loads(answer("formats")[0])["formats"]
    formats = [row["name"] for row in rows if row["write"] and row["holds"] == "tokenizer"]
    shutil.copy(shipped(TOKENIZER), os.path.join(OUT, "default", "default.mtok"))
    step("a text as a model reads it")
    show("encode", TEXT, "-t", "demo-out/default/default.mtok")
    tours = (
        ("the default tokenizer: byte-level BPE", "demo-out/default/default.mtok", "mtok"),
        ("a SentencePiece BPE model", "tests/fixtures/spm-bpe/tokenizer.model", "spm"),
    )
    held, refused = map(sum, zip(*(tour(*one, formats) for one in tours), strict=True))
    step(
        f"{held} conversions, every one and every way back with equal ids; {refused} refused, "
        "because the format has no room for what decides the ids"
    )
    say(installed(), 2)
    print(f"\n{NEXT}")


if __name__ == "__main__":
    main()
