"""Calls of tools, read while a model writes them.

Until a call's name and the begin of its arguments are known, nothing of it is told: what does not
go on as a call is text.
"""

from __future__ import annotations

import json
import re
import secrets

from mtkit.chat.answer import CallStart, CallText
from mtkit.chat.signs import MOST_WORD, PARTIAL, Sign
from mtkit.chat.value_reader import (
    MOST_LITERAL,
    ValueReader,
    arguments_json,
    parse_literal,
    read_json_text,
    read_json_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.chat.answer import Calls, Pair, Pairs, PartQueue
    from mtkit.chat.signs import IncomingText, Waiting


_NAME_KEYS = ("name", "tool_name", "function_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")
_NOT_IN_NAMES = re.compile(r"[\s<>{}\"'\[\]|]")

_MOST_TRIED = 1000
"""Ends of a dict of Python; each is tried from its beginning on."""


class CallReader:
    """Reads one call."""

    def __init__(
        self,
        source: IncomingText,
        told: PartQueue,
        text: str,
        schemas: Mapping[str, Any],
        calls: Calls | None,
    ) -> None:
        """Read a call.

        Args:
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
            if key in (keys[0], *_NAME_KEYS) and not name:
                name = (yield from self._word()) or ""
                if not name or (known and name not in self._schemas):
                    return False
            elif key in (keys[1], *_ARGUMENT_KEYS) and not held and not self.started:
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
            elif (known and key != "type") or not (yield from read_json_value(source, _ignore)):
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
        if not (yield from read_json_text(self._source, kept.append)):
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
        is_whole = yield from read_json_value(source, self._text)
        source.lets_go = False
        return is_whole

    def _given(self, tell: Callable[[str], None]) -> Waiting[bool]:
        """Read arguments: an object, a text that holds one, or nothing."""
        source = self._source
        one = yield from source.peek()
        if one == "{":
            return (yield from read_json_value(source, tell))
        if one == '"':
            word = yield from self._word()
            try:
                found = json.loads(word or "{}", strict=False)
            except (ValueError, RecursionError):
                return False
            if not isinstance(found, dict):
                return False
            tell(arguments_json(found))
            return True
        kept: list[str] = []
        if not (yield from read_json_value(source, kept.append)) or kept != ["null"]:
            return False
        tell("{}")
        return True

    def _python(self, tell: Callable[[str], None]) -> Waiting[bool]:
        """Read a dict as Python writes it."""
        source = self._source
        end = source.at
        tried = 0
        while tried < _MOST_TRIED:
            end = source.text.find("}", end)
            if end < 0:
                end = len(source.text)
                if end - source.at > MOST_LITERAL or not (yield from source.more()):
                    return False
                continue
            end, tried = end + 1, tried + 1
            found = parse_literal(source.text[source.at : end])
            if isinstance(found, dict):
                source.at = end
                tell(arguments_json(found))
                return True
        return False

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
                if word and _NOT_IN_NAMES.search(last) and not last.isspace():
                    break
                if not word:
                    continue
                for at, sign in signs:
                    found = sign.match(source.text, end, word)
                    if found == PARTIAL:
                        waits = True
                        break
                    if found >= 0:
                        if _NOT_IN_NAMES.search(word):
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
            ends = yield from ValueReader(
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


def _ignore(_: str) -> None:
    return None
