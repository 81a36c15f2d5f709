"""What the control groups of this process allow it: memory, cores.

A process is in a group and in all that hold it; each may set a limit. Version 2 has one tree of
folders for all controllers, version 1 one for each. In a container the root is often the
container's own group.

Source: cgroups(7) and the kernel's admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "/sys/fs/cgroup"
MEMBERSHIP = "/proc/self/cgroup"
_UNLIMITED = 1 << 60


def free_memory(own_bytes: int) -> list[int]:
    """Return the bytes that each group which has a limit leaves.

    Args:
        own_bytes: What this process uses itself, where the group does not say what it uses.
    """
    found = []
    for folder, is_second in _folders("memory"):
        most, now = (
            ("memory.max", "memory.current")
            if is_second
            else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        allowed, used = _number(folder, most), _number(folder, now)
        if allowed is None or allowed >= _UNLIMITED:
            continue
        # Files in the cache count as used, and make room when asked to.
        cached = _cached(folder, "file" if is_second else "total_cache")
        taken = own_bytes if used is None or cached is None else used - cached
        found.append(max(allowed - max(taken, 0), 0))
    return found


def allowed_cores() -> float:
    """Return how many cores the groups give; infinite where none has a limit."""
    least = float("inf")
    for folder, is_second in _folders("cpu"):
        if is_second:
            quota, _, period = _text(folder, "cpu.max").partition(" ")
        else:
            quota, period = _text(folder, "cpu.cfs_quota_us"), _text(folder, "cpu.cfs_period_us")
        if quota.strip().isdecimal() and period.strip().isdecimal() and int(period):
            least = min(least, int(quota) / int(period))
    return least


def _folders(controller: str) -> Iterator[tuple[str, bool]]:
    """Yield the folder of each group of this process, and whether it is of version 2."""
    for line in [*_text("", MEMBERSHIP).splitlines(), f"1:{controller}:/", "0::/"]:
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        top = os.path.join(ROOT, controller) if names else ROOT
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts), -1, -1) if ".." not in parts else ():
            folder = os.path.join(top, *parts[:count])
            if os.path.isdir(folder):
                yield folder, not names


def _cached(folder: str, name: str) -> int | None:
    """Bytes of files in the cache of a group."""
    for line in _text(folder, "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return None


def _number(folder: str, name: str) -> int | None:
    text = _text(folder, name).strip()
    return int(text) if text.isdecimal() else None


def _text(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
