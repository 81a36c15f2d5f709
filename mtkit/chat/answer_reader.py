"""An answer, read while a model writes it, or whole: reasoning, text, calls of tools.

What does not read as a call stays text, and so do signs of a form where they end nothing.
"""

from __future__ import annotations

import re

from mtkit.chat.answer import (
    PartQueue,
    Thought,
    calls_in,
    reasoning_in,
    reasoning_state,
    role_signs,
    schemas_by_tool,
    sign_lead,
    text_in,
)
from mtkit.chat.answer_analysis import find_form
from mtkit.chat.call_reader import CallReader
from mtkit.chat.channels import ChannelReader
from mtkit.chat.signs import EOS, PARTIAL, IncomingText, Sign, length_without, tags_and_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeAlias

    from mtkit.chat.answer import Calls, Form, Part
    from mtkit.chat.signs import Waiting

    Reader: TypeAlias = "AnswerReader | ChannelReader"


_FENCES = ("<|python_tag|>", "```json", "```")
"""What models put before bare objects; the first is Llama's."""
_SPECIAL = re.compile(r"(?:</s>|<(?:EOS|eos)>|<[|｜][^<>\s]{1,60}[|｜]>)\s*\Z")
_MOST_TRIED = 1000
"""Characters of what turned out to be no call in which another may begin."""


