"""Other systems: what POSIX alone has is hidden, what Windows alone has is played."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import FIXTURES

import mtkit
from mtkit import cli
from mtkit.base import files
from mtkit.errors import UsageError

PACKAGE = Path(mtkit.__file__).parent
ELSEWHERE = """
import multiprocessing, os, select, signal, subprocess, sys, tempfile, time, types
HIDDEN = "fcntl resource pwd grp termios tty pty readline syslog curses".split()
for name in HIDDEN:
    sys.modules[name] = None
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=lambda *_: None)
for module, names in (
    (os, "fork forkpty getuid geteuid getgid getloadavg sysconf uname register_at_fork killpg "
         "setsid copy_file_range sendfile sched_getaffinity pread mkfifo nice getpgid SEEK_DATA "
         "SEEK_HOLE posix_fadvise O_NOFOLLOW O_NONBLOCK O_DIRECTORY statvfs"),
    (select, "poll epoll"),
    (signal, "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGCHLD SIGTSTP SIGCONT SIGWINCH "
             "SIGSTOP SIGXCPU SIGXFSZ alarm setitimer pthread_kill pthread_sigmask"),
    (time, "tzset pthread_getcpuclockid"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
"""
"""What Windows has none of, apart from what Python itself needs on this system."""


def elsewhere(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"{ELSEWHERE}\n{code}", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_imported_where_posix_is_not() -> None:
    names = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(PACKAGE.rglob("*.py"))
    ]
    code = """
import importlib
from mtkit.errors import MissingExtra
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except (ModuleNotFoundError, MissingExtra) as error:
        missing = str(getattr(error, "name", None) or error).partition(".")[0]
        assert missing not in HIDDEN and missing != "mtkit", (name, error)
print(len(sys.argv) - 1)
"""
    assert int(elsewhere(code, *names)) == len(names) > 300


@pytest.mark.parametrize(
    "line",
    [
        ["encode", "Hello, MNN!"],
        ["inspect", str(FIXTURES / "spm-bpe" / "tokenizer.model")],
        ["convert", str(FIXTURES / "spm-bpe" / "tokenizer.model"), "made.mtok"],
        ["check", str(FIXTURES / "bbpe-8k" / "tokenizer.json")],
    ],
    ids=lambda line: line[0],
)
def test_commands_do_the_same_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> None:
    code = "from mtkit.cli import main; code = main(sys.argv[1:]); assert code == 0, code"
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    monkeypatch.chdir(here)
    expected = subprocess.run(
        [sys.executable, "-m", "mtkit", *line],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    monkeypatch.chdir(there)
    assert elsewhere(code, *line) == expected
    made = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (here, there)]
    assert made[0] == made[1]


def test_a_chat_template_is_rendered_there() -> None:
    code = """
from mtkit.chat import template
made = template.render("{{ messages[0].content }}!", [{"role": "user", "content": "a"}])
print(made if isinstance(made, str) else made.text)
"""
    assert elsewhere(code).strip() == "a!"


class Locking(SimpleNamespace):
    """The module msvcrt, as far as it locks; a byte that one descriptor has is no other's."""

    LK_NBLCK = 2

    def locking(self, file: int, mode: int, count: int) -> None:
        key = os.fstat(file).st_ino, os.lseek(file, 0, os.SEEK_CUR)
        if (mode, count) != (self.LK_NBLCK, 1) or self.held.setdefault(key, file) != file:
            raise PermissionError(13, "Permission denied")


@pytest.fixture
def locks(monkeypatch: pytest.MonkeyPatch) -> dict[Any, int]:
    held: dict[Any, int] = {}
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Locking(held=held))
    return held


def test_files_are_locked_by_a_byte_on_windows(tmp_path: Path, locks: dict[Any, int]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    one, other = (os.open(path, os.O_RDWR) for _ in range(2))
    os.lseek(one, 3, os.SEEK_SET)
    assert files.lock(one)
    assert not files.lock(other)
    assert os.read(one, 2) == b"34"  # where it was read from
    assert os.read(other, 2) == b"01"
    assert [place for _, place in locks] == [2**31 - 2]
    for file in (one, other):
        os.close(file)


def test_dead_parts_leave_without_a_signal_on_windows(
    tmp_path: Path, locks: dict[Any, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> None:
        raise AssertionError("os.kill(pid, 0) is Ctrl-C there")

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(files.os, "name", "nt")
    (tmp_path / "made.123.part").touch()
    files.write_files({f"{tmp_path}/made": b"a"})
    assert os.listdir(tmp_path) == ["made"]
    with pytest.raises(UsageError, match="already exists"):
        files.write_files({f"{tmp_path}/made": b"b"})


class Handle:
    """GetStdHandle; standard output is a console, standard error a pipe."""

    restype: Any = None

    def __call__(self, number: int) -> int:
        return {-11: 7, -12: 8}[number]


def test_a_console_reads_escape_sequences_and_a_pipe_gets_utf_8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes, told = {7: 3}, []

    def mode_of(handle: Any, mode: Any) -> bool:
        mode._obj.value = modes.get(handle.value, 0)
        return handle.value in modes

    kernel = SimpleNamespace(
        GetStdHandle=Handle(),
        GetConsoleMode=mode_of,
        SetConsoleMode=lambda handle, mode: modes.update({handle.value: mode}),
    )
    stream = SimpleNamespace(reconfigure=lambda **how: told.append(how))
    monkeypatch.setattr(sys, "stderr", stream)
    cli.prepare_console(kernel)
    assert modes == {7: 7}
    assert told == [{"encoding": "utf-8"}]
