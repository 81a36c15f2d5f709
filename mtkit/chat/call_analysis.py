"""How a chat template writes calls of tools, found between the marks of ``probes``.

Arguments are JSON, or written one by one, each key and value between signs of its own (``Pairs``).
"""

from __future__ import annotations

import ast
import json
import re

from mtkit.chat.answer import Calls, Notation, Pair, Pairs
from mtkit.chat.probes import (
    ARRAY_KEY,
    BOOLEAN_KEY,
    CONTENT,
    MARKUP,
    NULL_KEY,
    NUMBER_KEY,
    OBJECT_KEY,
    OTHER,
    PLAIN,
    QUOTED,
    REASON,
    TYPED,
)
from mtkit.chat.signs import (
    ID,
    KEY,
    NAME,
    NUMBER,
    Sign,
    common_end,
    common_start,
    tags_and_words,
    with_number_holes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.chat.answer import Body
    from mtkit.chat.probes import Probe, Turns


_UNREADABLE = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)
"""What json and ast raise of a text that is no value, or one that nests too deep."""
_SPELLINGS = {"boolean": ("true", "True"), "null": ("null", "None")}


def find_pairs(turns: Turns, ending: str, text_end: str, closing: str) -> Pairs | None:
    """Return how arguments are written; None where that cannot be seen."""
    answer = turns.probes.answer
    first, last = PLAIN.arguments
    segments = _segments(turns.called, PLAIN)
    value = PLAIN.arguments[first]
    if list(segments) != [first, last] or value not in segments[first]:
        return None
    opening, _, following = segments[first].partition(value)
    head = _pair_head(turns.called, PLAIN)
    head = with_number_holes(head, _pair_head(turns.twice, OTHER)) if turns.twice else head
    closing = closing.replace(last, KEY)
    pairs = [Pair(Sign(opening), frozenset(("string",)), Sign(following), Sign(closing))]
    typed, notation = answer("", TYPED), None
    if typed and TYPED.name in typed:
        more, notation = _find_typed_values(typed, opening, following, closing)
        pairs += more
    return Pairs(
        first=Sign(head),
        empty=Sign(_without_arguments(turns, head, ending, text_end)),
        pairs=tuple(sorted(_merge_pairs(pairs), key=lambda pair: -len(pair.opening.text))),
        quotes=tuple(_find_quotes(turns, opening, following)),
        notation=notation,
    )


def _pair_head(turn: str, probe: Probe) -> str:
    """Return what stands between the name of a call, or its id behind it, and its first key."""
    behind = turn.partition(probe.name)[2].partition(next(iter(probe.arguments)))[0]
    return behind.rpartition(probe.id)[2].replace(probe.name, NAME)


def _segments(turn: str, probe: Probe) -> dict[str, str]:
    """Return what follows each key up to the next, in order; the key in it is a hole."""
    keys = sorted((key for key in probe.arguments if key in turn), key=turn.index)
    ends = [*map(turn.index, keys[1:]), len(turn)]
    return {
        key: turn[turn.index(key) + len(key) : end].replace(key, KEY)
        for key, end in zip(keys, ends, strict=False)
    }


def _find_typed_values(
    turn: str, opening: str, following: str, closing: str
) -> tuple[list[Pair], Notation | None]:
    """Return how values that are not texts are written, and the notation of lists and objects."""
    segments = _segments(turn, TYPED)
    number = str(TYPED.arguments[NUMBER_KEY])
    before, separator, after = segments.get(NUMBER_KEY, "").partition(number)
    if not separator:
        return [], None
    # where texts stand in quotes, those belong to what stands around the others without them
    quote = following[: len(following) - len(after)] if following.endswith(after) else ""
    ends = closing[len(quote) :] if quote and closing.startswith(quote) else closing
    quotes = (opening[len(before) :] if opening.startswith(before) else "", quote)

    def body(key: str) -> str:
        segment = segments.get(key, "")
        return segment[: len(segment) - len(after)] if segment.endswith(after) else ""

    def pair(lead: str, kind: str) -> Pair:
        return Pair(Sign(lead), frozenset((kind,)), Sign(after), Sign(ends))

    pairs = [pair(before, "number")]
    for key, kind in ((BOOLEAN_KEY, "boolean"), (NULL_KEY, "null")):
        text = body(key)
        word = next((word for word in _SPELLINGS[kind] if text.endswith(word)), None)
        if word is not None:
            pairs.append(pair(text.removesuffix(word), kind))
    parts_by_kind: dict[str, list[str]] = {}
    for key, kind in ((ARRAY_KEY, "array"), (OBJECT_KEY, "object")):
        lead, parts = _shape(body(key), TYPED.arguments[key], before, quotes)
        if lead is not None:
            pairs.append(pair(lead, kind))
        if parts:
            parts_by_kind[kind] = parts
    if not parts_by_kind:
        return pairs, None
    first, between, last = parts_by_kind.get("array", [""] * 3)
    start, colon, comma, second_colon, end = parts_by_kind.get("object", [""] * 5)
    return pairs, Notation(
        quotes=quotes,
        items=(first, between, last),
        members=(start, colon, comma, end) if colon == second_colon else ("", "", "", ""),
    )


