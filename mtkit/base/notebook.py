"""Pictures of results for notebooks: ``_repr_html_`` of what ``mtkit`` returns is made of these.

Small, without scripts and without colors of their own for text and background, so that they fit a
dark page and a light one. Every text is escaped, control characters first.
"""

from __future__ import annotations

import sys
import time

from mtkit.base.escape import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

MOST_ROWS = 60
"""Rows of a table, and of its like; the rest is counted."""
MOST_TOKENS = 2000
_MOST_TEXT = 400
_CELL = "text-align:left;padding:2px 10px 2px 0;vertical-align:top;font-family:monospace"
_COLORS = ("66,133,244", "52,168,83", "251,188,4", "234,67,53", "171,71,188")
_PATIENCE = 1.0
_PAUSE = 0.25
"""Seconds until a bar is drawn, and between two drawings."""
_NOTE = "opacity:.7;padding:2px 0"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def html_of(value: object) -> Html:
    """Return a value as HTML: escaped to one line, cut where it is long."""
    if isinstance(value, Html):
        return value
    text = str(value)
    text = printable(text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…")
    for sign, name in ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"):
        text = text.replace(sign, name)
    return Html(text)


def heading(text: object) -> Html:
    """Return a line in bold."""
    return Html(f"<div><b>{html_of(text)}</b></div>")


def note(text: object) -> Html:
    """Return a line that is less important."""
    return Html(f'<div style="{_NOTE}">{html_of(text)}</div>')


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table; without ``head``, of names and values."""
    listed = list(rows)
    lines = [f"<th style='{_CELL}'>{html_of(cell)}</th>" for cell in head]
    body = [f"<tr>{''.join(lines)}</tr>"] if lines else []
    for row in listed[:MOST_ROWS]:
        styles = (f"{_CELL};white-space:nowrap", *[_CELL] * (len(row) - 1))
        cells = "".join(
            f"<td style='{s}'>{html_of(c)}</td>" for s, c in zip(styles, row, strict=True)
        )
        body.append(f"<tr>{cells}</tr>")
    whole = f"<table style='border-collapse:collapse'>{''.join(body)}</table>"
    more = len(listed) - MOST_ROWS
    return Html(whole + (note(f"… and {more} more") if more > 0 else ""))


def bar(part: float, text: object) -> Html:
    """Return a text over a bar of this part of the width, 0 to 1."""
    width = min(max(part, 0.0), 1.0) * 100
    fill = f"linear-gradient(90deg,rgba(66,133,244,.35) {width:.1f}%,transparent 0)"
    return Html(
        f'<span style="display:inline-block;min-width:9em;background:{fill}">{html_of(text)}</span>'
    )


def spans(tokens: Iterable[tuple[object, object]]) -> Html:
    """Return texts side by side in changing colors, each with what it shows on hover."""
    parts, count = [], 0
    for count, (text, about) in enumerate(tokens, 1):
        if count <= MOST_TOKENS:
            color = _COLORS[(count - 1) % len(_COLORS)]
            parts.append(
                f'<span title="{html_of(about)}" style="background:rgba({color},.25);'
                f'border-radius:3px;padding:1px 0;white-space:pre-wrap">{html_of(text)}</span>'
            )
    more = note(f"… and {count - MOST_TOKENS} more") if count > MOST_TOKENS else ""
    return Html(f'<div style="font-family:monospace;line-height:1.7">{"".join(parts)}{more}</div>')


def figure(*parts: object) -> str:
    """Return parts below each other."""
    return f'<div style="max-width:70em;overflow-x:auto">{"".join(map(html_of, parts))}</div>'


class Progress:
    """A bar in a notebook for what takes longer than a second; elsewhere nothing is shown."""

    def __init__(self, what: str) -> None:
        self._what, self._start, self._next = what, time.monotonic(), _PATIENCE
        ipython: Any = sys.modules.get("IPython")  # a notebook has imported it
        shell = ipython and ipython.get_ipython()
        self._display: Any = ipython.display if hasattr(shell, "kernel") else None
        self._handle: Any = None

    def __call__(self, part: float) -> None:
        """Show how much is done, 0 to 1."""
        seconds = time.monotonic() - self._start
        if self._display is None or (seconds < self._next if part < 1 else self._handle is None):
            return
        self._next = seconds + _PAUSE
        text = f"{self._what}: {part:.0%}, {seconds:.0f} s"
        picture = self._display.HTML(figure(bar(part, text)))
        if self._handle is None:
            self._handle = self._display.display(picture, display_id=True)
        else:
            self._handle.update(picture)

    def count(self, number: int, total: int) -> None:
        """Show how many are done."""
        self(number / max(total, 1))
