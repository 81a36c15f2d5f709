"""How a chat template writes what an assistant says, found from what it renders.

Conversations of marks (``probes``) are rendered: a text, a reasoning, a call, two calls, and all of
them. What stands between the marks are the signs by which answers are read: a model writes new
turns as its template writes earlier ones. Nothing is known of any model or form beforehand.

Some templates do not show calls. Those are recognized by what they contain, never by a model's
name, and another template stands in that does show the calls: for LFM2 (calls are left to the text
of a message), Granite 3.3 (earlier calls are left out), Kimi K2 Instruct and Thinking, and
Firefunction (calls of earlier turns are refused: they change a list, which no sandbox lets them, or
want a variable of their own). All others get the form that ``conversation`` asks models for.

gpt-oss writes calls in more ways than its template does (``channels``).

Source: the idea of rendering twice and looking at the difference is that of llama.cpp's
docs/autoparser.md.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mtkit.chat.answer import Form
from mtkit.chat.call_analysis import find_calls, leading_text
from mtkit.chat.probes import CONTENT, REASON, Probes, Turns, find_switch
from mtkit.chat.signs import EOS, Sign, common_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.chat.answer import Leads


_TEXT_TAG = re.compile(r"\s*(?:<([A-Za-z][\w:.-]*)>|\[([A-Z]+)\])\s*")
_OBJECT_CALL = '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}'
_PYTHON_CALL = (
    "{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}="
    "{{ '\"' ~ v ~ '\"' if v is string else v }}{{ ', ' if not loop.last else '' }}{% endfor %})"
)


def _template_with_calls(before: str, call: str, between: str, after: str) -> str:
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


GENERIC_CALLS = _template_with_calls("", f"\n<tool_call>\n{_OBJECT_CALL}\n</tool_call>", "", "")
_LFM = _template_with_calls("<|tool_call_start|>[", _PYTHON_CALL, ", ", "]<|tool_call_end|>")
_CALLS = (
    (("<|tool_calls_section_begin|>",), _template_with_calls(
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>"
        "{{ f.arguments | tojson }}<|tool_call_end|>",
        "", "<|tool_calls_section_end|>",
    )),
    (("<|tool_list_start|>",), _LFM),
    (("List of tools: [", "keep_past_thinking"), _LFM),
    (("<|tool_call|> followed by a JSON list",),
     _template_with_calls("<|tool_call|>[", _OBJECT_CALL, ", ", "]")),
    (("functools[",), _template_with_calls(" functools[", _OBJECT_CALL, ", ", "]")),
)  # fmt: skip
"""Texts that a template contains, all of them, and a template that shows its calls."""


def template_of_calls(template: str) -> str:
    """Return a template that shows the calls of one that does not."""
    templates = (shows for signs, shows in _CALLS if all(sign in template for sign in signs))
    return next(templates, GENERIC_CALLS)


def has_channels(template: str) -> bool:
    """Whether answers are messages of channels, as those of gpt-oss."""
    return all(sign in template for sign in ("<|channel|>", "<|call|>", "<|return|>"))


def hidden_reasoning(extra: str, template: str) -> tuple[str, str]:
    """Return what opens and closes a reasoning that a template leaves out of earlier turns."""
    tag = _TEXT_TAG.search(extra)
    if tag is None and "</think>" in template:
        tag = _TEXT_TAG.search("<think>\n")
    if tag is None:
        return "", ""
    close = f"</{tag[1]}>" if tag[1] else f"[/{tag[2]}]"
    return tag[0], f"\n{close}\n\n"


@lru_cache(maxsize=16)
def find_form(template: str, eos: str = EOS) -> Form:
    """Return how a model with a chat template writes answers."""
    probes = Probes(template, {"eos_token": eos})
    opening = probes.opening() or ""
    turns = Turns(probes)
    calls, shows_calls = find_calls(turns), True
    if calls is None:
        shows = template_of_calls(template)
        calls, shows_calls = find_calls(Turns(Probes(shows, {"eos_token": eos}))), False
    header = turns.header
    starts, thinking, thought, leads = _find_reasoning(turns, opening, template)
    if leads == "always":
        thinking = _reasoning_opening(header, thought)
        if thinking:
            header, leads = header.removesuffix(thinking), "no"
            starts = {thinking + text for text in starts}
    if calls is not None and header.endswith(calls.opening.text):
        header = header.removesuffix(calls.opening.text)
        starts = {calls.opening.text + text for text in starts}
    if calls is not None:
        starts |= {leading_text(turns, turns.called[len(header) :])}
    return Form(
        opening=opening,
        header=header,
        starts=tuple(Sign(text) for text in sorted(starts, key=len, reverse=True) if text),
        thinking=Sign(thinking) if thinking.strip() else None,
        thought=tuple(Sign(text) for text in sorted(thought, key=len, reverse=True)),
        leads=leads,
        ending=Sign(turns.text.partition(CONTENT)[2]),
        calls=calls,
        text_arguments=probes.text_arguments,
        shows_tools=probes.shows_tools(),
        shows_calls=shows_calls,
        shows_results=probes.shows_results(),
        channels=has_channels(template),
        switch=find_switch(probes, template),
    )


def _find_reasoning(
    turns: Turns, opening: str, template: str
) -> tuple[set[str], str, set[str], Leads]:
    """Return starts of texts, what opens a reasoning, what closes one, and ``Form.leads``."""
    header = turns.header
    plain = turns.text.partition(CONTENT)[0][len(header) :]
    turn = turns.thought or turns.all
    if not turn:
        on = turns.probes.opening(enable_thinking=True, thinking=True) or ""
        extra = opening[len(header) :] or (on[len(header) :] if on.startswith(header) else "")
        thinking, closing = hidden_reasoning(extra, template)
        is_plain = thinking.strip() and plain.endswith(thinking)
        return {plain}, thinking, {closing} if closing else set(), "unsaid" if is_plain else "no"
    thinking = turn[len(header) :].partition(REASON)[0]
    thought = set()
    behind = turns.thought.partition(REASON)[2]
    if CONTENT in behind:
        thought.add(behind.partition(CONTENT)[0])
    if turns.all:
        thought.add(leading_text(turns, turns.all.partition(REASON)[2]))
    closing = common_start(sorted(thought))
    thought = {text for text in (*thought, closing) if text.strip()}
    leads: Leads = "no"
    if thinking.strip() and plain.endswith(thinking):
        leads = "unsaid"  # texts stand behind what opens a reasoning
    if not thinking.strip():
        is_closed = plain.strip() and plain.strip().startswith(closing.strip())
        leads = "always" if is_closed else "unsaid"
        thinking = opening[len(header) :]
    return {plain}, thinking, thought, leads


def _reasoning_opening(header: str, thought: set[str]) -> str:
    """Return the tag at the end of a header that has the word of what closes a reasoning."""
    words = re.findall(r"\w{3,}", min(thought, key=len, default=""))
    places = [header.index(word) for word in words if header.count(word) == 1]
    starts = [max(header.rfind(sign, 0, place) for sign in "<[") for place in places]
    start = max(starts, default=-1)
    return header[start:] if start >= 0 else ""