def _shape(
    text: str, value: Any, before: str, quotes: tuple[str, str]
) -> tuple[str | None, list[str]]:
    """Return what stands before a list or an object, and what around its marks in a notation."""
    for at in range(len(text)):
        if text[at] in "[{" and _reads_back(text[at:], value):
            return text[:at], []
    is_object = isinstance(value, dict)
    marks = [mark for member in value.items() for mark in member] if is_object else value
    parts, rest, key = [], text, ""
    for mark in marks:
        part, separator, rest = rest.partition(mark)
        if not separator:
            return None, []
        parts.append(part.replace(key, KEY) if key else part)
        key = mark if is_object and mark in value else key
    parts.append(rest.replace(key, KEY) if key else rest)
    if not text.startswith(before):
        return None, []
    parts[0] = parts[0].removeprefix(before)
    for place, mark in enumerate(marks):
        if not (is_object and mark in value):  # values stand in quotes, keys do not
            parts[place] = parts[place].removesuffix(quotes[0])
            parts[place + 1] = parts[place + 1].removeprefix(quotes[1])
    return before, parts


def _reads_back(text: str, value: Any) -> bool:
    for read in (json.loads, ast.literal_eval):
        try:
            if read(text) == value:
                return True
        except _UNREADABLE:
            continue
    return False


def _merge_pairs(pairs: list[Pair]) -> list[Pair]:
    """Join pairs that are written the same way."""
    kinds_by_signs: dict[tuple[str, str, str], frozenset[str]] = {}
    for pair in pairs:
        key = (pair.opening.text, pair.following.text, pair.closing.text)
        kinds_by_signs[key] = kinds_by_signs.get(key, frozenset()) | pair.kinds
    return [
        Pair(Sign(opening), kinds, Sign(following), Sign(closing))
        for (opening, following, closing), kinds in kinds_by_signs.items()
    ]


def _without_arguments(turns: Turns, head: str, ending: str, text_end: str) -> str:
    """Return what stands between the name of a call without arguments and its end."""
    rest = turns.empty.partition(PLAIN.name)[2]
    rest = (rest.partition(PLAIN.id)[2] or rest).replace(PLAIN.name, NAME)
    plain, _, behind = head.partition(NUMBER)  # the number that the head has, it has, too
    if behind and rest.startswith(plain):
        rest = plain + NUMBER + rest[len(plain) :].lstrip("0123456789")
    for end in (text_end, ending):
        if end and rest.endswith(end):
            rest = rest[: len(rest) - len(end)]
    return rest


def _find_quotes(turns: Turns, opening: str, following: str) -> list[tuple[str, str]]:
    """Return what texts are wrapped in where they need it."""
    quotes = []
    for probe in (MARKUP, QUOTED):
        turn = turns.probes.answer("", probe) or ""
        key, next_key = probe.arguments
        before, separator, behind = turn.partition(probe.arguments[key])
        lead = before.rpartition(key)[2]
        after = behind.partition(next_key)[0].replace(key, KEY)
        if separator and lead.startswith(opening) and after.endswith(following):
            quote = lead[len(opening) :], after[: len(after) - len(following)]
            if all(quote):
                quotes.append(quote)
    return list(dict.fromkeys(quotes))


_MOST_OPENINGS = 6


