"""The options of ``mtkit encode``."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.encode.run import run
from mtkit.commands.options import (
    AS_JSON,
    AS_READER,
    DOWNLOAD,
    FILES,
    NO_PARSE_SPECIAL,
    NO_SPECIAL,
    PROMPT,
    TOKENIZER,
    TRACE,
    application,
    spelled,
    whole,
)

app = application()


@app.command(
    cls=spelled(
        tokenizer="-m --model",
        files="--input",
        count="--show-count",
        no_special="--no-bos",
        parse_special="--allow-special",
        truncate="--max-length",
    )
)
def encode(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Text to encode; - for standard input.")
    ] = None,
    tokenizer: TOKENIZER = None,
    prompt: PROMPT = None,
    files: FILES = None,
    messages: Annotated[
        str | None,
        typer.Option(
            "--messages",
            metavar="JSON",
            help="File with messages; - for standard input. Without -t, for the default model.",
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Encode line by line, one result per line.")
    ] = False,
    only_ids: Annotated[
        bool, typer.Option("--ids", help="Print ids, separated by spaces.")
    ] = False,
    only_tokens: Annotated[
        bool, typer.Option("--tokens", help="Print tokens, escaped, separated by spaces.")
    ] = False,
    count: Annotated[bool, typer.Option("--count", help="Print the number of tokens.")] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Print id, start, end and token, one per line.")
    ] = False,
    truncate: Annotated[
        int | None,
        typer.Option(
            "--truncate",
            metavar="N",
            parser=whole,
            help="Keep at most N tokens, including special ones.",
        ),
    ] = None,
    no_special: NO_SPECIAL = False,
    no_parse_special: NO_PARSE_SPECIAL = False,
    parse_special: Annotated[
        bool, typer.Option("--parse-special", help="Parse special tokens in the text.")
    ] = False,
    bos: Annotated[
        bool, typer.Option("--bos", help="Add BOS before the text, instead of the file's rule.")
    ] = False,
    eos: Annotated[
        bool, typer.Option("--eos", help="Add EOS after the text, instead of the file's rule.")
    ] = False,
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="NAME", help="Name of a published tiktoken encoding."),
    ] = None,
    as_reader: AS_READER = None,
    trace: TRACE = False,
    download: DOWNLOAD = False,
    as_json: AS_JSON = False,
) -> None:
    """Encode text to token ids.

    In a pipe: the ids on one line. On a terminal: a table of ids, tokens and bytes. --messages
    encodes a whole chat as `mtkit template --ids` does, up to the beginning of the answer.

    \b
    Examples:
      mtkit encode "Hello, MNN!"
      mtkit encode "Hello, MNN!" -t tokenizer.json --trace
      mtkit encode --messages chat.json --count -t model.gguf
      mtkit encode -f book.txt --truncate 512 -t model.gguf | mtkit decode -t model.gguf
    """
    run(**locals())
