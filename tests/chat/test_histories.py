"""What clients send of a long session: every template takes it, and shows every text."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest
from histories import Direct, Drawer, missing, spellings
from published_templates import templates
from support import reference

from mtkit.base.record import replace
from mtkit.chat import conversation as changes
from mtkit.chat.partial_json import close_object
from mtkit.chat.probes import probe_tools
from mtkit.chat.rewriting import Rewriter, render_or_simplify
from mtkit.chat.template import TemplateRefusal
from mtkit.errors import MtkitError

reference("jinja2")

SESSIONS = 3
"""Of each template; ``python -m tools.fuzz_histories`` draws more."""
MANY = ("openai-gpt-oss-120b", "mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Small-3.2",
        "mistralai-Ministral", "google-gemma-2", "meta-llama-Llama-3.1", "Qwen3.5",
        "deepseek-ai-DeepSeek-R1-Distill-Llama")  # fmt: skip
"""Beginnings of names of templates that need many rewritings."""


@pytest.fixture(scope="module")
def prompts() -> dict[str, tuple[Direct, Any]]:
    """Templates that need many rewritings, and some of the others."""
    texts = templates()
    names = {name for name in texts if name.startswith(MANY)}
    names |= set(random.Random(8).sample(sorted(texts), 30))
    directs = {name: Direct(texts[name]) for name in sorted(names)}
    return {name: (direct, direct.rewriter()) for name, direct in directs.items()}


def test_every_template_shows_every_text_of_a_session(prompts: Any) -> None:
    wrong = []
    for at, (name, (direct, rewriter)) in enumerate(prompts.items()):
        for seed in range(at * SESSIONS, (at + 1) * SESSIONS):
            history = Drawer(seed).history()
            chat = rewriter.rewrite(spellings(history)[seed % 4](), history.tools)
            try:
                lost = missing(direct(chat.messages, chat.tools), history)
            except MtkitError as error:
                lost = [str(error)]
            wrong += [(name, seed, lost)] if lost else []
    assert not wrong


def called(*places: int, content: str = "") -> dict[str, Any]:
    calls = [
        {"id": f"abcdefgh{place}", "type": "function",
         "function": {"name": "look", "arguments": {"x": f"Value{place}"}}}
        for place in places
    ]  # fmt: skip
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(place: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"abcdefgh{place}", "content": f"Result{place}"}


BY_NAME = """{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}
{{ c.function.name }}: {{ c.function.arguments.city }}{% if c.function.arguments.day %}, on the
{{ c.function.arguments.day }}{% endif %}{% endfor %}{% endfor %}{{ tools | tojson }}"""


def test_a_template_that_reads_arguments_by_their_names() -> None:
    direct = Direct(BY_NAME)
    rewriter = direct.rewriter()
    user, tools = {"role": "user", "content": "Hi"}, probe_tools()
    for arguments in ({"city": "Oslo"}, {"city": "Oslo", "day": "Monday"}):
        call = {"id": "a", "function": {"name": "look", "arguments": arguments}}
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
        assert rewriter.rewrite([user, message], tools).messages == [user, message]
        others = ({**arguments, "m": "Value"}, {}, {"day": "Monday", "c": 5}, '{"city": "Os')
        for odd in others:
            odd_call = {"id": "b", "function": {"name": "find", "arguments": odd}}
            for calls, content in (([odd_call], ""), ([call, odd_call], ""), ([call], "Text")):
                last = {"role": "assistant", "content": content, "tool_calls": calls}
                chat = rewriter.rewrite([user, message, user, last], tools)
                text = direct(chat.messages, chat.tools)
                for call_made in calls:
                    made = call_made["function"]["arguments"]
                    texts = [made] if isinstance(made, str) else map(str, made.values())
                    assert all(word in text for word in (content, *texts)), (odd, text)
                assert chat.messages[1] == message


def conversation(shape: str) -> list[dict[str, Any]]:
    """Return a conversation, each text of which is another; c: a tool is called, and answers."""
    names = {"s": "system", "u": "user", "a": "assistant"}
    made: list[dict[str, Any]] = []
    for place, letter in enumerate(shape):
        text = f"Text{place}{letter}"
        made += (
            [called(place), result(place)]
            if letter == "c"
            else [{"role": names[letter], "content": text}]
        )
    return made


LOOK = {"type": "function", "function": {
    "name": "look", "description": "Looks.", "parameters": {
        "type": "object", "properties": {"x": {"type": "string", "description": "Where."}},
        "required": ["x"]}}}  # fmt: skip


def test_what_a_template_shows_stays_as_it_is(prompts: Any) -> None:
    shown = 0
    for name, (direct, rewriter) in prompts.items():
        for shape in ("u", "su", "suau", "uauau", "uc", "ucau", "succau"):
            messages, tools = conversation(shape), [LOOK] if "c" in shape else None
            texts = [str(message["content"]) for message in messages]
            texts += [f"Value{place}" for place, letter in enumerate(shape) if letter == "c"]
            try:
                plain = direct(messages, tools)
            except MtkitError:
                continue
            if all(text in plain for text in [*texts, "Looks." if tools else ""]):
                chat = rewriter.rewrite(messages, tools)
                assert direct(chat.messages, chat.tools) == plain, (name, shape)
                shown += 1
    assert shown > 120


def test_a_new_turn_leaves_the_messages_before_it_as_they_were(prompts: Any) -> None:
    for name, (_, rewriter) in prompts.items():
        for seed in range(6 if name.startswith(MANY) else 0):
            history = Drawer(seed).history()
            messages = spellings(history)[0]()
            for end, (last, behind) in enumerate(pairwise(messages), 1):
                if behind["role"] != "assistant" or last["role"] == "assistant":
                    continue  # no request ends there, or the one before it was interrupted
                before = rewriter.rewrite(messages[:end], history.tools).messages
                if name.startswith("mistralai-Mistral-Nemo") and messages[0]["role"] == "system":
                    continue  # the template itself moves the system's text to the last user's
                after = rewriter.rewrite(messages, history.tools).messages
                assert after[: len(before)] == before, (name, seed, end)


def in_turns(*roles: str) -> Any:
    """Return a template that takes roles in turns, one of the system in front where it is named."""

    def rendered(messages: Any, _: Any) -> str:
        told = [one["role"] for one in messages]
        if told[:1] == ["system"] and "system" in roles:
            told = told[1:]
        wrong = {"system", "tool"} & set(told) or any("tool_calls" in one for one in messages)
        if wrong or any(a == b for a, b in pairwise(told)) or told[:1] == ["assistant"]:
            raise TemplateRefusal("no", own=True)
        return "|".join(f"{one['role'][0]}:{one['content']}" for one in messages)

    return rendered


CALL = '<tool_call>\n{"name": "look", "arguments": {"x": "Value2"}}\n</tool_call>'
RESULT_END = "</tool_response>\n\n"


@pytest.mark.parametrize(
    ("roles", "shape", "expected"),
    [
        (("system",), "ssusuaus",
         "s:Text0s\n\nText1s|u:Text2u\n\nText3s\n\nText4u|a:Text5a|u:Text6u\n\nText7s"),
        ((), "ssusuaus",
         "u:Text0s\n\nText1s\n\nText2u\n\nText3s\n\nText4u|a:Text5a|u:Text6u\n\nText7s"),
        ((), "s", "u:Text0s"),
        (("system",), "sau", "s:Text0s|u:|a:Text1a|u:Text2u"),
        (("system",), "suaau", "s:Text0s|u:Text1u|a:Text2a\n\nText3a|u:Text4u"),
        (("system",), "sucsu",
         f"s:Text0s|u:Text1u|a:{CALL}|u:<tool_response>\nResult2\n{RESULT_END}Text3s\n\nText4u"),
    ],
)  # fmt: skip
def test_roles_in_turns(roles: tuple[str, ...], shape: str, expected: str) -> None:
    rendered = in_turns(*roles)
    chat = Rewriter(rendered, lambda: None).rewrite(conversation(shape), None)
    assert rendered(chat.messages, chat.tools) == expected
    plain = render_or_simplify(conversation(shape), None, in_turns())
    assert all(message["content"] in plain for message in conversation(shape))


def test_what_nothing_helps_with() -> None:
    def never(*_: Any) -> str:
        raise TemplateRefusal("no", own=True)

    def silent(*_: Any) -> str:
        return "nothing"

    for messages in (conversation("susu"), conversation("u"), [], [{"role": "user"}], ["odd"]):
        assert Rewriter(silent, lambda: None).rewrite(messages, None).messages == messages
        assert Rewriter(never, lambda: None).rewrite(messages, None).messages == messages
        with pytest.raises(TemplateRefusal):
            render_or_simplify(messages, None, never)


def test_a_change_is_about_what_it_says() -> None:
    def chat(*messages: dict[str, Any]) -> changes.Chat:
        return changes.Chat(list(messages), None)

    user, late = {"role": "user", "content": "u"}, {"role": "system", "content": "s"}
    turn = (user, called(1, 2, content="t"), result(1), result(2))
    assert changes.single_calls(chat(*turn)) == chat(
        user, called(1, content="t"), result(1), called(2), result(2)
    )
    swapped = chat(turn[0], turn[1], turn[3], turn[2])
    assert changes.order_results(swapped) == chat(*turn)
    between = chat(turn[0], turn[1], turn[2], late, turn[3], user)
    assert changes.texts_behind_results(between) == chat(*turn, late, user)
    unanswered = changes.add_results(chat(*turn[:3], user))
    assert [message["role"] for message in unanswered.messages][2:] == ["tool", "tool", "user"]
    assert changes.add_results(chat(*turn[:3])) == chat(*turn[:3])
    split = changes.split_texts("")(chat(*turn))
    assert [message["content"] for message in split.messages[1:3]] == ["t", ""]
    assert "tool_calls" not in split.messages[1]
    short = changes.shorten_ids(chat({**turn[2], "tool_call_id": "call_1"}, result(2)))
    ids = [message["tool_call_id"] for message in short.messages]
    assert ids[1] == "abcdefgh2"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()
    assert changes.shorten_ids(short) == short
    for change in (changes.single_calls, changes.order_results, changes.texts_behind_results,
                   changes.add_results, changes.leave_out_empty, changes.open_by_user,
                   changes.merge_leading_system, changes.arguments_as_object):  # fmt: skip
        plain = chat(user, called(1), result(1), {"role": "assistant", "content": "a"}, user)
        assert change(plain) == plain
        assert change(replace(plain, messages=[])) == replace(plain, messages=[])


def test_json_that_was_cut_is_closed() -> None:
    value = {"a": 'x\\"y\n😀z', "b": [1, 2.5, -3e5, {"c": None, "d": True}], "e": {"f": "g"}}
    chance = random.Random(3)
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert close_object(text) == value
        for end in range(1, len(text)):
            closed = close_object(text[:end])
            assert isinstance(closed, dict), text[:end]
            json.dumps(closed, ensure_ascii=False).encode()  # no half of a pair
            word = f"w{chance.randrange(1000)}"
            again = close_object(f'{{"k": "{word}", "z": {text[:end]}')
            assert again is not None
            assert again["k"] == word
    assert close_object('{"city": "Oslo", "da') == {"city": "Oslo", "da": None}
    assert close_object('{"text": "a\nb') == {"text": "a\nb"}
    for text in ("city is Oslo", "[1", '"a', "", "{]", "{'a': 1}"):
        assert close_object(text) is None
