"""The page: one file with its style, its script and its data, and a policy that allows no more.

Long columns are deflated, in base64, and each is unpacked when the page needs it. base64 has no
letter that means something in HTML, whatever a column holds.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import sys
import zlib
from array import array
from importlib.resources import files

from mtkit._version import __version__
from mtkit.base.escape import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.base.packed import Numbers


assert sys.byteorder == "little", "pages hold little-endian numbers"

_COMPRESSION_LEVEL = 6
_CODES = (("u8", "B", 1 << 8), ("u16", "H", 1 << 16), ("u32", "I", 1 << 32))


class Columns:
    """The columns of a page.

    Attributes:
        packed: The columns in base64, by number.
    """

    def __init__(self) -> None:
        self.packed: list[str] = []

    def texts(self, values: Iterable[str]) -> dict[str, Any]:
        """Add texts of one line each."""
        items = list(values)
        return self._add("text", "\n".join(items).encode("utf-8", "backslashreplace"), len(items))

    def counts(self, values: Iterable[int]) -> dict[str, Any]:
        """Add whole numbers from 0 in as few bytes as they need."""
        items = list(values)
        most = max(items, default=0)
        for kind, code, limit in _CODES:
            if most < limit:
                return self._add(kind, array(code, items).tobytes(), len(items))
        return self._add("f64", array("d", items).tobytes(), len(items))

    def numbers(self, values: Numbers) -> dict[str, Any]:
        """Add packed numbers (struct letter I)."""
        assert values.code == "I"
        return self._add("u32", values.data.tobytes(), len(values))

    def floats(self, values: Iterable[float]) -> dict[str, Any]:
        """Add floats."""
        items = array("d", values)
        return self._add("f64", items.tobytes(), len(items))

    def names(self, values: Iterable[str]) -> dict[str, Any]:
        """Add texts from a few: a number for each, and the texts, by frequency."""
        from collections import Counter

        items = list(values)
        names = [name for name, _ in Counter(items).most_common()]
        numbers = {name: number for number, name in enumerate(names)}
        return {**self.counts(numbers[item] for item in items), "names": names}

    def _add(self, kind: str, data: bytes, count: int) -> dict[str, Any]:
        self.packed.append(base64.b64encode(zlib.compress(data, _COMPRESSION_LEVEL)).decode())
        return {"kind": kind, "column": len(self.packed) - 1, "count": count}


PAGE_SCRIPTS = (
    "dom",
    "columns",
    "table",
    "charts",
    "merges",
    "model",
    "tokens",
    "sections",
    "main",
)
"""In the order of the page, where they are one script."""


def render_page(title: str, data: Any, columns: Columns) -> bytes:
    """Return the page of a report."""
    script = "\n".join(_page_file(f"{name}.js") for name in PAGE_SCRIPTS)
    style = _page_file("page.css")
    policy = (
        f"default-src 'none'; script-src {_policy_hash(script)}; style-src {_policy_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    values = {
        "policy": policy,
        "version": f"mtkit {__version__}",
        "title": html.escape(printable(title)),
        "style": style,
        "data": _data_elements(data, columns),
        "script": script,
    }
    first, *parts = _page_file("page.html").split("@")
    return "".join([first, *(values.get(text, text) for text in parts)]).encode()


def _page_file(name: str) -> str:
    return files("mtkit.report").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def _policy_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data_elements(data: Any, columns: Columns) -> str:
    """Return the data as elements that are no scripts: no text of a file can end one."""
    text = json.dumps(
        _printable_values(data), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    parts = [
        f'<script type="application/json" id="data">{text.replace("<", chr(92) + "u003c")}</script>'
    ]
    parts += [
        f'<script type="text/plain" id="column-{number}">{letters}</script>'
        for number, letters in enumerate(columns.packed)
    ]
    return "\n".join(parts)


def _printable_values(value: Any) -> Any:
    """Return values with every text made safe to show; line breaks stay."""
    if isinstance(value, str):
        return "\n".join(map(printable, value.split("\n")))
    if isinstance(value, dict):
        return {_printable_values(key): _printable_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable_values(item) for item in value]
    return value
