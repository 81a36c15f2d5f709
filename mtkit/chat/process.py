"""The processes in which chat templates run, seen from outside, and those kept for later.

A template that loops, sorts, multiplies or nests without end does so inside one step of the
interpreter, where nothing can count. So it runs in a process of its own, which holds its limit of
memory itself (``renderer``) and is killed at its limit of time.

It is a fresh interpreter, not a fork: a fork would begin with all that this process has in memory
and with whatever locks the threads of llama.cpp hold. Its start takes as long as importing jinja2,
which this process then does not do.

A process renders one template, never another: no conversation meets a stranger's. Threads that
render at the same time have a process each.
"""

from __future__ import annotations

import atexit
import marshal
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from time import monotonic

from mtkit.base.record import Record
from mtkit.chat import renderer as chat_child
from mtkit.chat.renderer import ASK, EXHAUSTED, HEAD, KINDS, MOST_SPANS, MOST_WORDS, READY, SPAN
from mtkit.errors import ResourceError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Set
    from datetime import datetime
    from typing import IO, Any


START_SECONDS = 60.0
"""Time for an interpreter to start, even on a busy machine."""

START_SCRIPT = (
    "import importlib, sys; sys.path += sys.argv[2:]; importlib.import_module(sys.argv[1]).serve()"
)
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ")
"""What an interpreter may need to start and to tell the time."""


class Limits(Record):
    """What a rendering may use.

    Attributes:
        memory: Bytes, besides eight times what is given to the template.
    """

    seconds: float
    characters: int
    memory: int


class Answer(Record):
    """The answer of a process.

    Attributes:
        spans: (start, end) in characters of each part in ``{% generation %}`` tags.
    """

    kind: bytes
    text: str
    spans: tuple[tuple[int, int], ...]


class ProcessLost(ResourceError):
    """A process did not start, or ended before it answered; with another one it may work."""


class _InterruptedStart(ProcessLost):
    """A process was ended by Ctrl-C before it was ready."""


