"""Options of commands: the row that declares one, those of several commands, and their values.

A command's parameter is the option of its name in the command's own table, or else in ``SHARED``;
its type and default are the parameter's. typer is not imported: it reads these rows
(``commands.application``), and so does what reads plain lines without it (``commands.command``).
"""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any


_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}
_DIGITS = 18
"""More than any size has; int() takes no more than 4,300."""
_UNITS = {"k": 1 << 10, "K": 1 << 10, "m": 1 << 20, "M": 1 << 20}
"""After a number of tokens; those of a context are powers of two."""


class Option(Record):
    """One option, or without a name one argument.

    Attributes:
        names: Its spellings, with spaces between; ``--yes/--no`` is a switch of two.
        also: Further spellings, which help and errors do not name.
        reads: Makes the value of its text; a ValueError says what is wrong with it.
    """

    names: str
    help: str
    metavar: str = ""
    also: str = ""
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] | Callable[..., list[str]] = ()
    reads: Callable[[str | int], Any] | None = None
    heading: str = ""
    variable: str = ""
    choices: tuple[str, ...] = ()
    shows_default: bool = True
    is_hidden: bool = False


REQUIRED = object()
"""Default of a parameter that has none."""
_NUMBERS = {"int": int, "float": float}


class Parameter:
    """A parameter of a command."""

    __slots__ = ("annotation", "default", "name", "option")

    def __init__(self, name: str, option: Option, annotation: str, default: Any) -> None:
        self.name, self.option, self.annotation, self.default = name, option, annotation, default

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return self.annotation.startswith("list")

    @property
    def words(self) -> int:
        """How many words a value is."""
        return 2 if self.annotation.startswith("list[tuple") else 1

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return self.annotation.startswith("bool")

    def spellings(self) -> Iterator[tuple[str, bool]]:
        """Give each spelling of the option, and whether it is one that switches on."""
        for names in f"{self.option.names} {self.option.also}".split():
            on, _, off = names.partition("/")
            yield on, True
            if off:
                yield off, False

    def parse(self, text: str) -> Any:
        """Return the value of a text."""
        option = self.option
        if option.reads is not None:
            return option.reads(text)
        kind = _NUMBERS.get(self.annotation.partition(" ")[0])
        if kind is None:
            if option.choices and text not in option.choices:
                raise ValueError(text)
            return text
        value = kind(text)
        is_low = option.low is not None and value < option.low
        if is_low or (option.high is not None and value > option.high):
            raise ValueError(text)
        return value


def parse_whole(value: str | int) -> int:
    """Return a whole number: 8192, or 8k; a default is one already."""
    text = str(value)
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    try:
        return int(number) * unit
    except ValueError:
        raise ValueError(f"{text!r} is neither a whole number nor a size like 8k") from None


def _parse_fetch_limit(value: str | int) -> int:
    number = parse_whole(value)
    if number < 1:
        raise ValueError(f"{value!r} is not a number of bytes")
    return number


def parse_bytes(text: str, option: str) -> int:
    """Return a size: 2G is 2 000 000 000 bytes, 2Gi 2^31."""
    from mtkit.errors import UsageError

    digits = text.rstrip("KMGBiIkmgb")
    unit = text[len(digits) :].upper().removesuffix("B")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS
    if not is_number or unit not in _BYTES or int(digits) == 0:
        raise UsageError(f"{option} {text[:40]!r} is not a size", hint="write 2G, 500M or 1Gi")
    return int(digits) * _BYTES[unit]


def parse_loss_codes(codes: Sequence[str] | None) -> tuple[str, ...]:
    """Return the codes of losses that may happen."""
    from mtkit.errors import UsageError
    from mtkit.formats.contract import LOSS_CODES

    for code in codes or ():
        if code not in LOSS_CODES:
            what = f"--allow-loss: unknown loss {code!r}"
            raise UsageError(what, hint=f"known: {', '.join(LOSS_CODES)}")
    return tuple(codes or ())


def program_names() -> list[str]:
    """Names of the programs whose reading is compared, for shell completion."""
    from mtkit.conversion.programs import PROGRAMS

    return list(PROGRAMS)


SHARED: Mapping[str, Option] = {
    "tokenizer": Option(
        "-t --tokenizer",
        "Tokenizer: file, folder or ORG/NAME; - for standard input.",
        "NAME",
        "-m --model",
    ),
    "no_special": Option(
        "--no-special", "Do not add special tokens (BOS, EOS …).", also="--no-add-special --no-bos"
    ),
    "parse_special": Option(
        "--parse-special",
        "Parse special tokens in the text; default: as the tokenizer's own library does.",
        also="--allow-special",
    ),
    "no_parse_special": Option(
        "--no-parse-special", "Treat special tokens in the text as plain text."
    ),
    "trace": Option("--trace", "Show what every stage does."),
    "encoding": Option(
        "--encoding", "For a .tiktoken file: name of its published encoding.", "NAME"
    ),
    "as_reader": Option(
        "--as",
        "Read the tokenizer the way another program does: transformers (folders) or mnn (.mtok).",
        "NAME",
        values=("transformers", "mnn"),
    ),
    "download": Option("--download", "Download ORG/NAME if it is not in the local cache."),
    "verify_tables": Option(
        "--verify-tables", "First check a .mtok's engine tables against its specification."
    ),
    "prompt": Option("-p --prompt", "The text, as an option.", "TEXT"),
    "files": Option(
        "-f --file",
        "Read the text from a file. Repeatable.",
        "FILE",
        "--input",
    ),
    "as_json": Option("--json", "Print one JSON document."),
    "plot": Option("--plot", "Write NAME.png and NAME.svg.", "NAME"),
    "allow_loss": Option(
        "--allow-loss",
        "Convert in spite of losses with this code.",
        "CODE",
        values=("ids", "ids-possible"),
    ),
    "most": Option(
        "--max-fetch",
        "Maximum bytes of a remote file to fetch. [64M]",
        "N",
        reads=_parse_fetch_limit,
    ),
    "imatrix_from": Option(
        "--imatrix-from",
        "Compute an importance matrix from a text. Repeatable.",
        "FILE",
    ),
    "file": Option("", "GGUF file.", "FILE"),
    "names": Option("", "Text files; - or none: standard input.", "[FILE]..."),
    "target": Option("", "The GGUF model to speed up.", "TARGET"),
    "out": Option("-o --output", "File to write.", "FILE"),
    "dry_run": Option("--dry-run", "Check without writing."),
    "template": Option(
        "--chat-template-file", "Chat template to use instead of the model's.", "FILE", "--template"
    ),
    "chunks": Option("--chunks", "Maximum number of windows; default: all.", "N", low=1),
    "quiet": Option("-q --quiet", "Print no notes."),
    "force": Option("--force", "Replace an existing file."),
    "verbose": Option("-v --verbose", "Show llama.cpp's log."),
}
"""Parameter -> option."""
CHAT_TEMPLATE = Option(
    "--chat-template",
    "Name of one of llama.cpp's chat templates, or a template as text.",
    "NAME|TEXT",
)
NO_TENSOR_FIRST = Option("--no-tensor-first-split", "Put only the metadata in the first shard.")
FORCE_FILES = Option("--force", "Replace existing files.")
"""``force`` of a command that writes several files."""
