"""A parent that waits for a command which calls a library, and says what ended it.

llama.cpp computes in the process of its command and can end it: an instruction that the processor
or a compiler's fault does not allow, ``exit``, or the system, where memory ran out. Nothing inside
the process is sure to run then. So such a command runs in a fork, which costs a millisecond; the
parent loads nothing, waits, removes the parts of files that were on their way, and says in one line
what happened. Signals that are sent to the parent alone go on to the child: those of a terminal
reach both.

The parent also ends a child that hangs in a call into the library: for ``HANG_SECONDS`` the
thread of the call has used no processor time, was not stopped, and waited for no disk. A call that
computes forever goes on, because it looks like a slow one: a batch of a large model takes minutes
on some machines.

The parent of a server keeps copies of the sockets of requests that have no answer yet, so that they
can be answered if the process dies.

A system without fork and ``sigwaitinfo`` (Windows, macOS) runs the command in its own process, and
so does ``MTKIT_WATCH=0``.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import get_native_id
from contextlib import suppress
from itertools import count

from mtkit.errors import ResourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Iterable
    from signal import Signals
    from typing import Any, TypeVar

    T = TypeVar("T")

_HANDED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_ORDERLY = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE")
"""Signals that somebody sends on purpose: the parent ends by them, too."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_MOST_BYTES = 1 << 16
_FILE = 4
"""Bytes of a descriptor in a message."""
_MOST_CALLS, _MOST_WORKS, _PAGE = 64, 256, 4096
HANG_SECONDS = 50
_MOST_BETWEEN = 2.0
"""Seconds between two looks at a child that count."""
_numbers = count()
_state: dict[str, Any] = {
    "channel": None, "late": b"", "restarts": False, "allowed": False,
    "calls": memoryview(bytearray(4 * _MOST_CALLS)).cast("I"),
    "works": memoryview(bytearray(8 * _MOST_WORKS)).cast("Q"),
}  # fmt: skip
speakers: list[Callable[[str], object]] = []
"""What ``say`` calls: the library itself never prints."""


def tell(what: str, text: str = "") -> None:
    """Tell the parent something it needs to know if this process dies: ``stage``, ``part``."""
    channel = _state["channel"]
    if channel is not None:
        _send(channel, f"{what}\t{text}\n".encode("utf-8", "surrogateescape"))


def _send(channel: socket, line: bytes, file: int | None = None) -> None:
    import _socket

    rights = [] if file is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _bytes_of(file))]
    data = _state["late"] + line
    try:
        channel.sendmsg([data], rights)
        _state["late"] = b""
    except BlockingIOError:  # the parent is slow; a connection need not be kept
        _state["late"] = data if file is None else _state["late"]
    except OSError:  # it has gone
        pass


def _bytes_of(file: int) -> bytes:
    return file.to_bytes(_FILE, sys.byteorder)


def hold(file: int, text: str) -> None:
    """Have the parent keep a copy of a socket, with a text about it, for ``Death.connections``."""
    channel = _state["channel"]
    if channel is not None:
        line = f"hold\t{file} {text}".replace("\n", " ") + "\n"
        _send(channel, line.encode("utf-8", "surrogateescape"), file)


def drop(file: int) -> None:
    """Have the parent close its copy of a socket."""
    tell("drop", str(file))


class Calling:
    """Entered as long as a thread, or a process, is in a call into the library.

    Args:
        process: Its id; 0: it is the thread that enters.
    """

    __slots__ = ("_cell", "_process")

    def __init__(self, process: int = 0) -> None:
        at = next(_numbers) % _MOST_CALLS
        self._cell, self._process = _state["calls"][at : at + 1], process

    def __enter__(self) -> None:
        self._cell[0] = self._process or get_native_id()

    def __exit__(self, *_: object) -> None:
        self._cell[0] = 0


def work_cell() -> memoryview:
    """Return a place for the number of what is computed, 0 for nothing: ``Death.works``."""
    at = next(_numbers) % _MOST_WORKS
    cell: memoryview = _state["works"][at : at + 1]
    return cell


