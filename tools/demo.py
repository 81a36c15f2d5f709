"""Show mtkit's main job on the files that ship with it; run by ``make demo``.

A model folder becomes a GGUF, which is checked, compared with the folder, and run where
llama-cpp-python is installed; a tokenizer is converted, and encodes the same text as before. Each
command shows its screen, and the time so far stands before each step.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec

import mtkit
from mtkit.sources.locate import MODEL, shipped

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = "demo-out"
TEXT = "Hello, MNN!"
MTKIT = os.path.join(os.path.dirname(sys.executable), "mtkit")
START = time.monotonic()
RUN = ("generate", "Once upon a time", "-m", f"{OUT}/small-q8_0.gguf", "-n", "24")
NEXT = """
What to type next:

  . .venv/bin/activate
  mtkit encode "Hello, MNN!"
  mtkit inspect tests/fixtures/spm-bpe/tokenizer.model
  mtkit --help
  pip install '.[generate,serve]'  # compiles llama.cpp, which takes minutes; then:
  mtkit chat
  mtkit serve                      # and open http://127.0.0.1:8080
"""


def step(text: str) -> None:
    """Say what comes, and when."""
    print(f"\n[{time.monotonic() - START:3.0f} s] {text}", flush=True)


def show(*args: str) -> None:
    """Run mtkit as a user does: the command, then what it prints."""
    print(f"$ mtkit {shlex.join(args)}", flush=True)
    code = subprocess.run([MTKIT, *args], check=False, cwd=ROOT).returncode
    if code:
        sys.exit(f"demo: mtkit {shlex.join(args)} ended with exit code {code}")


def ids_of(path: str) -> list[int]:
    """Return the ids of the demo text, without special tokens."""
    line = [MTKIT, "encode", TEXT, "-t", path, "--no-special", "--json"]
    ids: list[int] = json.loads(subprocess.check_output(line, cwd=ROOT))["ids"]
    return ids


def installed() -> str:
    """Return how large the installation is, and how long it took where make has noted that."""
    own, everything = _size(os.path.dirname(mtkit.__file__)), _size(sys.prefix)
    text = (
        f"installed in {os.path.relpath(sys.prefix, ROOT)}: mtkit {own / 1e6:.0f} MB, with what it "
        f"depends on {everything / 1e6:.0f} MB"
    )
    try:
        with open(os.path.join(sys.prefix, "installed"), encoding="ascii") as file:
            return f"{text}, in {int(file.read())} s"
    except (OSError, ValueError):
        return text


def _size(folder: str) -> int:
    return sum(
        os.lstat(os.path.join(where, name)).st_size
        for where, _, names in os.walk(folder)
        for name in names
    )


def main() -> None:
    """Run the demo."""
    shutil.rmtree(os.path.join(ROOT, OUT), ignore_errors=True)
    os.mkdir(os.path.join(ROOT, OUT))
    show("--version")
    step("a text as a model reads it")
    show("encode", TEXT)
    step("a model folder, as HuggingFace has them: made of the small model that ships with mtkit")
    shutil.copy(shipped(MODEL), os.path.join(ROOT, OUT, "small.gguf"))
    show("convert", f"{OUT}/small.gguf", "--to", "hf-model", "-o", f"{OUT}/small/")
    step("the folder becomes a GGUF with weights of 8 bits")
    show("convert", f"{OUT}/small/", "--to", "gguf", "--type", "q8_0", "-o", RUN[3])
    step("what it is, and whether it is sound")
    show("inspect", RUN[3])
    show("check", RUN[3])
    step("a tokenizer in another format gives the same ids")
    source, target = "tests/fixtures/spm-bpe/tokenizer.model", f"{OUT}/small.mtok"
    show("convert", source, "--to", "mtok", "-o", target)
    show("encode", TEXT, "-t", target)
    if ids_of(source) != ids_of(target):
        sys.exit(f"demo: {target} gives {ids_of(target)}, {source} {ids_of(source)}")
    if find_spec("llama_cpp") is not None:
        step("the model runs")
        show(*RUN)
    else:
        step("to run models: .venv/bin/pip install '.[generate]', which compiles llama.cpp; then")
        print(f"  mtkit {shlex.join(RUN)}")
    step(installed())
    print(NEXT)


if __name__ == "__main__":
    main()
