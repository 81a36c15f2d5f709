"""``mtkit template``: a conversation as the text that a model reads."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model, load_tokenizer
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.chat.template import Rendering
    from mtkit.tokenizer.tokenizer import Tokenizer


OPTIONS = {
    "file": Option(
        "",
        "Tokenizer file or folder, or a .jinja file; default: the model that mtkit config shows.",
        "FILE",
    ),
    "tokenizer": Option("-t --tokenizer", "Same as FILE.", "NAME", "-m --model"),
    "messages": Option("--messages", "File with the messages; - for standard input.", "JSON"),
    "user": Option("--user", "User message.", "TEXT", "-p --prompt"),
    "system": Option("--system", "System message, placed first.", "TEXT", "-sys --system-prompt"),
    "tools": Option("--tools", "File with JSON schemas of tools.", "JSON"),
    "documents": Option("--documents", "File with documents.", "JSON"),
    "name": Option(
        "--name", "Name of the template, if there are several; see dump template.", "NAME"
    ),
    "generation_prompt": Option(
        "--generation-prompt/--no-generation-prompt", "Add the beginning of the assistant's answer."
    ),
    "continue_final": Option("--continue", "Continue the last message: leave it open."),
    "settings": Option(
        "--set", "Set a template variable to JSON or text. Repeatable.", "NAME=VALUE"
    ),
    "now": Option("--now", "Time to use, such as 2024-07-26T13:45.", "TIME"),
    "parse": Option(
        "--parse",
        "Parse a model's answer, from a file or a pipe (-): text, reasoning, calls.",
        "FILE",
    ),
    "ids": Option("--ids", "Print token ids instead of text."),
}


def template(
    file: str | None = None,
    tokenizer: str | None = None,
    messages: str | None = None,
    user: str | None = None,
    system: str | None = None,
    tools: str | None = None,
    documents: str | None = None,
    name: str | None = None,
    generation_prompt: bool = True,
    continue_final: bool = False,
    settings: list[str] | None = None,
    now: str | None = None,
    parse: str | None = None,
    ids: bool = False,
    as_reader: str | None = None,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Render a chat template as the transformers library does.

    When output is piped, the text is printed unchanged; on a terminal, control characters are
    escaped. The template runs in a separate process, limited to 10 seconds and 256 MiB. --parse
    works the other way: it turns a model's answer into JSON with content, reasoning_content and
    tool_calls.

    \b
    Examples:
      mtkit template tokenizer.json --messages chat.json --tools tools.json
      mtkit template model.gguf --system "Be brief." --user "Hello, MNN!" --ids
      mtkit template tokenizer.json --parse answer.txt --tools tools.json
    """
    from mtkit.commands.arguments import read_conversation, read_json, read_text_file
    from mtkit.errors import MtkitError, UsageError

    if tokenizer is not None:
        if file is not None and user is None and parse is None and messages is None:
            file, user = None, file  # mtkit template -m model.gguf "Hello!"
        if file is not None:
            raise UsageError(f"two files are given, {file} and {tokenizer}", hint="give FILE or -t")
        file = tokenizer
    conversation = None
    if parse is None or messages is not None or user is not None:
        conversation = read_conversation(messages, system, user)
    if parse is not None:
        _check_parsing(
            conversation,
            {"--ids": ids},
            {"--documents": documents, "--set": settings, "--now": now},
        )
    options: dict[str, Any] = {
        "tools": read_json(tools),
        "documents": read_json(documents),
        "add_generation_prompt": generation_prompt and not continue_final,
        "continue_final_message": continue_final,
        "values": dict(map(_setting, settings or [])),
        "now": _time(now),
    }
    try:
        file = find_model(None) if file is None else file
        source = _TemplateSource(file, name, reader=as_reader, download=download)
        if parse is not None:
            answer = source.parse(read_text_file(parse), conversation, options)
            output.write_json({"schema": "mtkit.answer/1", **answer})
            return
        prompt = source.render(conversation, options)
    except MtkitError as error:
        paths = {"messages": messages, "tools": tools, "documents": documents}
        raise error.located(paths.get(error.field.partition("[")[0]) or file or "") from None
    _write(prompt, source.ids(prompt.text) if ids else None, as_json=as_json)


