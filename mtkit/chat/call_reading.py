"""Calls of tools, read while a model writes them.

Until a call's name and the begin of its arguments are known, nothing of it is told: what does not
go on as a call is text.
"""

from __future__ import annotations

import ast
import json
import re
import secrets

from mtkit.chat.answer_parts import CallStart, CallText
from mtkit.chat.json_reading import read_text, read_value
from mtkit.chat.notation import WORDS, scalar
from mtkit.chat.signs import MOST_WORD, PARTIAL, Sign, before, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.chat.answer_form import Calls, Pair, Pairs
    from mtkit.chat.incoming import Incoming, Waiting
    from mtkit.chat.telling import Telling

_NAMES = ("name", "tool_name", "function_name")
_GIVEN = ("arguments", "parameters", "args", "input")
_BAD = re.compile(r"[\s<>{}\"'\[\]|]")
_MOST_LITERAL = 100_000


class CallReading:
    """Reads one call.

    Attributes:
        started: Its begin was told.
        place: Where, among what was told.
    """

    def __init__(
        self,
        source: Incoming,
        told: Telling,
        text: str,
        schemas: Mapping[str, Any],
        calls: Calls | None,
    ) -> None:
        """Read a call.

        Args:
            source: Read up to where a call may begin.
            told: Gets the parts.
            text: What is text before it.
            schemas: Of the arguments of each tool.
            calls: How calls are written; None: as bare objects that name a tool.
        """
        self._source, self._told, self._before = source, told, text
        self._schemas, self._calls = schemas, calls
        self.started, self.place = False, 0

    def read(self) -> Waiting[bool]:
        """Read it; False where it is none, or not whole."""
        calls = self._calls
        if calls is None or not calls.opening.core:
            return (yield from self._object(known=calls is None or bool(self._schemas)))
        if calls.body == "object":
            return (yield from self._object())
        found = yield from self._head(calls.head)
        if found is None:
            return False
        name, number = found
        if calls.pairs is not None:
            return (yield from self._pairs(name, number, calls.pairs))
        return (yield from self._arguments(name, number))

    def _start(self, name: str, number: str) -> None:
        self.started = True
        # nine letters and digits are what Mistral's templates take
        start = CallStart(number or secrets.token_hex(5)[:9], name)
        self.place = self._told.start_call(start, self._before)

    def _text(self, text: str) -> None:
        self._told.tell(CallText(text))

    # -- a JSON object that says name and arguments

    def _object(self, *, known: bool = False) -> Waiting[bool]:
        source, keys = self._source, self._calls.keys if self._calls else ("name", "", "")
        if not (yield from source.blank()) or source.text[source.at] != "{":
            return False
        source.at += 1
        if keys[1] == "" and self._calls is not None:
            return (yield from self._keyed())
        name, number, held = "", "", ""
        seen: set[str] = set()
        while True:
            if not (yield from source.blank()):
                return False
            one = source.text[source.at]
            if one == "}" and name:
                source.at += 1
                break
            if one == "," and seen:
                source.at += 1
                continue
            key = yield from self._word()
            if key is None or key in seen or not (yield from source.blank()):
                return False
            seen.add(key)
            if source.text[source.at] != ":":
                return False
            source.at += 1
            if not (yield from source.blank()):
                return False
            if key in (keys[0], *_NAMES) and not name:
                name = (yield from self._word()) or ""
                if not name or (known and name not in self._schemas):
                    return False
            elif key in (keys[1], *_GIVEN) and not held and not self.started:
                if name:
                    if not (yield from self._arguments(name, number)):
                        return False
                else:
                    kept: list[str] = []
                    if not (yield from self._given(kept.append)):
                        return False
                    held = "".join(kept)
            elif key == "function" and not name and source.text[source.at] == "{":
                if not (yield from self._object(known=known)):
                    return False
                name = name or "-"
            elif source.text[source.at] == '"' and key in (
                keys[2],
                "id",
                "call_id",
                "tool_call_id",
            ):
                word = yield from self._word()
                number = (word or "") if key == (keys[2] or "id") else number
            elif (known and key != "type") or not (yield from read_value(source, _nothing)):
                return False
        if not self.started:
            if known and not held:
                return False
            self._start(name, number)
            self._text(held or "{}")
        return True

    def _keyed(self) -> Waiting[bool]:
        """Read an object whose one key is the name."""
        source = self._source
        if not (yield from source.blank()):
            return False
        name = yield from self._word()
        if not name or not (yield from source.blank()) or source.text[source.at] != ":":
            return False
        source.at += 1
        if not (yield from self._arguments(name, "")):
            return False
        if not (yield from source.blank()) or source.text[source.at] != "}":
            return False
        source.at += 1
        return True

    def _word(self) -> Waiting[str | None]:
        """Read a text in quotes; None where there is something else."""
        if (yield from self._source.peek()) != '"':
            return None
        kept: list[str] = []
        if not (yield from read_text(self._source, kept.append)):
            return None
        word = json.loads("".join(kept))
        return word if isinstance(word, str) else None

    # -- arguments as JSON

    def _arguments(self, name: str, number: str) -> Waiting[bool]:
        """Read arguments that are JSON; the call is told with their first sign."""
        source = self._source
        if not (yield from source.blank()):
            return False
        if source.text[source.at] != "{":
            kept: list[str] = []
            if not (yield from self._given(kept.append)):
                return False
            self._start(name, number)
            self._text("".join(kept))
            return True
        source.at += 1
        if not (yield from source.blank()):
            return False
        first = source.text[source.at]
        source.at -= 1
        while source.text[source.at] != "{":
            source.at -= 1
        if first == "'":
            kept = []
            if not (yield from self._python(kept.append)):
                return False
            self._start(name, number)
            self._text("".join(kept))
            return True
        if first not in '"}':
            return False
        self._start(name, number)
        source.lets_go = True
        is_whole = yield from read_value(source, self._text)
        source.lets_go = False
        return is_whole

    def _given(self, tell: Callable[[str], None]) -> Waiting[bool]:
        """Read arguments: an object, a text that holds one, or nothing."""
        source = self._source
        one = yield from source.peek()
        if one == "{":
            return (yield from read_value(source, tell))
        if one == '"':
            word = yield from self._word()
            try:
                found = json.loads(word or "{}", strict=False)
            except (ValueError, RecursionError):
                return False
            if not isinstance(found, dict):
                return False
            tell(_written(found))
            return True
        kept: list[str] = []
        if not (yield from read_value(source, kept.append)) or kept != ["null"]:
            return False
        tell("{}")
        return True

    def _python(self, tell: Callable[[str], None]) -> Waiting[bool]:
        """Read a dict as Python writes it."""
        source = self._source
        end = source.at
        while True:
            end = source.text.find("}", end)
            if end < 0:
                end = len(source.text)
                if end - source.at > _MOST_LITERAL or not (yield from source.more()):
                    return False
                continue
            end += 1
            found = _literal(source.text[source.at : end])
            if isinstance(found, dict):
                source.at = end
                tell(_written(found))
                return True

    # -- a head of name and id

    def _head(self, head: tuple[str | Sign, ...]) -> Waiting[tuple[str, str] | None]:
        """Read name and id; of the holes behind the name any may be left out."""
        found = {"name": "", "id": ""}
        place = 0
        while place < len(head):
            hole = head[place]
            signs = [
                (at, one)
                for at, one in enumerate(head[place + 1 :], place + 1)
                if isinstance(one, Sign)
            ]
            if not signs:  # what follows the name are the arguments one by one
                assert self._calls is not None
                assert self._calls.pairs is not None
                pairs = self._calls.pairs
                signs = [(place + 1, pairs.first), (place + 1, pairs.empty)]
                word = yield from self._upto(signs, passes=False)
            else:
                word = yield from self._upto(
                    signs if found["name"] or hole == "name" else signs[:1]
                )
            if word is None:
                return None
            found[str(hole)] = word[0]
            place = word[1] + 1
        return (found["name"], found["id"]) if found["name"] else None

    def _upto(
        self, signs: list[tuple[int, Sign]], *, passes: bool = True
    ) -> Waiting[tuple[str, int] | None]:
        """Read a name up to one of some signs; None where there is none."""
        source, start = self._source, self._source.at
        while True:
            waits = False
            for end in range(start, min(len(source.text) + 1, start + MOST_WORD)):
                word = source.text[start:end].strip()
                last = source.text[end - 1 : end]
                if word and _BAD.search(last) and not last.isspace():
                    break
                if not word:
                    continue
                for at, sign in signs:
                    found = sign.match(source.text, end, word)
                    if found == PARTIAL:
                        waits = True
                        break
                    if found >= 0:
                        if _BAD.search(word):
                            return None
                        source.at = end
                        if passes:
                            source.at = found
                            yield from source.trail(sign.trail)
                        return word, at
                if waits:
                    break
            else:
                waits = len(source.text) - start < MOST_WORD
            if not waits or not (yield from source.more()):
                return None

    # -- arguments one by one

    def _pairs(self, name: str, number: str, pairs: Pairs) -> Waiting[bool]:
        source = self._source
        properties = self._schemas.get(name, {}).get("properties")
        properties = properties if isinstance(properties, dict) else {}
        sign = yield from source.longest((pairs.first, pairs.empty), name)
        if sign is None:
            return False
        if sign is pairs.empty:
            self._start(name, number)
            self._text("{}")
            return True
        before_key = "{"
        while True:
            key = yield from self._key(pairs)
            if key is None:
                return False
            word, pair = key
            if not self.started:
                self._start(name, number)
            self._text(before_key + json.dumps(word, ensure_ascii=False) + ": ")
            before_key = ", "
            ends = yield from _Value(
                source, self._text, pairs, pair, word, properties.get(word)
            ).read()
            if ends is None:
                return False
            if ends:
                self._text("}")
                return True

    def _key(self, pairs: Pairs) -> Waiting[tuple[str, Pair] | None]:
        """Read a key and what stands behind it."""
        source, start = self._source, self._source.at
        while True:
            waits = False
            for end in range(start + 1, min(len(source.text), start + MOST_WORD)):
                word = source.text[start:end]
                found = [pair.opening.match(source.text, end, "", word) for pair in pairs.pairs]
                full = [(at, pair) for at, pair in zip(found, pairs.pairs, strict=True) if at >= 0]
                longer = PARTIAL in found[: found.index(full[0][0])] if full else PARTIAL in found
                if longer and not source.ended:
                    waits = True
                    break
                if full:
                    source.at, pair = full[0]
                    if "\n" in word.strip():
                        return None
                    yield from source.trail(pair.opening.trail)
                    return word.strip(), pair
            waits = waits or len(source.text) - start < MOST_WORD
            if not waits or not (yield from source.more()):
                return None


