"""JSON that ends too early: the arguments of a call that was cut, closed as far as they go."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_CUT_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")
_HALF_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
"""The first half of a surrogate pair, which alone is no character."""
_CUT_WORD = re.compile(r"[a-z]+\Z")
_WORDS = ("true", "false", "null")
_ENDINGS = ("", "0", ": null", " null")
"""What may be missing behind a text or number, a key, and a colon."""


def close_object(text: str) -> dict[str, Any] | None:
    """Return the object that a text begins with, with what was written of it; None: it has none."""
    body, closing = _open_ends(text)
    body = body.rstrip().removesuffix(",") if not closing.startswith('"') else body
    word = _CUT_WORD.search(body)
    words = [full for full in _WORDS if word and full.startswith(word[0])]
    if words and word and not closing.startswith('"'):
        body = body[: word.start()] + words[0]
    quote, brackets = closing[: closing.startswith('"')], closing.lstrip('"')
    for ending in _ENDINGS:
        try:
            value = json.loads(body + quote + ending + brackets, strict=False)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _open_ends(text: str) -> tuple[str, str]:
    """Return a text without a cut escape at its end, and what closes all that is open in it."""
    closers: list[str] = []
    in_text = is_escaped = False
    for character in text:
        if in_text:
            in_text = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            in_text = True
        elif character in "{[":
            closers.append("}" if character == "{" else "]")
        elif character in "}]" and closers:
            closers.pop()
    closing = "".join(reversed(closers))
    if not in_text:
        return text, closing
    text = _HALF_PAIR.sub(r"\1", _CUT_ESCAPE.sub(r"\1", text))
    return text, f'"{closing}'
