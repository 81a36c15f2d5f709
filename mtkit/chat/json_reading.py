"""JSON as a model writes it, read while it comes and told as JSON that any program reads.

What models get wrong and what can only mean one thing is mended: control characters in texts,
escapes that JSON does not have, halves of surrogate pairs.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.chat.incoming import Incoming, Waiting

MOST_DEPTH = 100
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_WORD = re.compile(r"-?[\w.+-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORDS = {"true": "true", "false": "false", "null": "null",
          "True": "true", "False": "false", "None": "null"}  # fmt: skip


def read_value(source: Incoming, tell: Callable[[str], None], depth: int = 0) -> Waiting[bool]:
    """Read one value and tell it, piece by piece; False where there is none or not all of one."""
    if depth > MOST_DEPTH or not (yield from source.blank()):
        return False
    first = source.text[source.at]
    if first == '"':
        return (yield from read_text(source, tell))
    if first in "{[":
        return (yield from _read_members(source, tell, first, depth))
    return (yield from _read_word(source, tell))


def _read_members(
    source: Incoming, tell: Callable[[str], None], opening: str, depth: int
) -> Waiting[bool]:
    closing = "}" if opening == "{" else "]"
    source.at += 1
    tell(opening)
    is_first = True
    while True:
        if not (yield from source.blank()):
            return False
        found = source.text[source.at]
        if found == closing and is_first:
            break
        if not is_first:
            if found == closing:
                break
            if found != ",":
                return False
            source.at += 1
            tell(", ")
            if not (yield from source.blank()):
                return False
        is_first = False
        if opening == "{":
            if source.text[source.at] != '"' or not (yield from read_text(source, tell)):
                return False
            if not (yield from source.blank()) or source.text[source.at] != ":":
                return False
            source.at += 1
            tell(": ")
        if not (yield from read_value(source, tell, depth + 1)):
            return False
    source.at += 1
    tell(closing)
    return True


def read_text(source: Incoming, tell: Callable[[str], None]) -> Waiting[bool]:
    """Read a text in double quotes and tell it as JSON."""
    source.at += 1
    tell('"')
    while True:
        if not (yield from source.peek()):
            return False
        found = _PLAIN.match(source.text, source.at)
        if found:
            source.at = found.end()
            tell(found[0])
            continue
        one = source.text[source.at]
        if one == '"':
            source.at += 1
            tell('"')
            return True
        if one != "\\":
            source.at += 1
            tell(f"\\u{ord(one):04x}")
            continue
        if not (yield from _read_escape(source, tell)):
            return False


def _read_escape(source: Incoming, tell: Callable[[str], None]) -> Waiting[bool]:
    while len(source.text) - source.at < 2:
        if not (yield from source.more()):
            return False
    one = source.text[source.at + 1]
    if one != "u":
        source.at += 2
        tell("\\" + one if one in '"\\/bfnrt' else "'" if one == "'" else _kept(one))
        return True
    while len(source.text) - source.at < 6:
        if not (yield from source.more()):
            return False
    if not _HEX.match(source.text, source.at + 2):
        source.at += 2
        tell("\\\\u")
        return True
    code = int(source.text[source.at + 2 : source.at + 6], 16)
    if 0xD800 <= code < 0xDC00:
        while len(source.text) - source.at < 12 and (yield from source.more()):
            pass
        second = source.text[source.at + 6 : source.at + 12]
        if second[:2] == "\\u" and _HEX.fullmatch(second, 2) and second[2:4].lower() in _LOW:
            tell(source.text[source.at : source.at + 12])
            source.at += 12
            return True
    tell("\\ufffd" if 0xD800 <= code < 0xE000 else source.text[source.at : source.at + 6])
    source.at += 6
    return True


_LOW = frozenset(("dc", "dd", "de", "df"))


def _kept(one: str) -> str:
    """Return an escape that JSON does not have as the two characters that were written."""
    return "\\\\" + (one if one >= " " else f"\\u{ord(one):04x}")


def _read_word(source: Incoming, tell: Callable[[str], None]) -> Waiting[bool]:
    while True:
        found = _WORD.match(source.text, source.at)
        end = found.end() if found else source.at
        if end < len(source.text) or not (yield from source.more()):
            break
        if end - source.at > 1000:
            return False
    word = source.text[source.at : end]
    if word in _WORDS:
        tell(_WORDS[word])
    elif word and _NUMBER.fullmatch(word):
        tell(word)
    else:
        return False
    source.at = end
    return True