class AnswerReader:
    """Reads an answer as it comes."""

    def __init__(
        self,
        form: Form,
        tools: Sequence[Mapping[str, Any]] | None = None,
        prompt: str = "",
        *,
        several: bool = True,
        calls: bool = True,
        reasoning: bool = True,
        streams: bool = True,
    ) -> None:
        """Begin an answer.

        Args:
            tools: What may be called, in OpenAI's form or as functions; None: not known.
            prompt: What the model saw last; its end says whether it is in a reasoning.
            several: There may be several calls; else those beyond the first are left out.
            streams: Parts are told as soon as they are certain. Else at the end of the answer, and
                a call that is not whole is text.
        """
        self._form, self._reasons, self._streams = form, reasoning, streams
        self._schemas = schemas_by_tool(tools or ())
        self._source = IncomingText()
        self._told = PartQueue(several=several)
        self._all = ""
        self._cut: list[tuple[int, int, str]] = []
        self._calls = form.calls if calls else None
        self._bares = calls and (
            bool(self._schemas)
            or (tools is None and form.calls is not None and not form.calls.opening.core)
        )
        self._openings = self._calls.openings if self._calls is not None else ()
        self._endings = [form.ending] if form.ending.core.partition(EOS)[0].strip() else []
        if form.ending.core and not form.ending.core.strip():
            self._endings = [form.ending]
        self._firsts = _first_characters((*self._openings, *self._endings))
        state = reasoning_state(form, prompt)
        self._source.text = self._all = sign_lead(form, prompt) if state == "no" else ""
        self._running = self._run(state)
        next(self._running, None)

    def push(self, text: str) -> list[Part]:
        """Return what further text settles."""
        self._source.text += text
        if not self._streams:
            self._all += text
            return []
        next(self._running, None)
        return self._told.taken()

    def finish(self, text: str = "") -> list[Part]:
        """Return what the end of the answer settles."""
        self._source.text += text
        self._all += text
        self._source.ended = True
        for _ in self._running:
            pass
        if not self._streams:
            for place, count, raw in reversed(self._cut):
                self._told.parts[place : place + count] = [raw]
                self._told.called -= 1
        return self._told.taken()

    @property
    def called(self) -> int:
        """How many calls have begun."""
        return self._told.called

    # -- the answer

    def _run(self, state: str) -> Waiting[None]:
        source = self._source
        if state == "unsaid":
            state = yield from self._unsaid()
        if state == "yes":
            yield from self._thought()
        else:
            yield from self._begin()
        may_be_bare = self._bares
        while source.text or (yield from source.more()):
            if may_be_bare and (yield from self._bare()):
                may_be_bare = False
                continue
            may_be_bare = False
            yield from self._outside()
        self._told.end()

    def _unsaid(self) -> Waiting[str]:
        """Wait for what closes a reasoning whose begin the answer need not show."""
        source, form = self._source, self._form
        while True:
            start = len(source.text) - len(source.text.lstrip())
            if form.thinking is not None and form.thinking.match(source.text, start) >= 0:
                return "no"
            if any(
                sign.match(source.text, at) >= 0
                for sign in form.thought
                for at in sign.places(source.text, 0)
            ):
                return "yes"
            if not (yield from source.more()):
                return "no"

    def _begin(self) -> Waiting[None]:
        """Pass what an answer's text begins with, or go on with a reasoning."""
        source, form = self._source, self._form
        thinking = [form.thinking] if form.thinking is not None else []
        starts = [one for one in form.starts if one.core.strip()]
        blank = next((one.text for one in form.starts if not one.core.strip()), "")
        sign = yield from source.longest((*starts, *thinking, *role_signs(form.header)))
        if sign is None:
            yield from source.trail(blank)
            source.let_go(source.at)
            return
        at = source.at
        if sign in thinking:
            if self._reasons:
                source.let_go(at)
            yield from self._thought()
        elif self._reasons or not any(one.core in sign.core for one in form.thought):
            source.let_go(at)
            if sign not in starts:  # the header was part of the answer
                yield from self._begin()
        else:
            source.at = 0

    def _thought(self) -> Waiting[None]:
        """Read a reasoning up to what closes it."""
        source, form = self._source, self._form
        lead = max((sign.lead for sign in form.thought), key=len, default="")
        held: str | None = "" if self._reasons else None
        source.at = 0

        def tell(text: str) -> None:
            nonlocal held
            if held is not None and (held + text).isspace():
                held += text
            elif text:
                text, held = (held or "") + text, None
                if self._reasons:
                    self._told.tell(Thought(text))
                else:
                    self._told.say(text)

        while True:
            text = source.text
            stop = self._closes(text)
            if stop is not None and stop[1] >= 0:
                at, end, sign = stop
                if self._reasons:
                    tell(text[: length_without(text[:at], sign.lead)])
                    source.at = end
                    yield from source.trail(sign.trail)
                    source.let_go(source.at)
                    starts = [
                        one for one in form.starts
                        if not any(thought.core in one.core for thought in form.thought)
                        and one.core.strip()
                    ]  # fmt: skip
                    yield from source.longest(starts)
                    source.let_go(source.at)
                else:
                    tell(source.let_go(end))
                return
            if source.ended:
                tell(self._without_end(text))
                source.let_go(len(text))
                return
            safe = length_without(text if stop is None else text[: stop[0]], lead)
            safe = min(safe, self._end_at(text[:safe]))
            tell(source.let_go(safe))
            yield from source.more()

    def _closes(self, text: str) -> tuple[int, int, Sign] | None:
        """Find what closes a reasoning: its begin, its end or ``PARTIAL``, and which it is."""
        best: tuple[int, int, Sign] | None = None
        for sign in self._form.thought:
            for at in sign.places(text, 0):
                end = sign.match(text, at)
                if end == PARTIAL and self._source.ended:
                    continue
                if end >= 0 or end == PARTIAL:
                    if best is None or at < best[0] or (at == best[0] and end == PARTIAL):
                        best = (at, end, sign)
                    break
        return best

    def _end_at(self, text: str) -> int:
        """Return where what ends the answer may begin at the end of a text, or its length."""
        for sign in self._endings:
            for at in sign.places(text, max(0, len(text) - 2 * len(sign.core) - 20)):
                end = sign.match(text, at)
                if end == PARTIAL or (end >= 0 and not text[end:].strip()):
                    return length_without(text[:at], sign.lead)
        return len(text)

    def _outside(self) -> Waiting[None]:
        """Read text up to a call, or to the end."""
        source, scan = self._source, 0
        while True:
            text = source.text
            stop = self._exit(scan)
            if stop is None or stop[1] == PARTIAL:
                if source.ended:
                    self._told.say(self._without_end(text))
                    source.let_go(len(text))
                    return
                # white space before a call is none of the text
                safe = text if stop is None else text[: stop[0]]
                self._told.say(source.let_go(len(safe.rstrip())))
                scan = 0
                yield from source.more()
                continue
            at, end, sign = stop
            source.at = end
            yield from source.trail(sign.trail)
            if (yield from self._read_calls(len(text[:at].rstrip()))):
                return
            tried, source.at, scan = source.at, 0, at + 1
            if tried - at > _MOST_TRIED:
                self._told.say(source.let_go(tried))
                scan = 0

    def _exit(self, scan: int) -> tuple[int, int, Sign] | None:
        """Find what leads to a call or ends the answer.

        Returns:
            Where it begins, where it ends and which it is; where it may go on or is an end, where
            its white space begins and ``PARTIAL``; None where there is nothing like it.
        """
        source, text = self._source, self._source.text
        if self._firsts is None:
            return None
        for place in self._firsts.finditer(text, scan):
            at = place.start()
            best: tuple[int, int, Sign] | None = None
            waits: Sign | None = None
            for sign in self._openings:
                if sign.first == text[at]:
                    end = sign.match(text, at)
                    if end >= 0 and (best is None or end > best[1]):
                        best = (at, end, sign)
                    elif end == PARTIAL and not source.ended:
                        waits = max(waits or sign, sign, key=lambda one: len(one.lead))
            for sign in self._endings:
                if sign.first == text[at] and not source.ended:
                    end = sign.match(text, at)
                    if end == PARTIAL or (end >= 0 and not text[end:].strip()):
                        waits = max(waits or sign, sign, key=lambda one: len(one.lead))
            if waits is not None and (best is None or len(waits.core) > best[1] - at):
                return length_without(text[:at], waits.lead), PARTIAL, waits
            if best is not None:
                return best
        return None

    def _without_end(self, text: str) -> str:
        """Return a text without what ends an answer, or as much of it as there is."""
        for sign in self._endings[::-1]:
            for end in _possible_ends(sign):
                if text.endswith(end):
                    return text[: len(text) - len(end)]
        if EOS in self._form.ending.text:
            found = _SPECIAL.search(text)
            rest = text[: found.start()] if found else text
            for end in _possible_ends(self._form.ending):
                if found and rest.endswith(end):
                    return rest[: len(rest) - len(end)]
            return rest
        return text

    # -- calls

    def _read_calls(self, keep: int) -> Waiting[bool]:
        """Read the calls behind what leads to them; False where there is none."""
        source, calls = self._source, self._calls
        assert calls is not None
        is_first = True
        while True:
            text = source.text[:keep] if is_first else ""
            untold = keep if text.strip() or self._told.is_open else 0
            place = source.gone + (untold if is_first else 0)
            found = yield from self._read_call(calls, text, place)
            if found is None:
                return not is_first
            is_first = False
            source.let_go(source.at)
            if not found:
                return True
            if calls.closing.core:
                yield from source.sign(calls.closing)
            source.let_go(source.at)
            if calls.following.core.strip():
                if (yield from source.sign(calls.following)) is not None:
                    source.let_go(source.at if calls.body != "object" else 0)
                    continue
            elif calls.repeats and (yield from source.blank()) and source.text[source.at] == "{":
                continue
            source.at = 0
            yield from self._end_calls(calls)
            return True

    def _read_call(self, calls: Calls | None, text: str, place: int) -> Waiting[bool | None]:
        """Read a call: True where it is whole, None where it is none.

        Args:
            calls: How it is written; None: as a bare object.
        """
        source = self._source
        reading = CallReader(source, self._told, text, self._schemas, calls)
        is_whole = yield from reading.read()
        source.lets_go = False
        if not reading.started:
            return None
        if not is_whole:
            end = len(self._told.parts)
            raw = self._all[place : source.gone + source.at]
            if end > reading.place:  # calls beyond the first may be left out
                self._cut.append((reading.place, end - reading.place, raw))
            self._told.is_open = True
        return is_whole

    def _end_calls(self, calls: Calls) -> Waiting[None]:
        """Pass what ends calls, as far as it is there, and what stands before text behind them."""
        source = self._source
        if calls.ending.core and (yield from source.sign(calls.ending)) is None:
            for token in tags_and_words(calls.ending.core):
                if token.strip() and (yield from source.sign(Sign(token))) is None:
                    break
        if calls.resuming.core.strip():
            yield from source.sign(calls.resuming)
        source.let_go(source.at)
        rest = source.text.strip()
        if rest and source.ended:  # the limit of tokens cut what closes the call
            signs = (calls.closing, calls.ending)
            if any(one.core.lstrip().startswith(rest) for one in signs):
                source.let_go(len(source.text))
        if calls.ending.core.strip() and calls.ending not in self._endings:
            self._endings.append(calls.ending)  # some templates write text before it
            self._firsts = _first_characters((*self._openings, *self._endings))

    def _bare(self) -> Waiting[bool]:
        """Read an answer that is a bare object, or a list of them, where it is a call."""
        source = self._source
        own = self._calls if self._calls is not None and not self._calls.opening.core else None
        fence = yield from source.longest([Sign(one) for one in _FENCES])
        yield from source.blank()
        if (yield from source.peek()) == "[":
            source.at += 1
            yield from source.blank()
        if (yield from source.peek()) != "{":
            source.at = 0
            return False
        is_first = True
        while True:
            found = yield from self._read_call(
                own, "", source.gone if is_first else source.gone + source.at
            )
            if found is None:
                tried, source.at = source.at, 0
                if is_first and tried > _MOST_TRIED:
                    self._told.say(source.let_go(tried))
                return not is_first
            source.let_go(source.at)
            if not found:
                return True
            is_first = False
            while (yield from source.blank()) and source.text[source.at] in ",;]":
                source.at += 1
            source.let_go(source.at)
            if (yield from source.peek()) != "{":
                break
        if fence is not None:
            yield from source.longest([Sign("```")])
            source.let_go(source.at)
        return True


