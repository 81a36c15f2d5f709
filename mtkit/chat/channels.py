"""Answers that are messages of channels: reasoning, text for the user, calls of tools.

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

from mtkit.chat.answer import (
    CallStart,
    CallText,
    Thought,
    join_parts,
    new_call_id,
    schemas_by_tool,
)
from mtkit.chat.value_reader import arguments_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer import Part

_MOST_BLANKS = 20
"""Characters of white space that belong to the header behind them."""
_MESSAGE = "<|message|>"
_HEADER = re.compile(
    rf"\s{{0,{_MOST_BLANKS}}}"
    r"(?:<\|start\|>assistant)?(?:<\|channel\|>(?:commentary|analysis) to=assistant)?"
    r"(?: to=(?P<before>[^\s<]{1,100}))? ?"
    r"<\|channel\|>(?P<channel>analysis|commentary|final)"
    r"(?: to=(?P<behind>[^\s<]{1,100}))? ?"
    r"(?:<\|constrain\|>)?(?:json|code)? ?<\|message\|>"
)
_CUT_HEADER = re.compile(
    r"\s*(?:<\|start\|>(?:assistant)?)?(?: to=\S*)? ?(?:<\|channel\|>[^<]{0,200}(?:<[^<]*){0,2})?\Z"
)
"""A header whose end is missing."""
_MOST_HEADER = 400
"""Characters; no header has as many."""
_OPENINGS = (" to=", "<|channel|>", "<|start|>")
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
SIGNS = (" to=functions.", *_OPENINGS[1:], *_ENDS, _MESSAGE, "<|constrain|>")
"""All signs of such answers."""


class ChannelReader:
    """Reads an answer of channels piece by piece; where there are no tools, a call is text.

    Attributes:
        reasoned: How many of the pieces were of the reasoning, with what ends it.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]] | None = None,
        prompt: str = "",
        *,
        several: bool = True,
        calls: bool = True,
        reasoning: bool = True,
    ) -> None:
        """Begin an answer; the arguments are those of ``AnswerReader``."""
        self._names = schemas_by_tool(tools or ())
        self._reads = calls and (tools is None or bool(self._names))
        self._several, self._reasons = several, reasoning
        self._rest = ""
        self.called = self.reasoned = 0
        self._header: re.Match[str] | None = None
        self._last_header: re.Match[str] | None = None
        self._n_read = 0
        for header in _HEADER.finditer(prompt):  # the last may be a message to continue
            is_over = any(sign in prompt[header.end() :] for sign in _ENDS)
            self._header = None if is_over else header

    def push(self, text: str) -> list[Part]:
        """Return what further text settles."""
        thought = self._thinks
        parts = self._read_parts(text, ends=False)
        self.reasoned += thought or self._thinks
        return parts

    @property
    def _thinks(self) -> bool:
        header = self._header
        return header is not None and header["channel"] == "analysis" and not self._name_in(header)

    def _name_in(self, header: re.Match[str]) -> str:
        """Return the name of the tool that a header calls; nothing where it calls none.

        Models leave out "functions." before the name of a tool.
        """
        recipient = header["before"] or header["behind"] or ""
        name: str = recipient.removeprefix("functions.")
        return name if name != recipient or name in self._names else ""

    def finish(self, text: str = "", *, is_cut: bool = False) -> list[Part]:  # noqa: ARG002
        """Return what the end of the answer settles, cut by a limit or not."""
        return self._read_parts(text, ends=True)

    def _read_parts(self, text: str, *, ends: bool) -> list[Part]:
        self._rest += text
        output: list[Part] = []
        while self._rest or (ends and self._header):
            if self._header:
                parts = self._read_message(self._header, ends)
            else:
                before = self._read_between(ends)
                parts = None if before is None else [before]
            if parts is None:
                break
            output += parts
        return join_parts(output)

    def _read_between(self, ends: bool) -> str | None:
        """Return text before the next message; None where what there is may be its header."""
        rest = self._rest
        self._header = _HEADER.search(rest) if _MESSAGE in rest else None  # 50 times as quick
        if self._header:
            self._rest = rest[self._header.end() :]
            is_raw = self._header["channel"] == "analysis" and not self._reasons
            return rest[: self._header.end() if is_raw else self._header.start()]
        keep = self._header_length()
        text, self._rest = rest[: len(rest) - keep], rest[len(rest) - keep :]
        if ends:
            # a sign is no text, but what stands in it may be one that only looks like it
            is_cut = "<|channel|>" in self._rest and _MESSAGE not in self._rest
            is_cut = is_cut and _CUT_HEADER.match(self._rest) is not None
            text, self._rest = (text if is_cut else rest), ""
        return text or None

    def _header_length(self) -> int:
        """Return how many of the last characters may belong to a header."""
        window, signs = self._rest[-_MOST_HEADER:], _OPENINGS
        at, sign = find_first(window, signs)
        keep = len(window) - at if sign else incomplete_length(window, signs)
        before = self._rest[: len(self._rest) - keep]
        return keep + min(len(before) - len(before.rstrip()), _MOST_BLANKS)

    def _read_message(self, header: re.Match[str], ends: bool) -> list[Part] | None:
        """Return the parts of a message that are certain; None where there are none yet."""
        rest, signs = self._rest, _ENDS
        at, sign = find_first(rest, signs, self._n_read)
        name = self._name_in(header)
        while name and sign and not _is_json(rest[:at]):  # a sign in a text of the arguments
            self._n_read = at + 1  # from here on with further text: each sign is judged once
            at, sign = find_first(rest, signs, self._n_read)
        closes = ends or bool(sign)
        if name and not closes:
            return None
        if not sign:
            at = len(rest) - (0 if ends else incomplete_length(rest, signs))
        text, self._rest = rest[:at], rest[at + len(sign) :]
        if closes:
            self._header, self._n_read = None, 0
        elif not text:
            return None
        if name:
            return self._read_call(name, text, header[0] + text + sign, is_whole=bool(sign))
        if header["channel"] == "analysis":
            if not self._reasons:
                return [text + sign] if text + sign else []
            return [Thought(text)] if text else []
        if text:
            before, self._last_header = self._last_header, header
            return [text] if before in (None, header) else ["\n\n", text]
        return []

    def _read_call(self, name: str, body: str, text: str, *, is_whole: bool) -> list[Part]:
        try:
            arguments = json.loads(body, strict=False)
        except (ValueError, RecursionError):
            arguments = None
        if not self._reads or not (isinstance(arguments, dict) or (not is_whole and _begins(body))):
            return [text]
        if self.called and not self._several:
            return []
        self.called += 1
        written = arguments_json(arguments) if isinstance(arguments, dict) else body.lstrip()
        return [CallStart(new_call_id(), name), *([CallText(written)] if written else [])]


def _begins(body: str) -> bool:
    """Whether a text may be the beginning of an object."""
    return not body.strip() or body.lstrip().startswith("{")


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def find_first(text: str, signs: Sequence[str], start: int = 0) -> tuple[int, str]:
    """Return where the first of some signs stands in a text, and which; nothing where none does."""
    places = [(text.find(sign, start), sign) for sign in signs]
    return min((place for place in places if place[0] >= 0), default=(0, ""))


def incomplete_length(text: str, signs: Sequence[str]) -> int:
    """Return how many of the last characters may belong to a sign that is not complete."""
    return max(
        length
        for sign in signs
        for length in range(min(len(sign), len(text) + 1))
        if text.endswith(sign[:length])
    )
