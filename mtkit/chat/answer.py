"""An answer of a model: how it is written (``Form``), and the parts that it is read into.

``answer_analysis`` finds the form of a chat template, ``answer_reader`` reads by it. Form and
prompt together say where an answer starts: inside a reasoning or not, and behind how much of a sign
that the prompt ends with.

An answer is a stream of parts: ``str`` is text for the user, ``Thought`` a piece of reasoning. A
call of a tool is one ``CallStart`` and any number of ``CallText``, up to the next part of another
kind.
"""

from __future__ import annotations

import json
import secrets

from mtkit.base.record import Record
from mtkit.chat.signs import EOS, KEY, Sign, tags_and_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Literal, TypeAlias

    from mtkit.chat.probes import Switch

    Body = Literal["object", "arguments", "pairs"]

    Leads = Literal["no", "unsaid", "always"]

    Part: TypeAlias = "str | Thought | CallStart | CallText"


LITERAL_WORDS = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}
_MOST_DEPTH = 60
_MOST_STEPS = 20_000


class Notation(Record):
    """A template's own notation of lists and objects, marked up or bracketed.

    It is parsed by trying: what is not a whole list or object is a scalar.

    Attributes:
        items: What opens a list, separates its values, closes it; empty where lists are not known.
        members: What opens an object, follows a key, stands between value and key, closes it.
    """

    quotes: tuple[str, str]
    items: tuple[str, str, str]
    members: tuple[str, str, str, str]

    def parse(self, text: str) -> Any:
        """Parse a value; a ValueError where it could only be a text without quotes."""
        for value, end in _Attempt(self, text).values(0, 0):
            if end == len(text) and not (isinstance(value, str) and not self.quotes[0]):
                return value
        raise ValueError


class _Attempt:
    def __init__(self, notation: Notation, text: str) -> None:
        self._notation, self._text, self._steps = notation, text, 0

    def values(self, at: int, depth: int) -> Iterator[tuple[Any, int]]:
        """Yield the values that may stand at a place, each with its end."""
        self._steps += 1
        if depth > _MOST_DEPTH or self._steps > _MOST_STEPS:
            raise ValueError
        text, notation = self._text, self._notation
        if notation.items[1] and text.startswith(notation.items[0], at):
            yield from self._items(at + len(notation.items[0]), [], depth)
        if notation.members[1] and text.startswith(notation.members[0], at):
            yield from self._members(at + len(notation.members[0]), {}, depth)
        opening, closing = notation.quotes
        if opening and text.startswith(opening, at):
            end = text.find(closing, at + len(opening))
            while end >= 0:
                yield text[at + len(opening) : end], end + len(closing)
                end = text.find(closing, end + 1)
            return
        stops = [stop for stop in (*notation.items[1:], *notation.members[2:]) if stop]
        ends = {len(text)}
        for stop in stops:
            stop = stop.partition(KEY)[0]
            end = text.find(stop, at)
            while end >= 0 and len(ends) < 100:
                ends.add(end)
                end = text.find(stop, end + 1)
        for end in sorted(ends):
            try:
                value = parse_scalar(text[at:end], plain=not opening)
            except ValueError:
                continue
            yield value, end

    def _items(self, at: int, items: list[Any], depth: int) -> Iterator[tuple[Any, int]]:
        _, between, closing = self._notation.items
        if not items and self._text.startswith(closing, at):
            yield [], at + len(closing)
        for value, end in self.values(at, depth + 1):
            if self._text.startswith(closing, end):
                yield [*items, value], end + len(closing)
            if self._text.startswith(between, end):
                yield from self._items(end + len(between), [*items, value], depth + 1)

    def _members(self, at: int, members: dict[str, Any], depth: int) -> Iterator[tuple[Any, int]]:
        _, colon, between, closing = self._notation.members
        if not members and closing and self._text.startswith(closing, at):
            yield {}, at + len(closing)
        key_end = self._text.find(colon, at)
        if key_end < 0:
            return
        key = self._text[at:key_end]
        if not key or len(key) > 200:
            return
        after, last = between.replace(KEY, key), closing.replace(KEY, key)
        for value, end in self.values(key_end + len(colon), depth + 1):
            more = {**members, key: value}
            if self._text.startswith(last, end):
                yield more, end + len(last)
            if self._text.startswith(after, end):
                yield from self._members(end + len(after), more, depth + 1)


def parse_scalar(text: str, *, plain: bool) -> Any:
    """Parse a number, true, false or null; any other text only if ``plain``."""
    if text in LITERAL_WORDS:
        return LITERAL_WORDS[text]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, (int, float)):
        return value
    if plain:
        return text
    raise ValueError


class Pair(Record):
    """What stands around the value of an argument.

    Attributes:
        kinds: Types of the values that are written this way: "string", "number", "boolean" …
    """

    opening: Sign
    kinds: frozenset[str]
    following: Sign
    closing: Sign


