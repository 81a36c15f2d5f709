"""What a model writes: all that templates render of an assistant's message is read back, cut,
damaged and nested answers too; and the switch that lets a model think.
"""

from __future__ import annotations

import json
import random
import tarfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support import SHARED, shared

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

    reader = open_reader(find_form(template, EOS), tools or None, rendered.prompt)
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


NAMES = (
    "GLM-4.6", "MiMo-VL", "Mistral-Small-3.2-24B-Instruct-2506", "Qwen-Qwen3-0.6B", "Qwen3-Coder",
    "deepseek-ai-DeepSeek-V3.1", "deepseek-ai-DeepSeek-V3.2", "google-gemma-4-31B-it",
    "ibm-granite-granite-3.3-2B-Instruct", "mistralai-Mistral-Nemo-Instruct-2407",
    "moonshotai-Kimi-K2", "openbmb-MiniCPM5-1B", "phi-3-mini",
)  # fmt: skip
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Looks it up.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "A city."}},
            },
        },
    }
    for name in ("get_weather", "find-city")
]
OSLO = ("get_weather", {"city": "Oslo"})


def form(name: str) -> Any:
    from mtkit.chat.answer_analysis import find_form

    path = shared(f"tokenizers/chat/templates/{name}.jinja")
    return find_form(path.read_text(encoding="utf-8"), EOS)


def read_pieces(
    made: Any, text: str, cuts: Sequence[int] = (), **options: Any
) -> tuple[str, str, list[tuple[str, Any]]]:
    """Return reasoning, text and calls of an answer that comes in pieces."""
    from mtkit.chat.answer import calls_in, reasoning_in, text_in
    from mtkit.chat.answer_reader import open_reader

    reader = open_reader(made, **{"tools": TOOLS, "prompt": made.header or "x", **options})
    parts: list[Any] = []
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        parts += reader.push(text[first:last])
    parts += reader.finish()
    assert all(parts)
    calls = [(one.name, one.arguments) for one in calls_in(parts)]
    assert reader.called == len(calls) or not options.get("several", True)
    return reasoning_in(parts), text_in(parts), [(name, json.loads(one)) for name, one in calls]


def read_cut(
    made: Any, text: str, cuts: Sequence[int] = (), *, is_cut: bool = False
) -> tuple[str, str, list[tuple[str, str]]]:
    """Return what ``read_pieces`` does of an answer that may be cut: arguments as their text."""
    from mtkit.chat.answer import calls_in, reasoning_in, text_in
    from mtkit.chat.answer_reader import open_reader

    reader = open_reader(made, TOOLS, made.header or "x")
    parts: list[Any] = []
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        parts += reader.push(text[first:last])
    parts += reader.finish(is_cut=is_cut)
    calls = [(call.name, call.arguments) for call in calls_in(parts)]
    return reasoning_in(parts), text_in(parts), calls


def written(made: Any, city: str = "Oslo") -> str:
    """Return a call as a form writes it."""
    from mtkit.chat.signs import ID, KEY, NAME, NUMBER

    calls = made.calls
    if calls.sample is not None:
        before, after = calls.sample
        text = before.replace(NAME, "get_weather").replace(ID, "abcdefghi").replace(NUMBER, "0")
        return text + json.dumps({"city": city}) + str(after).replace(ID, "abcdefghi")
    (pair, *_) = [pair for pair in calls.pairs.pairs if "string" in pair.kinds]
    body = f"get_weather{calls.pairs.first.text}city{pair.opening.text}{city}{pair.closing.text}"
    text = f"{calls.opening.text}{body}{calls.ending.text}"
    return text.replace(KEY, "city").replace(NUMBER, "0")


forms = pytest.mark.parametrize("name", NAMES)


