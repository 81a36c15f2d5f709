"""Show mtkit's main job on the files that ship with it; run by ``make demo``.

Two tokenizers (the default one, and a SentencePiece model of the test fixtures) are inspected,
converted to every format and back, and encode one text in each form. The ids must be equal
everywhere; a format that cannot hold a tokenizer says why.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "demo-out")
TEXT = "Hello, MNN!"
MTKIT = os.path.join(os.path.dirname(sys.executable), "mtkit")


def run(*args: str, quiet: bool = False, may_refuse: bool = False) -> str | None:
    """Run mtkit, showing the command and what it prints; None when it refuses (exit 4).

    What ``--json`` prints is for this script, not for the reader.
    """
    shown = shlex.join(a.replace(ROOT + os.sep, "") for a in args if a != "--json")
    if not quiet:
        print(f"\n$ mtkit {shown}", flush=True)
    done = subprocess.run([MTKIT, *args], capture_output=True, text=True, check=False, cwd=OUT)
    text = done.stderr if "--json" in args else done.stdout + done.stderr
    text = text.replace(ROOT + os.sep, "").rstrip()
    if (text and not quiet) or done.returncode not in (0, 4):
        print(text, flush=True)
    if done.returncode == 4 and may_refuse:
        return None
    if done.returncode:
        sys.exit(f"demo: mtkit {shown} ended with exit code {done.returncode}")
    return done.stdout


def ids_of(path: str) -> list[int]:
    """Return the ids of the demo text, without special tokens."""
    answer = run("encode", TEXT, "-t", path, "--no-special", "--json", quiet=True)
    found: list[int] = json.loads(answer or "{}")["ids"]
    return found


def show(title: str, source: str, origin: str, formats: list[str]) -> int:
    """Inspect one tokenizer, convert it to each format and back; return how many could hold it."""
    print(f"\n== {title} ==")
    run("inspect", source)
    expected = ids_of(source)
    print(f"\n{TEXT!r} is {expected}")
    held = 0
    home = os.path.join(OUT, os.path.basename(os.path.dirname(source)) or "default")
    for name in formats:
        folder = os.path.join(home, name) + os.sep
        answer = run("convert", source, "--to", name, "-o", folder, "--json", may_refuse=True)
        if answer is None:
            continue
        done = json.loads(answer)
        path = done["output"]
        losses = (
            ", ".join(f"{loss['code']} ({loss['field']})" for loss in done["losses"]) or "nothing"
        )
        found = ids_of(path)
        print(f"  {os.path.relpath(path, ROOT)}: lost {losses}; {TEXT!r} is {found}")
        if found != expected:
            sys.exit(f"demo: {name} gives {found}")
        held += 1
        target = os.path.join(folder, f"to-{origin}") + os.sep
        answer = run("convert", path, "--to", origin, "-o", target, "--json", may_refuse=True)
        if answer is None:
            continue
        found = ids_of(json.loads(answer)["output"])
        print(f"  and back to {origin}: {found}")
        if found != expected:
            sys.exit(f"demo: {name} back to {origin} gives {found}")
    return held


def main() -> None:
    """Run the demo."""
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    print(run("--version", quiet=True))
    rows = json.loads(run("formats", "--json", quiet=True) or "{}")["formats"]
    formats = [row["name"] for row in rows if row["write"]]
    location = subprocess.run(
        [sys.executable, "-c", "from mtkit.sources.locate import *; print(shipped(TOKENIZER))"],
        capture_output=True, text=True, check=True, cwd=OUT,
    ).stdout.strip()  # fmt: skip
    default = os.path.join(OUT, "default", "default.mtok")
    os.makedirs(os.path.dirname(default))
    shutil.copy(location, default)
    sentencepiece = os.path.join(ROOT, "tests", "fixtures", "spm-bpe", "tokenizer.model")
    held = show("the default tokenizer: byte-level BPE", default, "mtok", formats)
    held += show("a SentencePiece BPE model", sentencepiece, "spm", formats)
    print(f"\n{held} conversions, every one and every way back with equal ids.")


if __name__ == "__main__":
    main()
