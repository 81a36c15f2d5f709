"""A llama.cpp that ends the process, or hangs, at a call: for commands in processes of their own.

The death is "how where count" in the environment variable DEATH: the name of a signal, an exit code
or ``hang``; ``load``, ``batch`` (the first of so many tokens, also in the trial), ``run`` (the call
with that number, never in the trial) or ``quantize`` (the log's line of the tensor of that number).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from mtkit.base.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

HOOK = """
import ctypes, os, signal, sys
how, where, count = os.environ["DEATH"].split()
import mtkit.base.watch as watch
import mtkit.llama.shared_library as shared
watch.HANG_SECONDS = 2
load, calls = shared._load, [0]

def die():
    if how.startswith("SIG"):
        libc, number = ctypes.CDLL(None), getattr(signal, how)
        libc.signal(number, None)
        getattr(libc, "raise")(number)  # in this thread: another would take its time
    elif how == "exit":
        ctypes.CDLL(None).exit(7)
    elif how == "hang":
        ctypes.CDLL(None).sleep(60)
    os._exit(int(how))

def hooked():
    load()
    module = shared._modules["module"]
    names = {"load": "llama_model_load_from_file", "quantize": "llama_log_set"}
    name = names.get(where, "llama_decode")
    real = getattr(module, name)

    def take(level, text, data):
        calls[0] += text.startswith(b"[")
        if calls[0] >= int(count):
            die()

    def call(*arguments):
        if where == "quantize":
            if "mtkit.llama.quantizer" in " ".join(sys.orig_argv):
                inner = arguments[0]
                kept = module.llama_log_callback(lambda *all: (take(*all), inner(*all))[1])
                calls.append(kept)
                return real(kept, *arguments[1:])
            return real(*arguments)
        calls[0] += 1
        tokens = arguments[1].n_tokens if where == "batch" else 0
        is_trial = "mtkit.llama.trial" in " ".join(sys.orig_argv)
        if where == "run" and is_trial:
            return real(*arguments)
        if (tokens if where == "batch" else calls[0]) >= int(count):
            die()
        return real(*arguments)

    setattr(module, name, call)

shared._load = hooked
"""
TEXT = "Once upon a time there was a small server that told stories to children"
COMMANDS: dict[str, tuple[str, ...]] = {
    "generate": ("generate", TEXT, "-n", "16", "-q"),
    "generate with a draft": ("generate", TEXT, "-n", "64", "-q", "--draft", "m.gguf"),
    "chat": ("chat", "hi", "-n", "16", "--ignore-eos", "-q"),
    "perplexity": ("perplexity", "text"),
    "perplexity --against": ("perplexity", "text", "--against", "m.gguf"),
    "logits": ("logits", "-f", "text", "--all", "-o", "l.npy", "--batch", "64"),
    "imatrix": ("imatrix", "-f", "text", "-o", "i.gguf", "--save-every", "0", "--batch", "512"),
    "quantize --imatrix-from": ("quantize", "m.gguf", "q.gguf", "IQ4_XS", "--allow-requantize",
                                "--imatrix-from", "text"),
    "convert --verify": ("convert", "folder", "c.gguf", "--type", "q8_0", "--verify"),
    "convert --imatrix-from": ("convert", "folder", "c.gguf", "--type", "iq4_xs", "--imatrix-from",
                               "text"),
    "bench -m": ("bench", "-m", "m.gguf", "-p", "16", "-n", "16", "--rounds", "2"),
    "sx vocab": ("sx", "vocab", "-t", "m.gguf", "--prompts", "prompts", "-n", "100", "-o", "v.txt"),
    "sx bench": ("sx", "bench", "m.gguf", "prompts", "-n", "8", "--temp", "0"),
    "sx tune": ("sx", "tune", "m.gguf", "m.gguf", "--prompts", "prompts", "-n", "4", "-o", "p.json",
                "--seconds", "1"),
    "quantize": ("quantize", "m.gguf", "q.gguf", "Q4_0", "--allow-requantize"),
    "convert --type": ("convert", "folder", "c.gguf", "--type", "q4_0"),
}  # fmt: skip
"""What computes with llama.cpp, in a folder that ``inputs`` makes."""
HOWS = ("SIGILL", "SIGSEGV", "SIGABRT", "exit", "0", "hang")
WHERES = ("load 1", "batch 3", "run 1", "run 10")
FEW = ("convert --verify",)
"""What computes fewer than ten batches; its last death is in the second one."""
QUANTIZER = ("quantize 1", "quantize 10")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of commands that die; it holds the hook and a cache of their own."""
    hook = folder / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(HOOK)
    paths = [str(hook), *filter(None, sys.path)]
    shared = {name: value for name, value in os.environ.items() if name != "MTKIT_TRIAL"}
    own = {"PYTHONPATH": os.pathsep.join(paths), "XDG_CACHE_HOME": str(folder / "cache")}
    return {**shared, **own, "TMPDIR": str(folder / "tmp")}


