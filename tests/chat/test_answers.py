"""What a model writes: all that templates render of an assistant's message is read back."""

from __future__ import annotations

import json
import random
import tarfile
from typing import TYPE_CHECKING, Any

from support import SHARED, shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

EOS = "<|eos|>"
USER = {"role": "user", "content": "What now?"}
KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array",
         dict: "object", type(None): "null"}  # fmt: skip
LOST = {
    # the text before a call is written as a reasoning is
    ("openai-gpt-oss-120b", "a text and a call"),
}
"""Messages that two different ones render alike, so that neither can be told."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "a text": {"city": "Oslo"},
    "two": {"city": "Łódź", "days": 3},
    "all types": {"f": 2.5, "b": True, "c": False, "n": None, "i": -7, "s": "x"},
    "nested": {"o": {"a": {"b": ["c", 1, {"d": None}]}}, "l": [1, [2, [3]], {"k": "v"}]},
    "nothing": {},
    "empty values": {"s": "", "l": [], "o": {}},
    "texts like values": {"a": "3", "b": "true", "c": "null", "d": "2.50", "e": "[1]"},
    "a text like JSON": {"f": '{"a": 1}', "g": '"x"'},
    "unicode and quotes": {"city": "你好 😀", "q": 'say "hi" it\'s \\ ok', "\u00e9": "\u00e9"},
    "lines": {"t": "one\ntwo\n\n three", "w": "  spaced  "},
    "tags": {"t": "<b>x</b> & <tool>", "u": "</tool_call> no", "v": "a < b > c"},
}
WORDS = ("", "x", "Oslo", "3", "-1.5", "true", "None", "{}", "a b", "<x>", "\n", "é😀", '"', "\\")


def templates() -> dict[str, str]:
    found = {}
    with tarfile.open(shared("templates.tar.xz")) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                name = member.name.rpartition("/")[2].removesuffix(".jinja")
                found[name] = file.read().decode("utf-8")
    for path in sorted(shared("tokenizers/chat/templates").glob("*.jinja")):
        text = path.read_text(encoding="utf-8")
        if found.get(path.stem) != text:
            found[f"{path.stem} of a tokenizer"] = text
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "template_name" in metafunc.fixturenames:
        # Without the shared folder there is one that is absent: a test is skipped, not collected.
        here = (SHARED / "templates.tar.xz").exists()
        metafunc.parametrize("template_name", sorted(templates()) if here else ["none"])


def schema_of(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": KINDS[type(value)], "description": "It."}
    if isinstance(value, list):
        is_plain = all(isinstance(one, str) for one in value)
        found["items"] = {"type": "string"} if is_plain else {}
    if isinstance(value, dict):
        found["additionalProperties"] = {}
        found["properties"] = {key: schema_of(one) for key, one in value.items()}
    return found


def tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    properties = {key: schema_of(value) for key, value in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": []}
    function = {"name": name, "description": "Does it.", "parameters": parameters}
    return {"type": "function", "function": function}


def call(name: str, arguments: Any, place: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call0000{place}", "type": "function", "function": function}


def drawn(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(4 if depth > 2 else 6)
    if kind == 4:
        return [drawn(chance, depth + 1) for _ in range(chance.randrange(3))]
    if kind == 5:
        return {f"k{at}": drawn(chance, depth + 1) for at in range(chance.randrange(3))}
    words = "".join(chance.choice(WORDS) for _ in range(chance.randrange(4)))
    return (words, words, chance.randrange(-9, 99), chance.choice((True, False, None, 0.5)))[kind]


def messages() -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Yield names, messages and the tools that they call."""
    yield "a text", {"content": "Hello there"}, []
    odd = 'Hello <b>there</b>\n\n{"a": 1} [x] <tool_call> [TOOL_CALLS] no, {"name": "f"} < x'
    yield "a text with signs", {"content": odd}, []
    yield "a reasoning", {"content": "So.", "reasoning_content": "Well, <b>so</b>\n\nit is."}, []
    for name, arguments in ARGUMENTS.items():
        given = [tool("get_weather", arguments)]
        yield (
            f"a call: {name}",
            {"content": "", "tool_calls": [call("get_weather", arguments)]},
            given,
        )
    both = [tool("get_weather", ARGUMENTS["two"]), tool("find-city.x", ARGUMENTS["all types"])]
    one = [call("get_weather", ARGUMENTS["two"])]
    two = [*one, call("find-city.x", ARGUMENTS["all types"], 1)]
    yield "two calls", {"content": "", "tool_calls": two}, both
    empty = [call("get_weather", {}), call("find-city.x", {}, 1), call("get_weather", {}, 2)]
    yield "calls of nothing", {"content": "", "tool_calls": empty}, both
    yield "a text and a call", {"content": "I look.", "tool_calls": one}, both
    thought = {"reasoning_content": "Hm, <tool_call> it is."}
    yield "a reasoning and a call", {"content": "", **thought, "tool_calls": one}, both
    yield "all of it", {"content": "I look.", **thought, "tool_calls": two}, both
    chance = random.Random(11)
    for at in range(6):
        arguments = {f"key_{key}": drawn(chance) for key in range(chance.randrange(1, 4))}
        given = [tool("f", arguments)]
        yield f"drawn {at}", {"content": "", "tool_calls": [call("f", arguments)]}, given


