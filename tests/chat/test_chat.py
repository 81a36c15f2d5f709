"""Chat templates render and continue messages as transformers does, within limits, agents'
conversations included.
"""

from __future__ import annotations

import gzip
import json
import random
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from published_templates import templates
from support import FIXTURES, SHARED, absent, latest_transformers, reference

from mtkit.base.binary import Source
from mtkit.chat.conversation import render_or_simplify
from mtkit.chat.template import TemplateRefusal, apply, render
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.formats import hf
from mtkit.spec import ChatTemplate, replace

USER = [{"role": "user", "content": "hi <b>"}]


def golden() -> tuple[dict[str, Any], dict[str, Any]]:
    folder = SHARED / "tokenizers" / "chat"
    if not folder.is_dir():
        absent("the shared chat templates are not here", "MTKIT_REQUIRE_SHARED")
    answers = json.loads(gzip.decompress((folder / "golden.json.gz").read_bytes()))
    return json.loads((folder / "cases.json").read_text(encoding="utf-8")), answers


def test_all_known_templates_give_the_known_texts() -> None:
    cases, answers = golden()
    now = datetime.fromisoformat(cases["now"])
    seen = 0
    for name, facts in cases["templates"].items():
        file = SHARED / "tokenizers" / "chat" / "templates" / f"{name}.jinja"
        text = file.read_text(encoding="utf-8")
        tokens = {key: facts[key] for key in ("bos_token", "eos_token")}
        tokens |= {key: cases[key] for key in ("unk_token", "pad_token")}
        for case in cases["cases"]:
            wanted = answers[name][case["name"]]
            options = {
                "tools": case["tools"],
                "documents": case.get("documents"),
                "add_generation_prompt": case["add_generation_prompt"],
                "values": {**tokens, **case["kwargs"]},
                "now": now,
            }
            if "text" in wanted:
                assert render(text, case["messages"], **options).text == wanted["text"], name
            else:
                with pytest.raises(TemplateRefusal) as caught:
                    render(text, case["messages"], **options)
                if wanted["error"] == "TemplateError":
                    assert caught.value.message == wanted["message"]
            seen += 1
    assert seen == sum(map(len, answers.values())) >= 550


TEMPLATES = [
    "{{ messages | tojson(indent=2) }}",
    "{% for m in messages %}\n  {% if loop.first %}\n{{ 1 }}{% continue %}{% endif %}x{% endfor %}",
    "{% for m in messages %}{{ loop.length }}{{ loop.last }}{{ m['role'] ~ m.role }}{% endfor %}",
    "{% for k in messages | map(attribute='role') | select %}{{ loop.index }}{{ k }}{% endfor %}",
    "{% set n = namespace(a=1) %}{% set n.a = n.a + 1 %}{{ n.a * 3 }}{{ 'ab' * 2 }}{{ 2 ** 3 }}",
    "{{ dict(a=1).items() | list }}{{ messages[-1].content.strip().replace('h', 'jj') }}",
    "{% generation %}{{ messages[0].content }}{% endgeneration %}|",
    "{{ tools }}{{ documents }}{{ undefined_thing }}{{ eos_token }}{{ x is defined }}",
    "{% macro f(n) %}{% if n %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% for row in [[1, [2]], [3, []]] recursive %}{{ row }}{% endfor %}",
    "{% for a in 'abc' %}{% for b in range(3) if b %}{{ a ~ b }}{% endfor %}{% else %}{% endfor %}",
    "{{ '%s-%d' % ('a', 3) }}{{ '{:>4}'.format(7) }}{{ 'a,b'.split(',') | join('+') }}",
    "{{ messages[0].thinking }}{{ messages[0].reasoning_content }}{{ messages[0].reasoning }}",
    "{% for k, v in {'a': 1, 'b': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}",
    "{{ m | default(1700000000000) }}{{ '%d' | format(1700000000000) }}{{ 9 ** 99 }}",
    "{{ '{} {:>4}'.format(1700000000000, 7) }}{{ 'a\\nb' | indent(2, true) }}",
    "{{ '%5d' % 170000000 }}",
    "{{ ['a', 1, m] | join('-') }}{{ 'a' ~ 1 ~ m ~ none ~ [1] }}{{ messages | join(',', 'role') }}",
    "{{ m }}{{ 'é&<' | tojson }}{{ [1] + [] }}{% filter upper %}a{% endfilter %}",
]
CHATS: list[list[dict[str, Any]]] = [
    USER,
    [{"role": "user", "content": " a "}, {"role": "assistant", "content": "b", "thinking": "hm"}],
    [{"role": "user", "content": "x", "reasoning": "r"}],
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_small_templates_give_the_library_s_text(template: str) -> None:
    library = latest_transformers("transformers.utils.chat_template_utils")
    for chat in CHATS:
        made = render(template, chat, values={"eos_token": "</s>"})
        texts, marks = library.render_jinja_template(
            conversations=[chat],
            chat_template=template,
            return_assistant_tokens_mask="generation" in template,
            eos_token="</s>",
        )
        assert made.text == texts[0]
        assert list(made.generation) == (marks[0] if marks else [])


@pytest.mark.parametrize(
    ("template", "kind"),
    [
        ("{% for %}", FormatError),
        ("{{ ''.__class__.__mro__ }}", UnsupportedError),
        ("{{ messages.append(1) }}", UnsupportedError),
        ("{% set ns = namespace(_x=1) %}", UnsupportedError),
        ("{{ raise_exception('no ' ~ messages[0].role) }}", TemplateRefusal),
        ("{{ messages[0].missing.deeper }}", TemplateRefusal),
        ("{{ 1 + 'a' }}", TemplateRefusal),
    ],
)
def test_each_failure_has_its_error(template: str, kind: type[MtkitError]) -> None:
    with pytest.raises(kind):
        render(template, USER)


def test_the_clock_can_be_set() -> None:
    template = "{{ strftime_now('%d %b %Y %H') }}"
    assert render(template, USER, now=datetime(2024, 7, 26, 13)).text == "26 Jul 2024 13"
    assert render(template, USER).text.startswith(f"{datetime.now():%d %b %Y}")


def test_a_tokenizer_brings_template_and_special_tokens() -> None:
    spec = hf.read(Source.open(str(FIXTURES / "bbpe-8k" / "tokenizer.json")), {}).spec
    made = apply(
        spec, [{"role": "user", "content": "hi", "name": None}], add_generation_prompt=True
    )
    assert made.text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    tool = ChatTemplate("tool_use", "{{ eos_token }}{{ messages[0].keys() | list }}{{ tools }}")
    both = replace(spec, chat_templates=(*spec.chat_templates, tool))
    assert apply(both, [*USER], tools=[{"a": 1}]).text == (
        "<|im_end|>['role', 'content'][{'a': 1}]"
    )
    assert apply(both, [{"role": "u", "content": None}], template="tool_use").text == (
        "<|im_end|>['role']None"
    )
    with pytest.raises(UsageError):
        apply(spec, [])
    with pytest.raises(UnsupportedError):
        apply(replace(spec, chat_templates=()), USER)
    with pytest.raises(UnsupportedError):
        apply(replace(spec, chat_templates=(tool,)), USER)


def test_objects_reach_a_template_without_their_methods() -> None:
    class Sly(str):
        def escape(self) -> str:
            return "out"

    chat = [{"role": Sly("user"), "content": object()}]
    with pytest.raises(TemplateRefusal):
        render("{{ messages[0].role.escape() }}", chat)
    assert render("{{ messages[0].content }}", chat).text == "<object>"


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
