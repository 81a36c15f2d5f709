"""How many threads compute, and how they wait for each other.

Every node of the graph ends with all threads waiting for the last. libgomp's threads spin while
they wait, for some milliseconds, and then sleep. Where another process has one of the cores,
spinning keeps the last one from finishing: tokens took up to 100 times as long. Where threads sleep
at once, waking them takes longer than the wait. Some microseconds of spinning for each core cover
most waits and cost little where cores are busy, so it does not matter what else runs.
The number of threads is measured on the loaded model. The user's own setting always wins.
"""

from __future__ import annotations

import os
import sys
import time

from mtkit.llama import library
from mtkit.memory_plan.plan import allowed_cores
from mtkit.settings import MOST_THREADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llama import Context
    from mtkit.settings import Waiting

_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_SPINS = 200
"""Turns of libgomp's waiting loop for each core: pause instructions, of some 25 ns each.

Tokens a second of two threads on two cores (Zen 5, SmolLM2 135M in Q4_1) and of 16 on 16 (Xeon,
random weights of that shape in Q8_0); busy: beside one process that computes, or four:

    spins             0    100    200    400   1000   4000   300,000 (libgomp's own)
    2 cores, free    56     87    160    160    160    160   165
    2 cores, busy    60     77     72     61     37     10   1-75
    16 cores, free   60     63     -      85    382    317   381
    16 cores, busy   46     -      -      34     29     11   below 2
"""
_SECONDS = 0.02
"""Time that a measurement takes for each number of threads, one token at least."""
_PROMPT = 32


def cores() -> int:
    """Return how many cores this process may use, within the share of its control groups."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        allowed = os.cpu_count() or 1
    share = allowed_cores()
    if share < allowed:
        allowed = max(1, round(share))
    return allowed


def choose_waiting(waiting: Waiting = "auto") -> str:
    """Choose how threads wait, if llama.cpp is not loaded yet; returns what and why."""
    if "llama_cpp.llama_cpp" in sys.modules:
        return "as when llama.cpp was loaded"
    if waiting in ("active", "passive"):
        _load_with("OMP_WAIT_POLICY", waiting)
        return f"{waiting}, as asked"
    variables = [name for name in _VARIABLES if os.environ.get(name)]
    if waiting == "default" or variables:
        return f"as {variables[0]} says" if variables else "the OpenMP library's default, as asked"
    _load_with("GOMP_SPINCOUNT", str(_SPINS * cores()))
    return "they spin some microseconds, then sleep"


def _load_with(name: str, value: str) -> None:
    """Load the library with a variable in the environment, which is then restored.

    The OpenMP library reads it once; child processes shall not inherit it.
    """
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        library()
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


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
    """Return the shortest time of computing one token (of an encoder, a short prompt)."""
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
