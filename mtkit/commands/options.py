"""Options that mean the same in every command, and what they become."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from typer.core import TyperCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, BinaryIO

    from mtkit.base.binary import Source
    from mtkit.tokenizer.tokenizer import Tokenizer

_CHUNK_BYTES = 1 << 16
_UNITS = {"k": 1 << 10, "K": 1 << 10, "m": 1 << 20, "M": 1 << 20}
"""After a number of tokens; those of a context are powers of two."""

TOKENIZER = Annotated[
    str | None,
    typer.Option(
        "-t", "--tokenizer", metavar="NAME", help="File, folder or ORG/NAME; - for a pipe."
    ),
]
NO_SPECIAL = Annotated[
    bool, typer.Option("--no-special", help="Do not add special tokens (BOS, EOS …).")
]
NO_PARSE_SPECIAL = Annotated[
    bool,
    typer.Option("--no-parse-special", help="Take special tokens in the text as plain text."),
]
TRACE = Annotated[bool, typer.Option("--trace", help="Show what every stage does.")]
AS_READER = Annotated[
    str | None,
    typer.Option("--as", metavar="mnn", help="Answer as MNN's loader would (.mtok)."),
]
DOWNLOAD = Annotated[
    bool, typer.Option("--download", help="Fetch a model repository named ORG/NAME.")
]
PROMPT = Annotated[
    str | None, typer.Option("-p", "--prompt", metavar="TEXT", help="The text, as an option.")
]
FILES = Annotated[
    list[str] | None,
    typer.Option("-f", "--file", metavar="FILE", help="Read the text from it. Repeatable."),
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
PLOT = Annotated[
    str | None, typer.Option("--plot", metavar="NAME", help="Write NAME.png and NAME.svg.")
]
ALLOW_LOSS = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-loss",
        metavar="CODE",
        help="Convert although CODE is lost.",
        autocompletion=lambda: ["ids", "ids-possible"],
    ),
]


def application() -> typer.Typer:
    """Return typer's frame of one command: errors are shown by ``mtkit.cli``, help is plain."""
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Command(TyperCommand):
    """A command whose options have further spellings, which help and errors do not name."""

    also: Mapping[str, tuple[str, ...]]

    def make_parser(self, ctx: Any) -> Any:
        """Let the parser know the further spellings."""
        parser = super().make_parser(ctx)
        for param in self.params:
            spellings = self.also.get(param.name or "")
            if spellings:
                own = param.opts, param.secondary_opts
                param.opts, param.secondary_opts = list(spellings), []
                param.add_to_parser(parser, ctx)
                param.opts, param.secondary_opts = own
        return parser


def spelled(**spellings: str) -> type[Command]:
    """Return the class of a command with further spellings: parameter -> with spaces between."""
    also = {name: tuple(text.split()) for name, text in spellings.items()}
    return type("Command", (Command,), {"also": also})


def texts_of(
    text: str | None,
    prompt: str | None,
    files: Sequence[str] | None,
    hint: str,
    *,
    may_be_none: bool = False,
) -> Iterator[tuple[str, BinaryIO | bytes]]:
    """Yield name and content of each text that a command is given.

    The argument or ``--prompt`` is bytes and has no name; a file or what comes through a pipe is
    open, and closed afterwards.

    Raises:
        UsageError: None is given, or there are several sources, or there is no such file.
    """
    from mtkit.base.binary import standard_input
    from mtkit.errors import UsageError

    if sum(source not in (None, []) for source in (text, prompt, files)) > 1:
        raise UsageError("give one of TEXT, --prompt and --file")
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
        try:
            file = standard_input() if path == "-" else open(path, "rb")  # noqa: SIM115  below
        except OSError as error:
            raise UsageError(error.strerror or str(error), source=path) from None
        with file:
            yield path, file


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


def programs() -> list[str]:
    """Names of the programs whose reading is compared, for shell completion."""
    from mtkit.check.programs import PROGRAMS

    return list(PROGRAMS)


def loss_codes(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the codes of losses that may happen.

    Raises:
        UsageError: One is not known.
    """
    from mtkit.errors import UsageError
    from mtkit.formats.contract import LOSS_CODES

    for code in given or ():
        if code not in LOSS_CODES:
            what = f"--allow-loss: no loss is called {code!r}"
            raise UsageError(what, hint=f"known: {', '.join(LOSS_CODES)}")
    return tuple(given or ())


def whole(given: str | int) -> int:
    """Return a whole number: 8192, or 8k; a default is one already."""
    text = str(given)
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    try:
        return int(number) * unit
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number, nor one as 8k") from None


def _fetched(given: str | int) -> int:
    number = whole(given)
    if number < 1:
        raise typer.BadParameter(f"{given!r} is not a number of bytes")
    return number


MAX_FETCH = Annotated[
    int | None,
    typer.Option("--max-fetch", metavar="N", parser=_fetched, help="Bytes of a remote file; 64M."),
]


def locate_named(name: str | None, *, download: bool = False) -> str:
    """Return the path that a name stands for; a terminal's stderr says which one was taken."""
    from mtkit.errors import UsageError
    from mtkit.sources.locate import TOKENIZER, locate

    if name is not None and name.isdigit() and not os.path.exists(name):
        hint = "-t names a tokenizer: --truncate N cuts a text, generate has --threads N"
        raise UsageError("no such file", source=name, hint=hint)
    path = locate(name, download=download)
    _say_which(name, path, TOKENIZER.key)
    return path


def open_named(name: str | None, *, download: bool = False, most: int | None = None) -> Source:
    """Open what a name stands for; of an address, what tells the content of its file."""
    from mtkit.base.binary import Source
    from mtkit.sources.remote import MOST_BYTES, is_remote, open_remote

    if name is not None and is_remote(name) and not os.path.exists(name):
        return open_remote(name, most=MOST_BYTES if most is None else most)
    return Source.open(locate_named(name, download=download))


def model_named(name: str | None, *, quiet: bool = False) -> str:
    """Return the path of the model that a name stands for; as ``locate_named``."""
    from mtkit.sources.locate import MODEL, locate

    path = locate(name, MODEL)
    if not quiet:
        _say_which(name, path, MODEL.key)
    return path


def gguf_named(name: str) -> str:
    """Return the path of a GGUF that is only read: a file, "-", or a model by its name."""
    is_path = name == "-" or (os.path.lexists(name) and not os.path.isdir(name))
    return name if is_path else model_named(name)


def _say_which(name: str | None, path: str, key: str) -> None:
    """Say which file was taken where the command line does not; never in a pipe."""
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
    """Load a tokenizer for a command; what is wrong with its file is said on stderr."""
    from mtkit.base.binary import Source
    from mtkit.errors import UsageError
    from mtkit.tokenizer.load import load_source, named_encoding

    path = locate_named(name, download=download)
    asked = {"encoding": encoding} if encoding is not None else named_encoding(name, path)
    tokenizer = load_source(Source.open(path), overrides=asked, reader=reader)
    if encoding is not None and tokenizer.format_name != "tiktoken":
        what, hint = "is not a .tiktoken file", f"-t {encoding} looks for that encoding by name"
        raise UsageError(what, source=path, hint=hint)
    if tokenizer.warnings:
        from mtkit.commands.output import warn

        warn(path, tokenizer.warnings)
    return tokenizer
