"""Chat templates render messages as transformers does, and fail with errors of their own."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from typing import Any

import pytest
from support import FIXTURES, SHARED, absent, latest_transformers

from mtkit.base.binary import Source
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
