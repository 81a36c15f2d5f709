"""``mtkit decode``: ids to text."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mtkit.commands.options import AS_JSON, DOWNLOAD, TOKENIZER, TRACE, application, load_named

app = application()


@app.command()
def decode(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Token ids; - or none reads standard input."),
    ] = None,
    tokenizer: TOKENIZER = None,
    skip_special: Annotated[
        bool, typer.Option("--skip-special", help="Leave special tokens out of the text.")
    ] = False,
    trace: TRACE = False,
    download: DOWNLOAD = False,
    as_json: AS_JSON = False,
) -> None:
    """Decode token ids to text.

    In a pipe bytes that are not valid UTF-8 are written as they are, and a line break ends the
    text.

    \b
    Examples:
      mtkit decode 9419 11 380 9455 0 -t tokenizer.json
      mtkit encode "Hello, MNN!" | mtkit decode
    """
    from mtkit.base.binary import standard_input
    from mtkit.errors import UsageError

    if not ids and sys.stdin.isatty():
        raise UsageError("no ids", hint="mtkit decode 15 42, or ids on standard input")
    source = load_named(tokenizer, download=download)
    if not ids or ids == ["-"]:
        ids = [standard_input().read().decode("utf-8", "replace")]
    numbers = parse_ids(" ".join(ids))
    if trace:
        from mtkit.commands.encode.trace import show_trace

        source.decode(numbers)  # refuses ids that do not exist
        show_trace(source.trace_decode(numbers, skip_special_tokens=skip_special), as_json=as_json)
        return
    from mtkit.base.escape import printable
    from mtkit.commands import output

    raw = source.decode_bytes(numbers, skip_special_tokens=skip_special)
    if as_json:
        text = raw.decode("utf-8", "replace")
        document: dict[str, object] = {"schema": "mtkit.decode/1", "text": text}
        if text.encode("utf-8") != raw:
            document["bytes"] = raw.hex()
        output.write_json(document)
    elif output.is_terminal():
        output.write("\n".join(printable(line) for line in raw.split(b"\n")) + "\n")
    else:
        output.write_bytes(raw + b"\n")


def parse_ids(text: str) -> list[int]:
    """Read ids separated by blanks or commas, as encode or a JSON list prints them.

    Raises:
        UsageError: Something is not an id.
    """
    from mtkit.errors import UsageError

    found = []
    for word in text.replace(",", " ").replace("[", " ").replace("]", " ").split():
        if not word.isascii() or not word.isdigit() or len(word) > 10:
            raise UsageError(
                f"{word[:40]!r} is not a token id", hint="ids are whole numbers from 0 on"
            )
        found.append(int(word))
    return found
