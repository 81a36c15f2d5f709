"""What the new file of one of a set is: that file alone, or the whole model.

llama.cpp finds the files of a set by the name of the first: one that is called otherwise, or alone,
cannot be loaded.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.gguf.file import GgufFile


def _place(file: GgufFile) -> tuple[int, int]:
    """Return which file of how many it is, from 0; of one that stands alone (0, 1)."""
    number, count = (file.metadata.get(f"split.{name}") for name in ("no", "count"))
    if not isinstance(count, int) or count < 2:
        return 0, 1
    return number if isinstance(number, int) else 0, count


def _end(number: int, count: int) -> str:
    return f"-{number + 1:05d}-of-{count:05d}.gguf"


def is_whole(file: GgufFile, new: str | None) -> bool:
    """Tell whether a new file of the first of a set is to have all that is in the set."""
    number, count = _place(file)
    return count > 1 and number == 0 and not (new or "").endswith(_end(number, count))


def oddities(file: GgufFile, new: str) -> Iterator[str]:
    """Yield why a new file, one of a set, will not be loaded where it is to be written."""
    number, count = _place(file)
    if count == 1:
        return
    end = _end(number, count)
    if not new.endswith(end):
        yield f"is file {number + 1} of {count}: llama.cpp finds it only as NAME{end}"
        return
    start = new.removesuffix(end)
    others = (f"{start}{_end(other, count)}" for other in range(count) if other != number)
    missing = [path for path in others if not os.path.exists(path)]
    if missing:
        yield f"is file {number + 1} of {count}: it loads once {missing[0]} is there, too"