command = Command(template, OPTIONS)


class _TemplateSource:
    """A template of a tokenizer, or that of a .jinja file.

    Attributes:
        tokenizer: None of a .jinja file.
    """

    def __init__(self, file: str, name: str | None, *, reader: str | None, download: bool) -> None:
        self.file, self.name = file, name
        self.tokenizer: Tokenizer | None = None
        if not file.endswith(".jinja"):
            self.tokenizer = load_tokenizer(file, reader=reader, download=download)

    def render(self, conversation: Any, options: Mapping[str, Any]) -> Rendering:
        """Return a conversation as the model reads it."""
        from mtkit.chat.template import apply, render
        from mtkit.errors import UsageError

        if self.tokenizer is None:
            return render(self._file_text(), conversation, **options)
        spec = self.tokenizer.spec
        names = [template.name for template in spec.chat_templates]
        if self.name is not None and self.name not in names:
            hint = f"it has {', '.join(names) or 'none'}"
            raise UsageError(f"has no template {self.name!r}", hint=hint)
        return apply(spec, conversation, template=self.name, **options)

    def parse(self, text: str, conversation: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a model wrote in its parts; a conversation is what it saw last."""
        from mtkit.chat.answer_reader import parse_response
        from mtkit.errors import UsageError

        tools = options["tools"]
        is_list = isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)
        if tools is not None and not is_list:
            raise UsageError("is not a list of objects", field="tools")
        prompt = self.render(conversation, options).text if conversation else ""
        if self.tokenizer is None:
            return parse_response(self._file_text(), text, tools=tools, prompt=prompt)
        return self.tokenizer.parse_response(
            text, tools=tools, prompt=prompt, chat_template=self.name
        )

    def ids(self, text: str) -> list[int]:
        """Return the ids of a prompt, whose template writes the special tokens itself."""
        from mtkit.errors import UsageError

        if self.tokenizer is None:
            what = "a template has no ids without a tokenizer"
            raise UsageError(what, source=self.file, hint="name a tokenizer")
        return self.tokenizer.encode_ids(text, add_special_tokens=False)

    def _file_text(self) -> str:
        from mtkit.base.binary import map_file
        from mtkit.errors import FormatError

        try:
            return bytes(map_file(self.file)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError("is not UTF-8", offset=error.start) from None


def _write(prompt: Rendering, ids: list[int] | None, *, as_json: bool) -> None:
    if as_json:
        document = {"text": prompt.text, "generation": prompt.generation}
        numbers = {} if ids is None else {"ids": ids}
        output.write_json({"schema": "mtkit.template/1", **document, **numbers})
    elif ids is not None:
        output.write(" ".join(map(str, ids)) + "\n")
    elif output.is_terminal():
        from mtkit.base.escape import printable

        output.write("\n".join(map(printable, prompt.text.split("\n"))) + "\n")
    else:
        output.write(prompt.text)


def _check_parsing(
    conversation: Any, never: Mapping[str, Any], with_messages: Mapping[str, Any]
) -> None:
    """Refuse options that mean nothing where an answer is parsed."""
    from mtkit.errors import UsageError

    for option, value in never.items():
        if value:
            raise UsageError(f"{option} cannot be combined with --parse, which prints JSON")
    for option, value in with_messages.items():
        if value and conversation is None:
            raise UsageError(
                f"{option} needs the messages that the model saw", hint="--messages FILE or --user"
            )


def _setting(text: str) -> tuple[str, Any]:
    """Take ``name=value`` apart; what is not valid JSON is a text."""
    import json

    from mtkit.errors import UsageError

    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise UsageError(f"--set {text}: is not NAME=VALUE")
    value = {"True": "true", "False": "false", "None": "null"}.get(value, value)  # as in Jinja
    try:
        return name, json.loads(value)
    except RecursionError:
        raise UsageError(f"--set {name}: is nested too deeply") from None
    except ValueError:
        return name, value


def _time(text: str | None) -> Any:
    from datetime import datetime

    from mtkit.errors import UsageError

    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--now {text}: is not a valid time", hint="as in 2024-07-26T13:45"
        ) from None
