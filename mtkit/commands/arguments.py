"""What the commands which run a model are given on the command line: texts, files, lists."""

from __future__ import annotations

from mtkit.commands.texts import check_no_file, texts_of
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_DIGITS = 20
"""Of a number that can be an id; more are text."""


def split_of(text: str) -> tuple[float, ...]:
    """Return the parts of ``--tensor-split``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        what = f"is {text!r}, not numbers separated by commas"
        raise UsageError(what, field="tensor_split", hint="write it like 3,1") from None


def biases_of(texts: list[str]) -> tuple[tuple[int | str, float], ...]:
    """Return what is named and the value of each ``--logit-bias``."""
    found: list[tuple[int | str, float]] = []
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            amount = float("-inf") if value == "false" else float(value)
        except ValueError:
            name = ""
        if not name:
            what = f"is {text!r}, not ID=NUMBER or TEXT=NUMBER"
            raise UsageError(what, field="logit_bias")
        found.append((int(name) if name.isdecimal() and len(name) < _DIGITS else name, amount))
    return tuple(found)


def grammar_of(grammar: str) -> str:
    """Return a grammar: a file's content, or the text itself.

    Raises:
        UsageError: It is neither.
    """
    import os

    if "::=" in grammar:
        return grammar
    if grammar != "-" and not os.path.exists(grammar):
        what = f"{grammar[:60]!r} is neither a file nor GBNF"
        raise UsageError(what, field="--grammar", hint="a rule is NAME ::= …")
    return read_text(grammar)


def schema_of(schema: str) -> str:
    """Return a JSON schema: a file's content, or the text itself.

    Raises:
        UsageError: It is neither.
    """
    import os

    if schema.lstrip().startswith("{") or schema.strip() in ("true", "false"):
        return schema
    if schema != "-" and not os.path.exists(schema):
        what = f"{schema[:60]!r} is neither a file nor a JSON schema"
        raise UsageError(what, field="--json-schema", hint='a schema is {"type": …}')
    return read_text(schema)


def read_text(path: str) -> str:
    """Return a file's content as text; - is standard input."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: str) -> bytes:
    """Return a file's content; - is standard input."""
    from mtkit.base.binary import Source

    return bytes(Source.open(path).data)


def number(value: float | None) -> float | None:
    """Return a number as JSON has it: None for what is not a number or infinite."""
    return value if value is not None and abs(value) < float("inf") else None


def prompt_of(
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

    Raises:
        UsageError: As ``check_no_file`` and ``texts_of``.
    """
    check_no_file(text, prompt, command)
    hint = f'mtkit {command} "Once upon a time" or --file FILE'
    parts = [
        content if isinstance(content, bytes) else content.read()
        for _, content in texts_of(text, prompt, files, hint, may_be_none=may_be_none, model=True)
    ]
    given = b"".join(parts)
    return given if prompt is not None or text not in (None, "-") else given.removesuffix(b"\n")


def id_ranges(text: str) -> list[range]:
    """Return the ids of ``1234,5000-5010``.

    Raises:
        UsageError: A part is not an id or a range of ids.
    """
    found = []
    for word in text.replace(",", " ").split():
        first, dash, last = word.partition("-")
        numbers = (first, last) if dash else (first, first)
        if not all(n.isascii() and n.isdigit() and len(n) < _DIGITS for n in numbers):
            raise UsageError(f"{word[:40]!r} is not an id or a range", hint="as in 1234,5000-5010")
        found.append(range(int(numbers[0]), int(numbers[1]) + 1))
    return found


READERS: dict[str, tuple[Any, Any, Callable[[Any], Any]]] = {
    "tensor_split": (str | None, None, split_of),
    "logit_bias": (list[str] | None, None, biases_of),
    "grammar": (str | None, None, grammar_of),
    "json_schema": (str | None, None, schema_of),
}
"""Settings that a command line spells in its own way -> type, default, and how it is read."""
