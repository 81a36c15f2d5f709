"""What a chat template writes of an assistant's turns: texts, reasoning, calls, and all of them."""

from __future__ import annotations

from mtkit.chat.probes import CONTENT, EMPTY, OTHER, PLAIN, REASON
from mtkit.chat.signs import common_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.chat.probes import Probes

_SWITCHED: tuple[dict[str, Any], ...] = (
    {},
    {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    {"preserve_thinking": True, "keep_past_thinking": True, "thinking_mode": "enabled"},
)
"""Variables with which templates write a reasoning that they leave out without."""


class Turns:
    """What a template writes of the assistant's turns, from the user's message on.

    Attributes:
        text: Of a text; empty where it refuses one.
        thought: Of a reasoning and a text.
        called: Of a call.
        twice: Of two.
        empty: Of a call without arguments.
        spoken: Of a text and two calls, or one where it takes no more.
        all: Of a reasoning and calls.
        header: What they all begin with.
    """

    def __init__(self, probes: Probes) -> None:
        self.probes = probes
        answer = probes.answer
        self.text = answer(CONTENT) or ""
        self.called = _with(answer("", PLAIN), PLAIN.name) or _with(answer(None, PLAIN), PLAIN.name)
        self.twice = _with(answer("", PLAIN, OTHER), OTHER.name)
        self.empty = _with(answer("", EMPTY), EMPTY.name)
        both = (PLAIN, OTHER) if self.twice else (PLAIN,)
        self.spoken = _with(answer(CONTENT, *both), PLAIN.name) if self.called else ""
        self.thought, self.all, self.values = "", "", {}
        for values in _SWITCHED:
            found = answer(CONTENT, reasoning=REASON, values=values) or ""
            thinks = answer("", PLAIN, reasoning=REASON, values=values) if self.called else ""
            self.thought, self.all = _with(found, REASON), _with(thinks, REASON)
            if self.thought or self.all:
                self.values = values
                break
        else:
            blocks = [{"type": "thinking", "thinking": REASON}, {"type": "text", "text": CONTENT}]
            self.thought = _with(answer(blocks), REASON)
            if "'type'" in self.thought or '"type"' in self.thought:
                self.thought = ""  # the list itself was written
        begins = [
            _before(turn)
            for turn in (self.text, self.thought, self.called, self.twice, self.spoken, self.all)
            if turn
        ]
        opening = probes.opening()
        self.header = common_start(begins + ([opening] if opening else []))


def _with(turn: str | None, mark: str) -> str:
    """Return a turn that shows a mark; nothing where it does not."""
    return turn if turn and mark in turn else ""


def _before(turn: str) -> str:
    """Return what a turn begins with, up to its first mark."""
    marks = (CONTENT, REASON, PLAIN.name, PLAIN.number, *PLAIN.arguments)
    return turn[: min((turn.find(mark) for mark in marks if mark in turn), default=len(turn))]