def say(text: str) -> None:
    """Say something to whoever runs a command, which is nobody unless ``cli`` is there."""
    for speaker in speakers:
        speaker(text)


def leave(code: int) -> None:
    """End this process at once, on purpose."""
    tell("end")
    os._exit(code)


class Death(Exception):
    """The library ended the process.

    Attributes:
        has_started: What the process was to do had begun (``tell("ready")``).
        hint: What to do about it, where that does not depend on the command.
        connections: Copies of sockets that it held, each with its text; the caller closes them.
        works: The numbers in its cells of ``work_cell``.
    """

    def __init__(self, how: str, reports: _Reports, hint: str = "") -> None:
        super().__init__(f"llama.cpp {how} while {reports.stage}")
        self.hint, self.has_started = hint, reports.has_started
        self.connections = list(reports.held.values())
        self.works = reports.works


class _Reports:
    """What the child has told."""

    def __init__(self, channel: socket) -> None:
        self._channel, self._text = channel, b""
        self._files: list[int] = []
        self.stage, self.has_started, self.has_ended = "starting", False, False
        self.parts: set[str] = set()
        self.held: dict[str, tuple[int, str]] = {}
        self.works: set[int] = set()

    def read(self) -> None:
        """Read what came."""
        import _socket

        with suppress(BlockingIOError):
            while True:
                data, rights, *_ = self._channel.recvmsg(_MOST_BYTES, _socket.CMSG_SPACE(_FILE))
                self._files += [int.from_bytes(raw[:_FILE], sys.byteorder) for *_, raw in rights]
                *lines, self._text = (self._text + data).split(b"\n")
                for line in lines:
                    what, _, text = line.decode("utf-8", "surrogateescape").partition("\t")
                    self._take(what, text)
                if not data:
                    return

    def _take(self, what: str, text: str) -> None:
        if what in ("hold", "drop"):
            number, _, about = text.partition(" ")
            if number in self.held:
                os.close(self.held.pop(number)[0])
            if what == "hold" and self._files:
                self.held[number] = self._files.pop(0), about
        elif what == "part":
            self.parts.add(text)
        elif what == "stage":
            self.stage = text
        self.has_started |= what == "ready"
        self.has_ended |= what == "end"

    def remove_parts(self) -> None:
        """Remove the parts of files that were on their way, and temporary folders."""
        import shutil

        for path in self.parts:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
                continue
            with suppress(OSError):
                os.unlink(path)


class Silence:
    """How long threads that are in a call have done nothing."""

    def __init__(self) -> None:
        self._threads: dict[int, tuple[int | None, float]] = {}
        self._last = time.monotonic()

    def lasts(self, threads: Iterable[int]) -> bool:
        """Tell whether one has hung for ``HANG_SECONDS``; to be asked once a second.

        The clock counts, as a busy machine asks late; but no more of it than ``_MOST_BETWEEN``,
        since all processes may have been stopped.
        """
        now = time.monotonic()
        passed, self._last = min(now - self._last, _MOST_BETWEEN), now
        before, self._threads = self._threads, {}
        for thread in filter(None, threads):
            used = _used_time(thread)
            last, seconds = before.get(thread, (None, 0.0))
            seconds = seconds + passed if used is not None and used == last else 0.0
            self._threads[thread] = used, seconds
        return any(seconds >= HANG_SECONDS for _, seconds in self._threads.values())


def _used_time(thread: int) -> int | None:
    """Return a thread's processor time; None where it cannot go on by itself."""
    try:
        with open(f"/proc/{thread}/task/{thread}/stat", "rb") as file:
            state, *numbers = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return int(numbers[10]) + int(numbers[11]) if state not in (b"D", b"T", b"t") else None


def allow(speaker: Callable[[str], object]) -> None:
    """Let this process be forked, which is that of a command, and say what there is to say."""
    _state["allowed"] = True
    speakers[:] = [speaker]


def restarts() -> bool:
    """Whether another process takes the place of this one if it dies."""
    restarts: bool = _state["restarts"]
    return restarts


