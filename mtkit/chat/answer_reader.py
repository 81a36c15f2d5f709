"""An answer, read while a model writes it, or whole: reasoning, text, calls of tools.

What does not read as a call stays text, and so do signs of a form where they end nothing.
"""

from __future__ import annotations

import re

from mtkit.base.record import replace
from mtkit.chat.answer import (
    CallStart,
    CallText,
    PartQueue,
    Thought,
    closing_halves,
    empty_thoughts,
    reasoning_openings,
    reasoning_state,
    response_of,
    role_signs,
    schemas_by_tool,
    sign_lead,
)
from mtkit.chat.answer_analysis import find_form
from mtkit.chat.call_reader import CallReader
from mtkit.chat.channels import ChannelReader
from mtkit.chat.signs import (
    EOS,
    NO_MATCH,
    PARTIAL,
    IncomingText,
    Sign,
    length_without,
    tags_and_words,
)
from mtkit.chat.small_forms import FENCES, IN_TEXT, LISTED, OBJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    from mtkit.chat.answer import Calls, Form, Part
    from mtkit.chat.signs import Waiting

    Match: TypeAlias = tuple[int, Sign]  # where the sign ends, and which it is
    Opening: TypeAlias = tuple[int, Sign, Calls]  # the calls behind it, too
    Reader: TypeAlias = "AnswerReader | ChannelReader"


_PYTHON_TAG = "<|python_tag|>"
"""What Llama puts before bare objects."""
_SPECIAL = re.compile(r"(?:</s>|<(?:EOS|eos)>|<[|｜][^<>\s]{1,60}[|｜]>)\s*\Z")
_NAME_START = re.compile(
    r'"(?:name|tool_name|function_name)"\s*:\s*"([^"]*)(?:"\s*(?:,[^{}]*)?)?\Z'
)
"""An object that ends in its name or behind it."""
_MOST_TRIED = 1000
"""Characters of what turned out to be no call in which another may begin."""
_LEAST_CUT = 3
"""Characters of a sign that a text must end with to be taken for one that was cut."""
_MOST_SIGN = 120


