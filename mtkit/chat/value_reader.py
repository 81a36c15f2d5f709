"""Values of arguments, read while a model writes them: as JSON, or between signs of their own.

They are told as JSON that any program reads. Mistakes that can only mean one thing are mended:
control characters in texts, escapes that JSON does not have, halves of surrogate pairs. A value
between signs is what its schema allows and its text may mean.
"""

from __future__ import annotations

import ast
import json
import re

from mtkit.chat.answer import LITERAL_WORDS, parse_scalar
from mtkit.chat.signs import NO_MATCH, PARTIAL, Sign, length_without, tags_and_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    from mtkit.chat.answer import Pair, Pairs
    from mtkit.chat.signs import IncomingText, Waiting

    End: TypeAlias = tuple[Sign, bool, int]


MOST_JSON_DEPTH = 100
_MOST_WORD = 1000
"""Characters of a number or a literal."""
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_WORD = re.compile(r"-?[\w.+-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


def read_json_value(
    source: IncomingText, tell: Callable[[str], None], depth: int = 0
) -> Waiting[bool]:
    """Read one value and tell it piece by piece; False where there is none, or it is cut off."""
    if depth > MOST_JSON_DEPTH or not (yield from source.blank()):
        return False
    first = source.text[source.at]
    if first == '"':
        return (yield from read_json_text(source, tell))
    if first in "{[":
        return (yield from _read_members(source, tell, first, depth))
    return (yield from _read_word(source, tell))


def _read_members(
    source: IncomingText, tell: Callable[[str], None], opening: str, depth: int
) -> Waiting[bool]:
    closing = "}" if opening == "{" else "]"
    source.at += 1
    tell(opening)
    is_first = True
    while True:
        if not (yield from source.blank()):
            return False
        character = source.text[source.at]
        if character == closing:
            break
        if not is_first:
            if character != ",":
                return False
            source.at += 1
            tell(", ")
            if not (yield from source.blank()):
                return False
        is_first = False
        if opening == "{":
            if source.text[source.at] != '"' or not (yield from read_json_text(source, tell)):
                return False
            if not (yield from source.blank()) or source.text[source.at] != ":":
                return False
            source.at += 1
            tell(": ")
        if not (yield from read_json_value(source, tell, depth + 1)):
            return False
    source.at += 1
    tell(closing)
    return True


def read_json_text(source: IncomingText, tell: Callable[[str], None]) -> Waiting[bool]:
    """Read a text in double quotes and tell it as JSON."""
    source.at += 1
    tell('"')
    while True:
        if not (yield from source.peek()):
            return False
        plain = _PLAIN.match(source.text, source.at)
        if plain:
            source.at = plain.end()
            tell(plain[0])
            continue
        character = source.text[source.at]
        if character == '"':
            source.at += 1
            tell('"')
            return True
        if character != "\\":
            source.at += 1
            tell(f"\\u{ord(character):04x}")
            continue
        if not (yield from _read_escape(source, tell)):
            return False


def _read_escape(source: IncomingText, tell: Callable[[str], None]) -> Waiting[bool]:
    while len(source.text) - source.at < 2:
        if not (yield from source.more()):
            return False
    character = source.text[source.at + 1]
    if character != "u":
        source.at += 2
        tell(
            "\\" + character
            if character in '"\\/bfnrt'
            else "'"
            if character == "'"
            else _escaped_twice(character)
        )
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


def _escaped_twice(character: str) -> str:
    """Return the JSON of an escape that JSON does not have: the two characters as written."""
    return "\\\\" + (character if character >= " " else f"\\u{ord(character):04x}")


def _read_word(source: IncomingText, tell: Callable[[str], None]) -> Waiting[bool]:
    while True:
        match = _WORD.match(source.text, source.at)
        end = match.end() if match else source.at
        if end - source.at > _MOST_WORD:
            return False
        if end < len(source.text) or not (yield from source.more()):
            break
    word = source.text[source.at : end]
    if word in LITERAL_WORDS:
        tell(json.dumps(LITERAL_WORDS[word]))
    elif word and _NUMBER.fullmatch(word):
        tell(word)
    else:
        return False
    source.at = end
    return True


_NOTHING = Sign("")
_LEAST_TAG = 4
"""Characters of a tag, beside words and signs that may stand in any text."""
MOST_LITERAL = 100_000
"""Characters of a value in Python's notation."""
KINDS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
    list: "array", dict: "object",
}  # fmt: skip
_ALL = frozenset(KINDS.values())


