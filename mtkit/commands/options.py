"""Options that are declared once, without typer: those of several commands, and those of encode.

A parameter of a command is the option of its name in ``SHARED``, unless the command declares its
own. typer is not imported: plain lines (``plain_line``) are read by these tables, too.
"""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Option(Record):
    """One option.

    Attributes:
        also: Further spellings, which help and errors do not name.
        reads: Name of the function of ``options`` that reads a number.
    """

    names: str
    help: str
    metavar: str = ""
    also: str = ""
    is_list: bool = False
    low: int | None = None
    reads: str = ""
    values: tuple[str, ...] = ()


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
        is_list=True,
    ),
    "as_json": Option("--json", "Print one JSON document."),
    "plot": Option("--plot", "Write NAME.png and NAME.svg.", "NAME"),
    "allow_loss": Option(
        "--allow-loss",
        "Convert in spite of losses with this code.",
        "CODE",
        is_list=True,
        values=("ids", "ids-possible"),
    ),
    "most": Option(
        "--max-fetch", "Maximum bytes of a remote file to fetch. [64M]", "N", reads="fetched"
    ),
    "imatrix_from": Option(
        "--imatrix-from",
        "Compute an importance matrix from a text. Repeatable.",
        "FILE",
        is_list=True,
    ),
    "force": Option("--force", "Replace an existing file."),
    "verbose": Option("-v --verbose", "Show llama.cpp's log."),
}
"""Parameter -> option."""


ENCODE_OPTIONS = {
    **SHARED,
    "text": Option("", "Text to encode; - for standard input.", "TEXT"),
    "messages": Option(
        "--messages",
        "File with messages; - for standard input. Default tokenizer: the default model's.",
        "JSON",
    ),
    "lines": Option("--lines", "Encode line by line, one result per line."),
    "only_ids": Option("--ids", "Print ids, separated by spaces."),
    "only_tokens": Option("--tokens", "Print tokens, escaped, separated by spaces."),
    "count": Option("--count", "Print the number of tokens.", also="--show-count"),
    "offsets": Option("--offsets", "Print id, start, end and token, one per line."),
    "truncate": Option(
        "--truncate",
        "Keep at most N tokens, including special ones.",
        "N",
        "--max-length",
        reads="whole",
    ),
    "bos": Option("--bos", "Add BOS before the text even if the tokenizer does not."),
    "eos": Option("--eos", "Add EOS after the text even if the tokenizer does not."),
}
"""Parameter of ``encode.run`` -> option."""