class _Value:
    """Reads one value of arguments that are written one by one."""

    def __init__(
        self,
        source: Incoming,
        tell: Callable[[str], None],
        pairs: Pairs,
        pair: Pair,
        key: str,
        schema: Any,
    ) -> None:
        self._source, self._tell, self._pairs, self._pair, self._key = (
            source,
            tell,
            pairs,
            pair,
            key,
        )
        self._kinds = kinds_of(schema)
        self._schema = schema
        self._quote: tuple[str, str] | None = None
        self._seen = 0

    def read(self) -> Waiting[bool | None]:
        """Read it; True where it is the call's last, None where it does not end."""
        source = self._source
        for quote in self._pairs.quotes:
            if (yield from self._starts(quote[0])):
                self._quote = quote
                source.at += len(quote[0])
                break
        signs = (self._pair.following, self._pair.closing)
        firsts = {self._quote[1][0]} if self._quote else {sign.core[:1] for sign in signs}
        self._firsts = re.compile("[" + "".join(map(re.escape, sorted(firsts))) + "]")
        only_text = self._pair.kinds == {"string"} or self._quote is not None
        may_be_text = "string" in self._pair.kinds
        if only_text or (may_be_text and self._kinds == {"string"}):
            return (yield from self._read_text())
        scan, first = source.at, None
        while True:
            stop = yield from self._stop(scan)
            if stop is None and first is None:
                return None
            stop = stop or (0, 0, True)
            start, end, ends = first = first or stop
            try:
                if stop[0] or not first[0]:
                    found = self._read_value(
                        source.text[source.at : stop[0]], may_be_text=may_be_text
                    )
                    start, end, ends = stop
                    break
            except ValueError:
                pass
            if stop[2]:
                found = source.text[source.at : start]
                break
            scan = stop[0] + 1
        self._tell(json.dumps(found, ensure_ascii=False))
        source.at = end
        return ends

    def _starts(self, sign: str) -> Waiting[bool]:
        source = self._source
        while sign.startswith(source.text[source.at : source.at + len(sign)]):
            if source.text.startswith(sign, source.at):
                return True
            if not (yield from source.more()):
                break
        return False

    def _read_text(self) -> Waiting[bool | None]:
        """Read a text, told as it comes."""
        source, tell = self._source, self._tell
        tell('"')
        while True:
            stop = self._find(source.at)
            if stop is not None and stop[1] >= 0:
                start, end, ends = stop
                tell(json.dumps(source.text[source.at : start], ensure_ascii=False)[1:-1] + '"')
                source.at = end
                return ends
            safe = stop[0] if stop is not None else self._kept(len(source.text))
            if safe > source.at:
                tell(json.dumps(source.text[source.at : safe], ensure_ascii=False)[1:-1])
                source.at = safe
                source.let_go(source.at)
            if not (yield from source.more()):
                return None

    def _kept(self, end: int) -> int:
        text = self._source.text
        while end > self._source.at and text[end - 1].isspace():
            end -= 1
        return end

    def _stop(self, scan: int) -> Waiting[tuple[int, int, bool] | None]:
        """Wait for what ends the value: its begin, its end, and whether the call ends, too."""
        while True:
            stop = self._find(scan)
            if stop is not None and stop[1] >= 0:
                return stop
            scan = self._seen
            if not (yield from self._source.more()):
                return None

    def _find(self, scan: int) -> tuple[int, int, bool] | None:
        """Find what ends the value.

        Returns:
            Where it begins, where it ends, and whether the call does; -1 for the end where the text
            does not say yet; None where there is nothing like it.
        """
        source = self._source
        closing = self._quote[1] if self._quote else ""
        signs = ((self._pair.following, False), (self._pair.closing, True))
        text = source.text
        self._seen = len(text)
        for begin in self._firsts.finditer(text, scan):
            at = place = begin.start()
            if closing:
                if not text.startswith(closing, at):
                    if closing.startswith(text[at:]) and not source.ended:
                        self._seen = at
                        return at, -1, False
                    continue
                place = at + len(closing)
                while place < len(text) and text[place].isspace():
                    place += 1
            found = [(sign.match(text, place, "", self._key), sign, ends) for sign, ends in signs]
            full = [one for one in found if one[0] >= 0]
            partial = any(one[0] == PARTIAL for one in found) and not source.ended
            if full and not partial:
                end, sign, ends = max(full, key=lambda one: one[0])
                start = at if closing else source.at + before(text[source.at : at], sign.lead)
                passed = end
                for blank in sign.trail:
                    if passed < len(text) and text[passed] == blank:
                        passed += 1
                return start, passed, ends
            if partial:
                self._seen = at
                lead = max((sign.lead for sign, _ in signs), key=len)
                start = at if closing else source.at + before(text[source.at : at], lead)
                return start, -1, False
            loose = self._loose(place) if not closing else None
            if loose is not None:
                self._seen = at
                return loose
        return None

    def _loose(self, at: int) -> tuple[int, int, bool] | None:
        """Find an end whose first tag is there, and not all that should follow it."""
        source, text = self._source, self._source.text
        first = next(iter(tokens(self._pair.closing.core)), "")
        if len(first) < 4 or not text.startswith(first, at):
            return None
        rest = text[at + len(first) :].lstrip()
        known = [one for one in tokens(self._pair.closing.core)[1:] if len(one) > 3]
        if not rest and source.ended:
            return (
                source.at + before(text[source.at : at], self._pair.closing.lead),
                len(text),
                True,
            )
        if not source.ended and any(one.startswith(rest) for one in known):
            return source.at + before(text[source.at : at], self._pair.closing.lead), -1, True
        if any(rest.startswith(one) for one in known):
            end = len(text) - len(rest)
            return source.at + before(text[source.at : at], self._pair.closing.lead), end, True
        return None

    def _read_value(self, text: str, *, may_be_text: bool) -> Any:
        """Return the value that a text is.

        Raises:
            ValueError: It is none.
        """
        if not may_be_text or "string" not in self._kinds:
            try:
                return self._parsed(text)
            except ValueError:
                if not may_be_text or self._kinds & {"array", "object"}:
                    raise
                return text
        try:
            found = self._parsed(text)
        except ValueError:
            return text
        kind = _KINDS.get(type(found), "string")
        fits = kind in self._kinds or (kind == "integer" and "number" in self._kinds)
        return found if fits else text

    def _parsed(self, text: str) -> Any:
        """Return the value that is written: JSON, Python's or the template's own notation."""
        text = text.strip()
        notation = self._pairs.notation
        if not text and self._kinds & {"array", "object"} and notation is not None:
            return [] if "array" in self._kinds else {}
        try:
            return scalar(text, plain=False)
        except ValueError:
            pass
        if notation is not None:
            found = notation.read(text)
            return found if notation.quotes[0] else fitted(found, self._schema)
        try:
            return json.loads(text, strict=False)
        except (ValueError, RecursionError):
            pass
        found = _literal(text)
        if found is None:
            raise ValueError
        return found


