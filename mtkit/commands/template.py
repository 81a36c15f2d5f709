"""``mtkit template``: a conversation as the text that a model reads."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.application import application
from mtkit.commands.inputs import find_model, load_tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.tokenizer.tokenizer import Tokenizer

app = application()


@app.command(
    also={
        "tokenizer": "-m --model",
        "user": "-p --prompt",
        "system": "-sys --system-prompt",
    }
)
def template(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="Tokenizer file or folder, or a .jinja file; default: the model that mtkit "
            "config shows.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("-t", "--tokenizer", metavar="NAME", help="Same as FILE.")
    ] = None,
    messages: Annotated[
        str | None,
        typer.Option(
            "--messages", metavar="JSON", help="File with the messages; - for standard input."
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="TEXT", help="User message.")
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="System message, placed first.")
    ] = None,
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="JSON", help="File with JSON schemas of tools.")
    ] = None,
    documents: Annotated[
        str | None, typer.Option("--documents", metavar="JSON", help="File with documents.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of the template, if there are several; see dump template.",
        ),
    ] = None,
    generation_prompt: Annotated[
        bool,
        typer.Option(
            "--generation-prompt/--no-generation-prompt",
            help="Add the beginning of the assistant's answer.",
        ),
    ] = True,
    continue_final: Annotated[
        bool, typer.Option("--continue", help="Continue the last message: leave it open.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a template variable to JSON or text. Repeatable.",
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option("--now", metavar="TIME", help="Time to use, such as 2024-07-26T13:45."),
    ] = None,
    parse: Annotated[
        str | None,
        typer.Option(
            "--parse",
            metavar="FILE",
            help="Parse a model's answer, from a file or a pipe (-): text, reasoning, calls.",
        ),
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print token ids instead of text.")] = False,
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
    from mtkit.commands import output
    from mtkit.commands.arguments import read_conversation, read_json, read_text_file
    from mtkit.errors import MtkitError, UsageError

    if tokenizer is not None:
        if file is not None and user is None and parse is None and messages is None:
            file, user = None, file  # mtkit template -m model.gguf "Hello!"
        if file is not None:
            raise UsageError(f"two files are given, {file} and {tokenizer}", hint="give FILE or -t")
        file = tokenizer
    if continue_final and generation_prompt:
        generation_prompt = False
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
        "add_generation_prompt": generation_prompt,
        "continue_final_message": continue_final,
        "values": dict(map(_setting, settings or [])),
        "now": _time(now),
    }
    loaded: Tokenizer | None = None
    try:
        file = find_model(None) if file is None else file
        if parse is not None:
            loaded = (
                None
                if file.endswith(".jinja")
                else load_tokenizer(file, reader=as_reader, download=download)
            )
            parts = _parsed(file, loaded, read_text_file(parse), conversation, name, options)
            output.write_json({"schema": "mtkit.answer/1", **parts})
            return
        if file.endswith(".jinja"):
            made = _render_file(file, conversation, options)
        else:
            loaded = load_tokenizer(file, reader=as_reader, download=download)
            made = _render(loaded, conversation, name, options)
    except MtkitError as error:
        given = {"messages": messages, "tools": tools, "documents": documents}
        raise error.located(given.get(error.field.partition("[")[0]) or file or "") from None
    if ids and loaded is None:
        raise UsageError(
            "a template has no ids without a tokenizer", source=file or "", hint="name a tokenizer"
        )
    found = loaded.encode_ids(made.text, add_special_tokens=False) if loaded and ids else []
    if as_json:
        document: dict[str, Any] = {"schema": "mtkit.template/1", "text": made.text}
        document["generation"] = made.generation
        if ids:
            document["ids"] = found
        output.write_json(document)
    elif ids:
        output.write(" ".join(map(str, found)) + "\n")
    elif output.is_terminal():
        from mtkit.base.escape import printable

        output.write("\n".join(map(printable, made.text.split("\n"))) + "\n")
    else:
        output.write(made.text)


def _check_parsing(conversation: Any, never: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
    """Refuse options that mean nothing where an answer is taken apart."""
    from mtkit.errors import UsageError

    for option, value in never.items():
        if value:
            raise UsageError(f"{option} cannot be combined with --parse, which prints JSON")
    for option, value in shown.items():
        if value and conversation is None:
            raise UsageError(
                f"{option} needs the messages that the model saw", hint="--messages FILE or --user"
            )


def _parsed(
    file: str,
    tokenizer: Tokenizer | None,
    text: str,
    conversation: Any,
    name: str | None,
    options: Any,
) -> dict[str, Any]:
    """Return what a model wrote in its parts; a conversation is what it saw last."""
    from mtkit.chat.answer_reader import parse_response
    from mtkit.errors import UsageError

    tools = options["tools"]
    is_list = isinstance(tools, list) and all(isinstance(one, dict) for one in tools)
    if tools is not None and not is_list:
        raise UsageError("is not a list of objects", field="tools")
    if tokenizer is None:
        prompt = _render_file(file, conversation, options).text if conversation else ""
        return parse_response(_template_of(file), text, tools=tools, prompt=prompt)
    prompt = _render(tokenizer, conversation, name, options).text if conversation else ""
    return tokenizer.parse_response(text, tools=tools, prompt=prompt, chat_template=name)


def _render(tokenizer: Tokenizer, conversation: Any, name: str | None, options: Any) -> Any:
    from mtkit.chat.template import apply
    from mtkit.errors import UsageError

    names = [template.name for template in tokenizer.spec.chat_templates]
    if name is not None and name not in names:
        raise UsageError(f"has no template {name!r}", hint=f"it has {', '.join(names) or 'none'}")
    return apply(tokenizer.spec, conversation, template=name, **options)


def _render_file(file: str, conversation: Any, options: Any) -> Any:
    from mtkit.chat.template import render

    return render(_template_of(file), conversation, **options)


def _template_of(file: str) -> str:
    from mtkit.base.binary import map_file
    from mtkit.errors import FormatError

    try:
        return bytes(map_file(file)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("is not UTF-8", offset=error.start) from None


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
