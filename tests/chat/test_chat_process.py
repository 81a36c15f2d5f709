"""A chat template's process has nothing, keeps to its limits, leaves nothing, and is believed only
where it can be.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from child_processes import (
    alone,  # noqa: F401  alone is a fixture
    children,
)

from mtkit.chat import process as chat_pool
from mtkit.chat import process as chat_process
from mtkit.chat.process import Process
from mtkit.chat.renderer import HEAD, SPAN
from mtkit.chat.template import TemplateRefusal, render
from mtkit.errors import MtkitError, ResourceError, UnsupportedError, UsageError

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


MEMORY = 48 << 20
MANY, END = "{% for a in range(999) %}", "{% endfor %}"
MANY_LOOPS = f"{MANY}{MANY}{MANY}{MANY}{END}{END}{END}{END}"


HOSTILE = """
import hostile_templates, json, sys
from mtkit.chat import process
count = 2 * len(hostile_templates.FAMILIES)
found = []
for one in hostile_templates.drawn(1, count):
    wrong, seconds = hostile_templates.attempt(one, 0.3, int(sys.argv[1]))
    found.append((one.family, wrong, seconds))
process.end_all()
print(json.dumps([found, hostile_templates.peak() >> 20]))
"""


@pytest.mark.slow
def test_hostile_templates_stay_within_their_limits() -> None:
    """In a process of their own: what the largest child of this one has held is never less."""
    path = os.pathsep.join((str(Path(__file__).parent), *filter(None, sys.path)))
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(MEMORY)],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    found, peak = json.loads(done.stdout)
    assert len({family for family, _, _ in found}) >= 19
    for family, wrong, seconds in found:
        assert not wrong, family
        assert seconds < 30, family  # a start on a busy machine
    assert peak < 80 + (MEMORY >> 20)


@pytest.mark.parametrize(
    ("template", "word"),
    [
        (MANY_LOOPS, "more than 0.5 seconds"),
        ("{{ 10 ** 99999999 }}", "more than 0.5 seconds"),
        ("{{ 'x' * 10**10 }}", "more than 48 MiB"),
        ("{{ 'x' * 10**30 }}", "OverflowError"),
        ("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "RecursionError"),
        (f"{MANY}{MANY}{{{{ 'x' * 99 }}}}{END}{END}", "more than 1000000 characters"),
        (f"{MANY}{MANY}{{% generation %}}{{% endgeneration %}}{END}{END}", "100000 generations"),
        ("{{ " + "(" * 9999, "RecursionError"),
    ],
)  # fmt: skip
def test_each_limit_has_its_words(template: str, word: str) -> None:
    seconds = 0.5 if "0.5" in word else 60
    with pytest.raises(ResourceError, match=re.escape(word)):
        render(template, USER, seconds=seconds, characters=10**6, memory=MEMORY)


def test_what_is_given_counts_extra() -> None:
    long = [{"role": "user", "content": "你好" * (2 << 20)}]
    made = render("{{ messages[0].content }}", long, memory=MEMORY, seconds=60)
    assert len(made.text) == 4 << 20


def test_a_process_is_kept_for_its_template_alone() -> None:
    render("a{{ messages }}", USER)
    first = set(children())
    for _ in range(3):
        render("a{{ messages }}", USER)
    assert set(children()) == first
    render("b{{ messages }}", USER)
    assert set(children()) > first
    for number in range(chat_pool.MOST_IDLE + 2):
        render(str(number), USER)
    assert len(children()) == chat_pool.MOST_IDLE
    assert "Z" not in children().values()


def test_a_failure_does_not_spoil_the_next_rendering() -> None:
    template = "{% if messages|length > 1 %}" + MANY_LOOPS + "{% endif %}{{ messages[0].content }}"
    for _ in range(2):
        assert render(template, USER).text == "hi"
        with pytest.raises(ResourceError):
            render(template, USER * 2, seconds=0.2)
        assert not children()
        with pytest.raises(TemplateRefusal):
            render(template, [])
        assert len(children()) == 1
    render(template, USER)
    os.kill(next(iter(children())), signal.SIGKILL)
    while "Z" not in children().values():
        time.sleep(0.01)
    assert render(template, USER).text == "hi"


def test_threads_render_at_the_same_time() -> None:
    def one(number: int) -> str:
        return render("{{ messages[0].content }}", [{"role": "u", "content": str(number)}]).text

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(one, range(200))) == list(map(str, range(200)))
    assert len(children()) <= 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_has_processes_of_its_own() -> None:
    template = "{{ messages[0].content }}"
    render(template, USER)
    pid = os.fork()
    if not pid:
        try:
            fine = render(template, [{"role": "u", "content": "fork"}]).text == "fork"
            chat_pool.end_all()
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert render(template, USER).text == "hi"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_its_parent(end: signal.Signals) -> None:
    script = (
        "from mtkit.chat.template import render; print(1, flush=True); "
        f"render({MANY_LOOPS!r}, [], seconds=3)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)  # fmt: skip
    assert parent.stdout is not None
    with parent, parent.stdout:
        parent.stdout.readline()
        child, limit = 0, time.monotonic() + 60
        listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        while not child and time.monotonic() < limit:
            child = int((listed.read_text("utf-8").split() or [0])[0])
            time.sleep(0.05)
        assert child
        time.sleep(0.5)
        parent.send_signal(end)
    while os.path.exists(f"/proc/{child}") and time.monotonic() < limit:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{child}")


def test_what_cannot_be_given_to_a_template_is_said() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, [{"role": "user", "content": deep}]):
        with pytest.raises(UsageError):
            render("", value)  # type: ignore[arg-type]


def test_everything_of_jinja_works_without_files() -> None:
    from mtkit.chat.sandbox import Sandbox

    sandbox = Sandbox()
    uses = [f"(x | {name})" for name in sandbox.filters]
    uses += [f"(x is {name})" for name in sandbox.tests if name.isidentifier()]
    uses += [f"{name}()" for name in sandbox.globals]
    uses += [f"'é'.encode('{name}')" for name in ("latin-1", "utf-16", "utf-32", "unicode_escape")]
    uses += ["'\\N{EM DASH}'", "é", "('a' | safe).striptags()", "('&amp;' | safe).unescape()"]
    values = ("'a b'", "[1, 2]", "{'a': 1}", "3")
    parts = [f"{{% set x = {value} %}}{{{{ {use} }}}}" for use in uses for value in values]
    assert len(parts) > 400
    # All in one template, which has one process.
    template = "".join(f"{{% if n == {i} %}}{part}{{% endif %}}" for i, part in enumerate(parts))
    assert not render(template, USER, values={"n": -1}, seconds=60).text
    fine = 0
    for number, part in enumerate(parts):
        try:
            render(template, USER, values={"n": number}, seconds=60)
            fine += 1
        except MtkitError as error:
            assert "open files" not in str(error), part
            assert "Import" not in str(error), part
    assert fine > 200


def test_processes_beside_another_of_their_template_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    idle: Any = [
        (template, SimpleNamespace(name=name, end=lambda name=name: ended.append(name)))
        for template, name in zip("abacb", ["a1", "b1", "a2", "c1", "b2"], strict=True)
    ]
    monkeypatch.setattr(chat_process, "_idle", idle)
    chat_process.end_surplus()
    assert ended == ["a1", "b1"]
    assert [process.name for _, process in idle] == ["a2", "c1", "b2"]
    idle.clear()