def kinds_in(schema: Any, depth: int = 0) -> frozenset[str]:
    """Return the types that a schema allows; all where it does not say."""
    if not isinstance(schema, dict) or depth > 8:
        return _ALL
    kinds = schema.get("type")
    if isinstance(kinds, str):
        types = frozenset((kinds,))
    elif isinstance(kinds, list):
        types = frozenset(kind for kind in kinds if isinstance(kind, str))
    elif isinstance(schema.get("enum"), list):
        types = frozenset(KINDS.get(type(choice), "string") for choice in schema["enum"])
    elif "const" in schema:
        types = frozenset((KINDS.get(type(schema["const"]), "string"),))
    else:
        types = frozenset()
        for name in ("anyOf", "oneOf"):
            choices = schema.get(name)
            for choice in choices if isinstance(choices, list) else ():
                types |= kinds_in(choice, depth + 1)
    if "number" in types:
        types |= {"integer"}
    return types & _ALL or _ALL


def fit_value(value: Any, schema: Any, depth: int = 0) -> Any:
    """Fit a value to its schema: some notations write empty lists, objects and texts alike."""
    if not isinstance(schema, dict) or depth > 20:
        return value
    kinds = kinds_in(schema)
    if isinstance(value, dict):
        properties = schema.get("properties")
        schemas = properties if isinstance(properties, dict) else {}
        return {key: fit_value(part, schemas.get(key), depth + 1) for key, part in value.items()}
    if isinstance(value, list):
        return [fit_value(part, schema.get("items"), depth + 1) for part in value]
    if value == "" and "string" not in kinds:
        return [] if "array" in kinds else {} if "object" in kinds else value
    if kinds == {"string"} and not isinstance(value, str):
        return json.dumps(value)
    return value


def parse_literal(text: str) -> Any:
    """Parse a literal of Python; None where it is none."""
    if len(text) > MOST_LITERAL or max(text.count("["), text.count("{"), text.count("(")) > 200:
        return None
    try:
        value = ast.literal_eval(text.strip())
        return json.loads(json.dumps(value))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return LITERAL_WORDS.get(text.strip())


def arguments_json(arguments: Any) -> str:
    """Return arguments as JSON that can be encoded in UTF-8: a half of a pair becomes "?"."""
    return json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace").decode()


_QUOTES = ('"', "'")
"""Around a text as Python writes it: a backslash begins an escape, and hides a quote."""
_ESCAPE = re.compile(
    r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL
)
_CUT_ESCAPE = re.compile(
    r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|x[0-9a-fA-F]?|[0-7]{0,2}))\Z"
)


def _unescaped(escape: str) -> str:
    """Return the character of an escape; what is none stays."""
    try:
        value = ast.literal_eval(f'"{escape}"') if escape[1] not in '"N' else escape
    except (ValueError, SyntaxError):
        return escape
    return '"' if escape == '\\"' else str(value)


def _is_quoted(quote: tuple[str, str] | None, pair: Pair) -> bool:
    """Tell whether a value stands in quotes: its own, or those of ``="`` and ``")``."""
    if quote is not None:
        return quote[1] in _QUOTES
    last, signs = pair.opening.core[-1:], (pair.following.core, pair.closing.core)
    return pair.opening.core in ('="', "='") and all(sign.startswith(last) for sign in signs)


def _is_escaped(text: str, start: int, at: int) -> bool:
    """Tell whether a backslash hides the character at a place."""
    before = text[start:at]
    return bool((len(before) - len(before.rstrip("\\"))) % 2)


def _is_open(text: str) -> bool:
    """Tell whether a text in quotes has begun and not ended."""
    text = text.lstrip()
    if text[:1] not in _QUOTES:
        return False
    quotes = (at for at in range(1, len(text)) if text[at] == text[0])
    return all(_is_escaped(text, 1, at) for at in quotes)


