"""A message is continued as transformers continues it, and no letter of a mark is left behind."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support import SHARED, absent, reference

from mtkit.chat.template import render
from mtkit.errors import UsageError

USER = {"role": "user", "content": "hi"}
TEXTS = ("", " ", "\n", "so far", "so far  ", " so\n\nfar", "a", "<think>", "</think>\n\n", "é🙂",
         "CONTINUE", "{{ x }}", "<|im_end|>")  # fmt: skip
SMALL = (
    "{% for m in messages %}[{{ m.content }}]<e>{% endfor %}",
    "{% for m in messages %}[{{ m.content | trim }}]<e>{% endfor %}",
    "{% for m in messages %}\n{{ m.role }}:\n{{ m.content | trim }} <e>\n{% endfor %}",
    "{% for m in messages %}{% if m.content %}[{{ m.content }}]{% else %}no{% endif %}{% endfor %}",
    "{{ messages[-1].content.split('</think>')[-1].lstrip('\n') }}<e>",
    "{{ messages[-1].content | length }}{{ messages[-1].content }}",
    "{{ messages[-1].reasoning_content }}|{{ messages[-1].content }}<e>",
    "{{ messages | tojson }}{{ messages[-1]['content'] }}",
    "{{ messages[0].content }}",
    "{{ messages[-1].content | lower }}",
    (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for b in m.content %}{{ b.text }}{% endfor %}{% endif %}{% endfor %}<e>"
    ),
    "{% for m in messages %}{% generation %}{{ m.content }}!{% endgeneration %}{% endfor %}",
)


def templates() -> list[str]:
    folder = SHARED / "tokenizers" / "chat" / "templates"
    if not folder.is_dir():
        absent("the shared chat templates are not here", "MTKIT_REQUIRE_SHARED")
    return [*SMALL, *(f.read_text(encoding="utf-8") for f in sorted(folder.glob("*.jinja")))]


def drawn_message(chance: random.Random) -> dict[str, Any]:
    """Draw a last message: text, white space, blocks, a reasoning."""
    text = "".join(chance.choices(TEXTS, k=chance.randrange(3)))
    content: Any = text
    if chance.random() < 0.2:
        content = [{"type": "text", "text": text} for text in chance.choices(TEXTS, k=2)]
        content += [{"type": "image"}] * chance.randrange(2)
    message = {"role": "assistant", "content": content}
    if chance.random() < 0.3:
        message["reasoning_content"] = chance.choice(TEXTS)
    return message


def test_messages_are_continued_as_by_the_library() -> None:
    library = reference("transformers.utils.chat_template_utils")
    chance = random.Random(7)
    outcomes = {"text": 0, "refused": 0, "leak": 0}
    for template in templates():
        for _ in range(25):
            field = chance.choice((True, True, True, "reasoning_content"))
            chat = [USER, drawn_message(chance)]
            values = {"bos_token": "<s>", "eos_token": "</s>"}
            try:
                wanted = library.render_jinja_template(
                    conversations=[chat], chat_template=template,
                    continue_final_message=field, **values,
                )[0][0]  # fmt: skip
            except Exception:  # noqa: BLE001  the library says it with what jinja2 and Python have
                wanted = None
            try:
                made = render(template, chat, continue_final_message=field, values=values).text
            except UsageError:
                made = None
            leaked = wanted is not None and "CONTINUE_FINAL" in wanted
            assert made == (None if leaked else wanted), (template[:300], chat, field)
            outcomes["leak" if leaked else "refused" if made is None else "text"] += 1
    assert outcomes["text"] > 300
    assert outcomes["refused"] > 50
    assert outcomes["leak"] > 5


@pytest.mark.parametrize("content", ["", "  ", "YBBB MTKIT_CONTINUES_HERE", "BCDFGHJK" * 9])
def test_what_messages_spell_stays_and_nothing_else(content: str) -> None:
    chat = [USER, {"role": "assistant", "content": content}]
    made = render("<{{ messages[-1].content }}>", chat, continue_final_message=True).text
    assert made == f"<{content}"


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[-1].content }}{{ messages[-1].content }}",
        "{{ messages[-1].content[:9] }}{{ messages[-1].content }}",
        "{{ messages[-1].content[-9:] }}{{ messages[-1].content }}",
        "{{ messages[-1].content | list }}{{ messages[-1].content }}",
        "{{ messages[-1].content | sort | join }}{{ messages[-1].content }}",
        "{{ messages[-1].content | lower }}{{ messages[-1].content }}",
        "{{ messages[-1].content | reverse }}{{ messages[-1].content }}",
    ],
)
def test_no_part_of_a_mark_is_ever_written(template: str) -> None:
    with pytest.raises(UsageError):
        render(template, [USER], continue_final_message=True)


@pytest.mark.parametrize("content", [5, {"a": 1}, [], ["text"], [{"text": 5}], None])
def test_what_is_no_text_cannot_be_continued(content: Any) -> None:
    with pytest.raises(UsageError):
        render("{{ messages[-1].content }}", [{"role": "u", "content": content}],
               continue_final_message=True)  # fmt: skip


def test_generations_end_where_the_text_ends() -> None:
    template = SMALL[-1]
    made = render(template, [USER, USER], continue_final_message=True)
    assert (made.text, made.generation) == ("hi!hi", ((0, 3), (3, 5)))