class Pairs(Record):
    """Arguments that are written one by one.

    Attributes:
        pairs: How values are written, the more specific first.
        quotes: What a text may be wrapped in besides: opening and closing.
        notation: How lists and objects are written; None: as JSON, or as Python does.
    """

    first: Sign
    empty: Sign
    pairs: tuple[Pair, ...]
    quotes: tuple[tuple[str, str], ...]
    notation: Notation | None


class Calls(Record):
    """How calls of tools are written.

    Attributes:
        opening: What leads to a call; empty where calls are bare objects.
        openings: The opening as it may be written: with what may stand before it, without what may
            be left out; longest first.
        body: "object": a JSON object with name and arguments; "arguments": the head and a JSON
            object; "pairs": the head and the arguments one by one.
        keys: The keys of name, arguments and id in an object; all empty where the name is the one
            key of the object.
        head: Names of holes ("name", "id") and the signs behind them, up to the arguments.
        resuming: Between the last call and text behind it.
        sample: What is written before and after the arguments of one call, with holes; None where
            they are no JSON object.
    """

    opening: Sign
    openings: tuple[Sign, ...]
    body: Body
    keys: tuple[str, str, str]
    head: tuple[str | Sign, ...]
    pairs: Pairs | None
    closing: Sign
    repeats: bool
    following: Sign
    ending: Sign
    resuming: Sign
    sample: tuple[str, str] | None


class Form(Record):
    """How a model writes answers.

    Attributes:
        opening: The end of a generation prompt, from the user's message on.
        thinking: What opens a reasoning; None where nothing does.
        leads: Whether a reasoning begins without a sign: "always", or "unsaid": only what closes it
            tells.
        calls: How calls are written; None where that is not known.
        channels: Answers are messages of channels (``channels``).
        switch: Variables that turn thinking on or off, with both values (``probes.find_switch``).
    """

    opening: str
    header: str
    starts: tuple[Sign, ...]
    thinking: Sign | None
    thought: tuple[Sign, ...]
    leads: Leads
    ending: Sign
    calls: Calls | None
    text_arguments: bool = False
    shows_tools: bool = True
    shows_calls: bool = True
    shows_results: bool = True
    channels: bool = False
    switch: Switch = ()

    def thinking_values(self, *, thinks: bool) -> dict[str, Any]:
        """Return the variables of the template with which the model thinks, or does not."""
        return {name: on if thinks else off for name, on, off in self.switch}

    @property
    def signs(self) -> list[str]:
        """The texts of all signs."""
        signs = [*self.starts, *self.thought, *([self.thinking] if self.thinking else [])]
        if calls := self.calls:
            signs += [*calls.openings, calls.closing, calls.following, calls.ending]
            signs += [sign for sign in calls.head if isinstance(sign, Sign)]
            if pairs := calls.pairs:
                signs += [pairs.first, pairs.empty]
                for pair in pairs.pairs:
                    signs += [pair.opening, pair.following, pair.closing]
        return [sign.text.partition(EOS)[0] for sign in signs]


def role_signs(header: str) -> list[Sign]:
    """Return the ways in which an answer may begin whose header was not part of the prompt."""
    parts = tags_and_words(header)
    places = [at for at, token in enumerate(parts) if token[0] in "<[" and len(token) > 2]
    return [Sign("".join(parts[at:])) for at in places]


def begins_in_reasoning(form: Form, prompt: str) -> bool:
    """Whether an answer to a prompt begins inside a reasoning."""
    return reasoning_state(form, prompt) == "yes"


def reasoning_state(form: Form, prompt: str) -> str:
    """Return whether an answer begins inside a reasoning: "yes", "no", or "unsaid"."""
    if form.leads == "always":
        return "yes"
    is_open = opens_reasoning(prompt or form.opening, form)
    if form.leads == "unsaid":
        return "yes" if is_open and prompt and not _has_plain_texts(form) else "unsaid"
    return ("yes" if prompt else "unsaid") if is_open else "no"


def _has_plain_texts(form: Form) -> bool:
    """Whether plain texts, too, stand behind what opens a reasoning."""
    thinking = form.thinking
    return thinking is not None and any(start.text.endswith(thinking.text) for start in form.starts)


def opens_reasoning(prompt: str, form: Form) -> bool:
    """Whether a prompt ends inside a reasoning."""
    if form.thinking is None:
        return False
    core, header = form.thinking.core.rstrip(), form.header.strip()
    at = prompt.rfind(core)
    if at < 0 or not core:
        return False
    behind = prompt[at + len(core) :]
    if not behind.strip():
        return True
    is_last = bool(header) and prompt.rfind(header) < at
    return is_last and not any(sign.core in behind for sign in form.thought)


def is_reasoning_closed(prompt: str, form: Form) -> bool:
    """Whether no reasoning can begin behind a prompt: more than a turn's header stands there."""
    header = form.header.strip()
    has_both = form.thinking is not None and form.thinking.core.strip() in header
    return has_both or not header or not prompt.rstrip().endswith(header)


