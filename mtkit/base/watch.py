"""A parent that waits for a command which calls a library, and says what ended it.

llama.cpp computes in the process of its command and can end it: an instruction that the processor
or a compiler's fault does not allow, ``exit``, or the system, where memory ran out. Nothing inside
the process is sure to run then. So such a command runs in a fork, which costs a millisecond; the
parent loads nothing, waits, removes the parts of files that were on their way, and says in one line
what happened. Signals that are sent to the parent alone go on to the child: those of a terminal
reach both.

A system without fork and ``sigwaitinfo`` (Windows, macOS) runs the command in its own process, and
so does ``MTKIT_WATCH=0``.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from mtkit.errors import ResourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from signal import Signals
    from typing import TypeVar

    T = TypeVar("T")

_HANDED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_ORDERLY = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE")
"""Signals that somebody sends on purpose: the parent ends by them, too."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_MOST_BYTES = 1 << 16
_state = {"pipe": -1, "restarts": 0, "allowed": 0}
speakers: list[Callable[[str], object]] = []
"""What ``say`` calls: the library itself never prints."""


def tell(what: str, text: str = "") -> None:
    """Tell the parent something it needs to know if this process dies: ``stage``, ``part``."""
    if _state["pipe"] >= 0:
        with suppress(OSError):  # the pipe is full, or the parent has gone
            os.write(_state["pipe"], f"{what}\t{text}\n".encode("utf-8", "surrogateescape"))


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
    """

    def __init__(self, how: str, reports: Sequence[tuple[str, str]], hint: str = "") -> None:
        stages = [text for what, text in reports if what == "stage"]
        super().__init__(f"llama.cpp {how} while {stages[-1] if stages else 'starting'}")
        self.hint = hint
        self.has_started = ("ready", "") in reports


def allow(speaker: Callable[[str], object]) -> None:
    """Let this process be forked, which is that of a command, and say what there is to say."""
    _state["allowed"] = 1
    speakers[:] = [speaker]


def restarts() -> bool:
    """Whether another process takes the place of this one if it dies."""
    return bool(_state["restarts"])


def can_watch() -> bool:
    """Whether a child can be started and waited for."""
    import signal
    import threading

    return (
        bool(_state["allowed"])
        and hasattr(os, "fork")
        and hasattr(signal, "sigwaitinfo")
        and os.environ.get("MTKIT_WATCH") != "0"
        and _state["pipe"] < 0
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
    import signal

    numbers = {getattr(signal, name) for name in _HANDED_ON} | {signal.SIGCHLD}
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    parent = os.getpid()
    on_child = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it has no exit code
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    child = os.fork()
    if child:
        os.close(writer)
        try:
            status = _wait(child, numbers)
            reports = _read(reader)
        finally:
            os.close(reader)
            signal.signal(signal.SIGCHLD, on_child or signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise _outcome(status, reports)
    os.close(reader)
    _state.update(pipe=writer, restarts=int(restarts))
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


def _wait(child: int, numbers: set[Signals]) -> int:
    """Return the status of the child, and hand signals on to it."""
    import signal

    while True:
        event = signal.sigtimedwait(numbers, 1.0)
        if event is not None and event.si_signo != signal.SIGCHLD:
            if event.si_code <= 0:  # of a process; the terminal sends its own to all of the group
                with suppress(ProcessLookupError):
                    os.kill(child, event.si_signo)
            continue
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            return status


def _read(reader: int) -> list[tuple[str, str]]:
    """Return what the child has told."""
    text = b""
    with suppress(BlockingIOError):
        while piece := os.read(reader, _MOST_BYTES):
            text += piece
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    return [(what, rest) for what, _, rest in (line.partition("\t") for line in lines)]


def _outcome(status: int, reports: list[tuple[str, str]]) -> BaseException:
    """Return what the parent raises: its own end, or the death of the child."""
    import signal

    code = os.waitstatus_to_exitcode(status)
    has_ended = ("end", "") in reports
    if code >= 0:
        if has_ended:
            return SystemExit(code)
        _remove_parts(reports)
        return Death(f"ended the process with exit code {code}", reports)
    number = -code
    _remove_parts(reports)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if name in _ORDERLY:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    if name == "SIGKILL":
        hint = "a smaller --ctx or model takes less memory"
        return Death("was killed, perhaps because memory ran out,", reports, hint)
    return Death(f"ended with {name}", reports)


def _remove_parts(reports: list[tuple[str, str]]) -> None:
    for what, path in reports:
        if what == "part":
            with suppress(OSError):
                os.unlink(path)
