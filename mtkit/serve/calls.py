"""Calls of tools in what a model writes; what does not read as a call stays text."""

from __future__ import annotations

import json
import re
import secrets

from mtkit.chat.answer_parts import Call, CallStart, CallText
from mtkit.serve.job import Done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer_parts import Part
    from mtkit.serve.call_forms import Form
    from mtkit.serve.job import Piece

_WORDS = {"True": "true", "False": "false", "None": "null"}
"""What templates write of values that they do not bring into JSON."""
_CLOSING = re.compile(r"<[^<>()]*>$")
_NOTATION = re.compile(r'<\|"\|>(?P<text>.*?)<\|"\|>|(?<=[{,])(?P<key>[^{},:<]+)(?=:)', re.DOTALL)


class Reading:
    """Reads an answer as it comes: texts and calls.

    Attributes:
        called: How many calls there were.
    """

    def __init__(
        self, form: Form | None, schemas: Mapping[str, Any], *, several: bool = True
    ) -> None:
        """Begin an answer.

        Args:
            form: How the model writes calls; None: all is text.
            schemas: Of the arguments of each tool.
            several: An answer may have several calls; else those beyond the first are left out.
        """
        self._form, self._schemas, self._several = form, schemas, several
        self._rest = ""
        self._said = False
        self.called = 0

    def read(self, told: Piece | Done) -> list[Part]:
        """Return what a token or the end of the answer settles."""
        return self._take(told.text, ends=isinstance(told, Done))

    def push(self, text: str) -> list[Part]:
        """Return what further text settles."""
        return self._take(text, ends=False)

    def finish(self, text: str = "") -> list[Part]:
        """Return what the end of the answer settles."""
        return self._take(text, ends=True)

    def _take(self, text: str, *, ends: bool) -> list[Part]:
        form = self._form
        made: list[Part] = []
        if form is None:
            return [text] if text else []
        self._rest += text
        while self._rest:
            if self.called:  # white space between calls is the form's
                self._rest = self._rest.lstrip()
            at, opening = self._opening(form)
            if not opening:
                keep = 0 if ends else self._held(form)
                made.append(self._rest[: len(self._rest) - keep])
                self._rest = self._rest[len(self._rest) - keep :]
                break
            stop = self._rest.find(form.closing, at + len(opening)) if form.closing else -1
            if stop < 0 and not ends:
                before = self._rest[:at].rstrip()
                made.append(before)
                self._rest = self._rest[len(before) :]
                break
            stop = stop + len(form.closing) if stop >= 0 else len(self._rest)
            calls = self._calls(form, self._rest[at:stop], opening)
            kept = calls if self._several else calls[: 1 - self.called]
            told = [part for call in kept for part in parts_of(call)]
            made += [self._rest[:at].rstrip(), *told] if calls else [self._rest[:stop]]
            self._rest = self._rest[stop:]
            self.called += len(kept)
        self._said = self._said or any(made)
        return [part for part in made if part]

    def _opening(self, form: Form) -> tuple[int, str]:
        """Return where a block begins, and with what; nothing where none does."""
        if form.leads:
            at = len(self._rest) - len(self._rest.lstrip())
            found = [(at, one) for one in form.openings if self._rest.startswith(one, at)]
            return found[0] if found and not self._said else (0, "")
        return first(self._rest, form.openings)

    def _held(self, form: Form) -> int:
        """Return how many of the last characters may belong to an opening that is not complete."""
        if form.leads and self._said:
            return 0
        rest = self._rest
        return len(rest) - len(rest[: len(rest) - begun(rest, form.openings)].rstrip())

    def _calls(self, form: Form, block: str, opening: str) -> list[Call]:
        """Return the calls of a block; none where it is something else."""
        try:
            if form.call:
                return [self._call(form, one.groupdict()) for one in _all(form.call, block)]
            inner = block[0 if form.leads and opening == "{" else len(opening) :]
            calls = [_object(one) for one in _values(inner.removesuffix(form.closing))]
        except (ValueError, TypeError, LookupError, RecursionError):
            return []
        known = not form.leads or all(call.name in self._schemas for call in calls)
        return calls if known else []

    def _call(self, form: Form, found: dict[str, str]) -> Call:
        name = found["name"].strip()
        if form.pair:
            properties = self._schemas.get(name, {}).get("properties", {})
            arguments: Any = {
                pair["key"].strip(): _value(pair.groupdict(), properties)
                for pair in _all(form.pair, found["body"])
            }
        elif "notation" in found:
            arguments = json.loads(_NOTATION.sub(_plain, found["notation"]), strict=False)
        else:
            arguments = json.loads(found["body"], strict=False)
        return call_of(name, arguments, found.get("id"))


def first(text: str, signs: Sequence[str]) -> tuple[int, str]:
    """Return where the first of some signs stands in a text, and which; nothing where none does."""
    places = [(text.find(one), one) for one in signs]
    return min((place for place in places if place[0] >= 0), default=(0, ""))


def begun(text: str, signs: Sequence[str]) -> int:
    """Return how many of the last characters may belong to a sign that is not complete."""
    return max(
        length
        for one in signs
        for length in range(min(len(one), len(text) + 1))
        if text.endswith(one[:length])
    )


def _all(pattern: str, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern.

    Nothing behind the last tag that closes a match can match; without it each tag that opens one
    would be followed to the end of the text.
    """
    closing = _CLOSING.search(pattern)
    if closing:
        tag = closing[0].replace("\\", "")
        text = text[: text.rfind(tag) + len(tag)]
    return re.finditer(pattern, text, re.DOTALL)


def _plain(found: re.Match[str]) -> str:
    """Write a piece of Gemma's notation as JSON."""
    return json.dumps(found["text"] if found["text"] is not None else found["key"].strip())


def _value(found: dict[str, str], properties: Any) -> Any:
    """Return the value of an argument: JSON if it can be, and its schema does not say a text."""
    text = found["value"]
    schema = properties.get(found["key"].strip()) if isinstance(properties, dict) else None
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string" or found.get("plain") == "true":
        return text
    try:
        return json.loads(_WORDS.get(text, text))
    except (ValueError, RecursionError):
        return text


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text, of lists their members.

    Raises:
        ValueError: There is something else.
    """
    decoder, at = json.JSONDecoder(strict=False), 0
    while rest := text[at:].lstrip(" \t\r\n;,"):
        value, used = decoder.raw_decode(rest)
        at = len(text) - len(rest) + used
        yield from value if isinstance(value, list) else [value]


def _object(value: Any) -> Call:
    """Return the call that an object is.

    Raises:
        LookupError, TypeError, ValueError: It is none.
    """
    if not isinstance(value, dict):
        raise TypeError
    names = [value[key] for key in ("name", "tool_name") if key in value]
    given = [value[key] for key in ("arguments", "parameters") if key in value]
    arguments = given[0] if given else {}
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    number = value.get("id")
    return call_of(names[0], arguments, number if isinstance(number, str) else None)


def call_of(name: Any, arguments: Any, number: str | None = None) -> Call:
    """Return a call of what a model wrote.

    Raises:
        TypeError: Its name is no text, or its arguments are no object.
        ValueError: They cannot be sent.
    """
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise TypeError
    written = json.dumps(arguments, ensure_ascii=False)
    written.encode()  # a half of a surrogate pair cannot be sent
    # nine letters and digits are what Mistral's templates take
    return Call(number or secrets.token_hex(5)[:9], name, written)


def parts_of(call: Call) -> list[Part]:
    """Return the parts that a call is told by."""
    return [CallStart(call.id, call.name), CallText(call.arguments)]
