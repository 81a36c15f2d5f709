"""Where mtkit keeps what it can make again."""

from __future__ import annotations

import os
import sys


def folder(name: str) -> str:
    """Return the path of a folder of the user's cache; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    return os.path.join(base or os.path.join(os.path.expanduser("~"), ".cache"), "mtkit", name)
