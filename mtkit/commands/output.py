"""How commands print: rows, tables, JSON documents; text from files is always escaped.

On a terminal, and in a pipe with ``--color always``: ``terminal.Screen``. In another pipe: one
record a line, tab-separated, no heading, nothing cut, UTF-8. A reader that closes the pipe
ends the command quietly with exit code 0.
"""

from __future__ import annotations

import os
import sys

from mtkit.base.escape import json_visible, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TextIO, TypeVar

    R = TypeVar("R")

_CHUNK_LINES = 4096
_CHUNK_NUMBERS = 1 << 16


class Escaped(str):
    """Text that is escaped already, for a cell."""

    __slots__ = ()


def is_terminal() -> bool:
    """Whether stdout is a terminal, or is to be taken for one: ``--color always | less -R``."""
    return sys.stdout.isatty() or os.environ.get("FORCE_COLOR") == "always"


def write(text: str) -> None:
    """Write text to stdout as UTF-8."""
    write_bytes(text.encode("utf-8", "backslashreplace"))


def write_bytes(data: bytes) -> None:
    """Write bytes to stdout."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # typer would turn it into exit code 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def write_numbers(parts: Iterable[Sequence[int] | memoryview]) -> None:
    """Write numbers on one line, separated by spaces, in chunks to save memory."""
    line = ""
    for part in parts:
        for at in range(0, len(part), _CHUNK_NUMBERS):
            if line:
                write(line + " ")
            line = " ".join(map(str, part[at : at + _CHUNK_NUMBERS]))
    write(line + "\n")


def write_rows(rows: Iterable[Sequence[object]]) -> None:
    """Write rows, tab-separated; strings are escaped (so no cell holds a tab or a line break)."""
    lines = []
    for row in rows:
        lines.append("\t".join(map(cell, row)))
        if len(lines) == _CHUNK_LINES:
            write("\n".join(lines) + "\n")
            lines.clear()
    if lines:
        write("\n".join(lines) + "\n")


def write_report(
    report: R,
    *,
    as_json: bool,
    document: Callable[[R], object],
    screen: Callable[[R], object],
    rows: Callable[[R], Iterable[Sequence[object]]],
) -> None:
    """Write what a command did: as JSON, on a terminal, or as rows for a pipe."""
    if as_json:
        write_json(document(report))
    elif is_terminal():
        screen(report)
    else:
        write_rows(rows(report))


def cell(value: object) -> str:
    """Return a value as text of one row."""
    if isinstance(value, Escaped):
        return value
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def write_json(document: Any, *, is_line: bool = False) -> None:
    """Write one JSON document: on one line, or indented on a terminal unless lines are asked for.

    Numbers that JSON lacks are written by their names.
    """
    import json

    try:
        line = json.dumps(document, ensure_ascii=False, allow_nan=False)
    except ValueError:
        document = _finite(document)
        line = json.dumps(document, ensure_ascii=False, allow_nan=False)
    if is_terminal():
        line = json_visible(line if is_line else _indented(document))
    write(line + "\n")


_JSON_WIDTH = 76


def _indented(value: Any, indent: int = 0) -> str:
    """Return JSON for people: what fits a line stays on one, numbers fill their lines."""
    import json

    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list, tuple)) or len(line) + indent <= _JSON_WIDTH:
        return line
    if not isinstance(value, dict) and all(isinstance(item, (int, float)) for item in value):
        from textwrap import fill

        margin = " " * (indent + 2)
        text = fill(line[1:-1], _JSON_WIDTH, initial_indent=margin, subsequent_indent=margin)
        return f"[\n{text}\n{' ' * indent}]"
    if isinstance(value, dict):
        pairs = [(f"{json.dumps(key, ensure_ascii=False)}: ", item) for key, item in value.items()]
    else:
        pairs = [("", item) for item in value]
    rows = (f"{' ' * (indent + 2)}{key}{_indented(item, indent + 2)}" for key, item in pairs)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n" + ",\n".join(rows) + f"\n{' ' * indent}{last}"


def _finite(value: Any) -> Any:
    from mtkit.inspection.document import json_number

    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return json_number(value)


def warn(source: str, messages: Sequence[str], *, most: int = 20) -> None:
    """Write warnings about a file to stderr, one a line."""
    from mtkit.base.escape import printable

    for message in messages[:most]:
        sys.stderr.write(f"mtkit: {printable(f'{source}: warning: {message}')}\n")
    if len(messages) > most:
        sys.stderr.write(f"mtkit: and {len(messages) - most} more warnings; --json lists them\n")


def wants_color(stream: TextIO | None = None) -> bool:
    """Whether color may be written to a stream; default: stdout."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def format_value(value: object) -> str:
    """Return a value for a person: whole numbers in groups of three digits, text escaped."""
    if isinstance(value, int) and not isinstance(value, bool):
        return format_number(value)
    return cell(value)


def format_number(number: int) -> str:
    """Return a whole number in groups of three digits: 151,936."""
    return f"{number:,}"


def format_size(n_bytes: int) -> str:
    """Return a size with a decimal unit: 5.9 MB."""
    return _format_scaled(n_bytes, ("bytes", "kB", "MB", "GB", "TB", "PB", "EB"))


def format_amount(number: int) -> str:
    """Return a count with a unit for people: 5.2 M."""
    return _format_scaled(number, ("", "k", "M", "B", "T")).rstrip()


def _format_scaled(number: int, units: Sequence[str]) -> str:
    value, index = float(number), 0
    while value >= 999.5 and index + 1 < len(units):
        value /= 1000
        index += 1
    digits = 0 if index == 0 or value >= 99.95 else 1
    return f"{value:.{digits}f} {units[index]}"
