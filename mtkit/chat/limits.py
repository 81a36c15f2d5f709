"""What a chat template may use: a budget of time and size, and where it is checked.

Jinja's sandbox keeps a template from Python's internals, not from looping for ever or from
filling memory. The parsed template is changed before it is compiled: each loop, concatenation and
filter passes through a check. That changes no rendering.
"""

from __future__ import annotations

import re
import time
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from mtkit.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

MOST_DIGITS = 4300
"""Of an integer: more are not turned into text by Python."""
SIZED_BY_ARGUMENT = frozenset(
    ("batch", "center", "indent", "round", "slice", "tojson", "truncate", "wordwrap")
)
"""Filters that make as much as a number says that they take."""

TO_PIECES = (
    *("batch", "groupby", "join", "list", "map", "reject", "select", "slice", "sort", "title"),
    *("unique", "urlize", "wordcount", "wordwrap"),
)
"""Filters that cut a text to words or characters on the way."""

_BORROWED_WIDTH = re.compile(r"%[^a-zA-Z%]*\*|:[^{}]*\{")
"""``%*d`` and ``{:{}}``: a width comes from the values."""


class Budget:
    """What one rendering may use, its clock, and the places that ``generation`` tags mark.

    Attributes:
        seconds: Wall-clock time.
        characters: Length of the output and of each string on the way.
        now: What ``strftime_now`` tells; None: the time of the call.
        blocks: The output so far.
        generation: (start, end) in characters of the output.
    """

    def __init__(self, seconds: float, characters: int, now: datetime | None) -> None:
        self.seconds = seconds
        self.characters = characters
        self.now = now
        self.deadline = time.monotonic() + seconds
        self.blocks: list[str] = []
        self.generation: list[tuple[int, int]] = []

    def tick(self) -> None:
        """Stop a rendering that takes too long."""
        if time.monotonic() > self.deadline:
            raise ResourceError(f"the chat template ran for more than {self.seconds:g} seconds")

    def room(self, size: int) -> None:
        """Stop a rendering that grows too large."""
        if size > self.characters:
            raise ResourceError(
                f"the chat template made a text of more than {self.characters} characters"
            )

    def elements(self, count: int) -> None:
        """Stop a rendering that makes a long list: each element costs more than a character."""
        most = self.characters // 32
        if count > most:
            raise ResourceError(f"the chat template made a list of more than {most} elements")

    def pieces(self, size: int) -> None:
        """Stop a rendering that cuts a long text to pieces, each of them an object."""
        most = self.characters // 32
        if size > most:
            raise ResourceError(
                f"the chat template cuts a text of more than {most} characters to pieces"
            )

    def digits(self, count: int) -> None:
        """Stop a rendering that reckons with numbers that could not be shown."""
        if count > MOST_DIGITS:
            raise ResourceError(
                f"the chat template made a number of more than {MOST_DIGITS} digits"
            )


BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


def sized(value: Any) -> Any:
    """Check the length of what an expression gave."""
    budget = BUDGET.get()
    if budget is not None and isinstance(value, str):
        budget.room(len(value))
    elif budget is not None and isinstance(value, (list, tuple, dict)):
        budget.elements(len(value))
    return value


def cutting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the text that a filter cuts to pieces."""
    place = int(hasattr(function, "jinja_pass_arg"))  # jinja's context is in front

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        budget = BUDGET.get()
        if budget is not None and isinstance(args[place], str):
            budget.pieces(len(args[place]))
        return function(*args, **kwargs)

    return checked


def counted(value: Any) -> Any:
    """Check a number that a filter takes: a width, a count, a precision."""
    budget = BUDGET.get()
    if budget is not None and isinstance(value, int):
        budget.room(value)
    return value


def concatenated(values: Iterable[Any]) -> str:
    """Join what stands between ``~``, after a look at the length."""
    texts = [str(value) for value in values]
    budget = BUDGET.get()
    if budget is not None:
        budget.room(sum(map(len, texts)))
    return "".join(texts)


def looped(value: Any) -> Any:
    """Check the time before a loop, and at each step where its length is not known."""
    budget = BUDGET.get()
    if budget is None:
        return value
    budget.tick()
    return value if hasattr(value, "__len__") or not hasattr(value, "__next__") else timed(value)


def timed(values: Iterable[Any]) -> Iterator[Any]:
    """Check the time at each step."""
    for value in values:
        budget = BUDGET.get()
        if budget is not None:
            budget.tick()
        yield value


class Checks(NodeTransformer):
    """Put the checks around loops, concatenations and filters."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802  the name of the node
        """Check the time at each loop."""
        self.generic_visit(node)
        node.iter = _through("mtkit_looped", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802  the name of the node
        """Check the length of a concatenation."""
        self.generic_visit(node)
        return _through("mtkit_concatenated", nodes.List(node.nodes, lineno=node.lineno), node)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Expr:  # noqa: N802  the name of the node
        """Check what a filter takes and gives."""
        self.generic_visit(node)
        if node.name in SIZED_BY_ARGUMENT:
            node.args = [_through("mtkit_counted", argument) for argument in node.args]
            for pair in node.kwargs:
                pair.value = _through("mtkit_counted", pair.value)
        # Without an operand it is a {% filter %} block, whose text the output limit holds.
        return node if node.node is None else _through("mtkit_sized", node)


def _through(name: str, node: nodes.Node, place: nodes.Node | None = None) -> nodes.Filter:
    made = nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
    made.set_environment((place or node).environment)  # type: ignore[arg-type]  # the parser has
    return made


def check_format(budget: Budget, text: str, values: Iterable[Any]) -> None:
    """Look for a width in a format text, or among its values, that would fill memory."""
    if _BORROWED_WIDTH.search(text):
        for value in values:
            if isinstance(value, int):
                budget.room(value)
    digits = ""
    for char in text:
        digits = digits + char if char.isdecimal() else ""
        if len(digits) < 20:
            budget.room(int(digits or 0))
        else:
            budget.room(1 << 62)


def check_method(budget: Budget, text: str, method: str, args: tuple[Any, ...]) -> None:
    """Look for a string method that would fill memory."""
    if method == "join" and args:
        check_join(text, args[0])
    elif method in ("center", "ljust", "rjust", "zfill", "expandtabs"):
        for size in args:
            if isinstance(size, int):
                budget.room(size * (text.count("\t") if method == "expandtabs" else 1))
    elif method in ("split", "rsplit", "splitlines"):
        marks = [value for value in args if value and isinstance(value, str)] or list(" \t\n\r")
        most = [value for value in args if type(value) is int and value >= 0]
        budget.elements(min([sum(map(text.count, marks)), *most]))
    elif method == "replace" and len(args) >= 2:
        check_replace(text, *args[:2])


def check_replace(text: Any, old: Any, new: Any) -> None:
    """Check the length of what replacing gives."""
    budget = BUDGET.get()
    if budget is not None and all(isinstance(value, str) for value in (text, old, new)):
        budget.room(len(text) + text.count(old) * len(new))


def check_join(between: str, values: Any) -> None:
    """Check the length of what joining gives."""
    budget = BUDGET.get()
    if budget is not None and isinstance(values, (list, tuple)):
        texts = sum(len(value) for value in values if isinstance(value, str))
        budget.room(texts + len(between) * len(values))


FILTERS = {
    "mtkit_sized": sized,
    "mtkit_looped": looped,
    "mtkit_counted": counted,
    "mtkit_concatenated": concatenated,
}
"""The checks by the names under which the changed template calls them."""
