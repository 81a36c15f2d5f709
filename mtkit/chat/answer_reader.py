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

    Match: TypeAlias = tuple[int, Sign]  # where the sign ends, and which it is
    Reader: TypeAlias = "AnswerReader | ChannelReader"


_FENCES = ("<|python_tag|>", "```json", "```")
"""What models put before bare objects; the first is Llama's."""
_SPECIAL = re.compile(r"(?:</s>|<(?:EOS|eos)>|<[|｜][^<>\s]{1,60}[|｜]>)\s*\Z")
_MOST_TRIED = 1000
"""Characters of what turned out to be no call in which another may begin."""


class AnswerReader:
    """Reads an answer piece by piece."""

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
            prompt: What the model saw last; its end says whether the answer begins in a reasoning.
            streams: Return parts as soon as they are certain; otherwise all at the end, where a
                call that is not whole is text.
        """
        self._form, self._reasons, self._streams = form, reasoning, streams
        self._schemas = schemas_by_tool(tools or ())
        self._source = IncomingText()
        self._queue = PartQueue(several=several)
        self._all = ""
        self._cut: list[tuple[int, int, str]] = []
        self._calls = form.calls if calls else None
        self._may_be_bare = calls and (
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
        return self._queue.take()

    def finish(self, text: str = "") -> list[Part]:
        """Return what the end of the answer settles."""
        self._source.text += text
        self._all += text
        self._source.ended = True
        for _ in self._running:
            pass
        if not self._streams:
            for place, count, raw in reversed(self._cut):
                self._queue.parts[place : place + count] = [raw]
                self._queue.called -= 1
        return self._queue.take()

    @property
    def called(self) -> int:
        """How many calls have begun."""
        return self._queue.called

    # -- the answer

    def _run(self, state: str) -> Waiting[None]:
        source = self._source
        if state == "unsaid":
            state = yield from self._find_state()
        if state == "yes":
            yield from self._read_reasoning()
        else:
            yield from self._pass_start()
        may_be_bare = self._may_be_bare
        while source.text or (yield from source.more()):
            if may_be_bare and (yield from self._read_bare_calls()):
                may_be_bare = False
                continue
            may_be_bare = False
            yield from self._read_text()
        self._queue.end()

    def _find_state(self) -> Waiting[str]:
        """Wait for what closes a reasoning whose start the answer need not show."""
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

    def _pass_start(self) -> Waiting[None]:
        """Pass what the text of an answer begins with, or read a reasoning."""
        source, form = self._source, self._form
        thinking = [form.thinking] if form.thinking is not None else []
        starts = [start for start in form.starts if start.core.strip()]
        blank = next((start.text for start in form.starts if not start.core.strip()), "")
        sign = yield from source.longest((*starts, *thinking, *role_signs(form.header)))
        if sign is None:
            yield from source.trail(blank)
            source.let_go(source.at)
            return
        at = source.at
        if sign in thinking:
            if self._reasons:
                source.let_go(at)
            yield from self._read_reasoning()
        elif self._reasons or not any(start.core in sign.core for start in form.thought):
            source.let_go(at)
            if sign not in starts:  # the header was part of the answer
                yield from self._pass_start()
        else:
            source.at = 0

    def _read_reasoning(self) -> Waiting[None]:
        source, form = self._source, self._form
        lead = max((sign.lead for sign in form.thought), key=len, default="")
        blank: str | None = "" if self._reasons else None  # what the reasoning begins with
        source.at = 0

        def tell(text: str) -> None:
            nonlocal blank
            if blank is not None and (blank + text).isspace():
                blank += text
            elif text:
                text, blank = (blank or "") + text, None
                if self._reasons:
                    self._queue.add(Thought(text))
                else:
                    self._queue.add_text(text)

        while True:
            text = source.text
            start, closing = self._find_closing(text)
            if closing is not None:
                end, sign = closing
                if self._reasons:
                    tell(text[: length_without(text[:start], sign.lead)])
                    source.at = end
                    yield from source.trail(sign.trail)
                    source.let_go(source.at)
                    yield from source.longest([
                        sign for sign in form.starts
                        if not any(thought.core in sign.core for thought in form.thought)
                        and sign.core.strip()
                    ])  # fmt: skip
                    source.let_go(source.at)
                else:
                    tell(source.let_go(end))
                return
            if source.ended:
                tell(self._without_end(text))
                source.let_go(len(text))
                return
            safe = length_without(text[:start], lead)
            safe = min(safe, self._end_at(text[:safe]))
            tell(source.let_go(safe))
            yield from source.more()

    def _find_closing(self, text: str) -> tuple[int, Match | None]:
        """Return where what closes a reasoning begins, or may begin, and the whole of it."""
        start, closing = len(text), None
        for sign in self._form.thought:
            for at in sign.places(text, 0):
                end = sign.match(text, at)
                if end == PARTIAL and self._source.ended:
                    continue
                if end >= 0 or end == PARTIAL:
                    if at < start or (at == start and end == PARTIAL):
                        start, closing = at, None if end == PARTIAL else (end, sign)
                    break
        return start, closing

    def _end_at(self, text: str) -> int:
        """Return where a sign that ends the answer may have begun, or the text's length."""
        for sign in self._endings:
            for at in sign.places(text, max(0, len(text) - 2 * len(sign.core) - 20)):
                end = sign.match(text, at)
                if end == PARTIAL or (end >= 0 and not text[end:].strip()):
                    return length_without(text[:at], sign.lead)
        return len(text)

    def _read_text(self) -> Waiting[None]:
        """Read text up to a call, or to the end."""
        source, scan = self._source, 0
        while True:
            text = source.text
            safe, opening = self._find_opening(scan)
            if opening is None:
                if source.ended:
                    self._queue.add_text(self._without_end(text))
                    source.let_go(len(text))
                    return
                # white space before a call is none of the text
                self._queue.add_text(source.let_go(len(text[:safe].rstrip())))
                scan = 0
                yield from source.more()
                continue
            source.at, sign = opening
            yield from source.trail(sign.trail)
            if (yield from self._read_calls(len(text[:safe].rstrip()))):
                return
            tried, source.at, scan = source.at, 0, safe + 1
            if tried - safe > _MOST_TRIED:
                self._queue.add_text(source.let_go(tried))
                scan = 0

    def _find_opening(self, scan: int) -> tuple[int, Match | None]:
        """Find what leads to a call.

        Returns:
            How much of the text is certainly no sign, and what leads to a call right behind that,
            once all of it is there; None too where the answer may end there.
        """
        text = self._source.text
        for place in self._firsts.finditer(text, scan) if self._firsts is not None else ():
            at = place.start()
            opening, pending = self._signs_at(at)
            if pending is not None and (opening is None or len(pending.core) > opening[0] - at):
                return length_without(text[:at], pending.lead), None
            if opening is not None:
                return at, opening
        return len(text), None

    def _signs_at(self, at: int) -> tuple[Match | None, Sign | None]:
        """Return the longest opening at a place, and what may yet turn out to stand there."""
        text, ended = self._source.text, self._source.ended
        opening: Match | None = None
        pending: list[Sign] = []
        for sign in self._openings:
            if sign.first == text[at]:
                end = sign.match(text, at)
                if end >= 0 and (opening is None or end > opening[0]):
                    opening = end, sign
                elif end == PARTIAL and not ended:
                    pending.append(sign)
        for sign in self._endings:
            if sign.first == text[at] and not ended:
                end = sign.match(text, at)
                if end == PARTIAL or (end >= 0 and not text[end:].strip()):
                    pending.append(sign)
        return opening, max(pending, key=lambda sign: len(sign.lead), default=None)

    def _without_end(self, text: str) -> str:
        """Return a text without the sign that ends an answer, or as much of it as is there."""
        for sign in self._endings[::-1]:
            for end in _possible_ends(sign):
                if text.endswith(end):
                    return text[: len(text) - len(end)]
        if EOS in self._form.ending.text:
            special = _SPECIAL.search(text)
            rest = text[: special.start()] if special else text
            for end in _possible_ends(self._form.ending):
                if special and rest.endswith(end):
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
            untold = keep if text.strip() or self._queue.is_open else 0
            place = source.gone + (untold if is_first else 0)
            is_whole = yield from self._read_call(calls, text, place)
            if is_whole is None:
                return not is_first
            is_first = False
            source.let_go(source.at)
            if not is_whole:
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
        """Read a call: True where it is whole, None where it is none."""
        source = self._source
        reader = CallReader(source, self._queue, text, self._schemas, calls)
        is_whole = yield from reader.read()
        source.lets_go = False
        if not reader.started:
            return None
        if not is_whole:
            end = len(self._queue.parts)
            raw = self._all[place : source.gone + source.at]
            if end > reader.place:  # calls beyond the first may be left out
                self._cut.append((reader.place, end - reader.place, raw))
            self._queue.is_open = True
        return is_whole

    def _end_calls(self, calls: Calls) -> Waiting[None]:
        """Pass what ends calls, as far as it is there, and what stands before further text."""
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
            if any(sign.core.lstrip().startswith(rest) for sign in signs):
                source.let_go(len(source.text))
        if calls.ending.core.strip() and calls.ending not in self._endings:
            self._endings.append(calls.ending)  # some templates write text before it
            self._firsts = _first_characters((*self._openings, *self._endings))

    def _read_bare_calls(self) -> Waiting[bool]:
        """Read an answer that is a bare object, or a list of them, where it is a call."""
        source = self._source
        own = self._calls if self._calls is not None and not self._calls.opening.core else None
        fence = yield from source.longest([Sign(text) for text in _FENCES])
        yield from source.blank()
        if (yield from source.peek()) == "[":
            source.at += 1
            yield from source.blank()
        if (yield from source.peek()) != "{":
            source.at = 0
            return False
        is_first = True
        while True:
            is_whole = yield from self._read_call(
                own, "", source.gone if is_first else source.gone + source.at
            )
            if is_whole is None:
                tried, source.at = source.at, 0
                if is_first and tried > _MOST_TRIED:
                    self._queue.add_text(source.let_go(tried))
                return not is_first
            source.let_go(source.at)
            if not is_whole:
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
    characters = {sign.first for sign in signs if sign.first}
    return (
        re.compile("[" + "".join(map(re.escape, sorted(characters))) + "]") if characters else None
    )


def _possible_ends(ending: Sign) -> list[str]:
    """Return what may end a text: a sign or its first tags, the longest first."""
    whole = ending.text.partition(EOS)[0]
    ends, text = [whole, whole.rstrip()] if whole.strip() else [whole], ""
    for token in tags_and_words(whole):
        if len(token) > 2 or (token.isspace() and text in ends):
            ends.append(text + token)
        text += token
    ends.append(ending.lead)
    return sorted({end for end in ends if end}, key=len, reverse=True)


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
    """Parse what a model wrote, by the form of its chat template.

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
