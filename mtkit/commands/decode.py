"""``mtkit decode``: ids to text."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.inputs import load_tokenizer, open_texts, read_lines
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.tokenizer.tokenizer import Tokenizer


OPTIONS = {
    "ids": Option("", "Token ids; - or none: standard input.", "[ID]..."),
    "files": Option("-f --file", "Read ids from a file. Repeatable.", "FILE", "--input"),
    "special": Option("--special/--skip-special", "Print special tokens, or skip them."),
    "lines": Option("--lines", "Decode line by line, one text per line."),
}


def decode(
    ids: list[str] | None = None,
    tokenizer: str | None = None,
    files: list[str] | None = None,
    special: bool = False,
    lines: bool = False,
    as_reader: str | None = None,
    trace: bool = False,
    download: bool = False,
    verify_tables: bool = False,
    as_json: bool = False,
) -> None:
    """Decode token ids to text.

    Ids are separated by spaces or commas; the JSON of encode works as well. When output is piped,
    bytes that are not valid UTF-8 are written unchanged, and a line break ends the text.

    \b
    Examples:
      mtkit decode 39 311 391 11 536 45 45 0 -t tokenizer.json
      mtkit encode "Hello, MNN!" | mtkit decode
    """
    from mtkit.errors import UsageError

    if ids and tokenizer is None and not ids[0][:1].isdigit():
        from mtkit.commands.help import reorder_line

        if line := reorder_line("decode", ids, ""):
            raise UsageError(f"{ids[0]!r} is not a token id", hint=line)
    source = load_tokenizer(
        tokenizer, reader=as_reader, download=download, verify_tables=verify_tables
    )
    hint = "mtkit decode 15 42, or ids on standard input"
    for _, content in open_texts(" ".join(ids) if ids else None, None, files, hint):
        whole = content if isinstance(content, bytes) else b"" if lines else content.read()
        for group in read_lines(content) if lines else [[whole]]:
            texts = (parse_ids(text.decode("utf-8", "replace")) for text in group)
            if trace:
                for numbers in texts:
                    _trace(source, numbers, special=special, as_json=as_json)
            elif as_json:
                for numbers in texts:
                    raw = source.decode_bytes(numbers, skip_special_tokens=not special)
                    _write_json(raw)
            else:
                _write([source.decode_bytes(x, skip_special_tokens=not special) for x in texts])


command = Command(decode, OPTIONS)


def _trace(source: Tokenizer, numbers: list[int], *, special: bool, as_json: bool) -> None:
    from mtkit.commands.trace import show_trace

    source.decode(numbers)  # refuses ids that do not exist
    show_trace(source.trace_decode(numbers, skip_special_tokens=not special), as_json=as_json)


def _write_json(raw: bytes) -> None:
    from mtkit.commands import output

    text = raw.decode("utf-8", "replace")
    document: dict[str, object] = {"schema": "mtkit.decode/1", "text": text}
    if text.encode("utf-8") != raw:
        document["bytes"] = raw.hex()
    output.write_json(document)


def _write(texts: list[bytes]) -> None:
    from mtkit.base.escape import printable
    from mtkit.commands import output

    data = b"".join(raw + b"\n" for raw in texts)
    if output.is_terminal():
        output.write("\n".join(map(printable, data.split(b"\n"))))
    else:
        output.write_bytes(data)


def parse_ids(text: str) -> list[int]:
    """Read ids separated by blanks or commas, as encode or a JSON list prints them, or its JSON."""
    from mtkit.errors import UsageError

    ids = []
    words = text.replace(",", " ").replace("[", " ").replace("]", " ").split()
    if text.lstrip()[:1] == "{":
        words = [str(token_id) for document in _documents(text) for token_id in document]
    for word in words:
        if not word.isascii() or not word.isdigit() or len(word) > 10:
            raise UsageError(
                f"{word[:40]!r} is not a token id", hint="ids are whole numbers, 0 or more"
            )
        ids.append(int(word))
    return ids


def _documents(text: str) -> Iterator[list[object]]:
    """Yield the ids of JSON documents that ``encode --json`` printed."""
    import json

    from mtkit.errors import UsageError

    decoder, at = json.JSONDecoder(), 0
    text = text.strip()
    try:
        while at < len(text):
            document, at = decoder.raw_decode(text, at)
            if not isinstance(document.get("ids"), list):
                raise UsageError(
                    "the JSON has no list of ids", hint="mtkit encode --json prints one"
                )
            yield document["ids"]
            at += len(text[at:]) - len(text[at:].lstrip())
    except (ValueError, RecursionError, AttributeError) as error:
        raise UsageError(f"is not valid JSON: {error}", field="ids") from None