@forms
def test_a_call_is_read_however_it_is_cut(name: str) -> None:
    made = form(name)
    for before, after in (("", ""), ("Let me see.\n\n", ""), ("", "\nDone."), ("< x", " <y")):
        text = before + written(made) + after
        wanted = read_pieces(made, text)
        assert wanted[2] == [OSLO], text
        assert "".join(wanted[1].split()) == "".join((before + after).split())
        for cut in range(len(text) + 1):
            assert read_pieces(made, text, [cut]) == wanted, text[:cut]


@forms
def test_what_is_not_a_call_stays_as_it_is(name: str) -> None:
    made, chance = form(name), random.Random(5)
    whole = written(made)
    for turn in range(150):
        text = chance.choice(["", "Well, "]) + whole
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text))
            more = chance.choice(["", "{", '"', "<", "x"])
            text = text[:at] + more + text[at + chance.randrange(9) :]
        text = text.strip() or "x"
        cuts = sorted(chance.sample(range(len(text) + 1), k=min(3, len(text))))
        found = read_cut(made, text)
        assert found == read_cut(made, text, cuts), turn
        if not found[2] and not found[0] and not any(one.core in text for one in made.starts):
            assert text.startswith(found[1]), (turn, text)
            rest = text[len(found[1]) :]
            assert not rest or made.ending.text.startswith(rest) or rest == EOS, (turn, text)


@forms
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_call_that_is_cut_is_the_same_streamed_and_whole(name: str, is_cut: bool) -> None:
    """What there is of it is told, and no sign of it is text or part of an argument."""
    made = form(name)
    lead = "I look.\n\n"
    text, start = lead + written(made, "Oslo or Bergen"), len(lead) + len(made.calls.opening.core)
    wanted = {"city": "Oslo or Bergen"}
    for end in range(start, len(text)):
        whole = read_cut(made, text[:end], is_cut=is_cut)
        assert whole == read_cut(made, text[:end], range(1, end), is_cut=is_cut), text[:end]
        thoughts, said, calls = whole
        assert not thoughts
        if calls:
            ((called, told),) = calls
            assert called == "get_weather"
            assert said == lead.strip()
            assert json.dumps(wanted).startswith(told), (told, text[:end])
        elif is_cut:
            assert said == lead.strip(), text[:end]
    assert "Oslo or" in told
    lead = written(made) + "\n"
    for end in range(len(lead), len(lead + text)) if made.calls.repeats else ():
        part = (lead + written(made, "Bergen"))[:end]
        whole = read_cut(made, part, is_cut=is_cut)
        assert whole == read_cut(made, part, range(1, len(part)), is_cut=is_cut), part
        assert not whole[1].strip(), (part, whole)


@forms
def test_a_mistake_in_the_json_of_a_call_leaves_no_sign_in_the_text(name: str) -> None:
    made = form(name)
    if made.calls.sample is None or len(made.calls.closing.core) < 2:
        pytest.skip("its arguments are no JSON, or nothing closes a call")
    text = "I look.\n" + written(made).replace('"Oslo"', '"Oslo" "Rome"') + "\nDone."
    thoughts, said, ((called, arguments),) = whole = read_cut(made, text)
    assert (thoughts, said.split(), called) == ("", ["I", "look.", "Done."], "get_weather")
    assert arguments.startswith('{"city": "Oslo""Rome"}')
    assert read_cut(made, text, range(1, len(text))) == whole


@forms
def test_one_call_where_several_are_not_wanted(name: str) -> None:
    made = form(name)
    if not made.calls.repeats:
        pytest.skip("it writes one")
    twice = written(made) + "\n" + written(made)
    assert read_pieces(made, twice)[2] == [OSLO, OSLO]
    assert read_pieces(made, twice, several=False)[2] == [OSLO]


@forms
def test_arguments_are_told_as_they_come(name: str) -> None:
    from mtkit.chat.answer import CallText
    from mtkit.chat.answer_reader import open_reader

    made = form(name)
    text = written(made, "long " * 200)
    reader = open_reader(made, TOOLS, "x")
    told = 0
    for at, one in enumerate(text):
        told += sum(len(part.text) for part in reader.push(one) if isinstance(part, CallText))
        if at == text.index("long ") + 500:
            assert told > 400