def can_watch() -> bool:
    """Whether a child can be started and waited for."""
    import signal
    import threading

    return (
        _state["allowed"]
        and hasattr(os, "fork")
        and hasattr(signal, "sigwaitinfo")
        and os.environ.get("MTKIT_WATCH") != "0"
        and _state["channel"] is None
        and threading.active_count() == 1
        and threading.current_thread() is threading.main_thread()
    )


def watch(run: Callable[[], T], hint: str) -> T:
    """Run something in a child; returns there what it returns, and ends this process with it.

    Raises:
        ResourceError: In the parent, which has seen the child die.
    """
    try:
        return run_watched(run)
    except Death as death:
        raise ResourceError(str(death), hint=death.hint or hint) from None


def run_watched(run: Callable[[], T], *, restarts: bool = False) -> T:
    """Run something in a child, as ``watch`` does; ``Death`` comes to the parent alone.

    Args:
        restarts: The caller runs it again then.
    """
    import _socket
    import fcntl
    import mmap
    import signal

    numbers = {getattr(signal, name) for name in _HANDED_ON} | {signal.SIGCHLD, signal.SIGIO}
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = _socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    parent, page = os.getpid(), memoryview(mmap.mmap(-1, _PAGE))
    works, calls = page[-8 * _MOST_WORKS :].cast("Q"), page[: 4 * _MOST_CALLS].cast("I")
    on_child = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it has no exit code
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    child = os.fork()
    if child:
        writer.close()
        # A report wakes the parent, by SIGIO.
        fcntl.fcntl(reader.fileno(), fcntl.F_SETOWN, parent)
        fcntl.fcntl(reader.fileno(), fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
        reports = _Reports(reader)
        try:
            status = _wait(child, numbers, reports, calls)
            reports.read()
            reports.works = set(works) - {0}
        finally:
            reader.close()
            signal.sigtimedwait({signal.SIGIO}, 0)  # pending, it would end this process
            signal.signal(signal.SIGCHLD, on_child or signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise _outcome(status, reports)
    reader.close()
    _state.update(channel=writer, restarts=restarts, calls=calls, works=works)
    signal.signal(signal.SIGCHLD, on_child or signal.SIG_DFL)
    _die_with(parent)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return run()
    finally:
        tell("end")


def _die_with(parent: int) -> None:
    """End this process with its parent, which alone would say what became of it."""
    import ctypes
    import signal

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _wait(
    child: int, numbers: set[Signals], reports: _Reports, calls: memoryview
) -> tuple[int, bool]:
    """Return the status of the child, and whether it hung; hand signals on to it."""
    import signal

    silence, has_hung, last = Silence(), False, time.monotonic()
    while True:
        event = signal.sigtimedwait(numbers, 1.0)
        reports.read()
        if event is not None and event.si_signo not in (signal.SIGCHLD, signal.SIGIO):
            if event.si_code <= 0:  # of a process; the terminal sends its own to all of the group
                with suppress(ProcessLookupError):
                    os.kill(child, event.si_signo)
            continue
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return status, has_hung
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            if not has_hung and silence.lasts(calls.tolist()):
                has_hung = True
                os.kill(child, signal.SIGKILL)


def _outcome(status: tuple[int, bool], reports: _Reports) -> BaseException:
    """Return what the parent raises: its own end, or the death of the child."""
    import signal

    code, has_hung = os.waitstatus_to_exitcode(status[0]), status[1]
    if code >= 0 and reports.has_ended:
        return SystemExit(code)
    reports.remove_parts()
    if code >= 0:
        return Death(f"ended the process with exit code {code}", reports)
    if has_hung:
        return Death(f"hung for {HANG_SECONDS} s", reports)
    number = -code
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if name in _ORDERLY:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    if name == "SIGKILL":
        hint = "a smaller --ctx or model takes less memory"
        return Death("was killed, perhaps because memory ran out,", reports, hint)
    return Death(f"ended with {name}", reports)
