"""The page: one file with its style, its script and its data, and a policy that allows no more."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files

from mtkit._version import __version__
from mtkit.base.escape import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.report.columns import Columns

SCRIPTS = ("dom", "columns", "table", "charts", "merges", "model", "tokens", "sections", "main")
"""In the order in which they stand in the page: one script."""


def page(title: str, data: Any, columns: Columns) -> bytes:
    """Return the page of a report.

    Args:
        title: Of the page.
        data: What it shows, as JSON values.
        columns: The long columns of which the data speaks.
    """
    script = "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    style = _part("page.css")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    made = {
        "policy": policy,
        "version": f"mtkit {__version__}",
        "title": html.escape(printable(title)),
        "style": style,
        "data": _data(data, columns),
        "script": script,
    }
    first, *parts = _part("page.html").split("@")
    return "".join([first, *(made.get(text, text) for text in parts)]).encode()


def _part(name: str) -> str:
    return files("mtkit.report").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(data: Any, columns: Columns) -> str:
    """Return the data as elements that are no scripts: no text of a file can end one."""
    text = json.dumps(_shown(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    parts = [
        f'<script type="application/json" id="data">{text.replace("<", chr(92) + "u003c")}</script>'
    ]
    parts += [
        f'<script type="text/plain" id="column-{number}">{letters}</script>'
        for number, letters in enumerate(columns.packed)
    ]
    return "\n".join(parts)


def _shown(value: Any) -> Any:
    """Return values with every text made safe to show; line breaks stay."""
    if isinstance(value, str):
        return "\n".join(map(printable, value.split("\n")))
    if isinstance(value, dict):
        return {_shown(key): _shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value]
    return value
