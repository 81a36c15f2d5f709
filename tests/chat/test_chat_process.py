"""A chat template's process has nothing, and what it answers is believed only where it can be."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from child_processes import alone, children  # noqa: F401  alone is a fixture

from mtkit.chat import process as chat_process
from mtkit.chat.child import HEAD, SPAN
from mtkit.chat.process import Process
from mtkit.chat.template import render
from mtkit.errors import MtkitError, ResourceError, UnsupportedError

USER = [{"role": "user", "content": "hi"}]
ENDLESS = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"


def test_the_process_has_nothing_and_can_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    process = Process()
    try:
        pid = next(iter(children()))
        assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
        assert b"s3cret" not in Path(f"/proc/{pid}/environ").read_bytes()
        limits = Path(f"/proc/{pid}/limits").read_text("utf-8")
        for name, most in (("open files", 3), ("file size", 0), ("processes", 0)):
            assert re.search(rf"Max {name} +{most} +{most} ", limits)
        assert os.getsid(pid) == pid
    finally:
        process.end()
        os.close(inherited)


DONE = HEAD.pack(b"d", 2, 1) + b"hi" + SPAN.pack(0, 2)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"+" + DONE, None),
        (b"+" + HEAD.pack(b"d", 1 << 40, 0), UnsupportedError),
        (b"+" + HEAD.pack(b"d", 2, 1 << 30) + b"hi", UnsupportedError),
        (b"+" + HEAD.pack(b"x", 2, 0) + b"hi", UnsupportedError),
        (b"+" + HEAD.pack(b"d", 2, 0) + b"\xff\xff", UnsupportedError),
        (b"+" + HEAD.pack(b"d", 2, 1) + b"hi" + SPAN.pack(0, 3), UnsupportedError),
        (b"+" + HEAD.pack(b"d", 2, 1) + b"hi" + SPAN.pack(2, 1), UnsupportedError),
        (b"+" + DONE[:-1], ResourceError),
        (b"+", ResourceError),
        (b"", ResourceError),
    ],
)
def test_an_answer_that_is_none_is_refused(
    answer: bytes, error: type[MtkitError] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"import os; os.write(1, {answer!r}) and os.read(0, 1 << 20)"
    monkeypatch.setattr(chat_process, "START_SCRIPT", script)
    if error is None:
        assert render("", USER).text == "hi"
    else:
        with pytest.raises(error):
            render("", USER)
        assert not children()


@pytest.mark.parametrize("when", ["waiting", "starting", "asked", "always"])
def test_a_process_that_was_killed_is_tried_once_more(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the kernel of a machine that lacks memory."""
    started: list[Process] = []
    greet, ask = Process.greet, Process.ask

    def killed(process: Process) -> None:
        process.popen.kill()
        process.popen.wait()

    def greeting(process: Process) -> None:
        started.append(process)
        if when == "starting" and len(started) == 2:
            killed(process)
        greet(process)

    def asking(process: Process, *arguments: Any) -> Any:
        if when == "always" or (when == "asked" and len(started) == 1):
            killed(process)
        return ask(process, *arguments)

    monkeypatch.setattr(Process, "greet", greeting)
    assert render("{{ messages[0].content }}", USER).text == "hi"
    monkeypatch.setattr(Process, "ask", asking)
    if when in ("waiting", "starting"):
        killed(started[0])
    if when == "always":
        with pytest.raises(chat_process.ProcessLost, match="signal 9"):
            render("{{ messages[0].content }}", USER)
    else:
        assert render("{{ messages[0].content }}", USER).text == "hi"
    assert len(started) == {"waiting": 2, "starting": 3, "asked": 2, "always": 2}[when]


def test_what_was_written_unasked_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"import os; os.write(1, {b'+' + DONE + DONE!r}); os.read(0, 1 << 20); os.read(0, 1)"
    monkeypatch.setattr(chat_process, "START_SCRIPT", script)
    assert render("", USER).text == "hi"
    first = set(children())
    assert render("", USER).text == "hi"
    assert not first & set(children())


def test_a_process_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for script in (
        "import time; time.sleep(99)",
        "import os, time; os.write(1, b'+'); time.sleep(99)",
    ):
        monkeypatch.setattr(chat_process, "START_SCRIPT", script)
        monkeypatch.setattr(chat_process, "START_SECONDS", 1.0)
        chat = [{"role": "user", "content": "more than a pipe holds" * 9999}]
        with pytest.raises(ResourceError):
            render("", chat, seconds=0.2)
        assert not children()


def test_where_pipes_cannot_be_waited_for_a_thread_holds_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows."""
    monkeypatch.setattr(chat_process, "select", SimpleNamespace())
    threads = threading.active_count()
    for _ in range(2):
        assert render("{{ messages[0].content }}", USER).text == "hi"
    with pytest.raises(ResourceError, match=r"more than 0.5 seconds"):
        render(ENDLESS, USER, seconds=0.5)
    assert threading.active_count() == threads


def test_without_an_interpreter_there_is_no_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program made of Python and its modules would start itself."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(UnsupportedError, match="interpreter"):
        render("", USER)


def test_a_signal_before_it_is_ready_starts_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between fork and its own session reaches it; what to do is the parent's to say."""
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*args, **options))
        if len(started) == 1:
            started[0].send_signal(signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(chat_process.subprocess, "Popen", popen)
    process = Process()
    process.end()
    assert [one.returncode for one in started] == [-signal.SIGINT, -signal.SIGKILL]
