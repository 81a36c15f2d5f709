"""Ctrl-C during a long call into C.

Python runs a signal's handler only between its own instructions, so a call that takes a minute
would have to end first, and an exception raised inside a callback is lost. While an ``Interrupts``
is entered, the handler only sets ``asked``, which a callback reads to end the call; leaving it
hands the signal to the handler that was there before.
"""

from __future__ import annotations

import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar("Result")


class Interrupts:
    """Holds back SIGINT in the main thread; does nothing in others.

    Attributes:
        asked: A signal came, or somebody else set it to end the call.
    """

    def __init__(self) -> None:
        self.asked = False
        self._came = False
        self._before: Any = None

    def _take(self, _: int, __: object) -> None:
        self.asked = self._came = True

    def __enter__(self) -> Interrupts:
        self.asked = self._came = False
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        before, self._before = self._before, None
        if before is not None:
            signal.signal(signal.SIGINT, before)
        if self._came:
            before(signal.SIGINT, None)


def held_back(call: Callable[..., Result], *args: object) -> Result:
    """Call into C while SIGINT waits: the call writes a log, whose callback would lose it.

    Raises:
        KeyboardInterrupt: The user interrupted it; the call has ended.
    """
    with Interrupts():
        return call(*args)
