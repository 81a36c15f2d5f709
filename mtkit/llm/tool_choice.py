"""Which tools an answer has to call, and the grammar by which it does."""

from __future__ import annotations

import json
import re
import secrets

from mtkit.base.record import replace
from mtkit.chat.signs import ID, NAME, NUMBER
from mtkit.errors import MtkitError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer import Form
    from mtkit.settings import SamplerSettings

_NAME = re.compile(r"[\w.-]{1,64}")
_BARE_CALL = ('{"name": "' + NAME + '", "arguments": ', "}")
"""A call as any model may write it, for forms whose arguments are no JSON object."""


def required_tools(choice: str | Mapping[str, Any], schemas: Mapping[str, Any]) -> list[str]:
    """Return the tools of which an answer has to call one; empty where it need not.

    Args:
        choice: ``auto``, ``none``, ``required``, a name, or an object that names a function.

    Raises:
        UsageError: It names none of the tools.
    """
    if choice in ("auto", "none"):
        return []
    name: Any = choice
    if not isinstance(choice, str):
        function = choice.get("function", choice)
        name = function.get("name") if isinstance(function, dict) else None
    names = list(schemas) if choice == "required" else [name]
    if not names or not all(isinstance(name, str) and name in schemas for name in names):
        raise UsageError("names none of the tools", field="tool_choice")
    return names


def schema_texts(names: Sequence[str], schemas: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield tools with the JSON schema of their arguments.

    Raises:
        UsageError: A grammar cannot hold a name.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot be forced: its name", field="tool_choice")
        yield name, json.dumps(schemas[name])


def force_call(
    sampler: SamplerSettings, form: Form | None, schemas: Mapping[str, str]
) -> SamplerSettings:
    """Return settings of a sampler by which an answer calls one of these tools.

    Args:
        form: How the model writes calls.
        schemas: By tool the JSON schema of its arguments, as ``schema_texts`` returns them.

    Raises:
        UsageError: There is a grammar already, or a part of a schema cannot be enforced.
    """
    if sampler.grammar is not None or sampler.json_schema is not None:
        raise UsageError("cannot be forced together with a grammar", field="tool_choice")
    from mtkit.llama import check_schema, one_of

    before, after = _BARE_CALL
    if form is not None and form.calls is not None and form.calls.sample:
        before, after = form.calls.sample
    number = secrets.token_hex(5)[:9]
    before, after = (text.replace(ID, number).replace(NUMBER, "0") for text in (before, after))
    calls = []
    for name, schema in schemas.items():
        try:
            check_schema(schema)
        except MtkitError as error:
            field = error.field.replace("JSON schema", f"parameters of {name}", 1)
            raise UsageError(error.what, field=field, hint=error.hint) from None
        calls.append((before.replace(NAME, name), schema, after))
    return replace(sampler, json_schema=one_of(calls))
