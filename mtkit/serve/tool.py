"""The tools of a request: definitions for the template, grammars that force calls, parsers.

Tools of ``/v1/responses`` become functions, which is what chat templates know: one that takes a
text (``custom``) becomes a function with the parameter ``input``; those of a namespace go by their
own names, with the namespace's in front where two would be alike. What only OpenAI's own servers
can do (``web_search`` and others) is left out.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.chat.answer import CallStart, CallText, schemas_by_tool
from mtkit.chat.answer_reader import open_reader
from mtkit.chat.partial_json import close_object
from mtkit.errors import UsageError
from mtkit.llm.tool_choice import force_call, required_tools, schema_texts
from mtkit.serve.job import JobEnd
from mtkit.serve.request import MOST_GRAMMAR, MOST_GRAMMARS, grammars, room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer import Form, Part
    from mtkit.chat.answer_reader import Reader
    from mtkit.serve.job import Piece
    from mtkit.serve.request import UnknownFields
    from mtkit.settings import SamplerSettings


class Tools:
    """The tools of one request.

    Attributes:
        definitions: The tools, unless the request forbids calls.
        shows_markers: Control tokens of the form are text of the answer, for the parser.
    """

    def __init__(
        self,
        form: Form | None,
        tools: Sequence[Mapping[str, Any]],
        choice: str | Mapping[str, Any] = "auto",
        *,
        several: bool = True,
    ) -> None:
        """Take the tools of a request.

        Args:
            form: How the model writes answers; None: all is text.
        """
        self._form, self._several = form, several
        tools, choice = _allowed_tools(tools, choice)
        self.definitions = list(tools) if choice != "none" else []
        self.shows_markers = form is not None
        self._schemas = schemas_by_tool(
            [tool for tool in self.definitions if isinstance(tool, dict)]
        )
        self._forced = required_tools(choice, self._schemas)

    @property
    def forces(self) -> bool:
        """Whether the answer has to be a call."""
        return bool(self._forced)

    async def force(self, sampler: SamplerSettings) -> SamplerSettings:
        """Return settings of a sampler that force a call, if the request forces one."""
        if not self._forced:
            return sampler
        room.leave()
        return await grammars.run(lambda: self._force_call(sampler))

    def _force_call(self, sampler: SamplerSettings) -> SamplerSettings:
        return force_call(sampler, self._form, _read_schemas(self._forced, self._schemas))

    def parser(self, prompt: str = "", *, reasoning: bool = True) -> AnswerParser:
        """Return the parser of one answer."""
        if self._form is None:
            return AnswerParser(None)
        calls = bool(self._schemas)
        return AnswerParser(open_reader(
            self._form, self.definitions if calls else None, prompt,
            several=self._several, calls=calls, reasoning=reasoning,
        ))  # fmt: skip


def _read_schemas(names: Sequence[str], schemas: Mapping[str, Any]) -> dict[str, str]:
    """Return the schemas of tools as JSON, which may be so long, each and all together."""
    texts, size = {}, 0
    for name, text in schema_texts(names, schemas):
        if len(text) > MOST_GRAMMAR:
            raise UsageError(f"has more than {MOST_GRAMMAR} bytes", field=f"parameters of {name}")
        texts[name] = text
        size += len(text)
        if size > MOST_GRAMMARS:  # before anything is compiled
            what = f"have more than {MOST_GRAMMARS} bytes of parameters, too many to force a call"
            raise UsageError(what, field="tools", hint="name one tool, or fewer in allowed_tools")
    return texts


class AnswerParser:
    """Parses an answer from the events of its job."""

    def __init__(self, reader: Reader | None) -> None:
        """Take the reader of the answer; None: all is text."""
        self._reader = reader

    @property
    def calls(self) -> int:
        """How many calls have begun."""
        return self._reader.called if self._reader is not None else 0

    @property
    def reasoning_tokens(self) -> int:
        """How many tokens the reasoning has so far, with its signs."""
        return self._reader.reasoned if self._reader is not None else 0

    def read(self, event: Piece | JobEnd) -> list[Part]:
        """Return the parts that a token or the end of the answer completes."""
        if self._reader is None:
            return [event.text] if event.text else []
        if isinstance(event, JobEnd):
            return self._reader.finish(event.text, is_cut=event.end == "length")
        return self._reader.push(event.text)


def _allowed_tools(
    tools: Sequence[Mapping[str, Any]], choice: str | Mapping[str, Any]
) -> tuple[Sequence[Mapping[str, Any]], str | Mapping[str, Any]]:
    """Return the tools that OpenAI's ``allowed_tools`` leaves, and the choice among them."""
    if isinstance(choice, str) or choice.get("type") != "allowed_tools":
        return tools, choice
    allowed = choice.get("allowed_tools")
    rows = allowed.get("tools") if isinstance(allowed, dict) else None
    if not isinstance(allowed, dict) or not isinstance(rows, list):
        raise UsageError("has no list of tools", field="tool_choice.allowed_tools")
    names = schemas_by_tool([row for row in rows if isinstance(row, dict)]).keys()
    mode = allowed.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise UsageError("is not auto or required", field="tool_choice.allowed_tools.mode")
    return [tool for tool in tools if schemas_by_tool([tool]).keys() & names], mode


class ToolOrigin(Record):
    """The tool of a request that a function for the model stands for."""

    name: str
    namespace: str = ""
    is_custom: bool = False