_KINDS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
    list: "array", dict: "object",
}  # fmt: skip
_ALL = frozenset(_KINDS.values())


def kinds_of(schema: Any, depth: int = 0) -> frozenset[str]:
    """Return the types that a schema of a value allows; all where it does not say."""
    if not isinstance(schema, dict) or depth > 8:
        return _ALL
    kinds = schema.get("type")
    if isinstance(kinds, str):
        found = frozenset((kinds,))
    elif isinstance(kinds, list):
        found = frozenset(kind for kind in kinds if isinstance(kind, str))
    elif isinstance(schema.get("enum"), list):
        found = frozenset(_KINDS.get(type(one), "string") for one in schema["enum"])
    elif "const" in schema:
        found = frozenset((_KINDS.get(type(schema["const"]), "string"),))
    else:
        found = frozenset()
        for name in ("anyOf", "oneOf"):
            for one in schema.get(name) or ():
                found |= kinds_of(one, depth + 1)
    if "number" in found:
        found |= {"integer"}
    return found & _ALL or _ALL


def fitted(value: Any, schema: Any, depth: int = 0) -> Any:
    """Return a value of a notation that does not tell empty lists, objects and texts apart."""
    if not isinstance(schema, dict) or depth > 20:
        return value
    kinds = kinds_of(schema)
    if isinstance(value, dict):
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        return {key: fitted(one, known.get(key), depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [fitted(one, schema.get("items"), depth + 1) for one in value]
    if value == "" and "string" not in kinds:
        return [] if "array" in kinds else {} if "object" in kinds else value
    if kinds == {"string"} and not isinstance(value, str):
        return json.dumps(value)
    return value


def _literal(text: str) -> Any:
    """Return what a literal of Python says; None where it is none."""
    if len(text) > _MOST_LITERAL or max(text.count("["), text.count("{"), text.count("(")) > 200:
        return None
    try:
        found = ast.literal_eval(text.strip())
        return json.loads(json.dumps(found))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return WORDS.get(text.strip())


def _written(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace").decode()


def _nothing(_: str) -> None:
    return None
