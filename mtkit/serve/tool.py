"""The tools of a request: what the template gets, what holds the model to a call, what reads calls.

Tools of ``/v1/responses`` become functions, which is what chat templates know: one that takes a
text (``custom``) becomes a function with the parameter ``input``; those of a namespace go by their
own names, with the namespace's in front where two would be alike. What only OpenAI's own servers
can do (``web_search`` and others) is left out.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets

from mtkit.base.record import Record, replace
from mtkit.chat.answer import schemas_by_tool
from mtkit.chat.answer_reader import open_reader
from mtkit.chat.signs import ID, NAME, NUMBER
from mtkit.errors import MtkitError, UsageError
from mtkit.serve.job import JobEnd
from mtkit.serve.request import MOST_GRAMMAR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer import Form, Part
    from mtkit.chat.answer_reader import Reader
    from mtkit.serve.job import Piece
    from mtkit.serve.request import UnknownFields
    from mtkit.settings import SamplerSettings


_NAME = re.compile(r"[\w.-]{1,64}")
_BARE_CALL = ('{"name": "' + NAME + '", "arguments": ', "}")
"""A call as any model may write it, for forms whose arguments are no JSON object."""


class Tools:
    """The tools of one request.

    Attributes:
        shows: Control tokens of the form are text of the answer: they are read.
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
            form: How the model writes answers; None: all is text.
        """
        self._form, self._several = form, several
        tools, choice = _allowed_tools(tools, choice)
        self.given = list(tools) if choice != "none" else []
        self.shows = form is not None
        self._schemas = schemas_by_tool([tool for tool in self.given if isinstance(tool, dict)])
        self._forced: list[str] = []
        if choice == "required":
            self._forced = list(self._schemas)
        elif not isinstance(choice, str):
            function = choice.get("function", choice)
            name = function.get("name") if isinstance(function, dict) else None
            self._forced = [name] if isinstance(name, str) and name in self._schemas else []
        if choice not in ("auto", "none") and not self._forced:
            raise UsageError("names none of the tools", field="tool_choice")

    async def forcing(self, sampler: SamplerSettings) -> SamplerSettings:
        """Return settings of a sampler with which the answer is a call, where one is asked for."""
        return await asyncio.to_thread(self._held_to_call, sampler) if self._forced else sampler

    def _held_to_call(self, sampler: SamplerSettings) -> SamplerSettings:
        if sampler.grammar is not None or sampler.json_schema is not None:
            raise UsageError("cannot be forced together with a grammar", field="tool_choice")
        from mtkit.llama import check_schema, one_of

        before, after = _BARE_CALL
        if self._form is not None and self._form.calls is not None and self._form.calls.sample:
            before, after = self._form.calls.sample
        number = secrets.token_hex(5)[:9]
        before, after = (text.replace(ID, number).replace(NUMBER, "0") for text in (before, after))
        calls = []
        for name in self._forced:
            if not _NAME.fullmatch(name):
                raise UsageError(f"{name!r} cannot be forced: its name", field="tool_choice")
            schema = json.dumps(self._schemas[name])
            if len(schema) > MOST_GRAMMAR:
                what = f"has more than {MOST_GRAMMAR} bytes"
                raise UsageError(what, field=f"parameters of {name}")
            try:
                check_schema(schema)
            except MtkitError as error:
                field = error.field.replace("JSON schema", f"parameters of {name}", 1)
                raise UsageError(error.what, field=field, hint=error.hint) from None
            calls.append((before.replace(NAME, name), schema, after))
        return replace(sampler, json_schema=one_of(calls))

    def reading(
        self, prompt: str = "", *, streams: bool = True, reasoning: bool = True
    ) -> AnswerParser:
        """Return what reads one answer.

        Args:
            streams: Parts are told as soon as they are certain, not all at the end.
        """
        if self._form is None:
            return AnswerParser(None)
        calls = bool(self._schemas)
        return AnswerParser(open_reader(
            self._form, self.given if calls else None, prompt,
            several=self._several, calls=calls, reasoning=reasoning, streams=streams,
        ))  # fmt: skip


class AnswerParser:
    """Reads an answer from what a slot tells."""

    def __init__(self, reader: Reader | None) -> None:
        """Take what reads its text; None: all is text."""
        self._reader = reader

    @property
    def called(self) -> int:
        """How many calls have begun."""
        return self._reader.called if self._reader is not None else 0

    def read(self, told: Piece | JobEnd) -> list[Part]:
        """Return what a token or the end of the answer settles."""
        if self._reader is None:
            return [told.text] if told.text else []
        if isinstance(told, JobEnd):
            return self._reader.finish(told.text)
        return self._reader.push(told.text)


def _allowed_tools(
    tools: Sequence[Mapping[str, Any]], choice: str | Mapping[str, Any]
) -> tuple[Sequence[Mapping[str, Any]], str | Mapping[str, Any]]:
    """Return the tools that OpenAI's ``allowed_tools`` leaves, and the choice among them."""
    if isinstance(choice, str) or choice.get("type") != "allowed_tools":
        return tools, choice
    allowed = choice.get("allowed_tools")
    listed = allowed.get("tools") if isinstance(allowed, dict) else None
    if not isinstance(allowed, dict) or not isinstance(listed, list):
        raise UsageError("has no list of tools", field="tool_choice.allowed_tools")
    kept = schemas_by_tool([one for one in listed if isinstance(one, dict)])
    mode = allowed.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise UsageError("is not auto or required", field="tool_choice.allowed_tools.mode")
    return [tool for tool in tools if schemas_by_tool([tool]).keys() & kept.keys()], mode


