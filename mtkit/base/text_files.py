"""The text files of a folder."""

from __future__ import annotations

import os
from codecs import getincrementaldecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD_BYTES = 8000
"""As git looks at, to tell binary files from text."""


def visible(folder: str) -> Iterator[str]:
    """Yield the files in and below a folder in the order of their names; hidden ones are left."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(here, name) for name in sorted(names) if not name.startswith("."))


def is_text(path: str) -> bool:
    """Tell whether a file is text: its beginning is UTF-8 without NUL, and not empty."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
        getincrementaldecoder("utf-8")().decode(head)  # which may end within a character
    except (OSError, UnicodeDecodeError):
        return False
    return bool(head) and b"\0" not in head
