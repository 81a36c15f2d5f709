"""How much work a grammar makes for llama.cpp, found out before it gets there.

llama.cpp keeps a stack for each way in which a text can have come about, and follows each with
every token, without joining ways that meet. A grammar that says the same thing in several ways can
take hours for one token, which nothing interrupts: ``(\"a\"?){1000}`` does. So it is followed here
first, ways that meet counted instead of kept: from each of its rules, and from each place where
another begins, for the characters that leave most ways.

A way that begins only behind a text of a certain kind is not found: the samplers measure that.

Source: llama.cpp, src/llama-grammar.cpp (``llama_grammar_advance_stack``,
``llama_grammar_reject_candidates``, ``llama_grammar_detect_left_recursion``).
"""

from __future__ import annotations

from functools import lru_cache

from mtkit.errors import UsageError
from mtkit.llama.grammar_rules import KEPT, Characters, Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Place = tuple[int, int, int]  # rule, alternative, element
    Stack = tuple[Place, ...]

_MOST_STACKS = 5000
_MOST_MOVES = 20_000
"""From a stack to more than one other while ``_LENGTH`` characters are read."""
_LENGTH = 16
"""Characters of a long token."""
_MOST_STEPS = 300_000
"""Of this check, about a second."""
_MOST_VISITS = 5_000_000
"""Of rules by llama.cpp's search for left recursion, about 0.1 s."""
_DEEPEST = 10_000
"""Rules that begin with each other; that search is recursive."""
_TRIED = 12
_PLAIN = (0x61, 0x30, 0x20)


@lru_cache(maxsize=64)
def check_work(text: str, root: str = "root") -> None:
    """See that llama.cpp can follow a grammar.

    Raises:
        UsageError: It does not parse, is left-recursive, or is too much work.
    """
    rules = Rules(text, root)
    alternatives: list[list[tuple[Any, ...]]] = [one or [] for one in rules.rules]
    empty = _empty(alternatives)
    _check_left(alternatives, empty, rules)
    if any(all(part in empty for part in item) for item in rules.repeated):
        raise _too_much(f"what may be empty is repeated more than {KEPT} times")
    walk = _Walk(alternatives)
    for number, rule in reversed(list(enumerate(alternatives))):  # schemas name the longest last
        if number in rules.inner or number in walk.begun:
            continue
        walk.go([((number, at, 0),) if one else () for at, one in enumerate(rule)])
        for at, one in enumerate(rule):
            for place in range(1, len(one) - 1):  # the last is as that rule alone
                element, before = one[place], one[place - 1]
                if isinstance(element, int) and (
                    isinstance(before, Characters)
                    or (before not in empty and (before != element or element in empty))
                ):
                    walk.go([((number, at, place),)])


def _too_much(what: str) -> UsageError:
    return UsageError(
        f"can be followed in too many ways: {what}", field="grammar",
        hint="repeat nothing that may be empty, and say nothing in two ways",
    )  # fmt: skip


def _empty(rules: list[list[tuple[Any, ...]]]) -> set[int]:
    """Return the rules that can be empty."""
    found: set[int] = set()
    users: dict[int, set[int]] = {}
    for number, rule in enumerate(rules):
        for one in rule:
            for element in one:
                if isinstance(element, int):
                    users.setdefault(element, set()).add(number)
    todo = list(range(len(rules)))
    while todo:
        number = todo.pop()
        if number not in found and any(all(e in found for e in one) for one in rules[number]):
            found.add(number)
            todo += users.get(number, ())
    return found


def _check_left(rules: list[list[tuple[Any, ...]]], empty: set[int], names: Rules) -> None:
    """See that no rule begins with itself, and that llama.cpp finds that out in time."""

    def firsts(number: int) -> list[int]:
        found = []
        for one in rules[number]:
            for element in one:
                if not isinstance(element, int):
                    break
                found.append(element)
                if element not in empty:
                    break
        return found

    visits: dict[int, int] = {}
    begun: set[int] = set()
    for start in range(len(rules)):
        todo = [start]
        while todo:
            number = todo[-1]
            if number in visits:
                todo.pop()
                continue
            parts = firsts(number)
            if number in begun:
                visits[number] = 1 + sum(visits[part] for part in parts)
                todo.pop()
                begun.discard(number)
                if visits[number] > _MOST_VISITS:
                    raise _too_much("rules that begin with each other")
                continue
            begun.add(number)
            if len(begun) > _DEEPEST:
                raise _too_much("rules that begin with each other")
            for part in parts:
                if part in begun:
                    name = next((name for name, at in names.names.items() if at == part), "")
                    what = f"the rule {name} begins with itself" if name else "left recursion"
                    raise UsageError(f"does not parse: {what}", field="grammar")
                if part not in visits:
                    todo.append(part)


