"""What a few templates do not show: known by what they spell, never by a model's name.

A form of calls is given as a template that does show it, which is looked at as any other. Needed
by LFM2 (calls are left to the text of a message), Granite 3.3 (earlier calls are left out), Kimi
K2 Instruct and Thinking, and Firefunction (calls of earlier turns are refused: they change a list,
which no sandbox lets them, or want a variable of their own). All others without a form of their
own get the one that ``tool_prompt`` asks for.

gpt-oss writes calls in more ways than its template does (``channels``).
"""

from __future__ import annotations

import re

_TAG = re.compile(r"\s*(?:<([A-Za-z][\w:.-]*)>|\[([A-Z]+)\])\s*")
_OBJECT = '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}'
_PYTHON = (
    "{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}="
    "{{ '\"' ~ v ~ '\"' if v is string else v }}{{ ', ' if not loop.last else '' }}{% endfor %})"
)


def _template(before: str, call: str, between: str, after: str) -> str:
    """Return a template that writes calls so."""
    return (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% if m.tool_calls %}"
        + before
        + "{% for c in m.tool_calls %}{% set f = c.function %}"
        + call
        + "{% if not loop.last %}"
        + between
        + "{% endif %}{% endfor %}"
        + after
        + "{% endif %}<|stop|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )


GENERIC = _template("", f"\n<tool_call>\n{_OBJECT}\n</tool_call>", "", "")
_LFM = _template("<|tool_call_start|>[", _PYTHON, ", ", "]<|tool_call_end|>")
_CALLS = (
    (("<|tool_calls_section_begin|>",), _template(
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>"
        "{{ f.arguments | tojson }}<|tool_call_end|>",
        "", "<|tool_calls_section_end|>",
    )),
    (("<|tool_list_start|>",), _LFM),
    (("List of tools: [", "keep_past_thinking"), _LFM),
    (("<|tool_call|> followed by a JSON list",), _template("<|tool_call|>[", _OBJECT, ", ", "]")),
    (("functools[",), _template(" functools[", _OBJECT, ", ", "]")),
)  # fmt: skip
"""What a template spells, all of it, and a template that shows what it means."""


def shown_by(template: str) -> str:
    """Return a template that shows the calls that one does not show."""
    found = (shows for signs, shows in _CALLS if all(sign in template for sign in signs))
    return next(found, GENERIC)


def has_channels(template: str) -> bool:
    """Say whether answers are messages of channels, as of gpt-oss."""
    return all(sign in template for sign in ("<|channel|>", "<|call|>", "<|return|>"))


def hidden_reasoning(extra: str, template: str) -> tuple[str, str]:
    """Return what opens and closes a reasoning that a template leaves out of earlier turns.

    Args:
        extra: What its generation prompt ends with, besides what every answer begins with.
        template: The template.
    """
    found = _TAG.search(extra)
    if found is None and "</think>" in template:
        found = _TAG.search("<think>\n")
    if found is None:
        return "", ""
    close = f"</{found[1]}>" if found[1] else f"[/{found[2]}]"
    return found[0], f"\n{close}\n\n"