@forms
def test_long_nonsense_is_read_in_time_that_grows_with_it(name: str) -> None:
    made = form(name)
    whole = written(made)
    begun, _, rest = whole.partition("Oslo")
    opening = made.calls.opening.text
    texts = [
        begun * 2000, opening + begun.removeprefix(opening) * 2000 + rest, whole[:-1] * 1000,
        opening * 4000, '{"name": "get_weather", ' * 2000, "[" * 20_000, begun + "[" * 20_000,
    ]  # fmt: skip
    began = time.process_time()
    for text in texts:
        read_any(made, text)
    assert time.process_time() - began < 20


def read_any(made: Any, text: str) -> None:
    from mtkit.chat.answer_reader import open_reader

    reader = open_reader(made, TOOLS, "x")
    for at in range(0, len(text), 5):
        reader.push(text[at : at + 5])
    reader.finish()


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *(("Qwen3.5-4B", unit) for unit in ("<", "<p>Hi</p>", "</think", f"{json.dumps(OSLO)} ")),
        *(("openai-gpt-oss-120b", unit) for unit in (" ", "\t\n", " to=", "<|start|>assistant")),
        *(("Qwen-Qwen3-0.6B", unit) for unit in (" ", "\n\n", "a ", "<|im_start|>assistant\n")),
        ("Mistral-Small-3.2-24B-Instruct-2506", "[/INST]"), ("phi-4", "<|im_sep|>"),
    ],
)  # fmt: skip
def test_what_repeats_is_read_in_time_that_grows_with_it(name: str, unit: str) -> None:
    """Four times the letters took 16 times as long, and signs at the start filled the stack."""
    from mtkit.chat.answer_reader import open_reader

    made = form(name)
    for prompt in ("", f"{made.header}<think>\n"):
        times = []
        for size in (4_000, 32_000):
            text, began = (unit * size)[:size], time.process_time()
            reader = open_reader(made, TOOLS, prompt)
            for at in range(0, size, 4):
                reader.push(text[at : at + 4])
            reader.finish()
            times.append(time.process_time() - began)
        assert times[1] < 24 * max(times[0], 0.01), (prompt, times)


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("Well. to=self<|message|>", "Well."),
        ("Hm to=user<|message|> to=self<|message|>", "Hm to=user<|message|>"),
        ("A to=f<|message|>{} to=self<|message|>", "A to=f<|message|>{}"),
    ],
)
def test_the_space_before_a_sign_that_ends_an_answer(text: str, thought: str) -> None:
    """It was told while the sign was tried as a call, which then stood in the answer."""
    from published_templates import templates

    from mtkit.chat.answer_analysis import find_form

    made = find_form(templates()["muse-glimmer.jinja"], EOS)
    prompt = "<|eot|><|start|>assistant to=self<|message|>"
    for cuts in ((), range(1, len(text)), (5, 9)):
        assert read_pieces(made, text, cuts, prompt=prompt) == (thought, "", [])


@forms
def test_odd_definitions_of_tools(name: str) -> None:
    made = form(name)
    for odd in (None, [1], {"properties": 3}, {"properties": {"city": 3}}, "x"):
        tools = [{"function": {"name": "get_weather", "parameters": odd}}, {"function": 3}, {}]
        assert read_pieces(made, written(made), tools=tools)[2] == [OSLO]


