"""Histories of conversations as clients of the four APIs send them, drawn, each text another.

A session has up to twelve turns. In each, the user asks, and the assistant answers, thinks, calls
up to three tools, or is cut: in a text, in the arguments of a call, or before its first word. In
between come what real clients send: messages of the system, texts behind a result, results in
another order, pictures, and messages of the developer.
"""

from __future__ import annotations

import json
import re
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES_BESIDE: tuple[Any, ...] = (
    0,
    -1.5,
    True,
    None,
    [],
    {},
    ["x", 1],
    {"y": {"z": [None, False]}},
    'q"\\\n<&>',
)
WORDS = ("alpha", "bravo", "delta", "echo", "golf", "hotel")
TOOL_NAMES = ("look_up", "write_file", "run", "ping", "python", "browser", "return", "final")
KEYS = ("path", "text", "count", "mode", "type", "items", "properties", "name", "keys", "query")
"""Some are words of templates, too."""
PICTURE = "data:image/png;base64,iVBORw0KGgo="


class History(NamedTuple):
    """What is sent, and the texts that have to be in the prompt."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    texts: list[str]


class Drawer:
    """Draws one session in the form of chat completions."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.texts: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.ids = self.chance.choice(("call_", "toolu_01", ""))
        self.tools = draw_tools(self.chance) if self.chance.random() < 0.8 else []

    def history(self) -> History:
        """Draw the session."""
        chance = self.chance
        if chance.random() < 0.1:
            self.say("assistant")  # a greeting
        elif self.tools and chance.random() < 0.05:  # what a compaction left
            self.say("tool")
            self.messages[-1]["tool_call_id"] = "call_forgotten"
        for _ in range(chance.choice((0, 0, 1, 1, 1, 2))):
            self.say(chance.choice(("system", "developer")))
        for _ in range(chance.randint(1, 12)):
            self.turn()
        if self.messages[-1]["role"] != "tool" or chance.random() < 0.5:
            self.add("assistant", content=self.text("a"))
            self.say("user")  # nothing behind the last answer is a picture
            if chance.random() < 0.1:
                self.say("system")
        return History(self.messages, self.tools if chance.random() < 0.9 else [], self.texts)

    def turn(self) -> None:
        """Draw what the user says, and what comes of it."""
        chance = self.chance
        self.say("user", parts=chance.random() < 0.3, picture=chance.random() < 0.1)
        if chance.random() < 0.1:
            self.say("user")
        if chance.random() < 0.1:
            self.say("system")
        for _ in range(chance.choice((0, 0, 1, 1, 2)) if self.tools else 0):
            if not self.call():
                return
        kind = chance.random()
        if kind < 0.1:
            self.add("assistant", content="")  # interrupted before its first word
        elif kind > 0.2:  # else interrupted without any message
            self.say("assistant", parts=chance.random() < 0.1, thinks=chance.random() < 0.4)

    def call(self) -> bool:
        """Draw a message with calls and what follows; returns whether the turn goes on."""
        chance, calls = self.chance, []
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            tool = chance.choice(self.tools)["function"]
            names = list(tool.get("parameters", {}).get("properties", {})) or ["value"]
            values = {name: self.text("v") for name in names}
            others = {"n": chance.choice(VALUES_BESIDE)} if chance.random() < 0.3 else {}
            arguments = json.dumps(others | values)
            if chance.random() < 0.1:
                cut = arguments.index(self.texts[-1]) + chance.randint(2, len(self.texts[-1]))
                arguments, self.texts[-1] = arguments[:cut], arguments[:cut].rpartition('"')[2]
            elif chance.random() < 0.04:
                del self.texts[-len(names) :]
                arguments = self.text("v")
            elif chance.random() < 0.04:
                arguments = chance.choice(("", "{}", "null"))
                del self.texts[-len(names) :]
            function = {"name": tool["name"], "arguments": arguments}
            self.texts.append(tool["name"])
            number = "".join(chance.choices("abcdefgh0123456789", k=9 if not self.ids else 16))
            calls.append({"id": self.ids + number, "type": "function", "function": function})
        beside = chance.random()
        content = None if beside < 0.3 else "" if beside < 0.6 else self.text("b")
        message = self.add("assistant", content=content, tool_calls=calls)
        if chance.random() < 0.3:
            message["reasoning_content"] = f"Thinking{chance.random()}"
        if chance.random() < 0.06:
            return False  # interrupted: no result ever comes
        if chance.random() < 0.2:
            chance.shuffle(calls := list(calls))
        for call in calls:
            if chance.random() < 0.05:
                self.add("tool", content="", tool_call_id=call["id"])
                continue
            parts = chance.random() < 0.2
            self.say("tool", parts=parts, picture=parts and chance.random() < 0.3)
            self.messages[-1]["tool_call_id"] = call["id"]
        behind = chance.random()
        if behind < 0.25:
            self.say("user" if behind < 0.15 else "system")
            if chance.random() < 0.1:  # the second result of a call, or that of a forgotten one
                self.say("tool")
                self.messages[-1]["tool_call_id"] = chance.choice((call["id"], "call_unknown"))
        return True

    def say(
        self, role: str, *, parts: bool = False, picture: bool = False, thinks: bool = False
    ) -> None:
        """Add a message with a text."""
        content: Any = self.text(role[0])
        if parts or picture:
            content = [{"type": "text", "text": content}, {"type": "text", "text": self.text("p")}]
        if picture:
            content.insert(1, {"type": "image_url", "image_url": {"url": PICTURE}})
        self.add(role, content=content)
        if thinks:
            self.messages[-1]["reasoning_content"] = f"Thinking{self.chance.random()}"

    def add(self, role: str, **fields: Any) -> dict[str, Any]:
        """Add a message."""
        self.messages.append({"role": role, **fields})
        return self.messages[-1]

    def text(self, letter: str) -> str:
        """Return a text that no other one contains."""
        number = len(self.texts)
        text = f"{letter.upper()}{number}x{self.chance.choice(WORDS)}{number}"
        if self.chance.random() < 0.3:
            text += f" {self.chance.choice(WORDS)}."
        self.texts.append(text)
        return text