class Process:
    """One process; whoever starts it has to end it."""

    def __init__(self) -> None:
        self._start()
        try:
            self.greet()
        except _InterruptedStart:  # between fork and its own session: the signal was the parent's
            self._start()
            self.greet()

    def _start(self) -> None:
        try:
            self.popen = subprocess.Popen(  # noqa: S603  ourselves
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-B",
                    "-c",
                    START_SCRIPT,
                    chat_child.__name__,
                    *_folders(),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if os.environ.get("MTKIT_TRACEBACK") else subprocess.DEVNULL,
                bufsize=0,
                cwd=os.path.abspath(os.sep),
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                start_new_session=True,  # Ctrl-C is for the parent to see
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise ProcessLost(f"no process for the chat template: {error.strerror}") from None
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self._stdin, self._stdout = self.popen.stdin, self.popen.stdout
        self._to_write, self._to_read = _poll(self._stdin, "POLLOUT"), _poll(self._stdout, "POLLIN")
        self._deadline = 0.0

    def greet(self) -> None:
        """Wait until it is ready."""
        try:
            with self._until(monotonic() + START_SECONDS):
                self._read(len(READY))
        except (OSError, EOFError):
            how = self._how_it_ended()
            self.end()
            kind = _InterruptedStart if self.popen.returncode == -signal.SIGINT else ProcessLost
            raise kind(
                f"the process for the chat template does not start ({how})",
                hint="set MTKIT_TRACEBACK=1 to see why",
            ) from None
        except BaseException:
            self.end()
            raise

    @property
    def is_waiting(self) -> bool:
        """Whether it runs and has written nothing that was not asked of it."""
        return self.popen.poll() is None and not (self._to_read and self._to_read.poll(0))

    def ask(self, request: bytes, limits: Limits, deadline: float) -> Answer:
        """Send a request and read the answer."""
        memory = limits.memory + 8 * len(request)
        try:
            with self._until(deadline):
                self._write(ASK.pack(len(request), memory) + request)
                kind, size, count = HEAD.unpack(self._read(HEAD.size))
                if size > 4 * max(limits.characters, MOST_WORDS) or count > MOST_SPANS:
                    raise _forged_answer()
                text = self._read(size)
                spans = self._read(count * SPAN.size)
        except (OSError, EOFError):
            if monotonic() >= deadline:
                what = f"the chat template ran for more than {limits.seconds:g} seconds"
                raise ResourceError(what) from None
            what = f"the process of the chat template ended ({self._how_it_ended()})"
            raise ProcessLost(what) from None
        try:
            answer = Answer(
                kind, str(text, "utf-8", "surrogatepass"), tuple(SPAN.iter_unpack(spans))
            )
        except UnicodeDecodeError:
            raise _forged_answer() from None
        if kind not in KINDS or any(not a <= b <= len(answer.text) for a, b in answer.spans):
            raise _forged_answer()
        return answer

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.popen.kill()
        self.popen.wait()
        self._stdin.close()
        self._stdout.close()

    def disown(self) -> None:
        """Leave the process to the one that started it, of which this one is a fork."""
        self.popen.returncode = 0  # or it is looked for among this one's children
        self._stdin.close()
        self._stdout.close()

    def _how_it_ended(self) -> str:
        try:
            code = self.popen.wait(1)
        except subprocess.TimeoutExpired:
            return "it says nothing"
        return f"exit status {code}" if code >= 0 else f"signal {-code}"

    @contextmanager
    def _until(self, deadline: float) -> Iterator[None]:
        """Let reading and writing take until a deadline."""
        self._deadline = deadline
        # Windows cannot wait for a pipe. There a thread ends the process, which ends the waiting.
        timer = None
        if self._to_read is None:
            timer = threading.Timer(max(deadline - monotonic(), 0), self.popen.kill)
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()

    def _wait(self, poll: Any) -> None:
        if poll is not None:
            left = self._deadline - monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise TimeoutError

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            self._wait(self._to_write)
            left = left[self._stdin.write(left) or 0 :]

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        left = memoryview(data)
        while left:
            self._wait(self._to_read)
            count = self._stdout.readinto(left)  # type: ignore[attr-defined]  # it is unbuffered
            if not count:
                raise EOFError
            left = left[count:]
        return data


def _poll(pipe: IO[bytes], event: str) -> Any:
    """Make a pipe non-blocking and return what waits for it; None on Windows."""
    if not hasattr(select, "poll"):
        return None
    os.set_blocking(pipe.fileno(), False)
    poll = select.poll()
    poll.register(pipe, getattr(select, event))
    return poll


def _folders() -> list[str]:
    """Return the folders of this package, of jinja2 and of what that needs."""
    from importlib.util import find_spec

    if not sys.executable or getattr(sys, "frozen", False):
        raise UnsupportedError("a chat template needs a Python interpreter to run in")
    path = os.path.abspath(chat_child.__file__)
    for _ in chat_child.__name__.split("."):
        path = os.path.dirname(path)
    folders = [path]
    for name in ("jinja2", "markupsafe"):
        spec = find_spec(name)
        if spec is None or not spec.origin:
            raise UnsupportedError(f"{name} is not installed", hint=f"pip install {name}")
        folders.append(os.path.dirname(os.path.dirname(os.path.abspath(spec.origin))))
    return list(dict.fromkeys(folders))


def _forged_answer() -> UnsupportedError:
    return UnsupportedError("the chat template is not safe: it broke out of its sandbox")


MOST_IDLE = 8
"""Processes that are kept; each takes some 20 MiB."""
_lock = threading.Lock()
_idle: list[tuple[str, Process]] = []
"""Processes with their templates; the one used last is at the end."""


def ask_process(
    template: str, variables: dict[str, Any], now: datetime, limits: Limits, deadline: float
) -> Answer:
    """Render a template in its process."""
    shift = now.utcoffset()
    time = (
        (*now.timetuple()[:6], now.microsecond),
        None if shift is None else shift.total_seconds(),
        now.tzname(),
    )
    request = marshal.dumps((template, variables, time, limits.seconds, limits.characters))
    try:
        return _ask_limited(template, request, limits, deadline)
    except ProcessLost:  # killed by a machine without memory, perhaps
        if monotonic() >= deadline:
            raise
    return _ask_limited(template, request, limits, deadline)


def _ask_limited(template: str, request: bytes, limits: Limits, deadline: float) -> Answer:
    process = _take_process(template)
    if process is None:
        process = Process()
        # The start counts; however slow it was, the template gets a second.
        deadline = max(deadline, monotonic() + min(limits.seconds, 1.0))
    try:
        answer = process.ask(request, limits, deadline)
    except BaseException:  # Ctrl-C, too: nobody waits for its answer any more
        process.end()
        raise
    if answer.kind == EXHAUSTED:
        process.end()
    else:
        _keep_process(template, process)
    return answer


def _take_process(template: str) -> Process | None:
    with _lock:
        place = next((i for i, (owner, _) in enumerate(_idle) if owner == template), None)
        process = None if place is None else _idle.pop(place)[1]
    if process is not None and not process.is_waiting:
        process.end()
        process = None
    return process


def _keep_process(template: str, process: Process) -> None:
    """Keep a process; where too many wait, the one that has waited longest ends."""
    with _lock:
        _idle.append((template, process))
        oldest = _idle.pop(0)[1] if len(_idle) > MOST_IDLE else None
    if oldest is not None:
        oldest.end()


@atexit.register
def end_all() -> None:
    """End the processes that wait."""
    end_idle({template for template, _ in tuple(_idle)})


def end_idle(templates: Set[str]) -> None:
    """End the processes of templates that wait."""
    with _lock:
        ended = [pair for pair in _idle if pair[0] in templates]
        for pair in ended:
            _idle.remove(pair)
    for _, process in ended:
        process.end()


def end_surplus() -> None:
    """End the processes that wait beside another one of their template."""
    with _lock:
        last = dict(_idle)
        surplus = [
            (template, process) for template, process in _idle if process is not last[template]
        ]
        for pair in surplus:
            _idle.remove(pair)
    for _, process in surplus:
        process.end()


def _forget_idle() -> None:
    """Leave the processes to the parent: this one is a fork of it."""
    global _lock  # noqa: PLW0603  another thread may have held it
    _lock = threading.Lock()
    for _, process in _idle:
        process.disown()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_idle)