BARE = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
SMALL = {
    "alone": (BARE, [OSLO]),
    "with white space": (f"\n  {BARE}\n", [OSLO]),
    "parameters": ('{"name": "get_weather", "parameters": {"city": "Oslo"}}', [OSLO]),
    "in a block": (f"```json\n{BARE}\n```", [OSLO]),
    "in a block without a kind": (f"```\n{BARE}\n```", [OSLO]),
    "in a list": (f"[{BARE}, {BARE}]", [OSLO, OSLO]),
    "one behind the other": (f"{BARE}\n{BARE}", [OSLO, OSLO]),
    "Llama's way": (f"<|python_tag|>{BARE}; {BARE}", [OSLO, OSLO]),
    "as OpenAI has it": (f'{{"type": "function", "function": {BARE}}}', [OSLO]),
    "arguments first": ('{"arguments": {"city": "Oslo"}, "name": "get_weather"}', [OSLO]),
    "another tool": (BARE.replace("get_weather", "other"), []),
    "more than a call": (BARE.replace("{", '{"x": 1, ', 1), []),
    "no arguments": ('{"name": "get_weather"}', []),
    "an answer in JSON": ('{"answer": [1, 2]}', []),
    "a list of others": ('[{"name": "other", "arguments": {}}]', []),
    "behind a text": (f"So: {BARE}", []),
}


@pytest.mark.parametrize("case", SMALL)
def test_calls_as_small_models_write_them(case: str) -> None:
    text, wanted = SMALL[case]
    for name in ("Qwen-Qwen2.5-7B-Instruct", "phi-3-mini", "meta-llama-Llama-3.1-8B-Instruct"):
        made = form(name)
        said = "" if wanted else text
        for cuts in ((), range(1, len(text))):
            assert read_pieces(made, text, cuts) == ("", said, wanted)
        assert read_pieces(made, text, tools=[]) == ("", text, [])
        assert read_pieces(made, text, calls=False) == ("", text, [])


PYTHON = 'get_weather(city="Oslo")'
META = '<function=get_weather>{"city": "Oslo"}</function>'
BESIDE = {
    "a block after words": (f"Sure, I look:\n```json\n{BARE}\n```", "Sure, I look:", [OSLO]),
    "a block with a list": (f"So:\n```json\n[{BARE}, {BARE}]\n```", "So:", [OSLO, OSLO]),
    "a block between words": (f"So:\n```\n{BARE}\n```\nDone.", "So:\nDone.", [OSLO]),
    "what Qwen shows tools in": (f"<tools>\n{BARE}\n</tools>", "", [OSLO]),
    "Hermes's signs": (f"I look.\n<tool_call>\n{BARE}\n</tool_call>", "I look.", [OSLO]),
    "a list between signs": (f"<tool_call>\n[{BARE}, {BARE}]\n</tool_call>", "", [OSLO, OSLO]),
    "Meta's sign": (f"I look.\n{META}", "I look.", [OSLO]),
    "Meta's sign twice": (f"{META}\n{META}", "", [OSLO, OSLO]),
    "a block of their name": (f"```tool_call\n{BARE}\n```", "", [OSLO]),
    "a list between other signs": (f"<tool_calls>[{BARE}]</tool_calls>", "", [OSLO]),
    "another sign": (f"<function_call>{BARE}</function_call>", "", [OSLO]),
    "one brace too many": (f"<tool_call>\n{BARE}}}\n</tool_call>", "", [OSLO]),
    "two braces too many": (f"{BARE}}}}}", "", [OSLO]),
    "one brace too few": (f"<tool_call>\n{BARE[:-1]}\n</tool_call>", "", [OSLO]),
    "Python's list": (f"[{PYTHON}]", "", [OSLO]),
    "Python's list of two": (f"[{PYTHON}, {PYTHON}]", "", [OSLO, OSLO]),
    "Python's other quotes": ("[get_weather(city='Oslo')]", "", [OSLO]),
    "Python's numbers": ("[get_weather(city='Oslo', days=3)]", "", [
        ("get_weather", {"city": "Oslo", "days": 3})
    ]),
    "Gemma's block": (f"```tool_code\n{PYTHON}\n```", "", [OSLO]),
    "Gemma's block that prints": (f"Well.\n```tool_code\nprint({PYTHON})\n```", "Well.", [OSLO]),
    "Gemma's block with a list": (f"```tool_code\n[{PYTHON}]\n```", "", [OSLO]),
}  # fmt: skip
NO_CALLS = (
    "The sign is <tool_call> there.", "Say <tools> or </tools>.", "[1, 2] and [get](x) it",
    '```json\n{"name": "Bob", "arguments": {}}\n```', "```python\nprint(1)\n```", "[other(city=1)]",
    '<tools>\n{"name": "other", "arguments": {}}\n</tools>', "```tool_code\nother(1)\n```",
    '<function=other>{"a": 1}</function>', "<function=get_weather>not JSON</function>",
    "Then <function=x> is",
)  # fmt: skip


