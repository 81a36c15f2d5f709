"""What this process may still take: the address space, its control groups, the machine.

A process is in a group and in all that hold it; each may set a limit, of memory and of cores.
Version 2 has one tree of folders for all controllers, version 1 one for each. In a container the
root is often the container's own group.

Source: cgroups(7) and the kernel's admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import os
import sys

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


CGROUP_ROOT = "/sys/fs/cgroup"
CGROUP_MEMBERSHIP = "/proc/self/cgroup"
_UNLIMITED = 1 << 60


def free_in_groups(own_bytes: int) -> list[int]:
    """Return the bytes that each group which has a limit leaves.

    Args:
        own_bytes: What this process uses itself, where the group does not say what it uses.
    """
    found = []
    for folder, is_second in _group_folders("memory"):
        most, now = (
            ("memory.max", "memory.current")
            if is_second
            else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        allowed, used = _read_number(folder, most), _read_number(folder, now)
        if allowed is None or allowed >= _UNLIMITED:
            continue
        # Files in the cache count as used, and make room when asked to.
        cached = _cache_bytes(folder, "file" if is_second else "total_cache")
        taken = own_bytes if used is None or cached is None else used - cached
        found.append(max(allowed - max(taken, 0), 0))
    return found


def allowed_cores() -> float:
    """Return how many cores the groups give; infinite where none has a limit."""
    least = float("inf")
    for folder, is_second in _group_folders("cpu"):
        if is_second:
            quota, _, period = _read_text(folder, "cpu.max").partition(" ")
        else:
            quota, period = (
                _read_text(folder, "cpu.cfs_quota_us"),
                _read_text(folder, "cpu.cfs_period_us"),
            )
        if quota.strip().isdecimal() and period.strip().isdecimal() and int(period):
            least = min(least, int(quota) / int(period))
    return least


def _group_folders(controller: str) -> Iterator[tuple[str, bool]]:
    """Yield the folder of each group of this process, and whether it is of version 2."""
    for line in [*_read_text("", CGROUP_MEMBERSHIP).splitlines(), f"1:{controller}:/", "0::/"]:
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        top = os.path.join(CGROUP_ROOT, controller) if names else CGROUP_ROOT
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts), -1, -1) if ".." not in parts else ():
            folder = os.path.join(top, *parts[:count])
            if os.path.isdir(folder):
                yield folder, not names


def _cache_bytes(folder: str, name: str) -> int | None:
    """Bytes of files in the cache of a group."""
    for line in _read_text(folder, "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return None


def _read_number(folder: str, name: str) -> int | None:
    text = _read_text(folder, name).strip()
    return int(text) if text.isdecimal() else None


def _read_text(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


_LIBRARIES = 100 << 20
"""Addresses that numpy and llama.cpp take when they are loaded (measured: 85 and 10 MB)."""


class Limit(Record):
    """One limit."""

    name: str
    free: int


def memory_limits() -> list[Limit]:
    """Return the limits in force."""
    return [*_address_space(), *_control_groups(), *_machine()]


def _address_space() -> list[Limit]:
    try:
        import resource
    except ImportError:  # not on Windows
        return []
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY or soft >= _UNLIMITED:
        return []
    used = _status_bytes("VmSize") + ("numpy" not in sys.modules) * _LIBRARIES
    return [Limit("the limit of the address space (ulimit -v)", max(soft - used, 0))]


def _control_groups() -> list[Limit]:
    free = free_in_groups(_status_bytes("VmRSS"))
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


def available_memory() -> int | None:
    """Return the bytes that nobody uses now, caches of files left out; None where nobody says."""
    free = [limit.free for limit in memory_limits()]
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    free.append(int(line.split()[1]) * 1024)
    except (OSError, ValueError, IndexError):
        pass
    return min(free, default=None)


def _status_bytes(name: str) -> int:
    """Bytes that a line of the process's status tells; 0 where there is none."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
