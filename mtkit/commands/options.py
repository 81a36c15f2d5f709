"""Options that mean the same in every command, and what they become."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.tokenizer.tokenizer import Tokenizer

TOKENIZER = Annotated[
    str | None,
    typer.Option("-t", "--tokenizer", metavar="FILE", help="File or folder; - for a pipe."),
]
NO_SPECIAL = Annotated[
    bool, typer.Option("--no-special", help="Do not add special tokens (BOS, EOS …).")
]
NO_PARSE_SPECIAL = Annotated[
    bool,
    typer.Option("--no-parse-special", help="Take special tokens in the text as plain text."),
]
TRACE = Annotated[bool, typer.Option("--trace", help="Show what every stage does.")]
DOWNLOAD = Annotated[
    bool, typer.Option("--download", help="Fetch a model repository named ORG/NAME.")
]
PROMPT = Annotated[
    str | None, typer.Option("-p", "--prompt", metavar="TEXT", help="The text, as an option.")
]
FILE = Annotated[
    str | None, typer.Option("-f", "--file", metavar="FILE", help="Read the text from it.")
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def application() -> typer.Typer:
    """Return typer's frame of one command: errors are shown by ``mtkit.cli``, help is plain."""
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def locate_named(name: str | None, *, download: bool = False) -> str:
    """Return the path that a name stands for; a terminal's stderr says which one was taken."""
    from mtkit.sources.locate import TOKENIZER, locate

    path = locate(name, download=download)
    _say_which(name, path, TOKENIZER.key)
    return path


def model_named(name: str | None, *, quiet: bool = False) -> str:
    """Return the path of the model that a name stands for; as ``locate_named``."""
    from mtkit.sources.locate import MODEL, locate

    path = locate(name, MODEL)
    if not quiet:
        _say_which(name, path, MODEL.key)
    return path


def _say_which(name: str | None, path: str, key: str) -> None:
    """Say which file was taken where the command line does not; never in a pipe."""
    import os

    if not sys.stderr.isatty() or (name is not None and path in (name, os.path.expanduser(name))):
        return
    from mtkit.commands.terminal import Screen, part
    from mtkit.sources import config

    said = path
    if name is None:
        origin = config.origin(key)
        said = f"{path} ({origin})" if origin else f"the {key} that ships with mtkit"
    elif path.endswith(".gguf"):
        beside = sum(entry.endswith(".gguf") for entry in os.listdir(os.path.dirname(path)))
        said += f", the first of {beside} .gguf files" if beside > 1 else ""
    Screen(stderr=True).line(part("dim", f"using {said}"), hanging=2)


def load_named(
    name: str | None,
    *,
    reader: str | None = None,
    encoding: str | None = None,
    download: bool = False,
) -> Tokenizer:
    """Load a tokenizer for a command."""
    from mtkit.base.binary import Source
    from mtkit.errors import UsageError
    from mtkit.tokenizer.load import load_source

    overrides = {"encoding": encoding} if encoding is not None else None
    source = Source.open(locate_named(name, download=download))
    tokenizer = load_source(source, overrides=overrides, reader=reader)
    if encoding is not None and tokenizer.format_name != "tiktoken":
        what, hint = "is not a .tiktoken file", "only those take --encoding"
        raise UsageError(what, source=source.name, hint=hint)
    return tokenizer