@pytest.mark.parametrize("case", BESIDE)
def test_forms_that_small_models_write_beside_their_own(case: str) -> None:
    text, said, wanted = BESIDE[case]
    for name in ("Qwen-Qwen2.5-7B-Instruct", "phi-3-mini", "google-gemma-4-31B-it"):
        made = form(name)
        whole = read_pieces(made, text)
        assert whole[0] == ""
        assert (" ".join(whole[1].split()), whole[2]) == (" ".join(said.split()), wanted)
        assert read_pieces(made, text, range(1, len(text))) == whole
        assert read_pieces(made, text.replace("get_weather", "unheard"))[2] == [] or (
            "tool_call" in case or made.calls.opening.core in text
        )
    for no_call in NO_CALLS:
        assert read_pieces(made, no_call, range(1, len(no_call))) == ("", no_call, [])


@forms
def test_a_block_around_the_signs_and_one_brace_too_many(name: str) -> None:
    made = form(name)
    text = written(made)
    for kind in ("xml", "json", ""):
        fenced = f"I look.\n```{kind}\n{text.strip()}\n```"
        for cuts in ((), range(1, len(fenced))):
            assert read_pieces(made, fenced, cuts) == ("", "I look.", [OSLO]), fenced
    if made.calls.sample is not None and made.calls.closing.core:
        more = text.replace('"Oslo"}', '"Oslo"}}' if made.calls.body != "object" else '"Oslo"}')
        more = more if made.calls.body != "object" else more.replace("}}", "}}}")
        assert read_pieces(made, more, range(1, len(more)))[1:] == ("", [OSLO]), more


@pytest.mark.parametrize("name", ["Qwen3-Coder", "deepseek-ai-DeepSeek-V3.2"])
def test_a_missing_closing_tag_of_an_argument(name: str) -> None:
    made = form(name)
    types = {"city": {"type": "string"}, "days": {"type": "integer"}}
    tools = [{"function": {"name": "get_weather", "parameters": {"properties": types}}}]
    (pair, *_) = [pair for pair in made.calls.pairs.pairs if "string" in pair.kinds]
    text = (
        f"{made.calls.opening.text}get_weather{made.calls.pairs.first.text}city"
        f"{pair.opening.text}Oslo{pair.following.text}days{pair.opening.text}3{pair.closing.text}"
        f"{made.calls.ending.text}"
    )
    wanted = ("", "", [("get_weather", {"city": "Oslo", "days": 3})])
    tag = pair.closing.core.partition(">")[0] + ">"
    if name == "deepseek-ai-DeepSeek-V3.2":  # it writes types with the names
        pytest.skip("its arguments are opened in more ways")
    for left_out in ((0, 1), (1, 2), (0, 2)):
        parts = text.split(f"{tag}\n")
        assert len(parts) == 3
        broken = f"{tag}\n".join(parts) if left_out == () else ""
        for at, part in enumerate(parts):
            gap = "" if at == 0 or (left_out[0] <= at - 1 < left_out[1]) else f"{tag}\n"
            broken += gap + part
        for cuts in ((), range(1, len(broken))):
            assert read_pieces(made, broken, cuts, tools=tools) == wanted, broken


