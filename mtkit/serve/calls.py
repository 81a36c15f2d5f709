"""Calls of tools in what a model writes; what does not read as a call stays text."""

from __future__ import annotations

import json
import re
import secrets
from functools import partial

from mtkit.base.record import Record, replace
from mtkit.errors import MtkitError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from mtkit.serve.call_forms import Form
    from mtkit.settings import SamplerSettings

    Part: TypeAlias = "str | Call"

_WORDS = {"True": "true", "False": "false", "None": "null"}
"""What templates write of values that they do not bring into JSON."""
_NAME = re.compile(r"[\w.-]{1,64}")
_RULE = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[a-zA-Z][\w-]*')
_NOTATION = re.compile(r'<\|"\|>(?P<text>.*?)<\|"\|>|(?<=[{,])(?P<key>[^{},:<]+)(?=:)', re.DOTALL)


class Call(Record):
    """A call of a tool.

    Attributes:
        name: The tool's.
        arguments: A JSON object.
        id: The model's, else nine letters and digits, which is what Mistral's templates take.
    """

    name: str
    arguments: str
    id: str


class Tools:
    """The tools of one request.

    Attributes:
        given: Their definitions, for the template.
    """

    def __init__(
        self,
        form: Form | None,
        tools: Sequence[Mapping[str, Any]],
        choice: str | Mapping[str, Any] = "auto",
        *,
        several: bool = True,
    ) -> None:
        """Take the tools.

        Args:
            form: How the model writes calls; None: its calls are not read.
            tools: Definitions, in OpenAI's form.
            choice: "none", "auto", "required", or a function that has to be called.
            several: An answer may have several calls.

        Raises:
            UsageError: The choice names no tool, or cannot be forced.
        """
        self._form = form if tools and choice != "none" else None
        self._several = several
        self.given = list(tools) if choice != "none" else []
        functions = [tool.get("function", tool) for tool in tools]
        self._schemas = {
            str(one["name"]): one.get("parameters") or {"type": "object"}
            for one in functions
            if isinstance(one, dict) and "name" in one
        }
        self._forced: list[str] = []
        if choice == "required":
            self._forced = list(self._schemas)
        elif not isinstance(choice, str):
            function = choice.get("function", choice)
            name = function.get("name") if isinstance(function, dict) else None
            self._forced = [name] if isinstance(name, str) and name in self._schemas else []
        if choice in ("auto", "none"):
            return
        if not self._forced:
            raise UsageError("names none of the tools", field="tool_choice")
        if form is None or "ARGUMENTS" not in form.example:
            what = "how this model writes calls" if form is None else "this model's form of calls"
            verb = "is not known" if form is None else "cannot be forced"
            raise UsageError(f"{what} {verb}; auto and none are taken", field="tool_choice")

    def forcing(self, sampler: SamplerSettings) -> SamplerSettings:
        """Return settings of a sampler with which the answer is a call, where one is asked for.

        Raises:
            UsageError: A grammar is asked for, too, or a schema cannot be turned into one.
        """
        if not self._forced:
            return sampler
        if sampler.grammar is not None or sampler.json_schema is not None:
            raise UsageError("cannot be forced together with a grammar", field="tool_choice")
        assert self._form is not None
        from mtkit.llama import schema_grammar

        rules, calls = [], []
        before, _, after = self._form.example.partition("ARGUMENTS")
        for place, name in enumerate(self._forced):
            if not _NAME.fullmatch(name):
                raise UsageError(f"{name!r} cannot be forced: its name", field="tool_choice")
            try:
                made = schema_grammar(json.dumps(self._schemas[name]))
            except MtkitError as error:
                field = f"parameters of {name}"
                raise UsageError(error.what, field=field, hint=error.hint) from None
            rules.append(_RULE.sub(partial(_own, f"t{place}-"), made))
            opening = json.dumps(before.replace("NAME", name), ensure_ascii=False)
            calls.append(f"{opening} t{place}-root {json.dumps(after, ensure_ascii=False)}")
        return replace(sampler, grammar="\n".join([f"root ::= {' | '.join(calls)}", *rules]))

    def reading(self) -> Reading:
        """Return what reads one answer."""
        return Reading(self._form, self._schemas, several=self._several)


def _own(prefix: str, found: re.Match[str]) -> str:
    """Give a rule of a grammar a name of its own; literals and sets of characters stay."""
    return found[0] if found[0][0] in '"[' else prefix + found[0]


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
            made += [self._rest[:at].rstrip(), *kept] if calls else [self._rest[:stop]]
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
        places = [(self._rest.find(one), one) for one in form.openings]
        return min((place for place in places if place[0] >= 0), default=(0, ""))

    def _held(self, form: Form) -> int:
        """Return how many of the last characters may belong to an opening that is not complete."""
        if form.leads and self._said:
            return 0
        rest = self._rest
        begun = max(
            length
            for one in form.openings
            for length in range(min(len(one), len(rest) + 1))
            if rest.endswith(one[:length])
        )
        return len(rest) - len(rest[: len(rest) - begun].rstrip())

    def _calls(self, form: Form, block: str, opening: str) -> list[Call]:
        """Return the calls of a block; none where it is something else."""
        try:
            if form.call:
                found = re.finditer(form.call, block, re.DOTALL)
                return [self._call(form, one.groupdict()) for one in found]
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
                for pair in re.finditer(form.pair, found["body"], re.DOTALL)
            }
        elif "notation" in found:
            arguments = json.loads(_NOTATION.sub(_plain, found["notation"]), strict=False)
        else:
            arguments = json.loads(found["body"], strict=False)
        return _made(name, arguments, found.get("id"))


def _plain(found: re.Match[str]) -> str:
    """Write a piece of Gemma's notation as JSON."""
    return json.dumps(found["text"] if found["text"] is not None else found["key"].strip())


def _value(found: dict[str, str], properties: Any) -> Any:
    """Return the value of an argument: JSON if it can be, and its schema does not say a text."""
    text, schema = found["value"], properties.get(found["key"].strip())
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
    return _made(names[0], arguments, number if isinstance(number, str) else None)


def _made(name: Any, arguments: Any, number: str | None) -> Call:
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise TypeError
    written = json.dumps(arguments, ensure_ascii=False)
    written.encode()  # a half of a surrogate pair cannot be sent
    return Call(name, written, number or secrets.token_hex(5)[:9])