class AnswerReader:
    """Reads an answer piece by piece.

    Attributes:
        reasoned: How many of the pieces were of the reasoning, with its signs.
    """

    def __init__(
        self,
        form: Form,
        tools: Sequence[Mapping[str, Any]] | None = None,
        prompt: str = "",
        *,
        several: bool = True,
        calls: bool = True,
        reasoning: bool = True,
        state: str = "",
    ) -> None:
        """Begin an answer.

        Args:
            tools: What may be called, in OpenAI's form or as functions; None: not known.
            prompt: What the model saw last; its end says whether the answer begins in a reasoning.
            state: Whether it does, as ``reasoning_state`` says it, where that is known.
        """
        self._form, self._tools, self._reasons = form, tools, reasoning
        self._schemas = schemas_by_tool(tools or ())
        self._source = IncomingText()
        self._queue = PartQueue(several=several)
        self._calls = form.calls if calls else None
        self._is_cut = self._is_whole = False
        self._may_be_bare = calls and (
            bool(self._schemas)
            or (tools is None and form.calls is not None and not form.calls.opening.core)
        )
        self._openings = self._find_openings()
        self._closings = [*form.thought, *closing_halves(form)]
        self._endings = [form.ending] if form.ending.core.partition(EOS)[0].strip() else []
        if form.ending.core and not form.ending.core.strip():
            self._endings = [form.ending]
        if reasoning:
            self._endings += empty_thoughts(form)
        self._firsts = self._first_characters()
        state = state or reasoning_state(form, prompt)
        self._source.text = sign_lead(form, prompt) if state == "no" else ""
        self._lead_length = len(self._source.text)
        self._thinks: bool | None = None if state == "unsaid" else state == "yes"
        self.reasoned = self._unsaid = 0
        if self._thinks and not reasoning:
            self._queue.add_text(_opening_in(prompt, form))
        self._running = self._run(state)
        next(self._running, None)

    def push(self, text: str) -> list[Part]:
        """Return what further text settles."""
        thought = self._thinks
        self._source.text += text
        next(self._running, None)
        self._unsaid += thought is None
        if thought is None and self._thinks:
            self.reasoned += self._unsaid
        else:
            self.reasoned += bool(thought or self._thinks)
        return self._queue.take()

    def finish(self, text: str = "", *, is_cut: bool = False) -> list[Part]:
        """Return what the end of the answer settles.

        Args:
            is_cut: A limit ended it: what may begin a call at its end is none of the text.
        """
        self._source.text += text
        self._source.ended, self._is_cut = True, is_cut
        for _ in self._running:
            pass
        return self._queue.take()

    @property
    def called(self) -> int:
        """How many calls have begun."""
        return self._queue.called

    def _find_openings(self) -> list[tuple[Sign, Calls]]:
        """Return what may lead to a call, each with the form of the calls behind it."""
        own = self._calls
        openings = [(sign, own) for sign in own.openings] if own is not None else []
        if self._schemas and self._may_be_bare:
            texts = {sign.core for sign, _ in openings}
            if own is not None:
                openings += [(Sign(fence + text), own) for fence in FENCES for text in texts]
            openings += [
                (sign, calls) for calls in IN_TEXT for sign in calls.openings
                if sign.core not in texts
            ]  # fmt: skip
        return openings

    def _first_characters(self) -> re.Pattern[str] | None:
        signs = [*(sign for sign, _ in self._openings), *self._endings]
        characters = {sign.first for sign in signs if sign.first}
        text = "".join(map(re.escape, sorted(characters)))
        return re.compile(f"[{text}]") if text else None

    # -- the answer

    def _run(self, state: str) -> Waiting[None]:
        source = self._source
        if state == "unsaid":
            state = yield from self._find_state()
        if state == "yes":
            yield from source.longest(reasoning_openings(self._form))  # models open it again
            source.let_go(source.at)
            yield from self._read_reasoning()
        else:
            self._thinks = False
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
        source, form, scan = self._source, self._form, 0
        while True:
            text = source.text
            start = len(text) - len(text.lstrip())
            if form.thinking is not None and form.thinking.match(text, start) >= 0:
                return "no"
            waits = len(text)  # places before it are ruled out
            for sign in form.thought:
                for at in sign.places(text, scan):
                    end = sign.match(text, at)
                    if end >= 0:
                        return "yes"
                    if end == PARTIAL:
                        waits = min(waits, at)
                        break
            scan = waits
            if not (yield from source.more()):
                return "no"

    def _pass_start(self) -> Waiting[None]:
        """Pass what the text of an answer begins with, or read a reasoning."""
        source, form = self._source, self._form
        thinking = reasoning_openings(form)
        starts = [start for start in form.starts if start.core.strip()]
        blank = next((start.text for start in form.starts if not start.core.strip()), "")
        signs = *starts, *thinking, *role_signs(form.header)
        while True:
            sign = yield from source.longest(signs)
            if sign is None:
                yield from source.trail(blank)
                source.let_go(source.at)
                return
            at = source.at
            if sign in thinking:
                if self._reasons:
                    source.let_go(at)
                yield from self._read_reasoning()
                return
            is_lead, self._lead_length = at <= self._lead_length, 0
            if self._reasons or not any(start.core in sign.core for start in form.thought):
                source.let_go(at)
                if is_lead or sign not in starts:  # the header was part of the answer
                    continue
            else:
                source.at = 0
                if is_lead:  # the prompt has all of it
                    source.let_go(at)
            return

    def _read_reasoning(self) -> Waiting[None]:
        """Read a reasoning up to what closes it, or to a call at the end of the answer."""
        self._thinks = True
        source, scan = self._source, 0
        lead = max((sign.lead for sign in self._form.thought), key=len, default="")
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
            opens, opening = self._find_opening(scan)
            if opening is not None and opens < start:
                before = len(text[:opens].rstrip())
                tell(source.let_go(before))
                source.let_go(opens - before)
                passed = yield from self._try_calls()
                if not passed:
                    break
                space = text[before:opens]  # it may be of a sign that ends the answer
                source.text, scan = space + source.text, len(space) + passed
                continue
            if closing is not None:
                yield from self._close_reasoning(start, closing, tell)
                break
            if source.ended:
                tell(self._without_end(text))
                source.let_go(len(text))
                break
            safe = length_without(text[: min(start, opens)], lead)
            safe = min(safe, self._end_at(text[:safe]))
            if self._openings:  # white space before a call is none of the reasoning
                safe = len(text[:safe].rstrip())
            tell(source.let_go(safe))
            scan = max(0, scan - safe)
            yield from source.more()
        self._thinks = False

    def _close_reasoning(
        self, start: int, closing: Match, tell: Callable[[str], None]
    ) -> Waiting[None]:
        """Tell the last of a reasoning, and pass what closes it."""
        source, (end, sign), thought = self._source, closing, self._form.thought
        if self._reasons:
            tell(source.text[: length_without(source.text[:start], sign.lead)])
            source.at = end
            yield from source.trail(sign.trail)
            source.let_go(source.at)
        else:
            signs = (s for s in self._closings if any(t.core.startswith(s.core) for t in thought))
            ends = [at for sign in signs if (at := sign.match(source.text, start)) >= 0]
            tell(source.text[: min(ends, default=start)])
            source.let_go(end)
        yield from source.longest([
            sign for sign in self._form.starts
            if not any(close.core in sign.core for close in thought) and sign.core.strip()
        ])  # fmt: skip
        source.let_go(source.at)

    def _try_calls(self) -> Waiting[int]:
        """Read the calls that a reasoning seems to end with, with a reader of their own.

        They count if they are whole, name tools, and nothing stands behind them.

        Returns:
            How much of the text is no such call; 0 where all of it is, and told.
        """
        source, read, scan = self._source, 0, 1
        trial = AnswerReader(self._form, self._tools, state="no")
        parts: list[Part] = []
        while True:
            is_last = source.ended
            end, opening = self._find_opening(scan)  # a piece ends where another may begin
            if end > read:
                more = trial.push(source.text[read:end])
                if not all(map(self._is_of_call, more)):
                    return read or end
                parts += more
                read = end
            scan = max(scan, end) + (opening is not None)
            if opening is None:
                if is_last:
                    break
                yield from source.more()
        parts += trial.finish(is_cut=self._is_cut)
        if not trial.ends_whole or not all(map(self._is_of_call, parts)):
            return read
        for part in parts:
            if isinstance(part, CallStart):
                self._queue.start_call(part)
            else:
                self._queue.add(part)
        source.let_go(read)
        return 0

    def _is_of_call(self, part: Part) -> bool:
        if isinstance(part, CallStart):
            return self._tools is None or part.name in self._schemas
        return isinstance(part, CallText)

    @property
    def ends_whole(self) -> bool:
        """Whether the answer has calls, and the last one is whole."""
        return self.called > 0 and self._is_whole

    def _find_closing(self, text: str) -> tuple[int, Match | None]:
        """Return where what closes a reasoning begins, or may begin, and the whole of it."""
        start, closing = len(text), None
        for sign in self._closings:
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
                    self._queue.add_text(self._without_end(text[: self._cut_at(text)]))
                    source.let_go(len(text))
                    return
                # white space before a call is none of the text
                upto = len(text[:safe].rstrip())
                self._queue.add_text(source.let_go(upto))
                scan = safe - upto
                yield from source.more()
                continue
            source.at, sign, calls = opening
            before = len(text[:safe].rstrip())
            self._queue.add_text(source.let_go(before))
            safe -= before
            yield from source.trail(sign.trail)
            if (yield from self._read_calls(calls, is_fenced=sign.core.startswith("```"))):
                return
            if source.has_run_out and self._drops_rest(calls, source.text[safe:]):
                source.let_go(len(source.text))
                return
            tried, source.at, scan = source.at, 0, safe + 1
            if tried - safe > _MOST_TRIED:
                self._queue.add_text(source.let_go(tried))
                scan = 0

    def _drops_rest(self, calls: Calls | None, text: str) -> bool:
        """Whether a text at the end of the answer can only be a call whose name was cut."""
        if self.called:
            return True
        if not self._is_cut or not self._schemas:
            return False
        if calls is not None and calls is self._calls and calls.opening.core:
            return True
        start = _NAME_START.search(text)
        return start is not None and any(name.startswith(start[1]) for name in self._schemas)

    def _cut_at(self, text: str) -> int:
        """Return where a sign begins that was cut; the length of the text where none was."""
        calls = self._calls
        if calls is None or not (self.called or (self._is_cut and self._schemas)):
            return len(text)
        signs = [*calls.openings, *((calls.following, calls.closing) if self.called else ())]
        least = 1 if self.called else _LEAST_CUT
        for at in range(max(0, len(text) - _MOST_SIGN), len(text) - least + 1):
            for sign in signs:
                if sign.first == text[at] and sign.match(text, at) == PARTIAL:
                    return len(text[:at].rstrip())
        return len(text)

    def _find_opening(self, scan: int) -> tuple[int, Opening | None]:
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

    def _signs_at(self, at: int) -> tuple[Opening | None, Sign | None]:
        """Return the longest opening at a place, and what may yet turn out to stand there."""
        text, ended = self._source.text, self._source.ended
        opening: Opening | None = None
        pending: list[Sign] = []
        for sign, calls in self._openings:
            if sign.first == text[at]:
                end = sign.match(text, at)
                if end >= 0 and (opening is None or end > opening[0]):
                    opening = end, sign, calls
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
        ends = [end for sign in self._endings for end in _possible_ends(sign) if text.endswith(end)]
        if ends:
            return text[: len(text) - max(map(len, ends))]
        if EOS in self._form.ending.text:
            special = _SPECIAL.search(text)
            rest = text[: special.start()] if special else text
            for end in _possible_ends(self._form.ending):
                if special and rest.endswith(end):
                    return rest[: len(rest) - len(end)]
            return rest
        return text

    # -- calls

    def _read_calls(self, calls: Calls, *, is_fenced: bool = False) -> Waiting[bool]:
        """Read the calls behind what leads to them; False where there is none."""
        source = self._source
        is_first, form = True, calls
        while True:
            begin = source.at
            is_whole = yield from self._read_call(form, is_small=form is not self._calls)
            if is_whole is None and is_first and form.body != "object" and self._schemas:
                form, source.at = replace(OBJECT, following=calls.following), begin
                if not source.text.startswith(("{", "["), begin):
                    return False
                source.at += source.text[begin] == "["
                continue
            if is_whole is None:
                if not is_first and source.has_run_out:  # another one was cut in its name
                    source.let_go(len(source.text))
                return not is_first
            is_first = False
            source.let_go(source.at)
            if not is_whole and not (yield from self._read_rest(form)):
                return True
            yield from self._pass_braces(calls)
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
            yield from self._end_calls(calls, is_fenced=is_fenced)
            return True

    def _read_call(self, calls: Calls | None, *, is_small: bool = False) -> Waiting[bool | None]:
        """Read a call: True where it is whole, None where it is none."""
        source = self._source
        source.has_run_out = False
        reader = CallReader(source, self._queue, self._schemas, calls, only_tools=is_small)
        is_whole = yield from reader.read()
        source.lets_go = False
        if not reader.started:
            return None
        self._is_whole = is_whole
        if not is_whole and source.has_run_out:  # the end of a value that was cut
            source.at = len(source.text)
        self._queue.is_open = not is_whole
        return is_whole

    def _read_rest(self, calls: Calls) -> Waiting[bool]:
        """Add what follows a mistake in the JSON of a call to it, up to what ends the call.

        The client sees all that the model wrote, and no sign of the call is text.

        Returns:
            Whether the end is there; False, too, where nothing would tell it.
        """
        source = self._source
        signs = [sign for sign in (calls.closing, calls.ending) if len(sign.core) > 1]
        if calls.body == "pairs" or not signs or source.has_run_out:
            return False
        while True:
            text, at = source.text, len(source.text)
            for sign in signs:
                places = sign.places(text, 0)
                at = min(at, next((p for p in places if sign.match(text, p) != NO_MATCH), at))
            if rest := source.let_go(len(text[:at].rstrip())):
                self._queue.add(CallText(rest))
            at = len(source.text) - len(source.text.lstrip())
            if any(sign.match(source.text, at) >= 0 for sign in signs):
                source.let_go(at)
                self._queue.is_open = False
                return True
            if not (yield from source.more()):
                source.let_go(len(source.text))
                return False

    def _pass_braces(self, calls: Calls) -> Waiting[None]:
        """Pass braces behind an object that close nothing, where the call ends behind them."""
        source, start = self._source, self._source.at
        if calls.body == "pairs" or not (yield from source.blank()):
            return
        end = source.at
        while (yield from source.blank()) and source.text[source.at] == "}":
            source.at += 1
            end = source.at
        unlisted = Sign(calls.ending.core.removeprefix("]").strip())
        signs = [calls.closing, calls.following, calls.ending, unlisted]
        signs = [sign for sign in signs if sign.core]
        is_end = not (yield from source.blank()) or (yield from source.longest(signs)) is not None
        source.at = end if is_end and end > start else start

    def _end_calls(self, calls: Calls, *, is_fenced: bool) -> Waiting[None]:
        """Pass what ends calls, as far as it is there, and what stands before further text."""
        source = self._source
        if calls.ending.core and (yield from source.sign(calls.ending)) is None:
            for token in tags_and_words(calls.ending.core):
                if not token.strip() or (yield from source.sign(Sign(token))) is not None:
                    continue
                if token.isalnum() or len(token) > 1:  # a bracket may be missing
                    break
        if is_fenced:
            yield from source.sign(Sign("```"))
        if calls.resuming.core.strip():
            yield from source.sign(calls.resuming)
        source.let_go(source.at)
        rest = source.text.strip()
        if rest and source.ended:  # the limit of tokens cut what closes the call
            for sign in (calls.closing, calls.ending):
                tokens = tags_and_words(sign.core)
                if any("".join(tokens[at:]).startswith(rest) for at in range(len(tokens))):
                    source.let_go(len(source.text))
        if calls.ending.core.strip() and calls.ending not in self._endings:
            self._endings.append(calls.ending)  # some templates write text before it
            self._firsts = self._first_characters()

    def _read_bare_calls(self) -> Waiting[bool]:
        """Read an answer that is a bare object, or a list of calls."""
        source = self._source
        own = self._calls if self._calls is not None and not self._calls.opening.core else None
        yield from source.longest([Sign(_PYTHON_TAG)])
        yield from source.blank()
        if (yield from source.peek()) == "[":
            source.at += 1
            yield from source.blank()
            if (yield from source.peek()) != "{":
                if self._schemas and (yield from self._read_calls(LISTED)):
                    return True
                source.at = 0
                return False
        if (yield from source.peek()) != "{":
            source.at = 0
            return False
        is_first = True
        while True:
            is_whole = yield from self._read_call(own)
            if is_whole is None:
                if source.has_run_out and self._drops_rest(own, source.text):
                    source.let_go(len(source.text))
                    return True
                tried, source.at = source.at, 0
                if is_first and tried > _MOST_TRIED:
                    self._queue.add_text(source.let_go(tried))
                return not is_first
            source.let_go(source.at)
            if not is_whole:
                return True
            is_first = False
            while (yield from source.blank()) and source.text[source.at] in ",;]}":
                source.at += 1
            source.let_go(source.at)
            if (yield from source.peek()) != "{":
                break
        return True


def _opening_in(prompt: str, form: Form) -> str:
    """Return what a prompt ends with to open a reasoning; nothing where it has begun already."""
    at = prompt.rfind(form.thinking.core.strip()) if form.thinking is not None else -1
    opening = prompt[at:] if at >= 0 else ""
    return opening if form.thinking is not None and opening.strip() == form.thinking.core else ""


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
) -> Reader:
    """Return what reads one answer; the arguments are those of ``AnswerReader``."""
    if form.channels:
        return ChannelReader(tools, prompt, several=several, calls=calls, reasoning=reasoning)
    return AnswerReader(form, tools, prompt, several=several, calls=calls, reasoning=reasoning)


def parse_response(
    template: str,
    text: str,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    prompt: str = "",
    eos: str | None = None,
) -> dict[str, Any]:
    """Parse what a model wrote, by its template's form, into what ``response_of`` says."""
    return response_of(open_reader(find_form(template, eos or EOS), tools, prompt).finish(text))
