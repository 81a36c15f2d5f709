"""Conversations of marks, which show what a chat template writes around what an assistant says.

A mark is a word that no template contains. A template that refuses a conversation shows nothing; if
it refuses tools, they are left out, and if it wants the arguments of a call as a text, it gets one.

``Turns`` is what a template writes of the assistant's turns: texts, reasoning, calls, and all of
them. ``find_switch`` finds the variables that turn thinking on or off. Templates call them by many
names; they are found by what they do: the generation prompt ends differently with them.
"""

from __future__ import annotations

import json

from mtkit.base.record import Record
from mtkit.chat.signs import EOS, common_start
from mtkit.chat.template import render
from mtkit.errors import FormatError, MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Switch = tuple[tuple[str, Any, Any], ...]


USER, CONTENT, REASON = "Usquvaz", "Cqozunt", "Rqeuzin"


class Probe(Record):
    """A call whose name, id and arguments are marks."""

    name: str
    id: str
    arguments: dict[str, Any]


PLAIN = Probe("nqamea", "iqd00000a", {"kqeya": "vqala", "kqeyb": "vqalb"})
OTHER = Probe("nqameb", "iqd00000b", {"kqeyc": "vqalc"})
EMPTY = Probe("nqamea", "iqd00000a", {})
NUMBER_KEY, BOOLEAN_KEY, NULL_KEY = "kqeyb", "kqeyd", "kqeye"
ARRAY_KEY, OBJECT_KEY = "kqeyf", "kqeyg"
TYPED = Probe("nqamea", "iqd00000a", {
    "kqeya": "vqala", NUMBER_KEY: 31415, "kqeyc": 2.5, BOOLEAN_KEY: True, NULL_KEY: None,
    ARRAY_KEY: ["vqalf", "vqalg"], OBJECT_KEY: {"kqeyh": "vqalh", "kqeyi": "vqali"},
    "kqeyz": "vqalz",
})  # fmt: skip
MARKUP = Probe("nqamea", "iqd00000a", {"kqeya": "v<q>a&l\na", "kqeyb": "vqalb"})
QUOTED = Probe("nqamea", "iqd00000a", {"kqeya": "v'q\"a\\l\na", "kqeyb": "vqalb"})

