"""Conversations of agents, in every published template: nothing of them is lost or refused."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from published_templates import templates
from support import reference

from mtkit.chat.conversation import render_or_simplify
from mtkit.chat.template import TemplateRefusal

reference("jinja2")

SHAPES = ("ssuu", "sus", "susaus", "us")
"""Roles by their first letters, as Codex and Claude Code have them."""
ALONE = {"fireworks-ai-llama-3-firefunction-v2.jinja"}
"""Templates that want variables that none of the others has."""


def conversation(shape: str) -> list[dict[str, Any]]:
    """Return a conversation, each text of which is another; c: a tool is called, and answers."""
    names = {"s": "system", "u": "user", "a": "assistant"}
    made: list[dict[str, Any]] = []
    for place, letter in enumerate(shape):
        text = f"Text{place}{letter}"
        if letter == "c":
            function = {"name": "look", "arguments": {"x": text}}
            call = {"id": "abcdefgh1", "type": "function", "function": function}
            made += [{"role": "assistant", "content": "", "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": "abcdefgh1", "content": text}]  # fmt: skip
        else:
            made.append({"role": names[letter], "content": text})
    return made


def rendering(template: str) -> Any:
    from mtkit.chat.template import render

    values = {"bos_token": "<s>", "eos_token": "</s>"}
    return lambda messages: (
        render(template, messages, tools=[], add_generation_prompt=True, values=values).text
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_every_template_says_all_that_an_agent_sends(shape: str) -> None:
    messages, lost = conversation(shape), []
    for name, template in templates().items():
        if name in ALONE:
            continue
        text = render_or_simplify(messages, rendering(template))
        lost += [(name, one) for one in messages if one["content"] not in text]
    assert not lost


def test_what_a_template_takes_stays_as_it_is() -> None:
    chance = random.Random(1)
    for name, template in chance.sample(sorted(templates().items()), 12):
        rendered = rendering(template)
        for shape in ("u", "su", "sua", "suau"):
            messages = conversation(shape)
            try:
                plain = rendered(messages)
            except TemplateRefusal:
                continue
            assert render_or_simplify(messages, rendered) == plain, name


def only(*roles: str) -> Any:
    """Return a template that takes roles in turns, one of the system in front where it is named."""

    def rendered(messages: Any) -> str:
        told = [one["role"] for one in messages]
        if told[:1] == ["system"] and "system" in roles:
            told = told[1:]
        if "system" in told or any(a == b for a, b in pairwise(told)):
            raise TemplateRefusal("no", own=True)
        return "|".join(f"{one['role'][0]}:{one['content']}" for one in messages)

    return rendered


def test_what_is_simpler() -> None:
    messages = conversation("ssusuaus")
    with_system = render_or_simplify(messages, only("system", "user"))
    assert with_system == (
        "s:Text0s\n\nText1s|u:Text2u\n\nText3s\n\nText4u|a:Text5a|u:Text6u\n\nText7s"
    )
    without = render_or_simplify(messages, only("user"))
    assert without == (
        "u:Text0s\n\nText1s\n\nText2u\n\nText3s\n\nText4u|a:Text5a|u:Text6u\n\nText7s"
    )
    calls = conversation("sucsu")
    said = render_or_simplify(calls, only("system", "user"))
    assert said == "s:Text0s|u:Text1u|a:|t:Text2c|u:Text3s\n\nText4u"


def test_what_no_simpler_one_helps_with() -> None:
    def never(_: Any) -> str:
        raise TemplateRefusal("no", own=True)

    def silent(_: Any) -> str:
        return "nothing"

    for messages in (conversation("susu"), conversation("u"), [], [{"role": "user"}], ["odd"]):
        with pytest.raises(TemplateRefusal):
            render_or_simplify(messages, never)
        assert render_or_simplify(messages, silent) == "nothing"
