"""Command lines that say plainly what they mean are read here, so that typer is not imported.

That import takes three times what Python takes to start, and a shell's loop pays for it each
time. A line is plain where every option is spelled out, a value is the next word and there is at
most one text. Whatever else there is (help, a mistake, ``--option=value``), typer reads it.
``tests/commands/test_plain_lines.py`` holds that both read a plain line alike.
"""

from __future__ import annotations

from mtkit.commands.options import ENCODE_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


_ENCODE_PARAMETERS = (
    "lines", "only_ids", "only_tokens", "count", "offsets", "no_special", "no_parse_special",
    "parse_special", "bos", "eos", "as_json", "tokenizer", "prompt", "files", "encoding",
)  # fmt: skip
ENCODE_SPELLINGS: Mapping[str, tuple[str, type]] = {
    spelling: (name, list if option.is_list else str if option.metavar else bool)
    for name, option in ((name, ENCODE_OPTIONS[name]) for name in _ENCODE_PARAMETERS)
    for spelling in f"{option.names} {option.also}".split()
}
"""Spelling -> parameter of ``encode.run``, and what it is: a flag, a value, or one of several."""


def plain_line(name: str, args: Sequence[str]) -> Callable[[], None] | None:
    """Return what runs a plain command line, or None where typer has to read it."""
    if name != "encode":
        return None
    values = parse_plain(args, ENCODE_SPELLINGS, "text")
    if values is None:
        return None
    from mtkit.commands.encode import run

    return lambda: run(**values)


def parse_plain(
    args: Sequence[str], options: Mapping[str, tuple[str, type]], argument: str
) -> dict[str, Any] | None:
    """Return parameter -> value of a plain line, or None where it is not plain."""
    values: dict[str, Any] = {}
    rest = iter(args)
    for word in rest:
        is_option = word in options
        parameter, kind = options[word] if is_option else (argument, str)
        if not is_option and (_looks_like_option(word) or argument in values):
            return None
        if kind is bool:
            values[parameter] = True
            continue
        value = next(rest, None) if is_option else word
        if value is None or _looks_like_option(value):
            return None
        if kind is list:
            values.setdefault(parameter, []).append(value)
        else:
            values[parameter] = value
    return values


def _looks_like_option(word: str) -> bool:
    return word.startswith("-") and word != "-"
