"""What commands that run a model or a template are given: prompts, messages, grammars, lists.

Each is parsed from its spelling on the command line, or read from a file or a pipe.
"""

from __future__ import annotations

import re

from mtkit.commands.inputs import check_no_file, open_texts
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mtkit.tokenizer.tokenizer import Tokenizer


_SIGNED_BIAS = re.compile(r"([0-9]+) ?([+-][0-9.][^=]*|[+-]inf)")
_DIGITS = 20
"""Most digits of an id; a longer number is text."""


def parse_tensor_split(text: str) -> tuple[float, ...]:
    """Return the parts of ``--tensor-split``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        what = f"is {text!r}, not numbers separated by commas"
        raise UsageError(what, field="tensor_split", hint="write it like 3,1") from None


def parse_logit_biases(texts: list[str]) -> tuple[tuple[int | str, float], ...]:
    """Return the token (id or text) and the bias of each ``--logit-bias``.

    Source: llama.cpp, common/arg.cpp, for ID+NUMBER and ID-NUMBER.
    """
    biases: list[tuple[int | str, float]] = []
    for text in texts:
        name, _, value = text.rpartition("=")
        if match := _SIGNED_BIAS.fullmatch(text):
            name, value = match.groups()
        try:
            amount = float("-inf") if value == "false" else float(value)
        except ValueError:
            name = ""
        if not name:
            what = f"is {text!r}, not ID=NUMBER, TEXT=NUMBER or ID+NUMBER"
            raise UsageError(what, field="logit_bias")
        biases.append((name, amount))
    return tuple(biases)


def read_grammar(grammar: str) -> str:
    """Return a grammar: a file's content, or the text itself."""
    import os

    if "::=" in grammar:
        return grammar
    if grammar != "-" and not os.path.exists(grammar):
        what = f"{grammar[:60]!r} is neither a file nor GBNF"
        raise UsageError(what, field="--grammar", hint="a rule is NAME ::= …")
    return read_text_file(grammar)


def read_schema(schema: str) -> str:
    """Return a JSON schema: a file's content, or the text itself."""
    import os

    if schema.lstrip().startswith("{") or schema.strip() in ("true", "false"):
        return schema
    if schema != "-" and not os.path.exists(schema):
        what = f"{schema[:60]!r} is neither a file nor a JSON schema"
        raise UsageError(what, field="--json-schema", hint='a schema is {"type": …}')
    return read_text_file(schema)


def read_text_file(path: str) -> str:
    """Return a file's content as text; - is standard input."""
    return read_bytes_file(path).decode("utf-8", "replace")


def read_template(file: str | None, text: str | None) -> str | None:
    """Return the chat template of a file, of a name of llama.cpp's, or the text itself."""
    if file is not None and text is not None:
        raise UsageError("excludes --chat-template-file", field="--chat-template")
    if text is not None and re.fullmatch(r"[\w.-]+", text):  # a name
        from mtkit.llama.shared_library import builtin_templates

        if text not in builtin_templates():
            what = f"{text!r} is neither one of llama.cpp's templates nor a template"
            raise UsageError(what, field="--chat-template", hint="use --chat-template-file FILE")
    return read_text_file(file) if file is not None else text


def read_bytes_file(path: str) -> bytes:
    """Return a file's content; - is standard input."""
    from mtkit.base.binary import Source

    return bytes(Source.open(path).data)


def finite_number(value: float | None) -> float | None:
    """Return a number as JSON has it: None for NaN and infinity."""
    return value if value is not None and abs(value) < float("inf") else None


def read_prompt(
    text: str | None,
    prompt: str | None,
    files: Sequence[str] | None,
    *,
    command: str,
    may_be_none: bool = False,
) -> bytes:
    """Return the prompt: the argument or ``--prompt``, files, or what comes through a pipe.

    One line break at the end of a file or a pipe is left out, as llama.cpp's tools do: nobody
    means it. Several files are one prompt.
    """
    check_no_file(text, prompt, command)
    hint = f'mtkit {command} "Once upon a time" or --file FILE'
    parts = [
        content if isinstance(content, bytes) else content.read()
        for _, content in open_texts(text, prompt, files, hint, may_be_none=may_be_none, model=True)
    ]
    data = b"".join(parts)
    return data if prompt is not None or text not in (None, "-") else data.removesuffix(b"\n")


def parse_id_ranges(text: str) -> list[range]:
    """Return the ids of ``1234,5000-5010``."""
    ranges = []
    for word in text.replace(",", " ").split():
        first, dash, last = word.partition("-")
        numbers = (first, last) if dash else (first, first)
        if not all(n.isascii() and n.isdigit() and len(n) < _DIGITS for n in numbers):
            raise UsageError(f"{word[:40]!r} is not an id or a range", hint="as in 1234,5000-5010")
        ranges.append(range(int(numbers[0]), int(numbers[1]) + 1))
    return ranges


SETTING_READERS: dict[str, tuple[str, Any, Callable[[Any], Any]]] = {
    "tensor_split": ("str | None", None, parse_tensor_split),
    "logit_bias": ("list[str] | None", None, parse_logit_biases),
    "grammar": ("str | None", None, read_grammar),
    "json_schema": ("str | None", None, read_schema),
}
"""Settings that a command line spells in its own way -> type, default, and how it is read."""


def render_messages(tokenizer: Tokenizer, file: str) -> bytes:
    """Return the messages of a file in the tokenizer's chat template, up to the answer."""
    from mtkit.chat.template import apply
    from mtkit.errors import MtkitError
    from mtkit.unicode.utf8 import to_bytes

    messages = read_conversation(file)
    try:
        rendering = apply(tokenizer.spec, messages, add_generation_prompt=True)
    except MtkitError as error:
        is_theirs = error.field.startswith("messages")
        raise error.located(file if is_theirs else tokenizer.source) from None
    return to_bytes(rendering.text)


def read_conversation(file: str | None, system: str | None = None, user: str | None = None) -> Any:
    """Return the messages of a file, with those of the command line around them."""
    from mtkit.errors import UsageError

    messages = read_json(file)
    if type(messages) is dict and "messages" in messages:
        messages = messages["messages"]
    if messages is None:
        messages = []
    if type(messages) is not list:
        raise UsageError("is not a list of messages", source=file or "")
    if system is not None:
        messages = [{"role": "system", "content": system}, *messages]
    if user is not None:
        messages = [*messages, {"role": "user", "content": user}]
    if not messages:
        raise UsageError("no messages", hint="add --messages FILE or --user TEXT")
    return messages


def read_json(file: str | None) -> Any:
    """Read a JSON file."""
    from mtkit.base.binary import Source
    from mtkit.errors import MtkitError
    from mtkit.formats.json_fields import parse_json

    if file is None:
        return None
    try:
        return parse_json(Source.open(file).data)
    except MtkitError as error:
        raise error.located(file) from None


def read_prompts(path: str) -> Iterator[str]:
    """Give the prompts of a file; a line that begins with a brace is JSON with "prompt".

    In other lines, ``\\n`` is a line break, which they could not contain otherwise.
    """
    import json

    from mtkit.errors import FormatError

    for number, line in enumerate(read_text_file(path).splitlines(), 1):
        if line.startswith("{"):
            try:
                prompt = json.loads(line)["prompt"]
            except (ValueError, KeyError, RecursionError):
                prompt = None
            if not isinstance(prompt, str):
                raise FormatError(
                    'is not JSON with a text as "prompt"', source=path, field=f"line {number}"
                )
            yield prompt
        elif line.strip():
            yield line.replace("\\n", "\n")
