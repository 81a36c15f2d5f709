"""Processes that wait for the next rendering of their template.

A process renders one template, never another: no conversation meets a stranger's. Threads that
render at the same time have a process each.
"""

from __future__ import annotations

import atexit
import marshal
import os
import threading
from time import monotonic

from mtkit.chat.child import EXHAUSTED
from mtkit.chat.process import Process, ProcessLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from mtkit.chat.process import Answer, Limits

MOST_WAITING = 8
"""Each takes some 20 MiB."""


_lock = threading.Lock()
_waiting: list[tuple[str, Process]] = []
"""With their templates; the one used last is at the end."""


def answer(
    template: str, variables: dict[str, Any], now: datetime, limits: Limits, deadline: float
) -> Answer:
    """Render a template in its process.

    Args:
        template: The Jinja template.
        variables: Of the types that JSON has, and tuples.
        now: What ``strftime_now`` tells.
        limits: What it may use.
        deadline: When it has to be done, as ``time.monotonic`` counts.

    Raises:
        ResourceError: It takes too long.
        ProcessLost: Its process ended, and so did another one.
        UnsupportedError: The process answers what it never would by itself.
        ValueError: The variables nest too deeply.
    """
    shift = now.utcoffset()
    time = (
        (*now.timetuple()[:6], now.microsecond),
        None if shift is None else shift.total_seconds(),
        now.tzname(),
    )
    request = marshal.dumps((template, variables, time, limits.seconds, limits.characters))
    try:
        return _answered(template, request, limits, deadline)
    except ProcessLost:  # killed by a machine without memory, perhaps
        if monotonic() >= deadline:
            raise
    return _answered(template, request, limits, deadline)


def _answered(template: str, request: bytes, limits: Limits, deadline: float) -> Answer:
    process = _taken(template)
    if process is None:
        process = Process()
        # The start counts; however slow it was, the template gets a second.
        deadline = max(deadline, monotonic() + min(limits.seconds, 1.0))
    try:
        found = process.ask(request, limits, deadline)
    except BaseException:  # Ctrl-C, too: nobody waits for its answer any more
        process.end()
        raise
    if found.kind == EXHAUSTED:
        process.end()
    else:
        _give_back(template, process)
    return found


def _taken(template: str) -> Process | None:
    with _lock:
        place = next((i for i, (known, _) in enumerate(_waiting) if known == template), None)
        found = None if place is None else _waiting.pop(place)[1]
    if found is not None and not found.is_waiting:
        found.end()
        found = None
    return found


def _give_back(template: str, process: Process) -> None:
    """Keep a process; where too many wait, the one that has waited longest ends."""
    with _lock:
        _waiting.append((template, process))
        oldest = _waiting.pop(0)[1] if len(_waiting) > MOST_WAITING else None
    if oldest is not None:
        oldest.end()


@atexit.register
def end_all() -> None:
    """End the processes that wait."""
    with _lock:
        ended = [process for _, process in _waiting]
        _waiting.clear()
    for process in ended:
        process.end()


def _begin_anew() -> None:
    """Leave the processes to the parent: this one is a fork of it."""
    global _lock  # noqa: PLW0603  another thread may have held it
    _lock = threading.Lock()
    for _, process in _waiting:
        process.disown()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