def test_a_prompt_that_ends_in_a_reasoning() -> None:
    from mtkit.chat import parse_response

    text = shared("tokenizers/chat/templates/Qwen-Qwen3-0.6B.jinja").read_text(encoding="utf-8")
    opened = "<|im_start|>assistant\n<think>\n"
    said = "Well.\n</think>\n\nSo.<|im_end|>"
    wanted = {"content": "So.", "reasoning_content": "Well.", "tool_calls": None}
    assert parse_response(text, said, prompt=opened) == wanted
    assert parse_response(text, f"<think>\n{said}") == wanted
    assert parse_response(text, "Well.", prompt=opened)["reasoning_content"] == "Well."
    assert parse_response(text, "We", prompt=f"{opened}Let me")["reasoning_content"] == "We"
    closed = f"{opened}\n</think>\n\n"
    assert parse_response(text, "So. <think>", prompt=closed)["content"] == "So. <think>"
    raw = "<think>\nWell.\n</think>\n\nSo."
    assert read_pieces(form("Qwen-Qwen3-0.6B"), raw, reasoning=False) == ("", raw, [])


def test_reading_takes_no_time_worth_telling() -> None:
    """Two percent of a token of the model that ships, 1 ms, is 20 microseconds."""
    from mtkit.chat.answer_reader import open_reader

    words = "The quick brown fox jumps over the lazy dog. " * 100
    made = form("Qwen-Qwen3-0.6B")
    call = json.dumps({"name": "get_weather", "arguments": {"city": words}})
    text = f"<think>\n{words}\n</think>\n\n{words}\n<tool_call>\n{call}\n</tool_call>"
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    best = 1.0
    for _ in range(5):
        reader = open_reader(made, TOOLS, "x")
        began = time.perf_counter()
        for piece in pieces:
            reader.push(piece)
        best = min(best, (time.perf_counter() - began) / len(pieces))
    assert best < 20e-6


@forms
def test_a_call_beyond_the_first_is_left_out_where_it_is_cut(name: str) -> None:
    made = form(name)
    whole = written(made)
    for end in range(len(whole) + 1, 2 * len(whole)):
        text = (whole + whole)[:end]
        assert read_pieces(made, text, several=False)[2] == [OSLO], text


def test_odd_schemas_of_arguments_are_no_schemas() -> None:
    from mtkit.chat.value_reader import kinds_in

    for odd in ({"anyOf": 5}, {"oneOf": {"a": 1}}, {"type": [5]}, {"enum": 3}, {"anyOf": [3]}):
        assert kinds_in(odd) == kinds_in({})


@forms
def test_what_closes_a_call_and_was_cut_is_no_text(name: str) -> None:
    made = form(name)
    if made.calls.sample is None:
        return
    closing = made.calls.sample[1]
    whole = written(made)
    start = len(whole) - len(closing) + 1
    for end in range(start, len(whole) + 1):
        _, text, calls = read_pieces(made, whole[:end])
        if calls == [OSLO]:
            assert not text.strip(), whole[:end]


def test_a_value_that_is_none_of_its_type_ends_where_the_next_begins() -> None:
    """Reading it never came to an end: what ends a value begins with white space before it."""
    types = {"o": {"type": "object"}, "l": {"type": "array"}}
    tool = {"name": "f", "parameters": {"type": "object", "properties": types}}
    text = (
        "<tool_call>\n<function=f>\n<parameter=o>\n{bad\n</parameter>\n<parameter=l>\n[]\n"
        "</parameter>\n</function>\n</tool_call>"
    )
    answer = read_pieces(form("Qwen3-Coder"), text, tools=[{"type": "function", "function": tool}])
    assert answer == ("", "", [("f", {"o": "{bad", "l": []})])


