"""Calls of tools, read while a model writes them.

Nothing of a call is told before its name and the start of its arguments are known: what does not go
on as a call is text.
"""

from __future__ import annotations

import json
import re

from mtkit.chat.answer import CallStart, CallText, new_call_id
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
    from collections.abc import Mapping
    from typing import Any

    from mtkit.chat.answer import Calls, Pair, Pairs, PartQueue
    from mtkit.chat.signs import IncomingText, Waiting


_NAME_KEYS = ("name", "tool_name", "function_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")
_ID_KEYS = ("id", "call_id", "tool_call_id")
_NOT_IN_NAMES = re.compile(r"[\s<>{}\"'\[\]|]")

_MOST_ENDS = 1000
"""Braces that may end a dict of Python; up to each, the whole of it is parsed anew."""


class _Members:
    """What the members of an object have said of a call so far."""

    def __init__(self) -> None:
        self.name = self.id = self.arguments = ""


class CallReader:
    """Reads one call.

    Attributes:
        started: The call has been told; what comes of it from now on is part of it.
    """

    def __init__(
        self,
        source: IncomingText,
        queue: PartQueue,
        schemas: Mapping[str, Any],
        calls: Calls | None,
        *,
        only_tools: bool = False,
    ) -> None:
        """Read a call.

        Args:
            calls: How calls are written; None: as bare objects that name a tool.
            only_tools: It has to name one of the tools.
        """
        self._source, self._queue = source, queue
        self._only_tools = only_tools
        self._schemas, self._calls = schemas, calls
        self.started = False

    def read(self) -> Waiting[bool]:
        """Read it; False where it is none, or not whole."""
        calls = self._calls
        if calls is None or not calls.opening.core:
            return (yield from self._read_object(only_tools=calls is None or bool(self._schemas)))
        if calls.body == "object":
            return (yield from self._read_object(only_tools=self._only_tools))
        head = yield from self._read_head(calls.head)
        if head is None:
            return False
        name, call_id = head
        if self._only_tools and name not in self._schemas:
            return False
        if calls.pairs is not None:
            return (yield from self._read_pairs(name, call_id, calls.pairs))
        return (yield from self._read_arguments(name, call_id))

    def _start(self, name: str, call_id: str) -> None:
        self.started = True
        self._queue.start_call(CallStart(call_id or new_call_id(), name))

    def _add(self, text: str) -> None:
        self._queue.add(CallText(text))

    # -- a JSON object that says name and arguments

    def _read_object(self, *, only_tools: bool = False) -> Waiting[bool]:
        """Read an object with a name and arguments; if ``only_tools``, of a tool there is."""
        source = self._source
        if not (yield from source.blank()) or source.text[source.at] != "{":
            return False
        source.at += 1
        if self._calls is not None and not self._calls.keys[1]:
            return (yield from self._read_keyed_object())
        members = _Members()
        keys: set[str] = set()
        while (yield from source.blank()):
            character = source.text[source.at]
            if character == "}" and members.name:
                source.at += 1
                return self.started or self._start_object(members, only_tools)
            if character == "," and keys:
                source.at += 1
                continue
            if self.started and character != '"':  # its last brace is missing
                return True
            key = yield from self._read_text()
            if key is None or key in keys or not (yield from self._pass_colon()):
                return False
            keys.add(key)
            if not (yield from self._read_member(key, members, only_tools)):
                return False
        return False

    def _read_member(self, key: str, members: _Members, only_tools: bool) -> Waiting[bool]:
        """Read the value of a key; arguments behind a name are told as they come."""
        source = self._source
        name_key, arguments_key, id_key = self._calls.keys if self._calls else ("name", "", "")
        first = source.text[source.at]
        if key in (name_key, *_NAME_KEYS) and not members.name:
            members.name = (yield from self._read_text()) or ""
            return bool(members.name) and (not only_tools or members.name in self._schemas)
        if key in (arguments_key, *_ARGUMENT_KEYS) and not (members.arguments or self.started):
            if members.name:
                return (yield from self._read_arguments(members.name, members.id))
            members.arguments = (yield from self._read_whole_arguments()) or ""
            return bool(members.arguments)
        if key == "function" and not members.name and first == "{":
            members.name = "-"  # the object within starts the call
            return (yield from self._read_object(only_tools=only_tools))
        if key in (id_key, *_ID_KEYS) and first == '"':
            text = (yield from self._read_text()) or ""
            if key == (id_key or "id"):
                members.id = text
            return True
        if only_tools and key != "type":
            return False
        return (yield from read_json_value(source, _ignore))

    def _start_object(self, members: _Members, only_tools: bool) -> bool:
        """Tell the call whose arguments came before its name, or that has none."""
        if only_tools and not members.arguments:
            return False
        self._start(members.name, members.id)
        self._add(members.arguments or "{}")
        return True

    def _read_keyed_object(self) -> Waiting[bool]:
        source = self._source
        if not (yield from source.blank()):
            return False
        name = yield from self._read_text()
        if not name or not (yield from self._pass_colon()):
            return False
        if not (yield from self._read_arguments(name, "")):
            return False
        if not (yield from source.blank()) or source.text[source.at] != "}":
            return False
        source.at += 1
        return True

    def _pass_colon(self) -> Waiting[bool]:
        """Pass a colon and the white space around it."""
        source = self._source
        if not (yield from source.blank()) or source.text[source.at] != ":":
            return False
        source.at += 1
        return (yield from source.blank())

    def _read_text(self) -> Waiting[str | None]:
        """Read a text in quotes; None where there is something else."""
        if (yield from self._source.peek()) != '"':
            return None
        pieces: list[str] = []
        if not (yield from read_json_text(self._source, pieces.append)):
            return None
        text: str = json.loads("".join(pieces))
        return text

    # -- arguments as JSON

    def _read_arguments(self, name: str, call_id: str) -> Waiting[bool]:
        """Read arguments: JSON is told from its first character on, all else once it is whole."""
        source = self._source
        if not (yield from source.blank()):
            return False
        read = self._read_whole_arguments
        if source.text[source.at] == "{":
            opening = source.at
            source.at += 1
            if not (yield from source.blank()):
                return False
            first, source.at = source.text[source.at], opening
            if first in '"}':
                self._start(name, call_id)
                source.lets_go = True
                is_whole = yield from read_json_value(source, self._add)
                source.lets_go = False
                return is_whole
            if first != "'":
                return False
            read = self._read_python
        arguments = yield from read()
        if arguments is None:
            return False
        self._start(name, call_id)
        self._add(arguments)
        return True

    def _read_whole_arguments(self) -> Waiting[str | None]:
        """Read an object, a text that holds one, or null; return the JSON of the object."""
        source = self._source
        first = yield from source.peek()
        if first == '"':
            text = yield from self._read_text()
            try:
                value = json.loads(text or "{}", strict=False)
            except (ValueError, RecursionError):
                return None
            return arguments_json(value) if isinstance(value, dict) else None
        pieces: list[str] = []
        if not (yield from read_json_value(source, pieces.append)):
            return None
        if first == "{":
            return "".join(pieces)
        return "{}" if pieces == ["null"] else None

    def _read_python(self) -> Waiting[str | None]:
        """Read a dict as Python writes it; return its JSON."""
        source = self._source
        end = source.at
        tries = 0
        while tries < _MOST_ENDS:
            end = source.text.find("}", end)
            if end < 0:
                end = len(source.text)
                if end - source.at > MOST_LITERAL or not (yield from source.more()):
                    return None
                continue
            end, tries = end + 1, tries + 1
            value = parse_literal(source.text[source.at : end])
            if isinstance(value, dict):
                source.at = end
                return arguments_json(value)
        return None

    # -- a head of name and id

    def _read_head(self, head: tuple[str | Sign, ...]) -> Waiting[tuple[str, str] | None]:
        """Read name and id; of the holes behind the name any may be left out."""
        words = {"name": "", "id": ""}
        place = 0
        while place < len(head):
            hole = head[place]
            signs = [
                (at, sign)
                for at, sign in enumerate(head[place + 1 :], place + 1)
                if isinstance(sign, Sign)
            ]
            if not signs:  # what follows the name are the arguments one by one
                assert self._calls is not None
                assert self._calls.pairs is not None
                pairs = self._calls.pairs
                signs = [(place + 1, pairs.first), (place + 1, pairs.empty)]
                word = yield from self._read_word(signs, passes=False)
            else:
                word = yield from self._read_word(
                    signs if words["name"] or hole == "name" else signs[:1]
                )
            if word is None:
                return None
            words[str(hole)] = word[0]
            place = word[1] + 1
        return (words["name"], words["id"]) if words["name"] else None

    def _read_word(
        self, signs: list[tuple[int, Sign]], *, passes: bool = True
    ) -> Waiting[tuple[str, int] | None]:
        """Read a name or an id up to one of some signs; None where there is none."""
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
                    sign_end = sign.match(source.text, end, word)
                    if sign_end == PARTIAL:
                        waits = True
                        break
                    if sign_end >= 0:
                        if _NOT_IN_NAMES.search(word):
                            return None
                        source.at = end
                        if passes:
                            source.at = sign_end
                            yield from source.trail(sign.trail)
                        return word, at
                if waits:
                    break
            else:
                waits = len(source.text) - start < MOST_WORD
            was_ended = source.ended
            if not waits or (not (yield from source.more()) and was_ended):
                return None

    # -- arguments one by one

    def _read_pairs(self, name: str, call_id: str, pairs: Pairs) -> Waiting[bool]:
        source = self._source
        properties = self._schemas.get(name, {}).get("properties")
        properties = properties if isinstance(properties, dict) else {}
        sign = yield from source.longest((pairs.first, pairs.empty), name)
        if sign is None:
            return False
        if sign is pairs.empty:
            self._start(name, call_id)
            self._add("{}")
            return True
        before_key = "{"
        while True:
            key = yield from self._read_key(pairs)
            if key is None:
                return False
            word, pair = key
            if not self.started:
                self._start(name, call_id)
            self._add(before_key + json.dumps(word, ensure_ascii=False) + ": ")
            before_key = ", "
            ends = yield from ValueReader(
                source, self._add, pairs, pair, word, properties.get(word), properties
            ).read()
            if ends is None:
                return False
            if ends:
                self._add("}")
                return True

    def _read_key(self, pairs: Pairs) -> Waiting[tuple[str, Pair] | None]:
        source, start = self._source, self._source.at
        while True:
            waits = False
            for end in range(start + 1, min(len(source.text), start + MOST_WORD)):
                word = source.text[start:end]
                ends = [pair.opening.match(source.text, end, "", word) for pair in pairs.pairs]
                full = [(at, pair) for at, pair in zip(ends, pairs.pairs, strict=True) if at >= 0]
                longer = PARTIAL in ends[: ends.index(full[0][0])] if full else PARTIAL in ends
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
            was_ended = source.ended
            if not waits or (not (yield from source.more()) and was_ended):
                return None


def _ignore(_: str) -> None:
    return None
