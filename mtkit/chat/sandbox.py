"""The sandbox in which chat templates run: Jinja as ``transformers`` sets it up.

A template is a program from a stranger's file. Jinja's immutable sandbox keeps it from Python's
internals; what it may use of time and memory is for the process around it (``renderer``).

Source: huggingface/transformers 5.23, utils/chat_template_utils.py (filters, globals, the
``generation`` tag); pallets/jinja 3.1, sandbox.py.
"""

from __future__ import annotations

import json
from datetime import datetime

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_eval_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from jinja2 import Template
    from jinja2.parser import Parser


class TooLong(Exception):
    """A rendering is longer than it may be."""


class Output:
    """What a template has written so far.

    Attributes:
        spans: (start, end) in characters of each part in ``{% generation %}`` tags.
    """

    def __init__(self, now: datetime, characters: int, spans: int) -> None:
        self.now = now
        self.blocks: list[str] = []
        self.size = 0
        self.spans: list[tuple[int, int]] = []
        self._characters = characters
        self._spans = spans

    def write(self, block: str) -> None:
        """Add to the text."""
        self.size += len(block)
        if self.size > self._characters:
            raise TooLong(f"made a text of more than {self._characters} characters")
        self.blocks.append(block)

    def mark(self, text: str) -> None:
        """Mark what is written next."""
        if len(self.spans) == self._spans:
            raise TooLong(f"marks more than {self._spans} generations")
        self.spans.append((self.size, self.size + len(text)))


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's environment for one process: it renders one template at a time."""

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self.output = Output(datetime.min, 0, 0)

        def strftime_now(form: str) -> str:
            return self.output.now.strftime(form)

        self.filters["tojson"] = _tojson
        self.globals.update(
            raise_exception=_raise_exception,
            strftime_now=strftime_now,
            dict=_Dict(),
            namespace=_Namespace,
        )

    def render_into(self, output: Output, template: Template, variables: dict[str, Any]) -> None:
        """Render a template of this environment."""
        self.output = output
        for block in template.root_render_func(template.new_context(variables)):
            output.write(block)


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
        self.environment.output.mark(text)  # type: ignore[attr-defined]  # a Sandbox
        return text


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


def _raise_exception(message: Any) -> NoReturn:
    raise TemplateError(str(message))


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


def syntax_fault(text: str) -> str:
    """Return why a template does not parse; "" where it does. Nothing of it runs."""
    from jinja2.exceptions import TemplateSyntaxError

    try:
        Sandbox().parse(text)
    except TemplateSyntaxError as error:
        return f"{error.message} (line {error.lineno})"
    except (RecursionError, OverflowError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
