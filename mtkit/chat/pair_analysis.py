"""How a chat template writes arguments one by one, each key and value between signs of its own."""

from __future__ import annotations

import ast
import json
import re

from mtkit.chat.answer_form import Pair, Pairs
from mtkit.chat.notation import Notation
from mtkit.chat.probes import MARKUP, OTHER, PLAIN, QUOTED, TYPED
from mtkit.chat.signs import KEY, NAME, NUMBER, Sign, with_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.chat.assistant_turns import Turns
    from mtkit.chat.probes import Probe

_WRITTEN = {"number": ("31415",), "boolean": ("true", "True"), "null": ("null", "None")}


def pairs_of(turns: Turns, ending: str, text_end: str, closing: str) -> Pairs | None:
    """Return how arguments are written; None where that cannot be seen.

    Args:
        turns: What the template writes.
        ending: What ends the last call.
        text_end: What ends a text.
        closing: What stands between the value of the last argument and what ends a call.
    """
    answer = turns.probes.answer
    first, last = PLAIN.arguments
    shown = _segments(turns.called, list(PLAIN.arguments))
    if len(shown) != 2:
        return None
    value = str(PLAIN.arguments[first])
    opening, found, following = shown[0].partition(value)
    if not found:
        return None
    head = _head(turns.called, PLAIN)
    head = with_numbers(head, _head(turns.twice, OTHER)) if turns.twice else head
    closing = closing.replace(last, KEY)
    pairs = [Pair(Sign(opening), frozenset(("string",)), Sign(following), Sign(closing))]
    typed, notation = answer("", TYPED), None
    if typed and TYPED.name in typed:
        more, notation = _typed(typed, opening, following, closing)
        pairs += more
    return Pairs(
        first=Sign(head),
        empty=Sign(_empty(turns, head, ending, text_end)),
        pairs=tuple(sorted(_merged(pairs), key=lambda one: -len(one.opening.text))),
        quotes=tuple(_quotes(turns, opening, following)),
        notation=notation,
    )


def _head(turn: str, probe: Probe) -> str:
    """Return what stands between the name of a call, or its id behind it, and its first key."""
    behind = turn.partition(probe.name)[2].partition(next(iter(probe.arguments)))[0]
    return behind.rpartition(probe.number)[2].replace(probe.name, NAME)


def _segments(turn: str, keys: list[str]) -> list[str]:
    """Return what stands behind each key, up to the next; the key once more is a hole."""
    made = []
    places = [turn.find(key) for key in keys]
    shown = sorted((place, key) for place, key in zip(places, keys, strict=True) if place >= 0)
    for at, (place, key) in enumerate(shown):
        end = shown[at + 1][0] if at + 1 < len(shown) else len(turn)
        made.append(turn[place + len(key) : end].replace(key, KEY))
    return made


def _typed(
    turn: str, opening: str, following: str, closing: str
) -> tuple[list[Pair], Notation | None]:
    """Return how values that are not texts are written, and the notation of lists and objects."""
    keys = list(TYPED.arguments)
    shown = [key for key in sorted(keys, key=turn.find) if key in turn]
    by_key = dict(zip(shown, _segments(turn, keys), strict=True))
    number = by_key.get("kqeyb", "")
    before, found, after = number.partition("31415")
    if not found:
        return [], None
    # where texts stand in quotes, those belong to what stands around the others without them
    quote = following[: len(following) - len(after)] if following.endswith(after) else ""
    ends = closing[len(quote) :] if quote and closing.startswith(quote) else closing
    quotes = (opening[len(before) :] if opening.startswith(before) else "", quote)
    pairs = [Pair(Sign(before), frozenset(("number",)), Sign(after), Sign(ends))]
    for key, kind in (("kqeyd", "boolean"), ("kqeye", "null")):
        segment = by_key.get(key, "")
        body = segment[: len(segment) - len(after)] if segment.endswith(after) else ""
        words = [word for word in _WRITTEN[kind] if body.endswith(word)]
        if words:
            own = body[: len(body) - len(words[0])]
            pairs.append(Pair(Sign(own), frozenset((kind,)), Sign(after), Sign(ends)))
    notations: list[tuple[str, list[str]]] = []
    for key, kind in (("kqeyf", "array"), ("kqeyg", "object")):
        segment = by_key.get(key, "")
        body = segment[: len(segment) - len(after)] if segment.endswith(after) else ""
        lead, parts = _shape(body, TYPED.arguments[key], before)
        if lead is None:
            continue
        pairs.append(Pair(Sign(lead), frozenset((kind,)), Sign(after), Sign(ends)))
        if parts:
            notations.append((kind, parts))
    found_parts = dict(notations)
    if not found_parts:
        return pairs, None
    items = _unquoted(found_parts.get("array", []), quotes)
    members = _unquoted(found_parts.get("object", []), quotes)
    return pairs, Notation(
        quotes=quotes,
        items=(items[0], items[1], items[2]) if len(items) == 3 else ("", "", ""),
        members=(members[0], members[1], members[2], members[4])
        if len(members) == 5 and members[1] == members[3]
        else ("", "", "", ""),
    )


