"""How a chat template writes calls of tools: found between the marks of ``probes``."""

from __future__ import annotations

import ast
import json

from mtkit.chat.answer_form import Calls
from mtkit.chat.pair_analysis import pairs_of
from mtkit.chat.probes import CONTENT, OTHER, PLAIN, REASON
from mtkit.chat.signs import ID, NAME, Sign, common_end, common_start, tokens, with_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.chat.answer_form import Body
    from mtkit.chat.assistant_turns import Turns
    from mtkit.chat.probes import Probe


_MOST_OPENINGS = 6


class Unit:
    """A call in a turn: from its first hole to its last.

    Attributes:
        body: As in ``Calls``.
        keys: As in ``Calls``.
        start: Of the first hole.
        end: Of the last one.
        arguments: Where their JSON stands; of pairs where the first key does.
        sample: What stands from the first hole on, around the arguments; with holes.
    """

    def __init__(self, turn: str, probe: Probe, after: int) -> None:
        """Find a call.

        Args:
            turn: The turn.
            probe: The call.
            after: Where it may begin.

        Raises:
            ValueError: It is not there.
        """
        name_at = turn.index(probe.name, after)
        self.keys = ("", "", "")
        span = _arguments(turn, probe, name_at)
        whole = _object(turn, probe, name_at, after)
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
        id_at = turn.find(probe.number, after, self.end)
        if id_at >= 0:
            self.start = min(self.start, id_at)
        self.arguments = span or (self.end, self.end)
        first, last = self.arguments
        self.sample = (
            _holes(turn[self.start : first], probe),
            _holes(turn[last : self.end], probe),
        )


def calls_of(turns: Turns) -> Calls | None:
    """Return how calls are written; None where the template does not show it."""
    try:
        return _calls(turns)
    except ValueError:
        return None


def leading(turns: Turns, text: str) -> str:
    """Return what a text begins with, up to what leads to its call."""
    try:
        before = text[: Unit(text, PLAIN, 0).start]
    except ValueError:
        return ""
    return before.removesuffix(opening_of(turns))


def opening_of(turns: Turns) -> str:
    """Return what leads to a call wherever it stands."""
    header, turn = turns.header, turns.called
    first = turn[len(header) : Unit(turn, PLAIN, 0).start]
    leads = []
    for turn, mark in ((turns.spoken, CONTENT), (turns.all, REASON)):
        before, _, behind = turn.rpartition(mark)
        if before and PLAIN.name in behind:
            leads.append(behind[: Unit(behind, PLAIN, 0).start])
    if not first.strip():  # the header leads to it
        return common_end([turns.called[: len(header)] + first, *leads]) if leads else ""
    found = common_end([first, *leads])
    if turns.all and leads[-1] == found:  # what closes the reasoning is none of it
        closing = next((one for one in tokens(found) if len(one) > 2), "")
        return found.partition(closing)[2] or found
    return found


def _calls(turns: Turns) -> Calls | None:
    if not turns.called:
        return None
    unit = Unit(turns.called, PLAIN, len(turns.header))
    tail = turns.called[unit.end :]
    text_end = turns.text.partition(CONTENT)[2]
    tail = tail[: len(tail) - len(text_end)] if text_end and tail.endswith(text_end) else tail
    closing, following, head = tail, "", unit.sample[0]
    if turns.twice:
        one = Unit(turns.twice, PLAIN, len(turns.header))
        two = Unit(turns.twice, OTHER, one.end)
        between = turns.twice[one.end : two.start]
        closing = common_start([between, tail])
        following = between[len(closing) :]
        head = with_numbers(unit.sample[0], two.sample[0])
    ending = tail[len(closing) :]
    opening = opening_of(turns)
    longer = _longer(turns, opening, text_end)
    pairs, behind = None, closing
    if unit.body == "pairs":
        pairs = pairs_of(turns, ending, text_end, closing)
        if pairs is None:
            return None
        behind = ""
    first = _head(head) if unit.body != "object" else ()
    if unit.body == "pairs":
        first = first[:-1]
    sample = None
    if unit.body != "pairs":
        sample = (opening + head, unit.sample[1] + closing + _own(ending, turns.header))
    return Calls(
        opening=Sign(opening),
        openings=tuple(map(Sign, sorted(longer, key=len, reverse=True))),
        body=unit.body,
        keys=unit.keys,
        head=first,
        pairs=pairs,
        closing=Sign(_holes(behind, PLAIN)),
        repeats=bool(turns.twice),
        following=Sign(following),
        ending=Sign(ending),
        resuming=Sign(_resuming(turns, closing + ending)),
        sample=sample,
    )


