"""``mtkit encode``: text to ids."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from mtkit.commands.options import (
    AS_JSON,
    DOWNLOAD,
    NO_PARSE_SPECIAL,
    NO_SPECIAL,
    TOKENIZER,
    TRACE,
    application,
    load_named,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.pipeline.result import Encoding
    from mtkit.tokenizer.tokenizer import Tokenizer

    Ids = tuple[list[int], memoryview, list[int]]
    """Ids before a text, of the text (not each a Python object), and after it."""

app = application()


@app.command()
def encode(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; - reads standard input.")
    ] = None,
    tokenizer: TOKENIZER = None,
    input_file: Annotated[
        str | None, typer.Option("-f", "--input", metavar="FILE", help="Read the text from it.")
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Encode each line by itself, one result a line.")
    ] = False,
    only_ids: Annotated[bool, typer.Option("--ids", help="Print ids, space separated.")] = False,
    only_tokens: Annotated[
        bool, typer.Option("--tokens", help="Print tokens, escaped, space separated.")
    ] = False,
    count: Annotated[bool, typer.Option("--count", help="Print the number of tokens.")] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Print id, start, end and token, one a line.")
    ] = False,
    no_special: NO_SPECIAL = False,
    no_parse_special: NO_PARSE_SPECIAL = False,
    parse_special: Annotated[
        bool, typer.Option("--parse-special", help="Recognise special tokens in the text.")
    ] = False,
    bos: Annotated[
        bool, typer.Option("--bos", help="BOS before the text, instead of the file's template.")
    ] = False,
    eos: Annotated[
        bool, typer.Option("--eos", help="EOS after the text, instead of the file's template.")
    ] = False,
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="NAME", help="Published encoding (.tiktoken)."),
    ] = None,
    as_reader: Annotated[
        str | None,
        typer.Option("--as", metavar="mnn", help="Answer as MNN's loader would (.mtok)."),
    ] = None,
    trace: TRACE = False,
    download: DOWNLOAD = False,
    as_json: AS_JSON = False,
) -> None:
    """Encode text to token ids.

    In a pipe: the ids on one line. On a terminal: a table of ids, tokens and bytes.

    \b
    Examples:
      mtkit encode "Hello, MNN!"
      mtkit encode "Hello, MNN!" -t tokenizer.json --trace
      mtkit encode --input book.txt --lines --count -t model.gguf
    """
    from mtkit.errors import UsageError

    if parse_special and no_parse_special:
        raise UsageError("--parse-special and --no-parse-special exclude each other")
    if sum((only_ids, only_tokens, count, offsets, trace)) > 1:
        raise UsageError("choose one of --ids, --tokens, --count, --offsets and --trace")
    if trace and (bos or eos):
        raise UsageError("--trace shows the file's own template, without --bos and --eos")
    special = True if parse_special else False if no_parse_special else None
    template = not (no_special or bos or eos)
    source = load_named(tokenizer, reader=as_reader, encoding=encoding, download=download)
    texts = _texts(text, input_file, lines=lines)
    if trace:
        from mtkit.commands.encode.trace import show_trace

        for one in texts:
            show_trace(
                source.trace(one, add_special_tokens=template, parse_special=special),
                as_json=as_json,
            )
        return
    from mtkit.commands import output

    to_ids, to_encoding = _encoder(source, template, special, bos=bos, eos=eos)
    plain = only_ids or not output.is_terminal()
    if count or (plain and not (as_json or only_tokens or offsets)):
        for one in texts:
            ids = to_ids(one)
            number = sum(map(len, ids))
            if count and as_json:
                output.write_json({"schema": "mtkit.encode/1", "count": number})
            elif count:
                output.write(f"{number}\n")
            else:
                output.write_numbers(ids)
        return
    form = "json" if as_json else "tokens" if only_tokens else "offsets" if offsets else "table"
    printer = _Printer(source, to_encoding, form)
    for one in texts:
        printer.print(one)


def _texts(text: str | None, input_file: str | None, *, lines: bool) -> Iterator[str | bytes]:
    """Yield what is to be encoded; bytes where they come from a file or a pipe."""
    from mtkit.base.binary import standard_input
    from mtkit.errors import UsageError

    if text is not None and input_file is not None:
        raise UsageError("give a text or --input, not both")
    if text is None and input_file is None:
        if sys.stdin.isatty():
            raise UsageError("no text", hint='mtkit encode "Hello, MNN!" or --input FILE')
        text = "-"
    if text is not None and text != "-":
        if os.path.isfile(text):
            sys.stderr.write("mtkit: the text is the name of a file; --input reads the file\n")
        # Bytes of the command line that are not valid UTF-8 arrive as surrogate escapes.
        raw = text.encode("utf-8", "surrogateescape")
        yield from raw.splitlines() if lines else [raw]
        return
    try:
        file = standard_input() if text == "-" else open(str(input_file), "rb")  # noqa: SIM115  closed below
    except OSError as error:
        raise UsageError(error.strerror or str(error), source=str(input_file)) from None
    with file:
        if lines:
            for line in file:
                yield line.removesuffix(b"\n").removesuffix(b"\r")
        else:
            yield file.read()


class _Printer:
    """Prints encodings in the form that the options ask for."""

    def __init__(
        self, tokenizer: Tokenizer, encode: Callable[[str | bytes], Encoding], form: str
    ) -> None:
        self.tokenizer = tokenizer
        self.encode = encode
        self.form = form

    def print(self, text: str | bytes) -> None:
        """Encode one text and print it."""
        from mtkit.base.escape import byte_escapes, escape
        from mtkit.commands import output

        encoding = self.encode(text)
        if self.form == "tokens" and output.is_terminal():
            from mtkit.commands.terminal import token_text

            raw = map(self.tokenizer.token_bytes, encoding.ids)
            output.write(" ".join(map(token_text, raw)) + "\n")
        elif self.form == "tokens":
            output.write(" ".join(map(escape, encoding.tokens)) + "\n")
        elif self.form == "offsets":
            rows = zip(encoding.ids, encoding.offsets, encoding.tokens, strict=True)
            output.write_rows((i, start, end, token) for i, (start, end), token in rows)
        elif self.form == "json":
            output.write_json(
                {
                    "schema": "mtkit.encode/1",
                    "ids": encoding.ids,
                    "tokens": [byte_escapes(token) for token in encoding.tokens],
                    "offsets": encoding.offsets,
                    "special_tokens_mask": encoding.special_tokens_mask,
                }
            )
        else:
            from mtkit.commands.encode.trace import show_tokens

            show_tokens(self.tokenizer, encoding, text)


def _encoder(
    tokenizer: Tokenizer, template: bool, parse_special: bool | None, *, bos: bool, eos: bool
) -> tuple[Callable[[str | bytes], Ids], Callable[[str | bytes], Encoding]]:
    """Return how a text becomes ids, and ids with all that is known of them."""
    from mtkit.errors import UsageError

    before = tokenizer.bos_id if bos else None
    after = tokenizer.eos_id if eos else None
    for asked, token_id, name in ((bos, before, "BOS"), (eos, after, "EOS")):
        if asked and token_id is None:
            raise UsageError(f"has no {name} token", source=tokenizer.source)
    front = [] if before is None else [before]
    back = [] if after is None else [after]

    def ids(text: str | bytes) -> Ids:
        found = tokenizer.encode_array(
            text, add_special_tokens=template, parse_special=parse_special
        )
        return front, found, back

    def encode(text: str | bytes) -> Encoding:
        found = tokenizer.encode(text, add_special_tokens=template, parse_special=parse_special)
        return tokenizer.surround(found, front, back) if bos or eos else found

    return ids, encode