def _shape(body: str, value: Any, before: str) -> tuple[str | None, list[str]]:
    """Return what stands before a list or an object, and what around its marks in a notation."""
    for at in range(len(body)):
        if body[at] in "[{" and (_reads(body[at:], value)):
            return body[:at], []
    marks = re.findall(r"[kv]qe?[ay]\w*", json.dumps(value))
    parts, rest = [], body
    last = ""
    for mark in marks:
        part, found, rest = rest.partition(mark)
        if not found:
            return None, []
        parts.append(part.replace(last, KEY) if last else part)
        last = mark if mark.startswith("kqey") else last
    parts.append(rest.replace(last, KEY) if last else rest)
    if not body.startswith(before):
        return None, []
    parts[0] = parts[0].removeprefix(before)
    if isinstance(value, dict):
        return before, [parts[0], parts[1], parts[2], parts[3], parts[4]]
    return before, parts


def _reads(text: str, value: Any) -> bool:
    for read in (json.loads, ast.literal_eval):
        try:
            if read(text) == value:
                return True
        except (ValueError, SyntaxError):
            continue
    return False


def _unquoted(parts: list[str], quotes: tuple[str, str]) -> list[str]:
    """Take the quotes of texts from what stands around them."""
    made = []
    for place, part in enumerate(parts):
        is_object = len(parts) == 5
        before_value = place in (1, 3) if is_object else place < len(parts) - 1
        behind_value = place in (2, 4) if is_object else place > 0
        if before_value and quotes[0]:
            part = part.removesuffix(quotes[0])
        if behind_value and quotes[1]:
            part = part.removeprefix(quotes[1])
        made.append(part)
    return made


def _merged(pairs: list[Pair]) -> list[Pair]:
    """Put together what is written in the same way."""
    made: dict[tuple[str, str, str], frozenset[str]] = {}
    for one in pairs:
        key = (one.opening.text, one.following.text, one.closing.text)
        made[key] = made.get(key, frozenset()) | one.kinds
    return [
        Pair(Sign(opening), kinds, Sign(following), Sign(closing))
        for (opening, following, closing), kinds in made.items()
    ]


def _empty(turns: Turns, head: str, ending: str, text_end: str) -> str:
    """Return what stands between the name of a call without arguments and its end."""
    rest = turns.empty.partition(PLAIN.name)[2]
    rest = (rest.partition(PLAIN.number)[2] or rest).replace(PLAIN.name, NAME)
    plain, _, behind = head.partition(NUMBER)  # the number that the head has, it has, too
    if behind and rest.startswith(plain):
        rest = plain + NUMBER + rest[len(plain) :].lstrip("0123456789")
    for end in (text_end, ending):
        if end and rest.endswith(end):
            rest = rest[: len(rest) - len(end)]
    return rest


def _quotes(turns: Turns, opening: str, following: str) -> list[tuple[str, str]]:
    """Return what texts stand in where they need it."""
    made = []
    for probe in (MARKUP, QUOTED):
        turn = turns.probes.answer("", probe) or ""
        value = str(probe.arguments["kqeya"])
        before, found, behind = turn.partition(value)
        own = before.rpartition("kqeya")[2]
        after = behind.partition("kqeyb")[0].replace("kqeya", KEY)
        if found and own.startswith(opening) and after.endswith(following):
            quote = own[len(opening) :], after[: len(after) - len(following)]
            if all(quote):
                made.append(quote)
    return list(dict.fromkeys(made))
