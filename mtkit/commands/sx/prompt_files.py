"""Prompts in a file: a line each, plain or JSON."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def prompts_of(path: str) -> Iterator[str]:
    """Give the prompts of a file; a line that begins with a brace is JSON with "prompt".

    Raises:
        UsageError: It cannot be read.
        FormatError: A line of JSON holds no such text.
    """
    import json

    from mtkit.commands.arguments import read_text
    from mtkit.errors import FormatError

    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.startswith("{"):
            try:
                found = json.loads(line)["prompt"]
            except (ValueError, KeyError, RecursionError):
                found = None
            if not isinstance(found, str):
                raise FormatError(
                    'is not JSON with a text as "prompt"', source=path, field=f"line {number}"
                )
            yield found
        elif line.strip():
            yield line
