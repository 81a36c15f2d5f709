"""Conversations of the three APIs, in the form that chat templates know.

That form is the one of chat completions: messages with a role and a text, calls with their
arguments as objects.

Source: the reference of Anthropic's API, ``anthropic.types``; OpenAI's reference of the Responses
API, ``openai.types.responses.response_input_item``.
"""

from __future__ import annotations

import base64
import re

import msgspec

from mtkit.base.record import Record
from mtkit.chat.template import REASONING
from mtkit.errors import UsageError
from mtkit.serve.media import MEDIA, NO_MEDIA, RequestMedia, media_as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.serve.bodies import Tool
    from mtkit.serve.request import UnknownFields
    from mtkit.serve.tool import ToolOrigin, Tools


class Conversation(Record):
    """A conversation of any of the three APIs, ready for a chat template."""

    messages: list[dict[str, Any]]
    tools: Tools
    values: dict[str, Any]
    continue_final: bool | str = False
    add_generation_prompt: bool = True
    media: RequestMedia = NO_MEDIA


_ROLE_NAMES = ("system", "user", "assistant", "tool", "function")
_ROLES = {"developer": "system", **{name: name for name in _ROLE_NAMES}}
_BETWEEN, _BETWEEN_LAST = "\n", "\n\n"
"""Separators between parts of a content, as in llama-server and vLLM, and of a continued one."""
_FUNCTION_FIELDS = (
    ("name", str, "a text"),
    ("description", str, "a text"),
    ("parameters", dict, "an object"),
)
_OLD_CALL_ID = "function0"
"""The id of a call that has none; nine letters and digits are what Mistral's templates take."""


def messages_from_openai(
    messages: Sequence[dict[str, Any]], media: RequestMedia = NO_MEDIA
) -> list[dict[str, Any]]:
    """Return messages with texts for content, and arguments of calls as objects."""
    converted = []
    for place, message in enumerate(media_as_text(messages, media)):
        field = f"messages[{place}]"
        role = role_of(message.get("role"), f"{field}.role")
        message = {key: value for key, value in message.items() if value is not None}
        message["role"] = role
        is_last = role == "assistant" and place == len(messages) - 1
        between = _BETWEEN_LAST if is_last else _BETWEEN
        content = _move_thoughts(message)
        message["content"] = text_of(content, f"{field}.content", between, media)
        if not message["content"] and isinstance(message.get("refusal"), str):
            message["content"] = message["refusal"]
        if "function_call" in message:  # what OpenAI's API had before there were tools
            call = {
                "id": _OLD_CALL_ID,
                "type": "function",
                "function": message.pop("function_call"),
            }
            message["tool_calls"] = [call]
        if role == "function":
            message |= {"role": "tool", "tool_call_id": _OLD_CALL_ID}
        if "tool_calls" in message:
            calls, field = message.pop("tool_calls"), f"{field}.tool_calls"
            if not isinstance(calls, list):
                raise UsageError("is not a list of function calls", field=field)
            if calls:  # templates take an empty list for calls
                message["tool_calls"] = [_parse_call(call, field) for call in calls]
        converted.append(message)
    return _fill_ids(converted)


