"""The tools of a request: what the template gets, and what holds the model to a call."""

from __future__ import annotations

import asyncio
import json
import re
import secrets

from mtkit.base.record import replace
from mtkit.chat.reading import reader_of
from mtkit.chat.signs import ID, NAME, NUMBER
from mtkit.chat.telling import schemas_of
from mtkit.errors import MtkitError, UsageError
from mtkit.serve.bodies.fields import MOST_GRAMMAR
from mtkit.serve.job import Done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer_form import Form
    from mtkit.chat.answer_parts import Part
    from mtkit.chat.reading import Reader
    from mtkit.serve.job import Piece
    from mtkit.settings import SamplerSettings

_NAME = re.compile(r"[\w.-]{1,64}")
_BARE = ('{"name": "' + NAME + '", "arguments": ', "}")
"""A call as any model may write it, for forms whose arguments are no JSON object."""


class Tools:
    """The tools of one request.

    Attributes:
        given: Their definitions, for the template.
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
            tools: Definitions, in OpenAI's form.
            choice: "none", "auto", "required", or a function that has to be called.
            several: An answer may have several calls.

        Raises:
            UsageError: The choice names no tool.
        """
        self._form, self._several = form, several
        tools, choice = _allowed(tools, choice)
        self.given = list(tools) if choice != "none" else []
        self.shows = form is not None
        self._schemas = schemas_of([tool for tool in self.given if isinstance(tool, dict)])
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
        """Return settings of a sampler with which the answer is a call, where one is asked for.

        Raises:
            UsageError: A grammar is asked for, too, or a schema cannot be turned into one.
        """
        return await asyncio.to_thread(self._held_to_call, sampler) if self._forced else sampler

    def _held_to_call(self, sampler: SamplerSettings) -> SamplerSettings:
        if sampler.grammar is not None or sampler.json_schema is not None:
            raise UsageError("cannot be forced together with a grammar", field="tool_choice")
        from mtkit.llama import check_schema, one_of

        before, after = _BARE
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

    def reading(self, prompt: str = "", *, streams: bool = True, reasoning: bool = True) -> Reading:
        """Return what reads one answer.

        Args:
            prompt: The end of what the model saw last.
            streams: Parts are told as soon as they are certain, not all at the end.
            reasoning: Reasoning is told apart from the text.
        """
        if self._form is None:
            return Reading(None)
        calls = bool(self._schemas)
        return Reading(reader_of(
            self._form, self.given if calls else None, prompt,
            several=self._several, calls=calls, reasoning=reasoning, streams=streams,
        ))  # fmt: skip


class Reading:
    """Reads an answer from what a slot tells."""

    def __init__(self, reader: Reader | None) -> None:
        """Take what reads its text; None: all is text."""
        self._reader = reader

    @property
    def called(self) -> int:
        """How many calls have begun."""
        return self._reader.called if self._reader is not None else 0

    def read(self, told: Piece | Done) -> list[Part]:
        """Return what a token or the end of the answer settles."""
        if self._reader is None:
            return [told.text] if told.text else []
        if isinstance(told, Done):
            return self._reader.finish(told.text)
        return self._reader.push(told.text)


def _allowed(
    tools: Sequence[Mapping[str, Any]], choice: str | Mapping[str, Any]
) -> tuple[Sequence[Mapping[str, Any]], str | Mapping[str, Any]]:
    """Return the tools that OpenAI's ``allowed_tools`` leaves, and the choice among them."""
    if isinstance(choice, str) or choice.get("type") != "allowed_tools":
        return tools, choice
    allowed = choice.get("allowed_tools")
    listed = allowed.get("tools") if isinstance(allowed, dict) else None
    if not isinstance(allowed, dict) or not isinstance(listed, list):
        raise UsageError("has no list of tools", field="tool_choice.allowed_tools")
    kept = schemas_of([one for one in listed if isinstance(one, dict)])
    mode = allowed.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise UsageError("is not auto or required", field="tool_choice.allowed_tools.mode")
    return [tool for tool in tools if schemas_of([tool]).keys() & kept.keys()], mode