SWITCHES = {
    "Qwen-Qwen3-0.6B": {"enable_thinking": False},
    "Qwen3.5-4B": {"enable_thinking": False},
    "GLM-4.6": {"enable_thinking": False},
    "deepseek-ai-DeepSeek-V3.1": {"enable_thinking": False, "thinking": False},
    "google-gemma-4-31B-it": {"enable_thinking": False},
    "Qwen-Qwen2.5-7B-Instruct": {},
    "mistralai-Mistral-Nemo-Instruct-2407": {},
    "phi-4": {},
}
OWN = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]"
    "{% if thinking_option == 'off' %}<x></x>{% else %}<x>{% endif %}{% endif %}"
)


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_of_published_templates(name: str) -> None:
    from mtkit.chat.answer_analysis import find_form
    from mtkit.chat.template import render

    text = shared(f"tokenizers/chat/templates/{name}.jinja").read_text(encoding="utf-8")
    form = find_form(text)
    off = form.thinking_values(thinks=False)
    assert off == SWITCHES[name]

    def prompt(values: dict[str, Any]) -> str:
        chat = [{"role": "user", "content": "hi"}]
        return render(text, chat, add_generation_prompt=True, values=values).text

    if off:
        assert prompt(off) != prompt(form.thinking_values(thinks=True))


def test_a_switch_with_a_name_of_its_own() -> None:
    from mtkit.chat import parse_response
    from mtkit.chat.answer_analysis import find_form

    form = find_form(OWN)
    assert form.thinking_values(thinks=True) == {"thinking_option": "on"}
    assert form.thinking_values(thinks=False) == {"thinking_option": "off"}
    found = parse_response(OWN, "Well.</x>So.", prompt="[user]hi[assistant]<x>")
    assert (found["reasoning_content"], found["content"]) == ("Well.", "So.")


def in_reasoning(made: Any) -> bool:
    """Whether a form has a reasoning with signs, and calls that a sign leads to."""
    has_signs = made.thinking is not None and bool(made.thought) and made.leads != "always"
    return has_signs and made.calls is not None and bool(made.calls.opening.core)


def test_a_whole_call_at_the_end_of_an_open_reasoning_is_one(template_name: str) -> None:
    from mtkit.chat.answer import reasoning_state
    from mtkit.chat.answer_analysis import find_form

    made = find_form(templates()[template_name], EOS)
    if not in_reasoning(made) or made.channels or made.calls.opening.core == "to=":
        pytest.skip("it has no reasoning, or no calls")
    call, close, sign = written(made), made.thought[0].text, made.calls.opening.core
    prompt = made.header + made.thinking.text
    if reasoning_state(made, prompt) != "yes":
        pytest.skip("texts stand behind the sign of its reasoning, too")
    for text, wanted in (
        (f"Hm, so.\n{call}", ("Hm, so.", "", [OSLO])),
        (f"{call}\n", ("", "", [OSLO])),
        (f"Hm.\n{call} That is it.", (f"Hm.\n{call} That is it.", "", [])),
        (f"Hm.\n{call}{close}No.", (f"Hm.\n{call}".rstrip(), "No.", [])),
        (f"Is it {sign} here? No.\n{call}", (f"Is it {sign} here? No.", "", [OSLO])),
        (f"Hm.\n{call.replace('get_weather', 'unheard')}", (None, "", [])),
        (f"Hm.\n{call[: call.index('Oslo') + 2]}", (None, "", [])),
    ):
        whole = read_pieces(made, text, prompt=prompt)
        assert whole == read_pieces(made, text, range(1, len(text)), prompt=prompt), text
        thoughts, said, calls = whole
        assert (said, calls) == wanted[1:], (text, whole)
        assert wanted[0] is None or thoughts.rstrip() == wanted[0].rstrip(), (text, whole)


def test_a_sign_in_the_arguments_of_a_call_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes on without an end would take longer with each piece."""
    from mtkit.chat.channels import ChannelReader

    judged: list[str] = []
    monkeypatch.setattr("mtkit.chat.channels._is_json", judged.append)
    reader = ChannelReader(None, "<|start|>assistant")
    for piece in (" to=functions.f<|channel|>commentary<|message|>", *('{"a": "<|end|>',) * 50):
        reader.push(piece)
    assert len(judged) == len(set(judged)) == 50