def _fill_ids(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give ids to calls that have none, and to results those of the calls that still lack one."""
    waiting: list[Any] = []
    count = 0
    for message in messages:
        for call in message.get("tool_calls", ()):
            count += 1
            if not call.get("id"):
                call["id"] = f"call{count:05}"
            waiting.append(call["id"])
        if message["role"] == "tool":
            if not message.get("tool_call_id"):
                message["tool_call_id"] = waiting[0] if waiting else _OLD_CALL_ID
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
    return messages


def _move_thoughts(message: dict[str, Any]) -> Any:
    """Return the content of a message without its reasoning, which gets a field of its own.

    Source: Mistral's reference of its API, ``ThinkChunk``; Anthropic's, ``ThinkingBlock``.
    """
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else []
    kinds = [part.get("type") if isinstance(part, dict) else None for part in parts]
    if not {"thinking", "redacted_thinking"} & {kind for kind in kinds if isinstance(kind, str)}:
        return content
    thoughts = [
        text_of(part.get("thinking") or "", "thinking")
        for part, kind in zip(parts, kinds, strict=True)
        if kind == "thinking"
    ]
    if any(thoughts):
        message.setdefault("reasoning_content", "\n\n".join(thoughts))
    return [
        part for part, kind in zip(parts, kinds, strict=True)
        if kind not in ("thinking", "redacted_thinking")
    ]  # fmt: skip


def role_of(value: Any, field: str) -> str:
    """Return the role that templates know."""
    if not isinstance(value, str) or value not in _ROLES:
        raise UsageError("is not system, user, assistant or tool", field=field)
    return _ROLES[value]


def prompt_end(
    messages: Sequence[dict[str, Any]],
    continue_final: bool | str | None = None,
    add_generation_prompt: bool | None = None,
    *,
    prefill: bool = True,
) -> dict[str, Any]:
    """Return how a prompt ends, as fields of a ``Conversation``.

    A last message of the assistant is continued, in the reasoning where it has nothing else.

    Args:
        continue_final: Whether the last message is to be continued, or which field of it; None:
            where it is the assistant's, whatever is said of a generation prompt.
        add_generation_prompt: Whether an answer is to be opened; None: where nothing is continued.

    Source: llama.cpp, tools/server/server-common.cpp (``oaicompat_chat_params_parse``).
    """
    last = messages[-1]
    is_answer = last["role"] == "assistant" and not last.get("tool_calls")
    if continue_final is None and is_answer and prefill:
        continue_final, add_generation_prompt = True, None
        if len(messages) > 1 and messages[-2]["role"] == "assistant":
            raise UsageError("end with two messages of the assistant", field="messages")
    if continue_final and add_generation_prompt:
        raise UsageError(
            "cannot be true with add_generation_prompt", field="continue_final_message"
        )
    if continue_final and last.get("tool_calls"):
        raise UsageError("has tool calls, which cannot be continued", field="messages[-1]")
    if continue_final is True and not last["content"]:
        continue_final = next((name for name in REASONING if last.get(name)), True)
    opens = add_generation_prompt is not False and not continue_final
    return {"continue_final": continue_final or False, "add_generation_prompt": opens}


def is_reasoning_alone(message: Mapping[str, Any]) -> bool:
    """Whether an answer has nothing but a reasoning: it was interrupted there."""
    has_more = message.get("content") or message.get("tool_calls")
    is_answer = message["role"] == "assistant" and not has_more
    return is_answer and any(message.get(name) for name in REASONING)


def text_of(content: Any, field: str, between: str = "", media: RequestMedia = NO_MEDIA) -> str:
    """Return the text of a message's content: a text, or a list of parts of it.

    Nothing stands between a text and the mark of a picture, as in llama-server.
    """
    if isinstance(content, str):
        return content
    joined, gap = "", ""
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "refusal" and isinstance(part.get("refusal"), str):
            joined, gap = joined + gap + part["refusal"], between
        elif isinstance(kind, str) and kind in MEDIA:
            joined, gap = joined + media.mark(part, field), ""
        elif not isinstance(part, dict) or not isinstance(part.get("text"), str):
            what = f"is {kind}, which is not text" if kind else "is not text"
            raise UsageError(f"{what}; this model takes nothing else", field=field)
        else:
            joined, gap = joined + gap + part["text"], between
    return joined


def _parse_call(call: Any, field: str) -> dict[str, Any]:
    """Return a call whose arguments are an object: what templates expect."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise UsageError("is not a list of function calls", field=field)
    arguments = arguments_of(function.get("arguments"))
    return {**call, "function": {**function, "arguments": arguments}}


def arguments_of(arguments: Any) -> Any:
    """Return the arguments of a call as an object, where they are its JSON text.

    Others stay a text, as those of an answer that was cut: ``chat.rewriting`` gives them to the
    template as it takes them.
    """
    if isinstance(arguments, dict):
        return arguments
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    try:
        value = msgspec.json.decode(text.strip() or "{}")
    except (msgspec.DecodeError, RecursionError):
        return text
    return {} if value is None else value if isinstance(value, dict) else text


def tools_from_openai(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return definitions of tools that templates can read."""
    definitions = []
    for place, tool in enumerate(tools):
        field = f"tools[{place}]"
        if tool.get("type", "function") != "function":
            raise UsageError("is not function", field=f"{field}.type")
        function = tool.get("function")
        if not isinstance(function, dict):
            what = "is missing" if function is None else "is not an object"
            raise UsageError(what, field=f"{field}.function")
        for name, kind, what in _FUNCTION_FIELDS:
            value = function.get(name)
            if value is None and name != "name":
                continue
            if not isinstance(value, kind) or (name == "name" and not value):
                raise UsageError(f"is not {what}", field=f"{field}.function.{name}")
        definitions.append(tool if "type" in tool else {"type": "function", **tool})
    return definitions


_BILLING = re.compile(r"\Ax-anthropic-billing-header:(?: ?[\w-]+=[^;\s]*;)*")
"""Claude Code's header before its instructions. A number in it changes with each request, so no
slot could reuse anything behind it."""


def messages_from_anthropic(
    messages: Sequence[dict[str, Any]], system: Any, media: RequestMedia = NO_MEDIA
) -> list[dict[str, Any]]:
    """Return messages in OpenAI's form."""
    converted: list[dict[str, Any]] = []
    text = _BILLING.sub("", text_of(system, "system"))
    if text:
        converted.append({"role": "system", "content": text})
    for place, message in enumerate(media_as_text(messages, media)):
        field = f"messages[{place}]"
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            raise UsageError("is not user, assistant or system", field=f"{field}.role")
        converted += _messages_of_blocks(
            role, message.get("content", ""), f"{field}.content", media
        )
    return converted


def _messages_of_blocks(
    role: str, content: Any, field: str, media: RequestMedia
) -> list[dict[str, Any]]:
    """Return the messages of one of Anthropic's, whose blocks may be calls and their results."""
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise UsageError("is not a text or a list of blocks", field=field)
    plain, thoughts, calls, results = [], [], [], []
    for block in content:
        kind = block.get("type")
        if kind == "tool_use":
            function = {"name": str(block.get("name")), "arguments": block.get("input", {})}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
        elif kind == "tool_result":
            text = text_of(_text_blocks(block.get("content") or ""), field, media=media)
            name = block.get("tool_use_id")
            results.append({"role": "tool", "content": text, "tool_call_id": name})
        elif kind == "thinking":
            thoughts.append(str(block.get("thinking", "")))
        elif kind != "redacted_thinking":  # which only its server can read
            plain.append(block)
    if results and not (plain or thoughts or calls):
        return results
    message = {"role": role, "content": text_of(_text_blocks(plain), field, media=media)}
    if thoughts:
        message["reasoning_content"] = "\n\n".join(thoughts)
    return [*results, {**message, "tool_calls": calls} if calls else message]


def _text_blocks(content: Any) -> Any:
    """Return content whose documents are their texts, where they hold texts."""
    if not isinstance(content, list):
        return content
    return [part for block in content for part in _texts_of_block(block)]


def _texts_of_block(block: Any) -> list[Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "search_result" and isinstance(block.get("content"), list):
        title = "\n".join(str(block[name]) for name in ("title", "source") if block.get(name))
        return [{"type": "text", "text": f"{title}\n"}, *block["content"]]
    source = block.get("source") if kind == "document" else None
    if isinstance(source, dict) and source.get("type") == "text":
        return [{"type": "text", "text": source.get("data")}]
    if isinstance(source, dict) and source.get("type") == "content":
        inner = source.get("content")
        return inner if isinstance(inner, list) else [{"type": "text", "text": inner}]
    return [block]


def tools_from_anthropic(tools: Sequence[Tool], unknown: UnknownFields) -> list[dict[str, Any]]:
    """Return definitions of tools in OpenAI's form.

    Those without a schema, which only Anthropic's own models and servers know, are left out.
    """
    definitions = []
    for place, tool in enumerate(tools):
        if tool.type not in (None, "custom"):
            unknown.leave_out(tool.type)
            continue
        field = f"tools[{place}]"
        if not tool.name:
            raise UsageError("is missing", field=f"{field}.name")
        if tool.input_schema is None:
            raise UsageError("is missing", field=f"{field}.input_schema")
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        }
        definitions.append({"type": "function", "function": function})
    return definitions


def messages_from_responses(
    items: str | Sequence[Mapping[str, Any]],
    instructions: str,
    origins: Mapping[str, ToolOrigin],
    media: RequestMedia = NO_MEDIA,
) -> list[dict[str, Any]]:
    """Return the messages of an input."""
    messages: list[dict[str, Any]] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    for place, item in enumerate(media_as_text(items, media)):
        _add_item(messages, item, f"input[{place}]", origins, media)
    return messages


def _add_item(
    messages: list[dict[str, Any]],
    item: Mapping[str, Any],
    field: str,
    origins: Mapping[str, ToolOrigin],
    media: RequestMedia,
) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        role = role_of(item.get("role"), f"{field}.role")
        text = text_of(item.get("content") or "", f"{field}.content", media=media)
        if role == "assistant":
            _answer_message(messages, "content")["content"] += text
        else:
            messages.append({"role": role, "content": text})
    elif kind == "reasoning":
        if text := _reasoning_of_item(item):
            _answer_message(messages, "reasoning_content", "")["reasoning_content"] += text
    elif kind in ("function_call", "custom_tool_call"):
        name = _function_name(item, origins)
        arguments: Any = {"input": item.get("input", "")}
        if kind == "function_call":
            arguments = arguments_of(item.get("arguments"))
        function = {"name": name, "arguments": arguments}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        _answer_message(messages, "tool_calls", [])["tool_calls"].append(call)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        text = text_of(item.get("output") or "", f"{field}.output", media=media)
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text})
    else:
        raise UsageError(f"is {kind}, which cannot be had here", field=f"{field}.type")