def draw_tools(chance: Random) -> list[dict[str, Any]]:
    """Draw definitions of tools."""
    tools = []
    for name in chance.sample(TOOL_NAMES, chance.randint(1, 3)):
        function: dict[str, Any] = {"name": name}
        if chance.random() < 0.8:
            function["description"] = f"Does {name}."
        if chance.random() < 0.9:
            function["parameters"] = draw_parameters(chance)
        tools.append({"type": "function", "function": function})
    return tools


def draw_parameters(chance: Random) -> dict[str, Any]:
    """Draw the schema of all parameters of a tool."""
    if chance.random() < 0.1:
        return dict(chance.choice(({}, {"type": "object"}, {"properties": {}})))
    keys = chance.sample(KEYS, chance.randint(0, 3))
    parameters: dict[str, Any] = {"type": "object"}
    parameters["properties"] = {key: draw_schema(chance) for key in keys}
    if chance.random() < 0.7:
        parameters["required"] = keys[:1]
    if chance.random() < 0.3:
        parameters |= {"additionalProperties": False, "$schema": "http://json-schema.org/"}
    return parameters


def draw_schema(chance: Random) -> dict[str, Any]:
    """Draw the schema of a parameter."""
    schema: dict[str, Any] = chance.choice((
        {"type": "string"}, {"type": "integer"}, {"type": ["string", "null"]},
        {"type": "array", "items": {"type": "string"}}, {"type": "string", "enum": ["a", "b"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]}, {},
        {"type": "object", "properties": {"x": {"type": "string"}}}, {"type": "array"},
        {"type": "object"}, {"const": 5}, {"enum": ["a", 1, None]}, {"$ref": "#/$defs/x"},
        {"type": "array", "items": {"type": ["integer", "null"]}, "default": None},
        {"type": "object", "additionalProperties": {"type": "string"}}, {"type": "null"},
        {"oneOf": [{"type": "string", "format": "uri"}, {"type": "array", "items": {}}]},
        {"type": "number", "minimum": 0, "default": 1.5}, {"type": "boolean", "default": False},
        {"type": ["object", "array", "string"]}, {"type": "array", "prefixItems": []},
    ))  # fmt: skip
    return {**schema, "description": "Says it."} if chance.random() < 0.7 else dict(schema)


def for_anthropic(history: History) -> tuple[str, list[dict[str, Any]]]:
    """Return the first message of the system, and the others as Anthropic's clients send them."""
    messages, system = history.messages, ""
    if messages[0]["role"] in ("system", "developer"):
        system, messages = messages[0]["content"], messages[1:]
    spelled: list[dict[str, Any]] = []
    for message in messages:
        role, blocks = message["role"], _anthropic_blocks(message)
        role = {"tool": "user", "developer": "system"}.get(role, role)
        if spelled and role == spelled[-1]["role"] == "user":
            spelled[-1]["content"] += blocks
        else:
            spelled.append({"role": role, "content": blocks})
    return system, spelled


