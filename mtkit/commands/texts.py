"""The texts that a command is given: its argument, ``--prompt``, files, or a pipe."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

_CHUNK_BYTES = 1 << 16
_LONGEST_NAME = 4096
"""Bytes of a path on Linux."""


def parsed_special(parse: bool, no_parse: bool) -> bool | None:
    """Return whether special tokens in a text are parsed; None: as its reference does.

    Raises:
        UsageError: Both are asked for.
    """
    from mtkit.errors import UsageError

    if parse and no_parse:
        raise UsageError("--parse-special and --no-parse-special exclude each other")
    return True if parse else False if no_parse else None


def texts_of(
    text: str | None,
    prompt: str | None,
    files: Sequence[str] | None,
    hint: str,
    *,
    may_be_none: bool = False,
    model: bool = False,
) -> Iterator[tuple[str, BinaryIO | bytes]]:
    """Yield name and content of each text that a command is given.

    The argument or ``--prompt`` is bytes and has no name; a file or what comes through a pipe is
    open, and closed afterwards. ``model``: the command runs a model (``-m``), else a tokenizer.

    Raises:
        UsageError: None is given, or there are several sources, or there is no such file, or it
            is a model.
    """
    from mtkit.base.binary import open_input, standard_input
    from mtkit.errors import UsageError

    if sum(source not in (None, []) for source in (text, prompt, files)) > 1:
        raise UsageError("give only one of TEXT, --prompt and --file")
    if not files and text is None and prompt is None:
        if may_be_none:
            return
        if sys.stdin.isatty():
            raise UsageError("no text", hint=hint)
    given = text if prompt is None else prompt
    if given is not None and (given != "-" or prompt is not None):
        # Bytes of the command line that are not valid UTF-8 arrive as surrogate escapes.
        yield "", given.encode("utf-8", "surrogateescape")
        return
    for path in files or ["-"]:
        with standard_input() if path == "-" else open_input(path) as file:
            if path != "-" and file.peek(4)[:4] == b"GGUF":  # type: ignore[attr-defined]  # buffered
                line = _with_model(hint, [one for one in files or () if one != path], path, model)
                raise UsageError("is a model, not a text", source=path, hint=line)
            yield path, file


def _with_model(hint: str, texts: Sequence[str], path: str, model: bool) -> str:
    """Return the line to run where a model was given as a text: ``hint`` with it as a model."""
    if not hint:
        return ""
    from shlex import join

    _, command, first, *_ = hint.split()  # "mtkit count FILE": files need no option
    option = [] if first.startswith("FILE") else ["-f"]
    given = [part for text in texts or ["FILE"] for part in (*option, text)]
    return f"run: mtkit {join([command, *given, '-m' if model else '-t', path])}"


def check_no_file(text: str | None, prompt: str | None, command: str) -> None:
    """Refuse the name of a file where a model is given a text: it would go on with the name.

    Raises:
        UsageError: The text is the name of a model, or of a file; ``--prompt`` takes it as it is.
    """
    from shlex import quote

    from mtkit.errors import UsageError

    if text is None or len(text) > _LONGEST_NAME or "\n" in text:
        return
    path = os.path.expanduser(text)
    if (text.lower().endswith(".gguf") and " " not in text) or _is_model(path):
        asked = f" -p {quote(prompt)}" if prompt is not None else ""
        line = f"run: mtkit {command} -m {quote(text)}{asked}"
        raise UsageError("is a model, not a text", source=text, hint=line)
    if os.path.isfile(path) and prompt is None:
        hint = f"run: mtkit {command} -f {quote(text)}; -p takes the name as the text"
        raise UsageError("is a file, not a text", source=text, hint=hint)


def _is_model(path: str) -> bool:
    """Tell whether a path is a GGUF, or a folder with a model."""
    if os.path.isdir(path):
        return any(name == "config.json" or name.endswith(".gguf") for name in os.listdir(path))
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False


def whole_texts(
    prompt: str | None, files: Sequence[str] | None, hint: str
) -> list[tuple[str, bytes]]:
    """Return name and bytes of each text that a command is given; as ``texts_of``."""
    given = texts_of(None, prompt, files, hint, model=True)
    return [
        (name, content if isinstance(content, bytes) else content.read()) for name, content in given
    ]


def lines_of(content: BinaryIO | bytes) -> Iterator[list[bytes]]:
    """Yield lines without their ends, together those that have come by then."""
    if isinstance(content, bytes):
        yield content.splitlines()
        return
    begun: list[bytes] = []
    while chunk := content.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]  # a buffered file's
        first, *rest = chunk.split(b"\n")
        begun.append(first)
        if rest:
            lines = [b"".join(begun), *rest[:-1]]
            begun = [rest[-1]]
            yield [line.removesuffix(b"\r") for line in lines]
    if any(begun):
        yield [b"".join(begun).removesuffix(b"\r")]