def _own(ending: str, header: str) -> str:
    """Return what ends calls without what begins another turn, which some templates write there."""
    others = {token for token in tokens(header) if len(token) > 2}
    made = ""
    for token in tokens(ending):
        if token in others:
            break
        made += token
    return made


def _longer(turns: Turns, opening: str, text_end: str) -> set[str]:
    """Return all that leads to a call: behind a text, or where a part is left out."""
    if not opening:
        return set()
    found = {opening}
    before, _, behind = turns.spoken.rpartition(CONTENT)
    if before and PLAIN.name in behind:
        found.add(behind[: Unit(behind, PLAIN, 0).start])
    ended = ""
    for token in tokens(text_end):
        ended += token
        if len(token) > 2 and len(found) < _MOST_OPENINGS:
            found.add(ended + opening)
    parts = [
        at for at in range(1, len(opening)) if opening[at] in "<[" and opening[at - 1].isspace()
    ]
    if parts and len(opening[parts[-1] :].strip()) > 3:
        found.add(opening[parts[-1] :])
    return {one for one in found if one.strip()}


def _resuming(turns: Turns, ended: str) -> str:
    """Return what stands between calls and a text behind them."""
    before, _, _ = turns.spoken.rpartition(CONTENT)
    last = OTHER if turns.twice else PLAIN
    if last.name not in before:
        return ""
    behind = before[Unit(before, last, 0).end :]
    return behind[len(ended) :] if behind.startswith(ended) else ""


def _head(text: str) -> tuple[str | Sign, ...]:
    """Cut what stands before the arguments into holes and signs."""
    made: list[str | Sign] = []
    rest, has_name = text, False
    while rest:
        kind = {NAME: "name", ID: "id"}.get(rest[0])
        if kind is None or (kind == "name" and has_name):
            return ()
        has_name = has_name or kind == "name"
        rest = rest[1:]
        ends = [at for at in (rest.find(ID), -1 if has_name else rest.find(NAME)) if at >= 0]
        upto = min(ends, default=len(rest))
        made += [kind, Sign(rest[:upto])]
        rest = rest[upto:]
    return tuple(made)


def _holes(text: str, probe: Probe) -> str:
    return text.replace(probe.name, NAME).replace(probe.number, ID)


def _object(
    turn: str, probe: Probe, name_at: int, after: int
) -> tuple[int, int, tuple[str, str, str]] | None:
    """Return where the JSON object is that says name and arguments, and by which keys."""
    at = turn.rfind("{", after, name_at)
    while at >= after:
        try:
            found, end = json.JSONDecoder().raw_decode(turn, at)
        except ValueError:
            found, end = None, at
        keys = _keys(found, probe)
        if keys is not None:
            return at, end, keys
        at = turn.rfind("{", after, at) if at > after else -1
    return None


def _keys(found: Any, probe: Probe) -> tuple[str, str, str] | None:
    if not isinstance(found, dict):
        return None
    if found == {probe.name: probe.arguments}:
        return "", "", ""
    names = [key for key, value in found.items() if value == probe.name]
    given = [key for key, value in found.items() if _is(value, probe.arguments)]
    ids = [key for key, value in found.items() if value == probe.number]
    return (names[0], given[0], ids[0] if ids else "") if names and given else None


def _is(value: Any, arguments: dict[str, Any]) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return False
    return bool(value == arguments)


def _arguments(turn: str, probe: Probe, after: int) -> tuple[int, int] | None:
    """Return where the arguments stand as JSON, a text that holds it, or a dict of Python."""
    key_at = turn.find(next(iter(probe.arguments)), after)
    if key_at < 0:
        return None
    for opening in '{"':
        at = turn.rfind(opening, after, key_at - (opening == '"' and turn[key_at - 1] == '"'))
        try:
            found, end = json.JSONDecoder().raw_decode(turn, at) if at >= 0 else (None, 0)
        except ValueError:
            continue
        if _is(found, probe.arguments):
            return at, end
    at, end = turn.rfind("{", after, key_at), turn.find("}", key_at)
    try:
        is_dict = 0 <= at < end and ast.literal_eval(turn[at : end + 1]) == probe.arguments
    except (ValueError, SyntaxError):
        is_dict = False
    return (at, end + 1) if is_dict else None
