"""The machine that something was measured on."""

from __future__ import annotations

import os
import platform
import sys
import time


def machine() -> dict[str, object]:
    """Return what a figure depends on besides the code."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu() or platform.processor() or platform.machine(),
        "cores": cores,
        "system": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""