class ValueReader:
    """Reads one value of arguments that are written one by one."""

    def __init__(
        self,
        source: IncomingText,
        tell: Callable[[str], None],
        pairs: Pairs,
        pair: Pair,
        key: str,
        schema: Any,
        names: Iterable[str] = (),
    ) -> None:
        """Read a value.

        Args:
            names: Of the arguments that may follow it.
        """
        self._source, self._tell = source, tell
        self._pairs, self._pair, self._key = pairs, pair, key
        self._schema, self._kinds = schema, kinds_in(schema)
        self._quote: tuple[str, str] | None = None
        self._seen = 0
        # with each sign, whether it ends the call, and how much of it is not to be passed
        self._signs: list[End] = [(pair.following, False, 0), (pair.closing, True, 0)]
        self._next = _NOTHING
        self._next_signs: list[End] = []
        self._last = ""
        """The one tag behind the value's own, which ends the call where the answer ends, too."""
        self._find_loose_signs(names)

    def _find_loose_signs(self, names: Iterable[str]) -> None:
        """Find what ends a value whose own closing tag is missing.

        That is all the tags that end the call, or the one that opens a known argument.
        """
        closing, following, opening = self._pair.closing, self._pair.following, self._pair.opening
        tag = next(iter(tags_and_words(closing.core)), "")
        if len(tag) < _LEAST_TAG or not following.core.startswith(tag):
            return
        rest = closing.core[len(tag) :].strip()
        tags = [token for token in tags_and_words(rest) if len(token) >= _LEAST_TAG]
        if len(tags) > 1:
            self._signs.append((Sign(closing.lead + rest), True, 0))
        elif tags == [rest] and rest[0] == "<":
            self._last = rest
        for sign, is_last in ((following, False), (closing, True)):
            rest = sign.core[len(tag) :]
            if rest.strip()[:1] == "<":  # models break lines between tags, or do not
                other = rest.lstrip() if rest[0].isspace() else f"\n{rest}"
                self._signs.append((Sign(sign.lead + tag + other + sign.trail), is_last, 0))
        rest = following.core[len(tag) :].strip()
        if len(rest) >= _LEAST_TAG and rest[0] == tag[0]:
            self._next = Sign(rest)
            ends = [name + opening.core for name in names]
            self._next_signs = [(Sign(closing.lead + rest + end), False, len(end)) for end in ends]

    def read(self) -> Waiting[bool | None]:
        """Read it; return whether it is the call's last, None where it does not end."""
        source = self._source
        for quote in self._pairs.quotes:
            if (yield from self._stands_here(quote[0])):
                self._quote = quote
                source.at += len(quote[0])
                break
        signs = (self._pair.following, self._pair.closing)
        self._escapes = _is_quoted(self._quote, self._pair)
        firsts = {self._quote[1][0]} if self._quote else {sign.core[:1] for sign in signs}
        self._firsts = re.compile("[" + "".join(map(re.escape, sorted(firsts))) + "]")
        only_text = self._pair.kinds == {"string"} or self._quote is not None
        may_be_text = "string" in self._pair.kinds
        if only_text or (may_be_text and self._kinds == {"string"}):
            return (yield from self._read_text())
        scan, first = source.at, None
        while True:
            stop = yield from self._wait_for_end(scan)
            if stop is None and first is None:
                return None
            stop = stop or (0, 0, True)
            start, end, ends = first = first or stop
            try:
                if stop[0] or not first[0]:
                    value = self._read_value(
                        source.text[source.at : stop[0]], may_be_text=may_be_text
                    )
                    start, end, ends = stop
                    break
            except ValueError:
                pass
            if stop[2] and not _is_open(source.text[source.at : stop[0]]):
                value = source.text[source.at : start]
                break
            scan = max(scan, stop[0]) + 1  # an end begins before its white space, maybe before scan
        self._tell(json.dumps(value, ensure_ascii=False))
        source.at = end
        return ends

    def _stands_here(self, sign: str) -> Waiting[bool]:
        source = self._source
        while sign.startswith(source.text[source.at : source.at + len(sign)]):
            if source.text.startswith(sign, source.at):
                return True
            if not (yield from source.more()):
                break
        return False

    def _read_text(self) -> Waiting[bool | None]:
        source, tell = self._source, self._tell
        tell('"')
        while True:
            stop = self._find_end(source.at)
            if stop is not None and stop[1] >= 0:
                start, end, ends = stop
                tell(self._json_of(source.text[source.at : start]) + '"')
                source.at = end
                return ends
            safe = stop[0] if stop is not None else self._text_end(len(source.text))
            if self._escapes and (cut := _CUT_ESCAPE.search(source.text, source.at, safe)):
                safe = cut.start()
            if safe > source.at:
                tell(self._json_of(source.text[source.at : safe]))
                source.at = safe
                source.let_go(source.at)
            was_ended = source.ended
            if not (yield from source.more()) and was_ended:
                return None

    def _json_of(self, text: str) -> str:
        """Return the JSON of a piece of a text, without its quotes."""
        if self._escapes and "\\" in text:
            text = _ESCAPE.sub(lambda match: _unescaped(match[0]), text)
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return json.dumps(text, ensure_ascii=False)[1:-1]

    def _text_end(self, end: int) -> int:
        text = self._source.text
        while end > self._source.at and text[end - 1].isspace():
            end -= 1
        return end

    def _wait_for_end(self, scan: int) -> Waiting[tuple[int, int, bool] | None]:
        """Wait for what ends the value: its begin, its end, and whether the call ends, too."""
        while True:
            stop = self._find_end(scan)
            if stop is not None and stop[1] >= 0:
                return stop
            scan, was_ended = self._seen, self._source.ended
            if not (yield from self._source.more()) and was_ended:
                return None

    def _find_end(self, scan: int) -> tuple[int, int, bool] | None:
        """Find what ends the value.

        Returns:
            Where it begins, where it ends, and whether the call does; -1 for the end where the text
            does not say yet; None where there is nothing like it.
        """
        source = self._source
        closing = self._quote[1] if self._quote else ""
        text = source.text
        self._seen = len(text)
        for begin in self._firsts.finditer(text, scan):
            at = place = begin.start()
            if self._escapes and _is_escaped(text, source.at, at):
                continue
            if closing:
                if not text.startswith(closing, at):
                    if closing.startswith(text[at:]) and not source.ended:
                        self._seen = at
                        return at, -1, False
                    continue
                place = at + len(closing)
                while place < len(text) and text[place].isspace():
                    place += 1
            signs = self._signs
            if self._next_signs and self._next.match(text, place) != NO_MATCH:
                signs = [*signs, *self._next_signs]
            matches = [
                (sign.match(text, place, "", self._key), sign, ends, back)
                for sign, ends, back in signs
            ]
            full = [match for match in matches if match[0] >= 0]
            partial = any(match[0] == PARTIAL for match in matches)
            if full and (source.ended or not partial):
                end, sign, ends, back = max(full, key=lambda match: match[0])
                end -= back
                start = (
                    at if closing else source.at + length_without(text[source.at : at], sign.lead)
                )
                passed = end
                if any(end == PARTIAL and ends for end, _, ends, _ in matches):
                    return start, len(text), True  # all that is there ends the call
                for blank in sign.trail if not back else "":
                    if passed < len(text) and text[passed] == blank:
                        passed += 1
                return start, passed, ends
            loose = self._find_loose_end(place) if not closing else None
            if loose is not None and (source.ended or not partial):
                self._seen = at
                return loose
            last = self._last_at(place) if self._last and not closing else None
            if last is not None:
                self._seen = at
                start = source.at + length_without(text[source.at : at], self._pair.closing.lead)
                return start, last, True
            if partial:
                self._seen = at
                lead = max((sign.lead for sign, *_ in signs), key=len)
                start = at if closing else source.at + length_without(text[source.at : at], lead)
                return start, -1, False
        return None

    def _last_at(self, at: int) -> int | None:
        """Return where an answer ends that has but the call's last tag here; -1: not known yet."""
        source, behind = self._source, self._source.text[at:].rstrip()
        if source.ended:
            return len(source.text) if behind == self._last else None
        return -1 if behind and self._last.startswith(behind) else None

    def _find_loose_end(self, at: int) -> tuple[int, int, bool] | None:
        """Find an end whose first tag is there, and not all that should follow it."""
        source, text = self._source, self._source.text
        first = next(iter(tags_and_words(self._pair.closing.core)), "")
        if len(first) < 4 or not text.startswith(first, at):
            return None
        rest = text[at + len(first) :].lstrip()
        tokens = [token for token in tags_and_words(self._pair.closing.core)[1:] if len(token) > 3]
        start = source.at + length_without(text[source.at : at], self._pair.closing.lead)
        last = Sign(self._pair.closing.core[len(first) :])
        if source.ended and (not rest or last.match(rest, 0) == PARTIAL):
            return start, len(text), True
        if not source.ended and any(token.startswith(rest) for token in tokens):
            return start, -1, True
        if any(rest.startswith(token) for token in tokens):
            return start, len(text) - len(rest), True
        return None

    def _read_value(self, text: str, *, may_be_text: bool) -> Any:
        """Return the value of a text: a text itself where the schema wants one."""
        if not may_be_text or "string" not in self._kinds:
            try:
                return self._parse(text)
            except ValueError:
                if not may_be_text or self._kinds & {"array", "object"}:
                    raise
                return text
        try:
            value = self._parse(text)
        except ValueError:
            return text
        kind = KINDS.get(type(value), "string")
        fits = kind in self._kinds or (kind == "integer" and "number" in self._kinds)
        return value if fits else text

    def _parse(self, text: str) -> Any:
        """Parse a value in JSON, in Python's or in the template's own notation."""
        text = text.strip()
        notation = self._pairs.notation
        if not text and self._kinds & {"array", "object"} and notation is not None:
            return [] if "array" in self._kinds else {}
        try:
            return parse_scalar(text, plain=False)
        except ValueError:
            pass
        if notation is not None:
            value = notation.parse(text)
            return value if notation.quotes[0] else fit_value(value, self._schema)
        try:
            return json.loads(text, strict=False)
        except (ValueError, RecursionError):
            pass
        value = parse_literal(text)
        if value is None:
            raise ValueError
        return value