def inputs(folder: Path, model: Path) -> None:
    """Make what the commands read, and the folder that they find as TMPDIR."""
    (folder.parent / "tmp").mkdir(exist_ok=True)
    folder.mkdir()
    shutil.copy(model, folder / "m.gguf")
    (folder / "text").write_text(f"{TEXT}. " * 600)
    (folder / "prompts").write_text(f"{TEXT}\n" * 3)
    line = [sys.executable, "-m", "mtkit", "convert", "m.gguf", "--to", "hf-model", "-o", "folder"]
    subprocess.run(line, check=True, capture_output=True, cwd=folder)


class Case(Record):
    """A command, and the death of llama.cpp in it.

    Attributes:
        trial: Whether the file is tried before; else the death is in the run itself.
    """

    name: str
    death: str
    trial: bool = True

    def run(self, folder: Path, base: Mapping[str, str]) -> list[str]:
        """Run it; return what is wrong about its end."""
        above = folder.parent
        shutil.rmtree(above / "cache", ignore_errors=True)
        before = _names(above)
        variables = {**base, "DEATH": self.death, "MTKIT_TRIAL": str(int(self.trial))}
        line = [sys.executable, "-m", "mtkit", *COMMANDS[self.name]]
        with subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=variables,
            start_new_session=True, text=True,
        ) as process:  # fmt: skip
            errors = process.communicate(timeout=300)[1]
        wrong = []
        if process.returncode != 5:
            wrong.append(f"exit code {process.returncode}")
        if errors.count("\n") != 1 or "llama.cpp" not in errors:
            wrong.append(f"{errors.count(chr(10))} lines: {errors[-600:]}")
        if self.death.startswith("hang") and "hung for 2 s" not in errors:
            wrong.append(f"not ended: {errors}")
        if left := sorted(_names(above) - before):
            wrong.append(f"left {left}")
            for name in left:
                (above / name).unlink(missing_ok=True)
        time.sleep(0.05)
        if alive := _group(process.pid):
            wrong.append(f"processes {alive}")
        return wrong


def cases() -> Iterator[Case]:
    """Yield the whole matrix."""
    for name in COMMANDS:
        is_quantizer = name in ("quantize", "convert --type")
        for how in HOWS:
            for where in QUANTIZER if is_quantizer else WHERES:
                yield Case(name, f"{how} {'run 2' if where == 'run 10' and name in FEW else where}")
            if not is_quantizer:
                yield Case(name, f"{how} load 1", trial=False)


def _names(folder: Path) -> set[str]:
    """Return the files below a folder, but for those of the cache."""
    paths = (path.relative_to(folder) for path in folder.rglob("*"))
    return {str(path) for path in paths if path.parts[0] not in ("cache", "hook")}


def _group(number: int) -> list[int]:
    """Return the processes of a session that still run."""
    alive = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, _, _, session = file.read().rpartition(b")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == number and state != b"Z":
            alive.append(int(name))
    return alive
