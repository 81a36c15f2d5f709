"""The sandbox in which chat templates run: Jinja as ``transformers`` sets it up, with limits.

A template is a program from a stranger's file. Jinja's immutable sandbox keeps it from Python's
internals, ``chat_limits`` from taking all time and memory.

Source: huggingface/transformers 5.23, utils/chat_template_utils.py (filters, globals, the
``generation`` tag); pallets/jinja 3.1, sandbox.py.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_format, do_indent, do_join, do_replace
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, generate_lorem_ipsum, pass_eval_context

from mtkit.chat.limits import (
    BUDGET,
    FILTERS,
    TO_PIECES,
    Budget,
    Checks,
    check_format,
    check_join,
    check_method,
    check_replace,
    cutting,
    sized,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Template
    from jinja2.parser import Parser
    from jinja2.runtime import Context


class _Generation(Extension):
    """``{% generation %}`` … ``{% endgeneration %}``: what the assistant would have said."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        """Make a block whose text passes through ``_mark``."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        block = nodes.CallBlock(self.call_method("_mark"), [], [], body)
        return block.set_lineno(line)

    @pass_eval_context
    def _mark(self, context: nodes.EvalContext, caller: Callable[[], str]) -> str:  # noqa: ARG002  called by jinja2
        text = caller()
        budget = BUDGET.get()
        if budget is not None:
            start = sum(map(len, budget.blocks))
            budget.generation.append((start, start + len(text)))
        return text


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment; operators and calls are checked as they run."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Check what an operator would make before it does."""
        budget = BUDGET.get()
        if budget is not None:
            self._check_operator(budget, operator, left, right)
        return super().call_binop(context, operator, left, right)

    @staticmethod
    def _check_operator(budget: Budget, operator: str, left: Any, right: Any) -> None:
        lists = (list, tuple)
        if operator == "+":
            if isinstance(left, str) and isinstance(right, str):
                budget.room(len(left) + len(right))
            elif isinstance(left, lists) and isinstance(right, lists):
                budget.elements(len(left) + len(right))
        elif operator == "*":
            for many, count in ((left, right), (right, left)):
                if isinstance(many, (str, *lists)) and isinstance(count, int):
                    (budget.room if isinstance(many, str) else budget.elements)(len(many) * count)
            if isinstance(left, int) and isinstance(right, int):
                budget.digits((left.bit_length() + right.bit_length()) // 4)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            budget.digits(left.bit_length() * right // 4)
        elif operator == "%" and isinstance(left, str):
            values = right.values() if isinstance(right, dict) else right
            check_format(budget, left, values if isinstance(values, tuple) else (values,))

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Check time, widths and growth around each call."""
        budget = BUDGET.get()
        if budget is None:
            return super().call(context, obj, *args, **kwargs)
        budget.tick()
        method = getattr(obj, "__wrapped__", obj)  # jinja wraps str.format
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str):
            name = getattr(method, "__name__", "")
            if name in ("format", "format_map"):
                given = args[0].values() if name == "format_map" else (*args, *kwargs.values())
                check_format(budget, owner, given)
            else:
                check_method(budget, owner, name, (*args, *kwargs.values()))
        return sized(super().call(context, obj, *args, **kwargs))


class _Dict:
    """``dict`` without its attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args, **kwargs)


class _Namespace(Namespace):
    """``namespace`` that takes no names with a leading underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # Without a named first parameter a template may set an attribute "self".
        values = dict(*args[1:], **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(args[0], values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot have the attribute {name!r}")


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


@pass_eval_context
def _replace(context: nodes.EvalContext, text: Any, old: Any, new: Any, count: Any = None) -> Any:
    check_replace(str(text), str(old), str(new))
    return do_replace(context, text, old, new, count)


def _format(text: Any, *values: Any, **named: Any) -> str:
    budget = BUDGET.get()
    if budget is not None:
        check_format(budget, str(text), (*values, *named.values()))
    return do_format(text, *values, **named)


@pass_eval_context
def _join(
    context: nodes.EvalContext, values: Any, d: str = "", attribute: str | int | None = None
) -> str:
    if attribute is None:
        check_join(str(d), values)
    return str(do_join(context, values, d, attribute))


def _indent(s: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    budget = BUDGET.get()
    if budget is not None and isinstance(s, str):
        added = width if isinstance(width, int) else len(width)
        budget.room(len(s) + (s.count("\n") + 1) * added)
    return do_indent(s, width, first, blank)


def _lipsum(n: int = 5, html: Any = True, min: int = 20, max: int = 100) -> str:  # noqa: A002  jinja2's names
    budget = BUDGET.get()
    if budget is not None:
        budget.room(n * max * 20)
    return generate_lorem_ipsum(n, html, min, max)


def _strftime_now(form: str) -> str:
    budget = BUDGET.get()
    now = budget.now if budget is not None and budget.now is not None else datetime.now()
    return now.strftime(form)


@lru_cache(maxsize=32)
def compile_template(text: str) -> Template:
    """Compile a template.

    Raises:
        jinja2.TemplateSyntaxError: It is no template.
    """
    sandbox = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    sandbox.filters.update(
        FILTERS, format=_format, indent=_indent, join=_join, replace=_replace, tojson=_tojson
    )
    for name in TO_PIECES:
        sandbox.filters[name] = cutting(sandbox.filters[name])
    sandbox.globals.update(
        raise_exception=_raise_exception,
        strftime_now=_strftime_now,
        dict=_Dict(),
        lipsum=_lipsum,
        namespace=_Namespace,
    )
    tree = Checks().visit(sandbox.parse(text))
    return sandbox.from_string(tree)
