"""Long columns as a page carries them: deflated, in base64, each unpacked when it is wanted.

Base64 has no letter that HTML knows, whatever a column holds.
"""

from __future__ import annotations

import base64
import sys
import zlib
from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.base.packed import Numbers

assert sys.byteorder == "little", "pages hold numbers as processors in use have them"

_LEVEL = 6
_CODES = (("u8", "B", 1 << 8), ("u16", "H", 1 << 16), ("u32", "I", 1 << 32))


class Columns:
    """The columns of a page.

    Attributes:
        packed: Number of a column -> its letters.
    """

    def __init__(self) -> None:
        self.packed: list[str] = []

    def texts(self, values: Iterable[str]) -> dict[str, Any]:
        """Keep texts of one line each."""
        items = list(values)
        return self._keep("text", "\n".join(items).encode("utf-8", "backslashreplace"), len(items))

    def counts(self, values: Iterable[int]) -> dict[str, Any]:
        """Keep whole numbers from 0 in as few bytes as they need."""
        items = list(values)
        most = max(items, default=0)
        for kind, code, limit in _CODES:
            if most < limit:
                return self._keep(kind, array(code, items).tobytes(), len(items))
        return self._keep("f64", array("d", items).tobytes(), len(items))

    def numbers(self, values: Numbers) -> dict[str, Any]:
        """Keep what is packed already (struct letter I)."""
        assert values.code == "I"
        return self._keep("u32", values.data.tobytes(), len(values))

    def floats(self, values: Iterable[float]) -> dict[str, Any]:
        """Keep floats."""
        items = array("d", values)
        return self._keep("f64", items.tobytes(), len(items))

    def named(self, values: Iterable[str]) -> dict[str, Any]:
        """Keep texts of which there are few: a number for each, and the texts, by frequency."""
        from collections import Counter

        items = list(values)
        names = [name for name, _ in Counter(items).most_common()]
        numbers = {name: number for number, name in enumerate(names)}
        return {**self.counts(numbers[item] for item in items), "names": names}

    def _keep(self, kind: str, data: bytes, count: int) -> dict[str, Any]:
        self.packed.append(base64.b64encode(zlib.compress(data, _LEVEL)).decode())
        return {"kind": kind, "column": len(self.packed) - 1, "count": count}