def _anthropic_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or []
    texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [{"type": "image", "source": {}} if "image_url" in part else part for part in texts]
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": texts}]
    thoughts = [{"type": "thinking", "thinking": message.get("reasoning_content", "")}]
    calls = [
        {"type": "tool_use", "id": call["id"], "name": call["function"]["name"],
         "input": _parsed(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]  # fmt: skip
    return [*(thoughts if "reasoning_content" in message else []), *texts, *calls]


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def for_responses(history: History) -> list[dict[str, Any]]:
    """Return items of the Responses API."""
    items: list[dict[str, Any]] = []
    for message in history.messages:
        content = message.get("content")
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"],
                          "output": content})  # fmt: skip
            continue
        if "reasoning_content" in message:
            text = {"type": "reasoning_text", "text": message["reasoning_content"]}
            items.append({"type": "reasoning", "content": [text]})
        if content or not message.get("tool_calls"):
            items.append({"role": message["role"], "content": content or ""})
        for call in message.get("tool_calls", ()):
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


def for_ollama(history: History) -> list[dict[str, Any]]:
    """Return the messages as Ollama's clients send them: no parts, no ids, results by name."""
    spelled, names = [], {}
    for message in history.messages:
        parts = message.get("content") or ""
        rows = [{"text": parts}] if isinstance(parts, str) else parts
        role = "system" if message["role"] == "developer" else message["role"]
        own = {"role": role, "content": "\n".join(row["text"] for row in rows if "text" in row)}
        if images := [PICTURE for row in rows if "image_url" in row]:
            own["images"] = images
        if "reasoning_content" in message:
            own["thinking"] = message["reasoning_content"]
        for call in message.get("tool_calls", ()):
            function = call["function"]
            names[call["id"]] = function["name"]
            call = {"function": {**function, "arguments": _parsed(function["arguments"])}}
            own.setdefault("tool_calls", []).append(call)
        if message["role"] == "tool":
            own["tool_name"] = names.get(message["tool_call_id"], "forgotten")
        spelled.append(own)
    return spelled


def spellings(history: History) -> list[Callable[[], list[dict[str, Any]]]]:
    """Return what makes of each API's request the messages of a prompt."""
    from mtkit.serve import conversation
    from mtkit.serve.ollama_request import messages_from_ollama

    system, messages = for_anthropic(history)
    return [
        lambda: conversation.messages_from_openai(history.messages),
        lambda: conversation.messages_from_anthropic(messages, system),
        lambda: conversation.messages_from_responses(for_responses(history), "", {}),
        lambda: messages_from_ollama(for_ollama(history)),
    ]


VALUES = {"bos_token": "<s>", "eos_token": "</s>", "functions": "",
          "date_string": "26 Jul 2024", "datetime": "Jul 26 2024"}  # fmt: skip


class Direct:
    """Renders a template in this process, without limits."""

    def __init__(self, template: str) -> None:
        from mtkit.chat.sandbox import Sandbox

        self.text, self._sandbox = template, Sandbox()
        self._template = self._sandbox.from_string(template)

    def __call__(self, messages: Any, tools: Any) -> str:
        from datetime import datetime

        from jinja2.exceptions import TemplateError

        from mtkit.chat.sandbox import Output
        from mtkit.chat.template import TemplateRefusal
        from mtkit.errors import ResourceError

        output = Output(datetime(2024, 7, 26), 1 << 25, 100)
        chat = [
            {**message, "thinking": message["reasoning_content"]}
            if "reasoning_content" in message
            else message
            for message in messages
        ]
        variables = {"messages": chat, "tools": tools, "add_generation_prompt": True, **VALUES}
        try:
            self._sandbox.render_into(output, self._template, variables)
        except RecursionError as error:
            raise ResourceError(str(error)) from None
        except TemplateError as error:
            raise TemplateRefusal(str(error), own=True) from None
        except Exception as error:  # noqa: BLE001  a template can raise what Python can
            raise TemplateRefusal(str(error), own=False) from None
        return "".join(output.blocks)

    def rewriter(self) -> Any:
        """Return what writes conversations for the template."""
        from mtkit.chat.answer_analysis import find_form
        from mtkit.chat.rewriting import Rewriter

        return Rewriter(self, lambda: find_form(self.text, "</s>").calls, self.text)


def missing(text: str, history: History) -> list[str]:
    """Return the texts of a history that a prompt lacks."""
    words = set(re.findall(r"\w+", text))
    return [part for part in history.texts if not (part in text or words.issuperset(part.split()))]
