"""How a chat template writes what an assistant says, seen from what it renders.

Conversations of marks (``probes``) are rendered: a text, a reasoning, a call, two, and all of
them. What stands between the marks are the signs by which answers are read: a model writes new
turns as its template writes earlier ones. Nothing is known of any model or form beforehand.

Source: the idea of rendering twice and looking at the difference is that of llama.cpp's
docs/autoparser.md.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mtkit.chat.answer_form import Form
from mtkit.chat.assistant_turns import Turns
from mtkit.chat.call_analysis import calls_of, leading
from mtkit.chat.known_forms import has_channels, hidden_reasoning, shown_by
from mtkit.chat.probes import CONTENT, REASON, Probes
from mtkit.chat.signs import EOS, Sign, common_start
from mtkit.chat.thinking import switch_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.chat.answer_form import Leads


@lru_cache(maxsize=16)
def form_of(template: str, eos: str = EOS) -> Form:
    """Return how a model with a chat template writes answers.

    Args:
        template: The Jinja template.
        eos: The token that ends a text, where it is known.

    Raises:
        FormatError: It is not a template.
    """
    probes = Probes(template, {"eos_token": eos})
    opening = probes.opening() or ""
    turns = Turns(probes)
    calls, shows_calls = calls_of(turns), True
    if calls is None:
        shows = shown_by(template)
        calls, shows_calls = calls_of(Turns(Probes(shows, {"eos_token": eos}))), False
    header = turns.header
    starts, thinking, thought, leads = _reasoning(turns, opening, template)
    if leads == "always":
        thinking = _opened(header, thought)
        if thinking:
            header, leads = header.removesuffix(thinking), "no"
            starts = {thinking + one for one in starts}
    if calls is not None and header.endswith(calls.opening.text):
        header = header.removesuffix(calls.opening.text)
        starts = {calls.opening.text + one for one in starts}
    if calls is not None:
        starts |= {leading(turns, turns.called[len(header) :])}
    return Form(
        opening=opening,
        header=header,
        starts=tuple(Sign(one) for one in sorted(starts, key=len, reverse=True) if one),
        thinking=Sign(thinking) if thinking.strip() else None,
        thought=tuple(Sign(one) for one in sorted(thought, key=len, reverse=True)),
        leads=leads,
        ending=Sign(turns.text.partition(CONTENT)[2]),
        calls=calls,
        text_arguments=probes.text_arguments,
        shows_tools=probes.shows_tools(),
        shows_calls=shows_calls,
        shows_results=probes.shows_results(),
        channels=has_channels(template),
        switch=switch_of(probes, template),
    )


def _reasoning(turns: Turns, opening: str, template: str) -> tuple[set[str], str, set[str], Leads]:
    """Return what texts begin with, what opens a reasoning, what closes one; whether it leads."""
    header = turns.header
    plain = turns.text.partition(CONTENT)[0][len(header) :]
    shown = turns.thought or turns.all
    if not shown:
        on = turns.probes.opening(enable_thinking=True, thinking=True) or ""
        extra = opening[len(header) :] or (on[len(header) :] if on.startswith(header) else "")
        thinking, closing = hidden_reasoning(extra, template)
        is_plain = thinking.strip() and plain.endswith(thinking)
        return {plain}, thinking, {closing} if closing else set(), "unsaid" if is_plain else "no"
    thinking = shown[len(header) :].partition(REASON)[0]
    thought = set()
    behind = turns.thought.partition(REASON)[2]
    if CONTENT in behind:
        thought.add(behind.partition(CONTENT)[0])
    if turns.all:
        thought.add(leading(turns, turns.all.partition(REASON)[2]))
    closing = common_start(sorted(thought))
    thought = {one for one in (*thought, closing) if one.strip()}
    leads: Leads = "no"
    if thinking.strip() and plain.endswith(thinking):
        leads = "unsaid"  # texts stand behind what opens a reasoning
    if not thinking.strip():
        is_closed = plain.strip() and plain.strip().startswith(closing.strip())
        leads = "always" if is_closed else "unsaid"
        thinking = opening[len(header) :]
    return {plain}, thinking, thought, leads


def _opened(header: str, thought: set[str]) -> str:
    """Return what opens a reasoning at the end of a header: a tag with the word that closes one."""
    words = re.findall(r"\w{3,}", min(thought, key=len, default=""))
    places = [header.index(word) for word in words if header.count(word) == 1]
    starts = [max(header.rfind(sign, 0, place) for sign in "<[") for place in places]
    start = max(starts, default=-1)
    return header[start:] if start >= 0 else ""