class CallSpan:
    """A call in a turn, from its first hole to its last.

    Attributes:
        arguments: Where their JSON stands; of pairs, from the first key on.
    """

    def __init__(self, turn: str, probe: Probe, after: int) -> None:
        name_at = turn.index(probe.name, after)
        self.keys = ("", "", "")
        span = _find_arguments(turn, probe, name_at)
        whole = _find_object(turn, probe, name_at, after)
        self.body: Body = "object" if whole else "arguments" if span else "pairs"
        if whole:
            self.start, self.end, self.keys = whole
        elif span:
            self.start, self.end = name_at, span[1]
        else:
            key, value = next(reversed(probe.arguments.items()))
            self.start = name_at
            key_at = turn.index(key, name_at)
            self.end = turn.index(str(value), key_at + len(key)) + len(str(value))
            span = (turn.index(next(iter(probe.arguments)), name_at), self.end)
        id_at = turn.find(probe.id, after, self.end)
        if id_at >= 0:
            self.start = min(self.start, id_at)
        self.arguments = span or (self.end, self.end)
        first, last = self.arguments
        self.sample = (
            _with_holes(turn[self.start : first], probe),
            _with_holes(turn[last : self.end], probe),
        )


def find_calls(turns: Turns) -> Calls | None:
    """Return how calls are written; None where the template does not show it."""
    try:
        return _calls_form(turns)
    except ValueError:
        return None


def leading_text(turns: Turns, text: str) -> str:
    """Return what a text begins with, up to what leads to its call."""
    try:
        before = text[: CallSpan(text, PLAIN, 0).start]
    except ValueError:
        return ""
    return before.removesuffix(find_opening(turns))


def find_opening(turns: Turns) -> str:
    """Return what leads to a call, wherever in an answer it stands."""
    header, turn = turns.header, turns.called
    first = turn[len(header) : CallSpan(turn, PLAIN, 0).start]
    leads = []
    for turn, mark in ((turns.spoken, CONTENT), (turns.all, REASON)):
        before, _, behind = turn.rpartition(mark)
        if before and PLAIN.name in behind:
            leads.append(behind[: CallSpan(behind, PLAIN, 0).start])
    if not first.strip():  # the header leads to it
        return common_end([turns.called[: len(header)] + first, *leads]) if leads else ""
    opening = common_end([first, *leads])
    if turns.all and leads[-1] == opening:  # what closes the reasoning is none of it
        closing = next((token for token in tags_and_words(opening) if len(token) > 2), "")
        return opening.partition(closing)[2] or opening
    return opening


def _calls_form(turns: Turns) -> Calls | None:
    if not turns.called:
        return None
    unit = CallSpan(turns.called, PLAIN, len(turns.header))
    tail = turns.called[unit.end :]
    text_end = turns.text.partition(CONTENT)[2]
    tail = tail[: len(tail) - len(text_end)] if text_end and tail.endswith(text_end) else tail
    closing, following, head = tail, "", unit.sample[0]
    if turns.twice:
        plain = CallSpan(turns.twice, PLAIN, len(turns.header))
        other = CallSpan(turns.twice, OTHER, plain.end)
        between = turns.twice[plain.end : other.start]
        closing = common_start([between, tail])
        following = between[len(closing) :]
        head = with_number_holes(unit.sample[0], other.sample[0])
    ending = tail[len(closing) :]
    opening = find_opening(turns)
    longer = _longer_openings(turns, opening, following, text_end)
    pairs, behind = None, closing
    if unit.body == "pairs":
        pairs = find_pairs(turns, ending, text_end, closing)
        if pairs is None:
            return None
        behind = ""
    first = _call_head(head) if unit.body != "object" else ()
    if unit.body == "pairs":
        first = first[:-1]
    sample = None
    if unit.body != "pairs":
        sample = (opening + head, unit.sample[1] + closing + _own_ending(ending, turns.header))
    return Calls(
        opening=Sign(opening),
        openings=tuple(map(Sign, sorted(longer, key=len, reverse=True))),
        body=unit.body,
        keys=unit.keys,
        head=first,
        pairs=pairs,
        closing=Sign(_with_holes(behind, PLAIN)),
        repeats=bool(turns.twice),
        following=Sign(following),
        ending=Sign(ending),
        resuming=Sign(_resuming_text(turns, closing + ending)),
        sample=sample,
    )


def _own_ending(ending: str, header: str) -> str:
    """Return what ends calls, without the start of another turn that some templates add."""
    others = {token for token in tags_and_words(header) if len(token) > 2}
    own = ""
    for token in tags_and_words(ending):
        if token in others:
            break
        own += token
    return own


