"""How many threads compute, and how they wait for each other.

Every node of the graph ends with all threads waiting for the last. libgomp's threads spin while
they wait; where another process has one of the cores this costs a factor of 10 to 100 (measured),
where none has it saves a few per cent. So the machine is looked at before the library is loaded,
and the number of threads is measured on the loaded model. What the user sets counts always.
"""

from __future__ import annotations

import os
import sys
import time

from mtkit.llama import library
from mtkit.memory_plan.control_groups import allowed_cores
from mtkit.settings import MOST_THREADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llama import Context
    from mtkit.settings import Waiting

_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_SECONDS = 0.02
"""Time that a measurement takes for each number of threads, one token at least."""
_PROMPT = 32
_LOOKS, _BETWEEN = 7, 0.001
"""At what runs on the machine, and seconds between two."""


def cores() -> int:
    """Return how many cores this process may use, the share of its control groups counted."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        allowed = os.cpu_count() or 1
    share = allowed_cores()
    if share < allowed:
        allowed = max(1, round(share))
    return allowed


def choose_waiting(waiting: Waiting = "auto") -> str:
    """Choose how threads wait, as long as llama.cpp is not loaded; returns what and why."""
    if "llama_cpp.llama_cpp" in sys.modules:
        return "as when llama.cpp was loaded"
    if waiting in ("active", "passive"):
        _load_with(waiting)
        return f"{waiting}, as asked"
    given = [name for name in _VARIABLES if os.environ.get(name)]
    if waiting == "default" or given:
        return f"as {given[0]} says" if given else "the OpenMP library's default, as asked"
    busy = _busy()
    if busy + 1 > cores():
        _load_with("passive")
        return f"passive: {busy} other threads are running on {cores()} cores"
    return "the OpenMP library's default: the cores are free"


def _load_with(policy: str) -> None:
    """Load the library with a policy in the environment, which is as before then.

    The OpenMP library reads it once; programs that this process starts shall not find it.
    """
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ["OMP_WAIT_POLICY"] = policy
    try:
        library()
    finally:
        if before is None:
            del os.environ["OMP_WAIT_POLICY"]
        else:
            os.environ["OMP_WAIT_POLICY"] = before


def _busy() -> int:
    """Threads that want a core, this one left out: now, or in the last minute if any does now.

    What ran a moment ago and has ended counts for nothing, though the load still shows it.
    """
    now = [_running()]
    while len(now) < _LOOKS and now[0] is not None:
        time.sleep(_BETWEEN)
        now.append(_running())
    typical = sorted(one or 0 for one in now)[len(now) // 2]
    if not typical and now[0] is not None:
        return 0
    try:
        return max(typical, round(os.getloadavg()[0] - 0.25))
    except OSError:
        return typical


def _running() -> int | None:
    """Threads that run or could, this one left out; None where nobody says."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[0]) - 1
    except (OSError, ValueError, IndexError):
        return None


def measure(context: Context, token_id: int) -> int:
    """Return the number of threads that computes one token fastest, and leave the context empty.

    All cores are tried first, then half of them and so on, as long as fewer threads are faster: a
    large model, for which a token takes long, settles it with the second try.
    """
    threads = min(cores(), MOST_THREADS)
    best, best_seconds = threads, float("inf")
    while threads:
        context.set_threads(threads, threads)
        seconds = _seconds(context, token_id)
        if seconds > best_seconds:
            break
        best, best_seconds = threads, seconds
        threads //= 2
    context.set_threads(best, best)
    return best


def _seconds(context: Context, token_id: int) -> float:
    """Shortest time of computing one token (of an encoder, a short prompt)."""
    context.clear()
    shortest = float("inf")
    begin = time.perf_counter()
    for turn in range(min(16, context.n_ctx)):
        start = time.perf_counter()
        if context.model.has_encoder:
            context.encode([token_id] * min(_PROMPT, context.n_batch))
        else:
            context.step(token_id)
            context.logits()
        end = time.perf_counter()
        if turn:  # the first touches memory for the first time
            shortest = min(shortest, end - start)
            if end - begin > _SECONDS:
                break
    context.clear()
    return shortest
