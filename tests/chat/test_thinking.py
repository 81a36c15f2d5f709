"""The switch that lets a model think, found by what it does to the generation prompt."""

from __future__ import annotations

from typing import Any

import pytest
from support import shared

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
