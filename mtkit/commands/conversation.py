"""The messages of a chat that a command is given, and what else comes as JSON files."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.tokenizer.tokenizer import Tokenizer


def rendered(tokenizer: Tokenizer, file: str) -> bytes:
    """Return the messages of a file as a tokenizer's template writes them, an answer opened.

    Raises:
        MtkitError: The file holds no messages, or there is no template, or it refuses them.
    """
    from mtkit.chat.template import apply
    from mtkit.errors import MtkitError
    from mtkit.unicode.utf8 import to_bytes

    messages = conversation_of(file)
    try:
        made = apply(tokenizer.spec, messages, add_generation_prompt=True)
    except MtkitError as error:
        is_theirs = error.field.startswith("messages")
        raise error.located(file if is_theirs else tokenizer.source) from None
    return to_bytes(made.text)


def conversation_of(file: str | None, system: str | None = None, user: str | None = None) -> Any:
    """Return the messages of a file, with those of the command line around them."""
    from mtkit.errors import UsageError

    found = read_json(file)
    if type(found) is dict and "messages" in found:
        found = found["messages"]
    if found is None:
        found = []
    if type(found) is not list:
        raise UsageError("is not a list of messages", source=file or "")
    if system is not None:
        found = [{"role": "system", "content": system}, *found]
    if user is not None:
        found = [*found, {"role": "user", "content": user}]
    if not found:
        raise UsageError("no messages", hint="add --messages FILE or --user TEXT")
    return found


def read_json(file: str | None) -> Any:
    """Read a JSON file."""
    from mtkit.base.binary import Source
    from mtkit.errors import MtkitError
    from mtkit.formats.json_fields import parse

    if file is None:
        return None
    try:
        return parse(Source.open(file).data)
    except MtkitError as error:
        raise error.located(file) from None
