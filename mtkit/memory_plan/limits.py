"""The memory that this process may still take: address space, control group, the machine."""

from __future__ import annotations

import sys

from mtkit.base.record import Record
from mtkit.memory_plan.control_groups import free_memory

_UNLIMITED = 1 << 60
_LIBRARIES = 100 << 20
"""Addresses that numpy and llama.cpp take when they are loaded (measured: 85 and 10 MB)."""


class Limit(Record):
    """One limit.

    Attributes:
        name: What sets it.
        free: Bytes that it leaves.
    """

    name: str
    free: int


def limits() -> list[Limit]:
    """Return the limits in force."""
    return [*_address_space(), *_control_group(), *_machine()]


def _address_space() -> list[Limit]:
    try:
        import resource
    except ImportError:  # not on Windows
        return []
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY or soft >= _UNLIMITED:
        return []
    used = _status("VmSize") + ("numpy" not in sys.modules) * _LIBRARIES
    return [Limit("the limit of the address space (ulimit -v)", max(soft - used, 0))]


def _control_group() -> list[Limit]:
    free = free_memory(_status("VmRSS"))
    return [Limit("the control group", min(free))] if free else []


def _machine() -> list[Limit]:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemTotal:"):
                    return [Limit("this machine", int(line.split()[1]) * 1024)]
    except (OSError, ValueError, IndexError):
        pass
    return []


def available() -> int | None:
    """Return the bytes that nobody uses now, caches of files left out; None where nobody says."""
    free = [limit.free for limit in limits()]
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    free.append(int(line.split()[1]) * 1024)
    except (OSError, ValueError, IndexError):
        pass
    return min(free, default=None)


def _status(name: str) -> int:
    """Bytes that a line of the process's status tells; 0 where there is none."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
