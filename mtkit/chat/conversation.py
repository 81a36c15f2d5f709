"""Conversations as a template takes them: in fewer messages, with tools as text.

Clients send instructions in several system messages, also late ones, and several user messages in a
row. Many templates refuse that, or leave out all system messages but one. They get the same texts
in fewer messages: one system message in front and later ones as parts of user messages, or all of
them as parts of user messages.

Templates that know no tools get them in the system message, and calls and results as text. Models
without a form of their own follow the one asked for there well enough; the bare objects that they
write besides are read as well.
"""

from __future__ import annotations

import json
from contextlib import suppress

from mtkit.chat.signs import ID, NAME, NUMBER
from mtkit.chat.template import TemplateRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer import Form


def render_or_simplify(messages: Sequence[Any], render: Callable[[Sequence[Any]], str]) -> str:
    """Render a conversation, or where the template refuses it, a simpler one."""
    refusal: TemplateRefusal | None = None
    text = ""
    try:
        text = render(messages)
        if _shows_system(text, messages):
            return text
    except TemplateRefusal as error:
        refusal = error
    for simpler in _simpler_conversations(messages):
        with suppress(TemplateRefusal):
            simpler_text = render(simpler)
            if _shows_system(simpler_text, messages):
                return simpler_text
    if refusal is not None:
        raise refusal
    return text


def _shows_system(text: str, messages: Sequence[Any]) -> bool:
    """Whether a rendering has all system messages; a single one in front is not checked."""
    system = [message for message in messages if _role(message) == "system"]
    if system == list(messages[:1]):
        return True
    contents = [message.get("content") for message in system]
    return all(content.strip() in text for content in contents if isinstance(content, str))


def _simpler_conversations(messages: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield conversations with the same texts, those that change least first."""
    if not all(_role(message) and isinstance(message.get("content"), str) for message in messages):
        return
    count = next((n for n, m in enumerate(messages) if _role(m) != "system"), len(messages))
    leading, rest = messages[:count], messages[count:]
    system = [{**message, "content": _join_texts(leading)} for message in leading[:1]]
    users = [{**m, "role": "user"} if _role(m) == "system" else m for m in rest]
    opening = [{**message, "role": "user"} for message in system]
    for conversation in (
        [*system, *_merge_user_messages(users)],
        _merge_user_messages([*opening, *users]),
    ):
        if conversation != list(messages):
            yield conversation


def _merge_user_messages(messages: Sequence[Any]) -> list[Any]:
    """Join user messages that follow each other."""
    merged: list[Any] = []
    for message in messages:
        if merged and _role(message) == _role(merged[-1]) == "user":
            before = merged.pop()
            message = {**before, "content": _join_texts([before, message])}
        merged.append(message)
    return merged


def _join_texts(messages: Sequence[Any]) -> str:
    return "\n\n".join(message["content"] for message in messages if message["content"])


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


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


def conversation_with_tools(
    form: Form, messages: Sequence[Any], tools: Sequence[Any] | None
) -> tuple[Sequence[Any], Sequence[Any] | None]:
    """Return a conversation and tools in a form in which the template shows all of them."""
    if form.text_arguments:
        messages = [_change_calls(message, _arguments_as_text) for message in messages]
    if not form.shows_calls:
        messages = [_calls_as_text(form, message) for message in messages]
    if not form.shows_results:
        messages = [_result_message(message) for message in messages]
    if tools and not form.shows_tools:
        return _introduce_tools(messages, tools), None
    return messages, tools


def _introduce_tools(messages: Sequence[Any], tools: Sequence[Any]) -> list[Any]:
    lines = [json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools]
    text = _INTRODUCTION.format(tools="\n".join(lines))
    first = messages[0] if messages else {}
    if first.get("role") == "system" and isinstance(first.get("content"), str):
        content = f"{first['content']}\n\n{text}" if first["content"] else text
        return [{**first, "content": content}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _change_calls(message: Any, change: Any) -> Any:
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [change(call) for call in calls]} if calls else message


def _arguments_as_text(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function", {})
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        return dict(call)
    text = json.dumps(arguments, ensure_ascii=False)
    return {**call, "function": {**function, "arguments": text}}


def _calls_as_text(form: Form, message: Any) -> Any:
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
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "".join(texts).lstrip("\n") if not texts[0] else "".join(texts)}


def _result_message(message: Any) -> Any:
    """Return a tool's result as a message of the user."""
    if message.get("role") != "tool":
        return message
    content = f"<tool_response>\n{message.get('content') or ''}\n</tool_response>"
    return {"role": "user", "content": content}
