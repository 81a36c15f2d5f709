"""Conversations in the form that chat templates know: that of chat completions."""

from __future__ import annotations

import msgspec

from mtkit.chat.continuation import REASONING
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_NAMES = ("system", "user", "assistant", "tool", "function")
_ROLES = {"developer": "system", **{name: name for name in _NAMES}}
_MEDIA = {
    "image": "image", "image_url": "image", "input_image": "image", "input_audio": "audio",
    "audio_url": "audio", "video_url": "video", "file": "file", "input_file": "file",
    "document": "document",
}  # fmt: skip
"""What parts of a content are called, in all APIs, and what they hold."""
_BETWEEN, _BETWEEN_LAST = "\n", "\n\n"
"""Of parts of a content, as llama-server and vLLM join them, and of one that is continued."""
_OF_FUNCTION = (
    ("name", str, "a text"),
    ("description", str, "a text"),
    ("parameters", dict, "an object"),
)
_OLD = "function0"
"""The id of a call that has none; nine letters and digits are what Mistral's templates take."""


def from_openai(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages with texts for content, and arguments of calls as objects.

    Raises:
        UsageError: A message is not one, or holds anything but text.
    """
    made = []
    for place, message in enumerate(messages):
        field = f"messages[{place}]"
        role = role_of(message.get("role"), f"{field}.role")
        one = {key: value for key, value in message.items() if value is not None}
        one["role"] = role
        is_last = role == "assistant" and place == len(messages) - 1
        between = _BETWEEN_LAST if is_last else _BETWEEN
        one["content"] = text_of(message.get("content") or "", f"{field}.content", between)
        if "function_call" in one:  # what OpenAI's API had before there were tools
            call = {"id": _OLD, "type": "function", "function": one.pop("function_call")}
            one["tool_calls"] = [call]
        if role == "function":
            one |= {"role": "tool", "tool_call_id": _OLD}
        if "tool_calls" in one:
            calls, place_of = one["tool_calls"], f"{field}.tool_calls"
            if not isinstance(calls, list):
                raise UsageError("is not a list of function calls", field=place_of)
            one["tool_calls"] = [_call(call, place_of) for call in calls]
        made.append(one)
    return made


def role_of(given: Any, field: str) -> str:
    """Return the role that templates know.

    Raises:
        UsageError: It is none.
    """
    role = _ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        raise UsageError("is not system, user, assistant or tool", field=field)
    return role


def continuing(
    messages: Sequence[dict[str, Any]],
    continue_final: bool | str | None = None,
    add_generation_prompt: bool | None = None,
    *,
    prefill: bool = True,
) -> dict[str, Any]:
    """Return how a prompt ends, as ``Served.chat_ids`` takes it.

    A last message of the assistant is continued, in the reasoning where it has nothing else.

    Args:
        messages: The conversation, in OpenAI's form.
        continue_final: Whether the last message is to be continued, or which field of it; None:
            where it is the assistant's, whatever is said of a generation prompt.
        add_generation_prompt: Whether an answer is to be opened; None: where nothing is continued.
        prefill: A last message of the assistant is continued.

    Raises:
        UsageError: Both are asked for, or the message cannot be continued.

    Source: llama.cpp, tools/server/server-common.cpp (``oaicompat_chat_params_parse``).
    """
    last = messages[-1]
    is_answer = last["role"] == "assistant"
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


def with_one_text(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages whose calls follow one text at most: the reasoning and what was shown.

    Templates of channels (gpt-oss) have no place for both, and refuse them.
    """
    made = []
    for message in messages:
        texts = [message.get(name) for name in (*REASONING, "content")]
        said = list(dict.fromkeys(text for text in texts if text and isinstance(text, str)))
        if message.get("tool_calls") and len(said) > 1:
            kept = {name: value for name, value in message.items() if name not in REASONING}
            message = {**kept, "content": "\n\n".join(said)}
        made.append(message)
    return made


def text_of(content: Any, field: str, between: str = "") -> str:
    """Return the text of a message's content: a text, or a list of parts of it.

    Args:
        content: The content.
        field: Its name.
        between: What stands between parts.

    Raises:
        UsageError: It holds something else, as an image.
    """
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in _MEDIA:
            what = f"{_MEDIA[kind]} input is not supported; this model takes text"
            raise UsageError(what, field=field)
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            what = f"is {kind}, which is not text" if kind else "is not text"
            raise UsageError(f"{what}; this model takes nothing else", field=field)
        texts.append(part["text"])
    return between.join(texts)


def _call(call: Any, field: str) -> dict[str, Any]:
    """Return a call whose arguments are an object: what templates expect."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise UsageError("is not a list of function calls", field=field)
    arguments = arguments_of(function.get("arguments"))
    return {**call, "function": {**function, "arguments": arguments}}


def arguments_of(arguments: Any) -> Any:
    """Return the arguments of a call as an object, where they are its JSON text.

    Those of an answer that was cut are none: they stay a text, which most templates write.
    """
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return arguments


def tools_from_openai(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return definitions of tools that templates can read.

    Raises:
        UsageError: One is not a function with a name.
    """
    made = []
    for place, tool in enumerate(tools):
        field = f"tools[{place}]"
        if tool.get("type", "function") != "function":
            raise UsageError("is not function", field=f"{field}.type")
        function = tool.get("function")
        if not isinstance(function, dict):
            what = "is missing" if function is None else "is not an object"
            raise UsageError(what, field=f"{field}.function")
        for name, kind, what in _OF_FUNCTION:
            value = function.get(name)
            if value is None and name != "name":
                continue
            if not isinstance(value, kind) or (name == "name" and not value):
                raise UsageError(f"is not {what}", field=f"{field}.function.{name}")
        made.append(tool if "type" in tool else {"type": "function", **tool})
    return made
