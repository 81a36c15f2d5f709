"""Answers that are messages of channels: reasoning, text to be shown, calls of tools.

A message is ``<|channel|>NAME<|message|>TEXT<|end|>``; the prompt says ``<|start|>assistant`` for
the first, the answer for the others. A recipient, ``to=functions.NAME`` before the channel or
behind it, makes it a call; what kind its text is may follow, with ``<|constrain|>`` or without.
Messages without a recipient are shown, but for those of the channel ``analysis``, which are
reasoning. What does not read as a message stays text.

Source: openai/harmony, docs/format.md; the chat template of openai/gpt-oss-120b.
"""

from __future__ import annotations

import json
import re

from mtkit.chat.answer_parts import Thought
from mtkit.serve.calls import Reading, begun, call_of, first, parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.chat.answer_parts import Part
    from mtkit.serve.call_forms import Form

_HEADER = re.compile(
    r"\s{0,20}(?:<\|start\|>assistant)?(?: to=functions\.(?P<before>[^\s<]{1,100}))? ?"
    r"<\|channel\|>(?P<channel>analysis|commentary|final)"
    r"(?: to=functions\.(?P<behind>[^\s<]{1,100}))? ?"
    r"(?:<\|constrain\|>)?(?:json|code)? ?<\|message\|>"
)
_MOST_HEADER = 400
"""Characters; no header has as many."""


class Channels(Reading):
    """Reads an answer of channels as it comes; where there are no tools, a call is text."""

    def __init__(self, form: Form, schemas: Mapping[str, Any], *, several: bool = True) -> None:
        """Begin an answer; the arguments are those of ``Reading``."""
        super().__init__(form, schemas, several=several)
        self._openings, self._ends = form.openings, form.ends
        self._header: re.Match[str] | None = None
        self._shown: re.Match[str] | None = None

    def _take(self, text: str, *, ends: bool) -> list[Part]:
        self._rest += text
        made: list[Part] = []
        while self._rest or (ends and self._header):
            if self._header:
                parts = self._inside(self._header, ends)
            else:
                before = self._between(ends)
                parts = None if before is None else [before]
            if parts is None:
                break
            made += parts
        return [part for part in made if part]

    def _between(self, ends: bool) -> str | None:
        """Return text before the next message; None where what there is may be its header."""
        rest = self._rest
        self._header = _HEADER.search(rest)
        if self._header:
            self._rest = rest[self._header.end() :]
            return rest[: self._header.start()]
        keep = 0 if ends else self._kept()
        self._rest = rest[len(rest) - keep :]
        return rest[: len(rest) - keep] or None

    def _kept(self) -> int:
        """Return how many of the last characters may belong to a header."""
        window, signs = self._rest[-_MOST_HEADER:], self._openings
        at, sign = first(window, signs)
        keep = len(window) - at if sign else begun(window, signs)
        return len(self._rest) - len(self._rest[: len(self._rest) - keep].rstrip())

    def _inside(self, header: re.Match[str], ends: bool) -> list[Part] | None:
        """Return what can be said of a message; None where nothing can yet."""
        rest, signs = self._rest, self._ends
        at, sign = first(rest, signs)
        closes = ends or bool(sign)
        name = header["before"] or header["behind"]
        if name and not closes:
            return None
        if not sign:
            at = len(rest) - (0 if ends else begun(rest, signs))
        said, self._rest = rest[:at], rest[at + len(sign) :]
        if closes:
            self._header = None
        elif not said:
            return None
        if name:
            return self._read_call(name, said, header[0] + said + sign)
        if header["channel"] == "analysis":
            return [Thought(said)] if said else []
        if said:
            before, self._shown = self._shown, header
            return [said] if before in (None, header) else ["\n\n", said]
        return []

    def _read_call(self, name: str, body: str, text: str) -> list[Part]:
        """Return a call; its whole text where it is none."""
        try:
            call = call_of(name, json.loads(body, strict=False))
        except (ValueError, TypeError, RecursionError):
            return [text]
        if not self._schemas:
            return [text]
        if self.called and not self._several:
            return []
        self.called += 1
        return parts_of(call)
