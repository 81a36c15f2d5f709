"""Tools for templates that know none: told in the system message, calls and results as text.

Models without a form of their own follow this one well enough, and what they write besides, a bare
object, is read as well.
"""

from __future__ import annotations

import json

from mtkit.chat.signs import ID, NAME, NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer_form import Form

_INTRODUCTION = """You can call functions. These are their definitions, one a line:
<tools>
{tools}
</tools>

To call a function, write its name and its arguments as JSON between tags, and nothing else:
<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>

You will be given the result between <tool_response> tags. Call a function only if it helps; if \
not, answer as usual."""


def prepared(
    form: Form, messages: Sequence[Any], tools: Sequence[Any] | None
) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Return a conversation and tools as a template shows them all.

    Args:
        form: What the template shows.
        messages: The conversation; arguments of calls are objects.
        tools: What may be called.
    """
    if form.text_arguments:
        messages = [_with_calls(message, _as_text) for message in messages]
    if not form.shows_calls:
        messages = [_told(form, message) for message in messages]
    if not form.shows_results:
        messages = [_result(message) for message in messages]
    if tools and not form.shows_tools:
        return _introduced(messages, tools), None
    return messages, tools


def _introduced(messages: Sequence[Any], tools: Sequence[Any]) -> list[Any]:
    lines = [json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools]
    text = _INTRODUCTION.format(tools="\n".join(lines))
    first = messages[0] if messages else {}
    if first.get("role") == "system" and isinstance(first.get("content"), str):
        content = f"{first['content']}\n\n{text}" if first["content"] else text
        return [{**first, "content": content}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _with_calls(message: Any, change: Any) -> Any:
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [change(call) for call in calls]} if calls else message


def _as_text(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function", {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        return dict(call)
    written = json.dumps(arguments, ensure_ascii=False)
    return {**call, "function": {**function, "arguments": written}}


def _told(form: Form, message: Any) -> Any:
    """Return a message whose calls are part of its text."""
    calls = message.get("tool_calls")
    if not calls or form.calls is None:
        return message
    if form.calls.sample is None:
        before, after = '\n<tool_call>\n{"name": "' + NAME + '", "arguments": ', "}\n</tool_call>"
    else:
        before, after = form.calls.sample
    texts = [message.get("content") or ""]
    for place, call in enumerate(calls):
        function = call.get("function", call)
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments or {}, ensure_ascii=False)
        opening = before.replace(NAME, str(function.get("name"))).replace(NUMBER, str(place))
        texts.append(opening.replace(ID, str(call.get("id"))) + arguments + after)
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**kept, "content": "".join(texts).lstrip("\n") if not texts[0] else "".join(texts)}


def _result(message: Any) -> Any:
    """Return a tool's result as a message of the user."""
    if message.get("role") != "tool":
        return message
    content = f"<tool_response>\n{message.get('content') or ''}\n</tool_response>"
    return {"role": "user", "content": content}
