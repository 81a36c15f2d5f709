"""The tools of a request: what the template gets, and what holds the model to a call."""

from __future__ import annotations

import asyncio
import json
import re

from mtkit.base.record import replace
from mtkit.errors import MtkitError, UsageError
from mtkit.serve.calls import Reading
from mtkit.serve.channels import Channels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.serve.call_forms import Form
    from mtkit.settings import SamplerSettings

_NAME = re.compile(r"[\w.-]{1,64}")


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
            form: How the model writes calls; None: its calls are not read.
            tools: Definitions, in OpenAI's form.
            choice: "none", "auto", "required", or a function that has to be called.
            several: An answer may have several calls.

        Raises:
            UsageError: The choice names no tool, or cannot be forced.
        """
        self._several = several
        self.given = list(tools) if choice != "none" else []
        self._form = form if form and (self.given or form.ends) else None
        self.shows = self._form is not None
        functions = [tool.get("function", tool) for tool in self.given]
        self._schemas: dict[str, dict[str, Any]] = {}
        for one in functions:
            if isinstance(one, dict) and "name" in one:
                given = one.get("parameters")
                schema = given if isinstance(given, dict) else {"type": "object"}
                self._schemas[str(one["name"])] = schema
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

    async def forcing(self, sampler: SamplerSettings) -> SamplerSettings:
        """Return settings of a sampler with which the answer is a call, where one is asked for.

        Raises:
            UsageError: A grammar is asked for, too, or a schema cannot be turned into one.
        """
        return await asyncio.to_thread(self._held_to_call, sampler) if self._forced else sampler

    def _held_to_call(self, sampler: SamplerSettings) -> SamplerSettings:
        if sampler.grammar is not None or sampler.json_schema is not None:
            raise UsageError("cannot be forced together with a grammar", field="tool_choice")
        assert self._form is not None
        from mtkit.llama import check_schema, one_of

        before, _, after = self._form.example.partition("ARGUMENTS")
        calls = []
        for name in self._forced:
            if not _NAME.fullmatch(name):
                raise UsageError(f"{name!r} cannot be forced: its name", field="tool_choice")
            schema = json.dumps(self._schemas[name])
            try:
                check_schema(schema)
            except MtkitError as error:
                field = error.field.replace("JSON schema", f"parameters of {name}", 1)
                raise UsageError(error.what, field=field, hint=error.hint) from None
            calls.append((before.replace("NAME", name), schema, after))
        return replace(sampler, json_schema=one_of(calls))

    def reading(self) -> Reading:
        """Return what reads one answer."""
        if self._form is not None and self._form.ends:
            return Channels(self._form, self._schemas, several=self._several)
        return Reading(self._form, self._schemas, several=self._several)