def _answer_message(messages: list[dict[str, Any]], name: str, empty: Any = "") -> dict[str, Any]:
    """Return the assistant's message that an item belongs to: the last, or a new one.

    An answer has its reasoning first, then its text, then its calls; what would come before is the
    next answer's.
    """
    order = ("reasoning_content", "content", "tool_calls")
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    if last is not None:
        later = order[order.index(name) + (name == "tool_calls") :]
        if any(last.get(field) for field in later):
            last = None
    if last is None:
        last = {"role": "assistant", "content": ""}
        messages.append(last)
    last.setdefault(name, empty)
    return last


def _reasoning_of_item(item: Mapping[str, Any]) -> str:
    """Return the reasoning of an item: in the clear, or as it was sent, or its summary."""
    sealed = item.get("encrypted_content")
    return (
        _joined_texts(item.get("content"))
        or (unseal_reasoning(sealed) if isinstance(sealed, str) else "")
        or _joined_texts(item.get("summary"))
    )


def _joined_texts(parts: Any) -> str:
    if not isinstance(parts, list):
        return ""
    return "\n".join(
        str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part
    )


def _function_name(item: Mapping[str, Any], origins: Mapping[str, ToolOrigin]) -> str:
    name, namespace = str(item.get("name")), item.get("namespace") or ""
    for full_name, origin in origins.items():
        if (origin.name, origin.namespace) == (name, namespace):
            return full_name
    return name


def seal_reasoning(text: str) -> str:
    """Return a reasoning as ``encrypted_content``.

    Clients that keep no reasoning in the clear, as Codex, send this back with the next request, and
    templates that want the reasoning between two calls get it. Nothing is hidden by it.
    """
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def unseal_reasoning(content: str) -> str:
    """Return the reasoning in what ``seal_reasoning`` made; nothing of what another server made."""
    try:
        return base64.b64decode(content, validate=True).decode()
    except ValueError:
        return ""
