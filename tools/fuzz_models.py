"""Mutants of small models given to ``mtkit generate`` and ``mtkit chat``: none may end a process.

Each mutant is drawn from ``--seed`` and its number (tests/support/model_mutants.py) and runs as
from the command line, in a process of its own, forked from one that has loaded everything; so is
the child of its trial, but that of each 20th mutant, which starts as a user's does. ``chat``
gets what ``generate`` took, and each fourth of the others. A run that a signal ends, that does not
end, prints a traceback or more than one line of an error or needs too much memory is printed;
``--only`` makes that mutant again, ``--keep`` leaves the file. Exit status 1 if there is any.

    python -m tools.fuzz_models --count 1000 --seed 1
"""

from __future__ import annotations

import argparse
import collections
import importlib
import os
import resource
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

CPU_SECONDS, SECONDS = 60, 900
MOST_BYTES = 2 << 30
CODES = (0, 2, 3, 4, 5)
COMMANDS = (
    ("generate", "Hello world, 12", "-n", "3", "--ignore-eos"),
    ("chat", "-n", "3", "-c", "256"),
)


def main() -> int:
    """Run the mutants; 1 where one is found that must not be."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="number of one mutant")
    parser.add_argument("--keep", help="folder for the mutants that were found")
    asked = parser.parse_args()
    numbers = range(asked.count) if asked.only is None else (asked.only,)
    with tempfile.TemporaryDirectory() as folder:
        # Read when the libraries are loaded: threads that spin would wait for busy cores.
        os.environ |= {"OMP_WAIT_POLICY": "passive", "XDG_CACHE_HOME": folder}
        os.environ |= {"XDG_CONFIG_HOME": folder, "OPENBLAS_NUM_THREADS": "1"}
        bases = _bases()
        _load()
        counts: collections.Counter[str] = collections.Counter()
        found, began = 0, time.monotonic()
        for number in numbers:
            for line in _tried(bases, asked.seed, number, folder, counts, asked.keep):
                found += 1
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
            if sys.stderr.isatty() and number % 10 == 0:
                seconds = time.monotonic() - began
                sys.stderr.write(f"\r{number} of {asked.count}, {seconds:.0f} s, {found} found ")
    for name, count in sorted(counts.items()):
        sys.stdout.write(f"{count:7} {name}\n")
    sys.stdout.write(f"{found:7} found in {time.monotonic() - began:.0f} s\n")
    return int(found > 0)


def _bases() -> list[Path]:
    """Return the sound models; without the shared folder, the default model alone."""
    import mtkit

    paths = [Path(mtkit.__file__).parent / "data" / "default-model.gguf"]
    models = importlib.import_module("llm_models")
    if not (models.SHARED / "scripts" / "tiny_models.py").exists():
        return paths
    small: dict[str, Any] = {"n_embd": 64, "n_ff": 64, "n_vocab": 700}
    paths += [models.tiny(name, **small) for name in models.ARCHITECTURES]
    paths += [models.tiny("t5", **small), models.tiny("mamba", **small)]
    paths += [
        models.latent(),
        models.experts(),
        models.shared("models/stories260K/stories260K-f32.gguf"),
    ]
    quantized: dict[str, Any] = {"wtype": "Q8_0", **small}
    return [*paths, models.tiny("llama", **quantized)]


def _load() -> None:
    """Load what each run loads, once."""
    for name in ("numpy", "mtkit.commands.generate", "mtkit.commands.chat", "mtkit.chat.sandbox"):
        importlib.import_module(name)
    for name in ("runner", "sampling", "header", "trial", "dialogue", "session"):
        importlib.import_module(f"mtkit.llm.{name}")
    importlib.import_module("mtkit.api.generation")
    importlib.import_module("mtkit.llama.trial")
    importlib.import_module("mtkit.llama").library()


def _tried(
    bases: list[Path],
    seed: int,
    number: int,
    folder: str,
    counts: collections.Counter[str],
    keep: str | None,
) -> list[str]:
    """Run one mutant; return a line for each run that must not be."""
    from mtkit.llm import trial

    content, what = importlib.import_module("model_mutants").mutant(bases, seed, number)
    path = os.path.join(folder, "mutant.gguf")
    Path(path).write_bytes(content)
    lines, code = [], 0
    child = _forked if number % 20 else trial.run_child
    for command in COMMANDS:
        if command[0] == "chat" and code and number % 4:
            break
        with patch.object(trial, "run_child", child), patch.object(trial, "_SECONDS", 3):
            code, peak, said = _run((*command, "-q", "-m", path), folder)
        wrong = _fault(code, peak, said)
        counts[f"{command[0]}: {wrong or f'exit code {code}' + _refusal(code, said)}"] += 1
        if wrong:
            end = said.decode("utf-8", "replace").strip().split("\n")[-1][:300]
            lines.append(f"--seed {seed} --only {number} ({what}): {command[0]}: {wrong}: {end}")
    if lines and keep:
        Path(keep).mkdir(parents=True, exist_ok=True)
        Path(keep, f"{seed}-{number}.gguf").write_bytes(content)
    return lines


def _refusal(code: int, said: bytes) -> str:
    """Return who refused a file, or what ended the child of its trial; empty for neither."""
    if not code:
        return ""
    for mark, what in (
        (b"gives up", ", assertion"),
        (b"ends llama.cpp with ", ", "),
        (b"llama.cpp says", ", llama.cpp"),
        (b"llama.cpp does not load", ", endless"),
    ):
        _, found, after = said.partition(mark)
        if found:
            return what + (after.split()[0].decode() if what == ", " else "")
    return ", mtkit"


def _fault(code: int, peak: int, said: bytes) -> str:
    """Return what is wrong with how a run ended; empty for nothing."""
    if code in (-signal.SIGALRM, -signal.SIGXCPU):
        return "no end"
    if code < 0:
        return signal.Signals(-code).name
    if b"Traceback" in said:
        return "traceback"
    if code not in CODES:
        return f"exit code {code}"
    if code and said.count(b"\n") != 1:
        return "an error that is not one line"
    return f"{peak >> 20} MiB" if peak > MOST_BYTES else ""


def _forked(arguments: tuple[str, ...], _: int) -> tuple[int, bytes, bytes] | None:
    """Do what ``trial.run_child`` does in a fork of this process."""
    from mtkit.llama.trial import main as try_model

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            for number, file in ((1, out), (2, errors)):
                os.dup2(file.fileno(), number)
            with suppress(BaseException):
                try_model(*arguments)
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        out.seek(0)
        errors.seek(0)
        return os.waitstatus_to_exitcode(status), out.read(), errors.read()


def _run(args: tuple[str, ...], folder: str) -> tuple[int, int, bytes]:
    """Run a command line in a fork; return its exit code or signal, peak memory and stderr."""
    errors = os.path.join(folder, "stderr")
    child = os.fork()
    if not child:
        _become(args, folder, errors)
    deadline = time.monotonic() + SECONDS
    pause = 0.001
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGALRM, 0, b""
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    code = os.waitstatus_to_exitcode(status)
    return code, used.ru_maxrss * 1024, Path(errors).read_bytes()


def _become(args: tuple[str, ...], folder: str, errors: str) -> None:
    """Be ``mtkit`` with these arguments, in a process group of its own; does not return."""
    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        message = os.path.join(folder, "message")
        Path(message).write_bytes(b"Hello there\n")
        for number, name, flags in (
            (0, message, os.O_RDONLY),
            (1, os.devnull, os.O_WRONLY),
            (2, errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            os.dup2(os.open(name, flags, 0o600), number)
        from mtkit import cli

        code = cli.main(list(args))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001  a traceback is what is looked for
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