def sign_lead(form: Form, prompt: str) -> str:
    """Return the end of a prompt with which a sign may have begun."""
    signs = [*form.starts, *([form.thinking] if form.thinking is not None else [])]
    if form.calls is not None:
        signs.append(form.calls.opening)
    best = ""
    for sign in signs:
        for length in range(min(len(sign.core), len(prompt)), len(best), -1):
            lead = sign.core[:length]
            if not prompt.endswith(lead):
                continue
            if not (lead[0].isalnum() and prompt[: len(prompt) - length][-1:].isalnum()):
                best = lead
            break
    return best if best.strip() else ""


def empty_thoughts(form: Form) -> list[Sign]:
    """Return what models of a form with control tokens leave behind a text: thoughts of nothing."""
    closing = form.thought[0].core if form.thought else ""
    if form.thinking is None or "|" not in closing:
        return []
    empty = form.thinking.text + closing
    return [Sign(closing), Sign(empty), Sign(empty + closing)]


def reasoning_openings(form: Form) -> list[Sign]:
    """Return what opens a reasoning, with its first control token once or, as by Gemma 4, twice."""
    if form.thinking is None:
        return []
    token = _control_token(form.thinking)
    return [form.thinking, *([Sign(token + form.thinking.text)] if token else [])]


def closing_halves(form: Form) -> list[Sign]:
    """Return the halves of what closes a reasoning, where another part opens as a reasoning does.

    Kimi K3 goes on to its response without closing the reasoning, or from there to its calls.
    """
    token = _control_token(form.thinking) if form.thinking is not None else ""
    places = [(sign.core, sign.core.rfind(token)) for sign in form.thought if token]
    return [Sign(half) for core, at in places if at > 0 for half in (core[:at], core[at:])]


def _control_token(sign: Sign) -> str:
    token = tags_and_words(sign.core)[0]
    return token if "|" in token and token != sign.core else ""


class Thought(Record):
    """A piece of a model's reasoning."""

    text: str


def new_call_id() -> str:
    """Return nine random letters and digits, which is what Mistral's templates take."""
    return secrets.token_hex(5)[:9]


class CallStart(Record):
    """The start of a call of a tool."""

    id: str
    name: str


class CallText(Record):
    """A piece of the arguments of the call that began last: the JSON text of an object."""

    text: str


class Call(Record):
    """A whole call."""

    id: str
    name: str
    arguments: str


def text_in(parts: Iterable[Part]) -> str:
    """Return the text for the user."""
    return "".join(part for part in parts if isinstance(part, str))


def reasoning_in(parts: Iterable[Part]) -> str:
    """Return the reasoning."""
    return "".join(part.text for part in parts if isinstance(part, Thought))


def calls_in(parts: Iterable[Part]) -> list[Call]:
    """Return the calls."""
    calls: list[tuple[CallStart, list[str]]] = []
    for part in parts:
        if isinstance(part, CallStart):
            calls.append((part, []))
        elif isinstance(part, CallText):
            calls[-1][1].append(part.text)
    return [Call(start.id, start.name, "".join(texts)) for start, texts in calls]


def response_of(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the parts of a whole answer in the form of transformers' ``parse_response``.

    Returns:
        ``content``, a text; ``reasoning_content``, a text or None; ``tool_calls``, None or a list
        with ``id``, ``type`` and ``function``, whose ``arguments`` are JSON.
    """
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


class PartQueue:
    """The parts of an answer that are settled and not yet handed on."""

    def __init__(self, *, several: bool) -> None:
        """Begin; without ``several`` the calls beyond the first are left out."""
        self._several = several
        self.parts: list[Part] = []
        self._blank, self.is_open = "", False
        self.called = 0

    def add_text(self, text: str) -> None:
        """Add text; white space alone waits for more."""
        if not text:
            return
        if not self.is_open and text.isspace():
            self._blank += text
            return
        self.parts.append(self._blank + text)
        self._blank, self.is_open = "", True

    def start_call(self, part: CallStart) -> None:
        """Add the start of a call; white space alone before it is no text."""
        self._blank, self.is_open = "", False
        self.called += 1
        self.add(part)

    def add(self, part: Part) -> None:
        """Add a reasoning, or a part of a call."""
        if isinstance(part, Thought) or self._several or self.called <= 1:
            self.parts.append(part)

    def end(self) -> None:
        """Add the white space, if nothing else came."""
        if self._blank and not self.called:
            self.parts.append(self._blank)

    def take(self) -> list[Part]:
        """Return the parts and forget them."""
        parts, self.parts = self.parts, []
        return join_parts(parts)


def join_parts(parts: list[Part]) -> list[Part]:
    """Join neighbors of the same kind."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        elif isinstance(part, Thought) and isinstance(last, Thought):
            joined[-1] = Thought(last.text + part.text)
        elif isinstance(part, CallText) and isinstance(last, CallText):
            joined[-1] = CallText(last.text + part.text)
        elif part != "":
            joined.append(part)
    return joined


def schemas_by_tool(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by tool the schema of its arguments."""
    schemas = {}
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            schema = function.get("parameters", function.get("input_schema"))
            schemas[function["name"]] = schema if isinstance(schema, dict) else {"type": "object"}
    return schemas
