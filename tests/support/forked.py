"""A function in a process of its own: what it gives, and how much memory it took.

The peak that a process reports (``ru_maxrss``) never falls: after one large test no check of a
later one could fail. A forked child begins with what it shares with its parent, whatever the
parent's peak was. What earlier tests have freed is given back before: a child that fills memory
which its parent holds for no use does not grow.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import traceback
import warnings
from typing import TYPE_CHECKING, TypeVar

from support import posix

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def forked(function: Callable[[], T]) -> tuple[T, int]:
    """Return what a function gives, and by how many bytes its process grew at most.

    Raises:
        AssertionError: The function raised something, or the process did not end by itself.
    """
    posix("resource")
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # The C library of Linux's has it.
    if trim is not None:
        trim(0)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Libraries of other tests may have left threads behind; the child uses none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        # Beyond this size a vector that grows moves without a copy. What earlier tests freed has
        # raised it to as much as 32 MB: 12 bytes a token more at the peak.
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(-3, 128 << 10)  # M_MMAP_THRESHOLD
        try:
            with os.fdopen(writing, "wb") as file:
                pickle.dump(_answer(function), file)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    assert data, f"the process ended with {status}"
    answer, failure, grown = pickle.loads(data)
    assert not failure, failure
    return answer, grown


def _answer(function: Callable[[], T]) -> tuple[T | None, str, int]:
    resource = posix("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer, failure = None, ""
    try:
        answer = function()
    except BaseException:  # noqa: BLE001  the parent raises it
        failure = traceback.format_exc()
    return answer, failure, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
