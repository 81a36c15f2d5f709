"""The processes that a test has started: none before it, none after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import absent

from mtkit.chat import process as chat_pool


def children() -> dict[int, str]:
    """Processes that this one has started, and their states; Z is a zombie."""
    if not os.path.isdir("/proc/self/task"):
        absent("the system has no /proc", "MTKIT_REQUIRE_REFERENCE")
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found[int(folder.name)] = fields[0]
    return found


@pytest.fixture(autouse=True)
def alone():
    """No process is there before a test, and none after it."""
    chat_pool.end_all()
    before = set(children())
    yield
    chat_pool.end_all()
    assert set(children()) == before