def _first_characters(signs: Sequence[Sign]) -> re.Pattern[str] | None:
    """Return what finds the characters with which signs begin."""
    found = {sign.first for sign in signs if sign.first}
    return re.compile("[" + "".join(map(re.escape, sorted(found))) + "]") if found else None


def _possible_ends(ending: Sign) -> list[str]:
    """Return what may end a text: a sign, and its first tags, the longer before others."""
    whole = ending.text.partition(EOS)[0]
    made, text = [whole, whole.rstrip()] if whole.strip() else [whole], ""
    for token in tags_and_words(whole):
        if len(token) > 2 or (token.isspace() and text in made):
            made.append(text + token)
        text += token
    made.append(ending.lead)
    return sorted({one for one in made if one}, key=len, reverse=True)


def open_reader(
    form: Form,
    tools: Sequence[Mapping[str, Any]] | None = None,
    prompt: str = "",
    *,
    several: bool = True,
    calls: bool = True,
    reasoning: bool = True,
    streams: bool = True,
) -> Reader:
    """Return what reads one answer; the arguments are those of ``AnswerReader``."""
    if form.channels:
        return ChannelReader(tools, several=several, calls=calls, reasoning=reasoning)
    return AnswerReader(
        form, tools, prompt, several=several, calls=calls, reasoning=reasoning, streams=streams
    )


def parse_response(
    template: str,
    text: str,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    prompt: str = "",
    eos: str | None = None,
) -> dict[str, Any]:
    """Take apart what a model wrote, as its chat template writes it.

    Args:
        prompt: What it saw last: its end says whether the answer begins in a reasoning.

    Returns:
        ``content``, a text; ``reasoning_content``, a text or None; ``tool_calls``, None or a list
        with ``id``, ``type`` and ``function``, whose ``arguments`` are JSON.
    """
    parts = open_reader(find_form(template, eos or EOS), tools, prompt, streams=False).finish(text)
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls_in(parts)
    ]
    return {
        "content": text_in(parts),
        "reasoning_content": reasoning_in(parts) or None,
        "tool_calls": calls or None,
    }