class Rendered:
    """What a template makes of one message; ``text`` is empty where it refuses it."""

    def __init__(self, template: str, message: dict[str, Any], tools: list[dict[str, Any]]) -> None:
        self._template, self.text, self.prompt = template, "", ""
        for given in (tools or None, [one["function"] for one in tools] or None, None):
            for as_text in (False, True):
                self._tools, self._as_text = given, as_text
                self.whole = self.write(message)
                if self.whole:
                    break
            if self.whole:
                break
        else:
            return
        opened = self.render([USER], opens=True)
        self.prompt = opened if self.whole.startswith(opened) else self._begin()
        self.text = self.whole[len(self.prompt) :]

    def _begin(self) -> str:
        """Return a prompt for templates whose answers do not begin as their prompts end."""
        from mtkit.chat.answer_analysis import find_form

        at = self.whole.rindex(str(USER["content"])) + len(str(USER["content"]))
        header = find_form(self._template, EOS).header
        assert self.whole.startswith(header, at)
        return self.whole[: at + len(header)]

    def write(self, message: dict[str, Any]) -> str:
        if message.get("tool_calls") and self._as_text:
            calls = [
                call(one["function"]["name"], json.dumps(one["function"]["arguments"]), at)
                for at, one in enumerate(message["tool_calls"])
            ]
            message = {**message, "tool_calls": calls}
        return self.render([USER, {"role": "assistant", **message}])

    def render(self, chat: list[dict[str, Any]], *, opens: bool = False) -> str:
        from mtkit.chat.template import render
        from mtkit.errors import MtkitError

        values = {"bos_token": "<|bos|>", "eos_token": EOS}
        try:
            return render(
                self._template, chat, tools=self._tools, add_generation_prompt=opens, values=values
            ).text
        except MtkitError:
            return ""

    def shown(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return of a message what its rendering shows: what differs where it differs."""
        found: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
        for field in ("content", "reasoning_content"):
            if message.get(field) and self.write({**message, field: "Zz"}) != self.whole:
                found[field] = message[field]
        calls = message.get("tool_calls", [])
        for at, one in enumerate(calls):
            name, arguments = one["function"]["name"], one["function"]["arguments"]
            others = [*calls[:at], call(f"{name}-x", arguments, at), *calls[at + 1 :]]
            if self.write({**message, "tool_calls": others}) != self.whole:
                found["tool_calls"].append((name, arguments))
        return found


def read(
    rendered: Rendered, template: str, text: str, tools: Any, *, streams: bool
) -> dict[str, Any]:
    from mtkit.chat.answer import calls_in, reasoning_in, text_in
    from mtkit.chat.answer_analysis import find_form
    from mtkit.chat.answer_reader import open_reader

    reader = open_reader(find_form(template, EOS), tools or None, rendered.prompt, streams=streams)
    parts = []
    if streams:
        for one in text:
            parts += reader.push(one)
    parts += reader.finish("" if streams else text)
    calls = [(one.name, json.loads(one.arguments)) for one in calls_in(parts)]
    return {
        "content": text_in(parts),
        "reasoning_content": reasoning_in(parts),
        "tool_calls": calls,
    }


def test_what_a_template_renders_is_read_back(template_name: str) -> None:
    template = templates()[template_name]
    seen = 0
    for name, message, tools in messages():
        rendered = Rendered(template, message, tools)
        if not rendered.text or (template_name, name) in LOST:
            continue
        wanted = rendered.shown(message)
        seen += 1
        for text in (rendered.text, rendered.text.partition(EOS)[0]):
            for streams in (False, True):
                found = read(rendered, template, text, tools, streams=streams)
                if found == wanted:
                    continue
                # values that are written alike, as an empty list and an empty text, are as good
                again = {
                    **message, "content": found["content"],
                    "tool_calls": [call(*one, at) for at, one in enumerate(found["tool_calls"])],
                }  # fmt: skip
                same = {**found, "tool_calls": len(found["tool_calls"])}
                assert same == {**wanted, "tool_calls": len(wanted["tool_calls"])}, (name, text)
                if not wanted["content"]:
                    again["content"] = message["content"]
                assert rendered.write(again) == rendered.whole, (name, text, found)
    assert seen >= 3 or "functions" in template


MADE_UP = """
{%- macro said(value) -%}
{%- if value is string -%}“{{ value }}”{%- else -%}{{ value | tojson }}{%- endif -%}
{%- endmacro -%}
{%- for m in messages %}((turn {{ m.role }}))
{% if m.reasoning_content %}((muse)){{ m.reasoning_content }}((/muse))
{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}
((do {{ c.function.name }} as {{ c.id }}))
{% for k, v in c.function.arguments | items %}  {{ k }} := {{ said(v) }};
{% endfor %}((done)){% endfor %}((/turn))
{% endfor %}{% if add_generation_prompt %}((turn assistant))
{% endif %}{% if tools %}{% for t in tools %}{% endfor %}{% endif %}"""


def test_a_template_that_nobody_has_seen() -> None:
    """Turns, reasoning and arguments in signs of its own, which no published template has."""
    seen = 0
    for name, message, tools in messages():
        rendered = Rendered(MADE_UP, message, tools)
        wanted = rendered.shown(message)
        for streams in (False, True):
            found = read(rendered, MADE_UP, rendered.text, tools, streams=streams)
            assert found == wanted, (name, rendered.text)
        seen += 1
    assert seen == len(list(messages()))
