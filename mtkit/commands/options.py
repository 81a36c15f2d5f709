"""Options that mean the same in every command, and what they become."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}
_UNITS = {"k": 1 << 10, "K": 1 << 10, "m": 1 << 20, "M": 1 << 20}
"""After a number of tokens; those of a context are powers of two."""

TOKENIZER = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--tokenizer",
        metavar="NAME",
        help="Tokenizer: file, folder or ORG/NAME; - for a pipe.",
    ),
]
NO_SPECIAL = Annotated[
    bool, typer.Option("--no-special", help="Do not add special tokens (BOS, EOS …).")
]
NO_PARSE_SPECIAL = Annotated[
    bool,
    typer.Option("--no-parse-special", help="Treat special tokens in the text as plain text."),
]
TRACE = Annotated[bool, typer.Option("--trace", help="Show what every stage does.")]
AS_READER = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        help="Read the file as transformers (a folder) or mnn (.mtok) does.",
        autocompletion=lambda: ["transformers", "mnn"],
    ),
]
DOWNLOAD = Annotated[bool, typer.Option("--download", help="Download the repository ORG/NAME.")]
PROMPT = Annotated[
    str | None, typer.Option("-p", "--prompt", metavar="TEXT", help="The text, given as an option.")
]
FILES = Annotated[
    list[str] | None,
    typer.Option("-f", "--file", metavar="FILE", help="Read the text from a file. Repeatable."),
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
        help="Convert in spite of losses with this code.",
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


def n_bytes(text: str, option: str) -> int:
    """Return a size: 2G is 2 000 000 000 bytes, 2Gi 2^31.

    Raises:
        UsageError: It is none.
    """
    from mtkit.errors import UsageError

    digits = text.rstrip("KMGBiIkmgb")
    unit = text[len(digits) :].upper().removesuffix("B")
    if not digits.isascii() or not digits.isdigit() or unit not in _BYTES or int(digits) == 0:
        raise UsageError(f"{option} {text!r} is not a size", hint="write 2G, 500M or 1Gi")
    return int(digits) * _BYTES[unit]


def _fetched(given: str | int) -> int:
    number = whole(given)
    if number < 1:
        raise typer.BadParameter(f"{given!r} is not a number of bytes")
    return number


MAX_FETCH = Annotated[
    int | None,
    typer.Option(
        "--max-fetch",
        metavar="N",
        parser=_fetched,
        help="Maximum bytes of a remote file to fetch. [64M]",
    ),
]