class _Walk:
    """Follows a grammar; the steps of all walks are counted together.

    Attributes:
        begun: Rules with which a walk began, besides others.
    """

    def __init__(self, rules: list[list[tuple[Any, ...]]]) -> None:
        self._rules = rules
        self._steps = 0
        self.begun: set[int] = set()
        self._known: dict[Place, tuple[list[Stack], bool]] = {}

    def go(self, starts: list[Stack]) -> None:
        """Read ``_LENGTH`` characters from some stacks on."""
        stacks = {one for stack in starts for one in self._advanced(stack)}
        if all(place[2] == 0 for stack in starts for place in stack):
            self.begun.update(place[0] for stack in stacks for place in stack)
        total = 0
        for _ in range(_LENGTH):
            stacks.discard(())
            if not stacks:
                return
            stacks, moves = self._read(stacks)
            total += moves
            if total > _MOST_MOVES:
                raise _too_much(f"{_LENGTH} characters part into more than {_MOST_MOVES}")

    def _read(self, stacks: set[Stack]) -> tuple[set[Stack], int]:
        """Read the character that most stacks take; also returns to how many each led in sum."""
        tops: dict[Place, int] = {}
        for stack in stacks:
            self._step()
            tops[stack[-1]] = tops.get(stack[-1], 0) + 1
        sets = {place: self._element(place) for place in tops}
        codes = {code for found in sets.values() for code, _ in found.ranges[:2]}
        if len(sets) > 1 or not codes:
            codes.update(_PLAIN)
        best, most = 0, -1
        for code in list(codes)[:_TRIED] if len(sets) > 1 else codes:
            count = sum(tops[place] for place, found in sets.items() if found.takes(code))
            if count > most:
                best, most = code, count
        after: set[Stack] = set()
        moves = 0
        for stack in stacks:
            if sets[stack[-1]].takes(best):
                found = self._advanced(self._behind(stack))
                moves += max(len(found) - 1, 0)
                after.update(found)
                if len(after) > _MOST_STACKS:
                    raise _too_much(f"more than {_MOST_STACKS} at a time")
        return after, moves

    def _element(self, place: Place) -> Characters:
        number, at, index = place
        found = self._rules[number][at][index]
        assert isinstance(found, Characters)
        return found

    def _behind(self, stack: Stack) -> Stack:
        number, at, index = stack[-1]
        rest = stack[:-1]
        if index + 1 < len(self._rules[number][at]):
            rest = (*rest, (number, at, index + 1))
        return rest

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _too_much("to find out how many takes too long")

    def _advanced(self, stack: Stack) -> list[Stack]:
        """Return the stacks, each with a set of characters on top, that a stack leads to."""
        made: list[Stack] = []
        while stack:
            tops, is_empty = self._top(stack[-1])
            below = stack[:-1]
            made += [below + top for top in tops] if below else tops
            if len(made) > _MOST_STACKS:
                raise _too_much(f"more than {_MOST_STACKS} at a time")
            if not is_empty:
                return made
            stack = below
        return [*made, ()]

    def _top(self, place: Place) -> tuple[list[Stack], bool]:
        """Return what one place leads to, and whether it can be passed without a character."""
        if place in self._known:
            return self._known[place]
        made, is_empty = [], False
        todo: list[Stack] = [(place,)]
        seen = set(todo)
        while todo:
            self._step()
            stack = todo.pop()
            if not stack:
                is_empty = True
                continue
            number, at, index = stack[-1]
            element = self._rules[number][at][index]
            if isinstance(element, Characters):
                made.append(stack)
                if len(made) > _MOST_STACKS:
                    raise _too_much(f"more than {_MOST_STACKS} at a time")
                continue
            rest = self._behind(stack)
            for choice, one in enumerate(self._rules[element]):
                found = (*rest, (element, choice, 0)) if one else rest
                if found not in seen:
                    seen.add(found)
                    todo.append(found)
                    if len(seen) > 10 * _MOST_STACKS:
                        raise _too_much(f"more than {_MOST_STACKS} at a time")
        self._known[place] = made, is_empty
        return made, is_empty