_SCHEMAS: dict[type, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array", "items": {"type": "string"}},
    dict: {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
    type(None): {"type": "string"},
}


def probe_tools() -> list[dict[str, Any]]:
    """Return definitions of the tools that are called."""
    tools = []
    for probe in (TYPED, OTHER):
        properties = {
            key: {**_SCHEMAS[type(value)], "description": "Says it."}
            for key, value in probe.arguments.items()
        }
        parameters = {"type": "object", "properties": properties, "required": []}
        function = {"name": probe.name, "description": "Does it.", "parameters": parameters}
        tools.append({"type": "function", "function": function})
    return tools


class Probes:
    """Renders conversations of marks with one template."""

    def __init__(self, template: str, values: Mapping[str, Any] | None = None) -> None:
        self._template = template
        self._values = {"bos_token": "", "eos_token": EOS, **(values or {})}
        self.text_arguments = False
        self.refusal: MtkitError | None = None
        chat = [{"role": "user", "content": USER}]
        forms = (probe_tools(), [tool["function"] for tool in probe_tools()])
        self._tools: list[dict[str, Any]] | None = None
        for form in forms:
            self._tools = form
            if self._rendered(chat, {}) is not None:
                return
        self._tools = None

    def shows_tools(self) -> bool:
        """Whether the template shows tools to the model."""
        chat = [{"role": "user", "content": USER}]
        return self._tools is not None and PLAIN.name in (self._rendered(chat, {}) or "")

    def shows_results(self) -> bool:
        """Whether the template shows results of tools to the model."""
        for as_text in (False, True):
            calls = [call_message(PLAIN, as_text)]
            called = {"role": "assistant", "content": "", "tool_calls": calls}
            result = {"role": "tool", "tool_call_id": PLAIN.id, "content": CONTENT}
            chat: list[Any] = [
                {"role": "user", "content": USER},
                called,
                {**result, "name": PLAIN.name},
            ]
            if CONTENT in (self._rendered(chat, {}) or ""):
                return True
        return False

    def opening(self, **values: Any) -> str | None:
        """Return what follows the user's message where an answer begins; None: it refuses."""
        text = self._rendered([{"role": "user", "content": USER}], values, opens=True)
        return None if text is None else text.rpartition(USER)[2]

    def answer(
        self,
        content: Any = "",
        *calls: Probe,
        reasoning: str | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Return what follows the user's message where an assistant has answered it."""
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if reasoning:
            message |= {"reasoning_content": reasoning, "reasoning": reasoning}
        for as_text in (False, True) if calls and not self.text_arguments else (bool(calls),):
            if calls:
                message["tool_calls"] = [call_message(call, as_text) for call in calls]
            chat = [{"role": "user", "content": USER}, message]
            text = self._rendered(chat, values or {})
            if text is not None and USER in text:
                if as_text and all(call.name in text for call in calls):
                    self.text_arguments = True
                return text.rpartition(USER)[2]
        return None

    def _rendered(
        self, chat: Sequence[Mapping[str, Any]], values: Mapping[str, Any], *, opens: bool = False
    ) -> str | None:
        try:
            return render(
                self._template,
                chat,
                tools=self._tools,
                add_generation_prompt=opens,
                values={**self._values, **values},
            ).text
        except FormatError:
            raise
        except MtkitError as error:
            self.refusal = error
            return None


def call_message(call: Probe, as_text: bool) -> dict[str, Any]:
    """Return a call as messages have it, its arguments as an object or as a text."""
    arguments: Any = json.dumps(call.arguments) if as_text else call.arguments
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


_SWITCHED: tuple[dict[str, Any], ...] = (
    {},
    {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    {"preserve_thinking": True, "keep_past_thinking": True, "thinking_mode": "enabled"},
)
"""Variables without which some templates leave out the reasoning of earlier turns."""


class Turns:
    """What a template writes of the assistant's turns, from the user's message on.

    Attributes:
        text: The turn of a text; so ``called`` that of a call, ``twice`` of two calls, ``empty`` of
            a call without arguments, ``thought`` of a reasoning and a text, ``all`` of a reasoning
            and a call. Empty where the template does not show it.
        spoken: The turn of a text and two calls, or one where it takes no more.
    """

    def __init__(self, probes: Probes) -> None:
        self.probes = probes
        answer = probes.answer
        self.text = answer(CONTENT) or ""
        self.called = _turn_with(answer("", PLAIN), PLAIN.name) or _turn_with(
            answer(None, PLAIN), PLAIN.name
        )
        self.twice = _turn_with(answer("", PLAIN, OTHER), OTHER.name)
        self.empty = _turn_with(answer("", EMPTY), EMPTY.name)
        both = (PLAIN, OTHER) if self.twice else (PLAIN,)
        self.spoken = _turn_with(answer(CONTENT, *both), PLAIN.name) if self.called else ""
        self.thought, self.all, self.values = "", "", {}
        for values in _SWITCHED:
            speaks = answer(CONTENT, reasoning=REASON, values=values) or ""
            thinks = answer("", PLAIN, reasoning=REASON, values=values) if self.called else ""
            self.thought, self.all = _turn_with(speaks, REASON), _turn_with(thinks, REASON)
            if self.thought or self.all:
                self.values = values
                break
        else:
            blocks = [{"type": "thinking", "thinking": REASON}, {"type": "text", "text": CONTENT}]
            self.thought = _turn_with(answer(blocks), REASON)
            if "'type'" in self.thought or '"type"' in self.thought:
                self.thought = ""  # the list itself was written
        begins = [
            _before_mark(turn)
            for turn in (self.text, self.thought, self.called, self.twice, self.spoken, self.all)
            if turn
        ]
        opening = probes.opening()
        self.header = common_start(begins + ([opening] if opening else []))


def _turn_with(turn: str | None, mark: str) -> str:
    """Return a turn if it shows a mark, else nothing."""
    return turn if turn and mark in turn else ""


def _before_mark(turn: str) -> str:
    """Return what a turn begins with, up to its first mark."""
    marks = (CONTENT, REASON, PLAIN.name, PLAIN.id, *PLAIN.arguments)
    return turn[: min((turn.find(mark) for mark in marks if mark in turn), default=len(turn))]


_SWITCHES: Switch = (
    ("enable_thinking", True, False),
    ("thinking", True, False),
    ("thinking_mode", "enabled", "disabled"),
    ("thinking_option", "on", "off"),
    ("skip_thinking", False, True),
    ("reasoning", True, False),
    ("reasoning_mode", "/think", "/no_think"),
    ("thinking_budget", -1, 0),
    ("reasoning_effort", "high", "none"),
    ("reasoning_effort", "high", "no_think"),
    ("reasoning_effort", "high", "low"),
    ("thinking_effort", "high", "none"),
)
"""Names of variables, and their values for thinking and for none."""


def find_switch(probes: Probes, template: str) -> Switch:
    """Return the variables that turn thinking on and off, each with both values."""
    switches: dict[str, tuple[str, Any, Any]] = {}
    for name, on, off in _SWITCHES:
        if name in switches or name not in template:
            continue
        with_it, without = probes.opening(**{name: on}), probes.opening(**{name: off})
        if with_it is not None and without is not None and with_it != without:
            switches[name] = (name, on, off)
    if "enable_thinking" in switches or "thinking" in switches:
        switches.pop("reasoning_effort", None)  # it says how much
    return tuple(switches.values())
