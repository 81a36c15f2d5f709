"""``mtkit convert --to all``: a tokenizer in every format that can hold it, a folder each."""

from __future__ import annotations

import os

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.conversion.convert import Conversion
    from mtkit.errors import MtkitError
    from mtkit.tokenizer.tokenizer import Tokenizer


class Tried(Record):
    """What became of one format.

    Attributes:
        name: Of the format.
        done: What was written; None where it cannot hold the tokenizer.
        error: Why nothing was.
    """

    name: str
    done: Conversion | None
    error: MtkitError | None


def to_every(tokenizer: Tokenizer, folder: str, **choices: Any) -> list[Tried]:
    """Write a tokenizer in every format, each into a subfolder of its name.

    Raises:
        UsageError: A file already exists.
    """
    from mtkit.conversion.convert import convert
    from mtkit.errors import AnswerNo, UnsupportedError
    from mtkit.formats import FORMATS, get_format

    tried = []
    for name in sorted(one for one in FORMATS if hasattr(get_format(one), "write")):
        try:
            done = convert(tokenizer, os.path.join(folder, name, ""), to=name, **choices)
            tried.append(Tried(name, done, None))
        except (AnswerNo, UnsupportedError) as error:
            tried.append(Tried(name, None, error))
    return tried


def show(tried: list[Tried], *, as_json: bool) -> None:
    """Print a row for each format: the file and how many texts get the same ids, or why not."""
    from mtkit.commands import output
    from mtkit.commands.convert.report import document

    if as_json:
        formats = [
            {
                "format": one.name,
                "error": None if one.error is None else str(one.error),
                "conversion": None if one.done is None else document(one.done),
            }
            for one in tried
        ]
        output.write_json({"schema": "mtkit.convert-all/1", "formats": formats})
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen

        heads = ("format:name", "file:name", "size>", "ids")
        rows = [
            (name, path, "" if size is None else output.size(size), said)
            for name, path, size, said in map(_row, tried)
        ]
        Screen().table(heads, rows, elastic=3)
    else:
        output.write_rows(map(_row, tried))


def _row(one: Tried) -> tuple[str, str, int | None, str]:
    if one.done is None:
        return one.name, "", None, f"not written: {one.error.what if one.error else ''}"
    first = one.done.verified[0]
    size = dict(one.done.sizes)["total"]
    return one.name, one.done.path, size, f"{first.equal} of {first.total} texts get the same ids"
