"""The journal beside a GGUF whose header is being changed; ``in_place`` writes and reads it."""

from __future__ import annotations

import os

SUFFIX = ".journal"


def journal_of(path: str) -> str:
    """Return the path of a file's journal, which lies beside the file behind links."""
    return os.path.realpath(path) + SUFFIX


def was_interrupted(path: str) -> bool:
    """Whether an edit of this file was begun and not finished."""
    return os.path.exists(journal_of(path))
