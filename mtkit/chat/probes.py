"""Conversations of marks, which show what a chat template writes around what an assistant says.

A mark is a word that nobody has spelled. Where a template refuses a conversation there is nothing
to see; where it refuses tools, they are left out, and where it wants the arguments of a call as a
text, it gets one.
"""

from __future__ import annotations

import json

from mtkit.base.record import Record
from mtkit.chat.signs import EOS
from mtkit.chat.template import render
from mtkit.errors import FormatError, MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

USER, CONTENT, REASON = "Usquvaz", "Cqozunt", "Rqeuzin"


class Probe(Record):
    """A call to be shown.

    Attributes:
        name: Of the tool.
        number: Its id.
        arguments: The arguments.
    """

    name: str
    number: str
    arguments: dict[str, Any]


PLAIN = Probe("nqamea", "iqd00000a", {"kqeya": "vqala", "kqeyb": "vqalb"})
OTHER = Probe("nqameb", "iqd00000b", {"kqeyc": "vqalc"})
EMPTY = Probe("nqamea", "iqd00000a", {})
TYPED = Probe("nqamea", "iqd00000a", {
    "kqeya": "vqala", "kqeyb": 31415, "kqeyc": 2.5, "kqeyd": True, "kqeye": None,
    "kqeyf": ["vqalf", "vqalg"], "kqeyg": {"kqeyh": "vqalh", "kqeyi": "vqali"}, "kqeyz": "vqalz",
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


def _tools() -> list[dict[str, Any]]:
    made = []
    for one in (TYPED, OTHER):
        properties = {
            key: {**_SCHEMAS[type(value)], "description": "Says it."}
            for key, value in one.arguments.items()
        }
        parameters = {"type": "object", "properties": properties, "required": []}
        function = {"name": one.name, "description": "Does it.", "parameters": parameters}
        made.append({"type": "function", "function": function})
    return made


class Probes:
    """Renders conversations of marks with one template.

    Attributes:
        text_arguments: The template takes arguments as a text only.
        refusal: Why nothing was rendered, so far.
    """

    def __init__(self, template: str, values: Mapping[str, Any] | None = None) -> None:
        self._template = template
        self._values = {"bos_token": "", "eos_token": EOS, **(values or {})}
        self.text_arguments = False
        self.refusal: MtkitError | None = None
        asked = [{"role": "user", "content": USER}]
        forms = (_tools(), [tool["function"] for tool in _tools()])
        self._tools: list[dict[str, Any]] | None = None
        for form in forms:
            self._tools = form
            if self._rendered(asked, {}) is not None:
                return
        self._tools = None

    def shows_tools(self) -> bool:
        """Return whether the model is told of tools."""
        asked = [{"role": "user", "content": USER}]
        return self._tools is not None and PLAIN.name in (self._rendered(asked, {}) or "")

    def shows_results(self) -> bool:
        """Return whether the model is told what a tool gave."""
        for as_text in (False, True):
            calls = [_call(PLAIN, as_text)]
            called = {"role": "assistant", "content": "", "tool_calls": calls}
            result = {"role": "tool", "tool_call_id": PLAIN.number, "content": CONTENT}
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
        found = self._rendered([{"role": "user", "content": USER}], values, opens=True)
        return None if found is None else found.rpartition(USER)[2]

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
                message["tool_calls"] = [_call(call, as_text) for call in calls]
            chat = [{"role": "user", "content": USER}, message]
            found = self._rendered(chat, values or {})
            if found is not None and USER in found:
                if as_text and all(call.name in found for call in calls):
                    self.text_arguments = True
                return found.rpartition(USER)[2]
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


def _call(call: Probe, as_text: bool) -> dict[str, Any]:
    arguments: Any = json.dumps(call.arguments) if as_text else call.arguments
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.number, "type": "function", "function": function}