class ToolOrigin(Record):
    """What a function that the model is given stands for."""

    name: str
    namespace: str = ""
    is_custom: bool = False


def functions_from_responses(
    tools: Sequence[Mapping[str, Any]], unknown: UnknownFields
) -> tuple[list[dict[str, Any]], dict[str, ToolOrigin]]:
    """Return definitions in the form of chat completions, and what each of them stands for."""
    made: list[dict[str, Any]] = []
    origins: dict[str, ToolOrigin] = {}
    # those of no namespace keep their names
    for tool, field, namespace in sorted(_each_tool(tools), key=lambda one: bool(one[2])):
        kind = tool.get("type", "function")
        if kind not in ("function", "custom"):
            unknown.leave_out(str(kind))
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            raise UsageError("is missing", field=f"{field}.name")
        called = f"{namespace}.{name}" if namespace and name in origins else name
        origins[called] = ToolOrigin(name, namespace, kind == "custom")
        function = {"name": called, "description": _description(tool), **_parameters(tool)}
        made.append({"type": "function", "function": function})
    return made, origins


def _each_tool(
    tools: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    for place, tool in enumerate(tools):
        if tool.get("type") != "namespace":
            yield tool, f"tools[{place}]", ""
            continue
        inner = tool.get("tools")
        if not isinstance(inner, list) or not all(isinstance(one, dict) for one in inner):
            raise UsageError("is not a list of tools", field=f"tools[{place}].tools")
        for at, one in enumerate(inner):
            yield one, f"tools[{place}].tools[{at}]", str(tool.get("name") or "")


def _description(tool: Mapping[str, Any]) -> Any:
    text = tool.get("description") or ""
    form = tool.get("format")
    if tool.get("type") == "custom" and isinstance(form, dict) and form.get("definition"):
        return f"{text}\n\nThe input follows this {form.get('syntax', '')} grammar:\n" + str(
            form["definition"]
        )
    return text


def _parameters(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") == "custom":
        text = {"type": "string"}
        return {
            "parameters": {"type": "object", "properties": {"input": text}, "required": ["input"]}
        }
    given = tool.get("parameters")
    return {} if given is None else {"parameters": given}


def choice_from_responses(
    choice: str | Mapping[str, Any],
    functions: Sequence[dict[str, Any]],
    origins: Mapping[str, ToolOrigin],
) -> tuple[list[dict[str, Any]], str | dict[str, Any]]:
    """Return the functions that may be called, and ``tool_choice`` as chat completions have it."""
    if isinstance(choice, str):
        return list(functions), choice
    kind = choice.get("type")
    if kind == "allowed_tools":
        allowed = choice.get("tools")
        listed = allowed if isinstance(allowed, list) else []
        names = [one.get("name") for one in listed if isinstance(one, dict)]
        kept = [one for one in functions if origins[one["function"]["name"]].name in names]
        return kept, str(choice.get("mode", "auto"))
    if kind not in ("function", "custom"):
        raise UsageError(f"is {kind}, which cannot be had here", field="tool_choice.type")
    wanted = choice.get("name")
    called = next((name for name, origin in origins.items() if origin.name == wanted), wanted)
    return list(functions), {"type": "function", "function": {"name": called}}
