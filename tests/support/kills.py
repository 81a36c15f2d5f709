"""Commands that write files, ended by a signal at any moment.

Each command runs in a fork and is ended after a part of the time that it takes. What it was to
write is then the old file, the new one or not there; of several files the last one stands with all
others or not at all; what SIGKILL leaves beside has a name that says so, and other signals leave
nothing. No process goes on. The next run of the command gives the new files and leaves nothing
else.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING

from mtkit.base.binary import package_file
from mtkit.base.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from random import Random

LEFT = (".part",)
IN_PLACE = (".part", ".journal")
PARTS = ".parts/"
"""In the name of what a corpus job goes on with, whatever ended it."""
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDS = (0, 130, -signal.SIGKILL, *(end for n in SIGNALS[1:] for end in (-n, 128 + n)))
SECONDS = 20.0
"""After which a process that should have ended goes on."""


class Work(Record):
    """A command line, run in a folder that holds its inputs.

    Attributes:
        name: Of the work.
        args: What follows ``mtkit``.
        out: What it writes, the file last without which nobody looks at the others.
        force: Whether ``--force`` replaces files that are there.
        computes: llama.cpp computes in this process, which is no longer to be forked then.
    """

    name: str
    args: tuple[str, ...]
    out: tuple[str, ...]
    force: bool = True
    computes: bool = False

    @property
    def in_place(self) -> bool:
        """Whether it changes its input."""
        return "--in-place" in self.args


WORKS = (
    Work("edit", ("edit", "m.gguf", "--set", "general.name=other", "-o", "o.gguf"), ("o.gguf",)),
    Work("edit --in-place", ("edit", "m.gguf", "--set", "general.file_type=7", "--in-place"),
         ("m.gguf",), force=False),
    Work("split", ("split", "m.gguf", "--max-tensors", "20", "-o", "parts"),
         ("parts/m-00002-of-00002.gguf", "parts/m-00001-of-00002.gguf")),
    Work("merge", ("merge", "s-00001-of-00002.gguf", "-o", "o.gguf"), ("o.gguf",)),
    Work("convert-endian", ("convert-endian", "m.gguf", "-o", "o.gguf"), ("o.gguf",)),
    Work("trim", ("trim", "m.gguf", "--keep", "keep.txt", "-o", "o.gguf"), ("o.ids.tsv", "o.gguf")),
    Work("convert a folder", ("convert", "folder", "o.gguf"), ("o.gguf",)),
    Work("convert in parts", ("convert", "folder", "o.gguf", "--split-max-size", "8M"),
         ("o-00002-of-00002.gguf", "o-00001-of-00002.gguf")),
    Work("convert and quantize", ("convert", "folder", "o.gguf", "--type", "Q4_0"), ("o.gguf",)),
    Work("convert back", ("convert", "m.gguf", "--to", "hf-model", "-o", "back/"),
         ("back/tokenizer.json", "back/tokenizer_config.json", "back/generation_config.json",
          "back/config.json", "back/model.safetensors")),
    Work("quantize", ("quantize", "m.gguf", "--type", "Q8_0", "--allow-requantize", "-o", "o.gguf"),
         ("o.gguf",)),
)  # fmt: skip
FAST_WORKS = (
    Work("corpus count", ("corpus", "count", "c.txt", "--lines", "-o", "o.json"), ("o.json",)),
    Work("corpus encode", ("corpus", "encode", "c.txt", "--lines", "-o", "o.bin"), ("o.bin",)),
)
MORE_WORKS = (
    Work("report", ("report", "m.gguf", "-o", "o.html"), ("o.html",)),
    Work("convert a tokenizer", ("convert", "t.mtok", "o.json", "--to", "hf"),
         ("generation_config.json", "tokenizer_config.json", "o.json")),
    Work("explain", ("explain", "hello", "-t", "t.mtok", "--svg", "o.svg"), ("o.svg",)),
    Work("sx prune", ("sx", "prune", "m.gguf", "--vocab", "keep.txt", "-o", "o.gguf"), ("o.gguf",)),
    Work("imatrix", ("imatrix", "c.txt", "-m", "m.gguf", "-o", "o.gguf", "--chunks", "1"),
         ("o.gguf",), computes=True),
    Work("logits", ("logits", "hello", "-m", "m.gguf", "-o", "o.npy"), ("o.npy",), computes=True),
    Work("save a session", ("generate", "hi", "-m", "m.gguf", "-n", "2", "--temp", "0",
                            "--save-session", "o.session"), ("o.session",), computes=True),
)  # fmt: skip


class Trials:
    """One command, tried in a folder.

    Attributes:
        seconds: What it takes when nothing ends it.
    """

    def __init__(self, work: Work, model: Path, folder: Path) -> None:
        self.work, self.folder = work, folder
        self._inputs = folder.parent / f"{folder.name}-inputs"
        self._inputs.mkdir()
        shutil.copy(model, self._inputs / "m.gguf")
        (self._inputs / "keep.txt").write_text("5\n6\n7\n")
        if work.name in ("convert a tokenizer", "explain"):
            shutil.copy(package_file("default.mtok"), self._inputs / "t.mtok")
        if "c.txt" in work.args:
            (self._inputs / "c.txt").write_text("once upon a time there was a cat\n" * 300)
        if work.name == "merge":
            assert ended(_mtkit(self._inputs, "split", "m.gguf", "--max-tensors", "20")) == 0
            for path in self._inputs.glob("m-*"):
                path.rename(path.with_name(path.name.replace("m-", "s-")))
        if "folder" in work.args:
            args = ("convert", "m.gguf", "--to", "hf-model", "-o", "folder")
            assert ended(_mtkit(self._inputs, *args)) == 0
        self.old = dict.fromkeys(work.out, b"old")
        if work.in_place:
            self.old = {"m.gguf": (self._inputs / "m.gguf").read_bytes()}
        self._fresh(old=False)
        if not work.computes:
            self._warm()
            self._fresh(old=False)
        began = time.monotonic()
        assert ended(self._begin()) == 0, work
        self.seconds = time.monotonic() - began
        self.new = self._found()
        assert all(self.new.values()), work
        self._all = self._names()

    def run(self, rng: Random, signals: Sequence[signal.Signals] = SIGNALS[:1]) -> str:
        """Kill once; return what was there then: ``old``, ``new``, ``neither`` or ``journal``.

        Raises:
            AssertionError: Something else was there, or the next run does not give the new files.
        """
        old = rng.random() < 0.5 or self.work.in_place
        self._fresh(old=old)
        pid = self._begin()
        time.sleep(self.seconds * rng.random())
        number = rng.choice(signals)
        is_group = number == signal.SIGINT and os.getpgid(pid) == pid  # Ctrl-C is for all of them
        (os.killpg if is_group else os.kill)(pid, number)
        code = ended(pid)
        assert code in ENDS, (self.work, number, code)
        _await_end(pid)
        if self.work.name == "quantize":  # until its child's exec the child has the lock, too
            time.sleep(0.05)
        found, names = self._found(), self._names()
        left = {name for name in names - self._all if not (old and name in self.old)}
        left = {name for name in left if PARTS not in name}
        ends = IN_PLACE if self.work.in_place else LEFT if number == signal.SIGKILL else ("/",)
        assert all(name.endswith(ends) for name in left), (number, left)
        before = self.old if old else dict.fromkeys(self.old, b"")
        state = self._state(found, before, journal="m.gguf.journal" in left)
        assert ended(self._begin()) == 0, (self.work, state)
        assert self._found() == self.new, (self.work, state)
        assert self._names() == self._all, (self.work, state, self._names() - self._all)
        return state

    def _state(self, found: dict[str, bytes], before: dict[str, bytes], *, journal: bool) -> str:
        if journal:
            return "journal"
        for state, wanted in (("old", before), ("new", self.new)):
            if found == wanted:
                return state
        last = self.work.out[-1]
        assert len(found) > 1, (self.work, found[last][:9])
        assert not found[last], (self.work, found[last][:9])
        assert all(data in (b"", before[name], self.new[name]) for name, data in found.items())
        return "neither"

    def _fresh(self, *, old: bool) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._inputs, self.folder)
        for name, data in self.old.items() if old else ():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_bytes(data)

    def _warm(self) -> None:
        """Run here, so that no fork has to load what the command loads."""
        from file_uses import printed

        from mtkit import cli

        here = os.getcwd()
        os.chdir(self.folder)
        try:
            with printed():
                assert cli.main([*self.work.args]) == 0
        finally:
            os.chdir(here)

    def _begin(self) -> int:
        return _mtkit(self.folder, *self.work.args, *["--force"] * self.work.force)

    def _found(self) -> dict[str, bytes]:
        paths = {name: self.folder / name for name in self.work.out}
        return {name: path.read_bytes() if path.exists() else b"" for name, path in paths.items()}

    def _names(self) -> set[str]:
        paths = self.folder.rglob("*")
        return {str(path.relative_to(self.folder)) for path in paths if path.is_file()}


def _mtkit(folder: Path, *args: str) -> int:
    """Be ``mtkit`` in a fork; return its process."""

    def work() -> int:
        from mtkit import cli

        os.chdir(folder)
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        if "MTKIT_KILLS_SHOWN" not in os.environ:
            os.dup2(sink, 2)
        os.setsid()
        sys.argv = ["mtkit", *args]
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return cli.run()
        except KeyboardInterrupt:  # before it began
            return 130

    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS[1:])  # a fork is to have begun
    try:
        return forked(work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _await_end(group: int) -> None:
    """Wait until no process of a group is left."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.005)
    raise AssertionError("a child goes on")


def forked(work: Callable[[], int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        code = work()
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