def functions_from_responses(
    tools: Sequence[Mapping[str, Any]], unknown: UnknownFields
) -> tuple[list[dict[str, Any]], dict[str, ToolOrigin]]:
    """Return definitions in the form of chat completions, and the tool behind each of them."""
    functions: list[dict[str, Any]] = []
    origins: dict[str, ToolOrigin] = {}
    # those of no namespace keep their names
    for tool, field, namespace in sorted(_each_tool(tools), key=lambda row: bool(row[2])):
        kind = tool.get("type", "function")
        if kind not in ("function", "custom"):
            unknown.leave_out(str(kind))
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            raise UsageError("is missing", field=f"{field}.name")
        full_name = f"{namespace}.{name}" if namespace and name in origins else name
        origins[full_name] = ToolOrigin(name, namespace, kind == "custom")
        function = {"name": full_name, "description": _description(tool), **_parameters(tool)}
        functions.append({"type": "function", "function": function})
    return functions, origins


def _each_tool(
    tools: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    for place, tool in enumerate(tools):
        if tool.get("type") != "namespace":
            yield tool, f"tools[{place}]", ""
            continue
        inner = tool.get("tools")
        if not isinstance(inner, list) or not all(isinstance(tool, dict) for tool in inner):
            raise UsageError("is not a list of tools", field=f"tools[{place}].tools")
        for at, inner_tool in enumerate(inner):
            yield inner_tool, f"tools[{place}].tools[{at}]", str(tool.get("name") or "")


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
        text, form = {"type": "string"}, tool.get("format")
        if isinstance(form, dict) and form.get("syntax") == "regex" and form.get("definition"):
            text["pattern"] = f"^(?:{form['definition']})$"
        return {
            "parameters": {"type": "object", "properties": {"input": text}, "required": ["input"]}
        }
    parameters = tool.get("parameters")
    return {} if parameters is None else {"parameters": parameters}


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
        tools = choice.get("tools")
        rows = tools if isinstance(tools, list) else []
        names = [row.get("name") for row in rows if isinstance(row, dict)]
        allowed = [row for row in functions if origins[row["function"]["name"]].name in names]
        return allowed, str(choice.get("mode", "auto"))
    if kind not in ("function", "custom"):
        raise UsageError(f"is {kind}, which cannot be had here", field="tool_choice.type")
    name = choice.get("name")
    full_name = next((full for full, origin in origins.items() if origin.name == name), name)
    return list(functions), {"type": "function", "function": {"name": full_name}}


def functions_from_chat(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools of chat completions, those that take a text as functions."""
    functions = []
    for place, tool in enumerate(tools):
        if tool.get("type") != "custom":
            functions.append(dict(tool))
            continue
        custom, field = tool.get("custom"), f"tools[{place}].custom"
        if not isinstance(custom, dict):
            raise UsageError("is missing" if custom is None else "is not an object", field=field)
        if not isinstance(custom.get("name"), str) or not custom["name"]:
            raise UsageError("is missing", field=f"{field}.name")
        form = custom.get("format")
        if isinstance(form, dict):  # the grammar is an object of its own here
            form = form.get("grammar", form)
        plain = {**custom, "type": "custom", "format": form}
        function = {
            "name": custom["name"], "description": _description(plain), **_parameters(plain)
        }  # fmt: skip
        functions.append({"type": "function", "function": function})
    return functions


def custom_names(tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of the tools of chat completions that take a text."""
    return frozenset(tool["custom"]["name"] for tool in tools if tool.get("type") == "custom")


def as_function(value: Any) -> Any:
    """Return a call or a choice of a tool that takes a text as that of a function."""
    custom = value.get("custom") if isinstance(value, dict) else None
    if not isinstance(custom, dict) or value.get("type") != "custom":
        return value
    function = {"name": custom.get("name")}
    if "input" in custom:
        function["arguments"] = {"input": custom["input"]}
    rest = {name: field for name, field in value.items() if name != "custom"}
    return {**rest, "type": "function", "function": function}


def choice_from_chat(choice: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Return ``tool_choice`` with functions alone."""
    if isinstance(choice, str):
        return choice
    allowed = choice.get("allowed_tools")
    if not isinstance(allowed, dict) or not isinstance(allowed.get("tools"), list):
        return as_function(choice)  # type: ignore[no-any-return]
    tools = [as_function(tool) for tool in allowed["tools"]]
    return {**choice, "allowed_tools": {**allowed, "tools": tools}}


def input_of(arguments: str) -> str:
    """Return the input of a tool that takes a text, or as much of it as there is.

    Without one, the arguments as they are.
    """
    text = (close_object(arguments) or {}).get("input")
    rest = "" if '{"input":"'.startswith("".join(arguments.split())) else arguments
    return text if isinstance(text, str) else rest


class InputText(CallText):
    """The input of the call that began last, of a tool that takes a text."""


class InputReader:
    """Turns the arguments of tools that take a text into that text, known at a call's end."""

    def __init__(self, names: frozenset[str]) -> None:
        """Take the names of the tools."""
        self._names = names
        self._text: list[str] | None = None

    def read(self, parts: Sequence[Part], *, is_over: bool) -> Iterator[Part]:
        """Yield parts of an answer, with the inputs of the calls that have ended."""
        for part in parts:
            if isinstance(part, CallText) and self._text is not None:
                self._text.append(part.text)
                continue
            yield from self._end()
            yield part
            if isinstance(part, CallStart) and part.name in self._names:
                self._text = []
        if is_over:
            yield from self._end()

    def _end(self) -> Iterator[Part]:
        text, self._text = self._text, None
        if text is not None:
            yield InputText(input_of("".join(text)))