def _longer_openings(turns: Turns, opening: str, following: str, text_end: str) -> set[str]:
    """Return all that may lead to a call: behind a text, or where a part is left out."""
    if not opening:
        return set()
    openings = {opening}
    before, _, behind = turns.spoken.rpartition(CONTENT)
    if before and PLAIN.name in behind:
        openings.add(behind[: CallSpan(behind, PLAIN, 0).start])
    ended = ""
    for token in tags_and_words(text_end):
        ended += token
        if len(token) > 2 and len(openings) < _MOST_OPENINGS:
            openings.add(ended + opening)
    is_control = re.match(r"\s*<[|｜]", following) is not None
    if is_control and (opening.endswith(following.lstrip()) or following.endswith(opening)):
        openings.add(following.lstrip())  # without what opens all calls, or behind a message
    parts = [
        at for at in range(1, len(opening)) if opening[at] in "<[" and opening[at - 1].isspace()
    ]
    if parts and len(opening[parts[-1] :].strip()) > 3:
        openings.add(opening[parts[-1] :])
    return {text for text in openings if text.strip()}


def _resuming_text(turns: Turns, ended: str) -> str:
    """Return what stands between calls and text behind them."""
    before, _, _ = turns.spoken.rpartition(CONTENT)
    last = OTHER if turns.twice else PLAIN
    if last.name not in before:
        return ""
    behind = before[CallSpan(before, last, 0).end :]
    return behind[len(ended) :] if behind.startswith(ended) else ""


def _call_head(text: str) -> tuple[str | Sign, ...]:
    """Cut what stands before the arguments into holes and signs."""
    head: list[str | Sign] = []
    rest, has_name = text, False
    while rest:
        kind = {NAME: "name", ID: "id"}.get(rest[0])
        if kind is None or (kind == "name" and has_name):
            return ()
        has_name = has_name or kind == "name"
        rest = rest[1:]
        ends = [at for at in (rest.find(ID), -1 if has_name else rest.find(NAME)) if at >= 0]
        upto = min(ends, default=len(rest))
        head += [kind, Sign(rest[:upto])]
        rest = rest[upto:]
    return tuple(head)


def _with_holes(text: str, probe: Probe) -> str:
    return text.replace(probe.name, NAME).replace(probe.id, ID)


def _find_object(
    turn: str, probe: Probe, name_at: int, after: int
) -> tuple[int, int, tuple[str, str, str]] | None:
    """Return where the JSON object of a call is, and its keys of name, arguments and id."""
    at = turn.rfind("{", after, name_at)
    while at >= after:
        try:
            call, end = json.JSONDecoder().raw_decode(turn, at)
        except _UNREADABLE:
            call, end = None, at
        keys = _call_keys(call, probe)
        if keys is not None:
            return at, end, keys
        at = turn.rfind("{", after, at) if at > after else -1
    return None


def _call_keys(call: Any, probe: Probe) -> tuple[str, str, str] | None:
    if not isinstance(call, dict):
        return None
    if call == {probe.name: probe.arguments}:
        return "", "", ""
    names = [key for key, value in call.items() if value == probe.name]
    arguments = [key for key, value in call.items() if _is_probe(value, probe.arguments)]
    ids = [key for key, value in call.items() if value == probe.id]
    return (names[0], arguments[0], ids[0] if ids else "") if names and arguments else None


def _is_probe(value: Any, arguments: dict[str, Any]) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except _UNREADABLE:
            return False
    return bool(value == arguments)


def _find_arguments(turn: str, probe: Probe, after: int) -> tuple[int, int] | None:
    """Return where the arguments stand as JSON, a text that holds it, or a dict of Python."""
    key_at = turn.find(next(iter(probe.arguments)), after)
    if key_at < 0:
        return None
    for opening in '{"':
        at = turn.rfind(opening, after, key_at - (opening == '"' and turn[key_at - 1] == '"'))
        try:
            value, end = json.JSONDecoder().raw_decode(turn, at) if at >= 0 else (None, 0)
        except _UNREADABLE:
            continue
        if _is_probe(value, probe.arguments):
            return at, end
    at, end = turn.rfind("{", after, key_at), turn.find("}", key_at)
    try:
        is_dict = 0 <= at < end and ast.literal_eval(turn[at : end + 1]) == probe.arguments
    except _UNREADABLE:
        is_dict = False
    return (at, end + 1) if is_dict else None
