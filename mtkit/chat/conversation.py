"""Conversations in other messages: the changes from which ``rewriting`` chooses.

Each change keeps every text, and returns a conversation that it does not concern as it is. It is
local: what it makes of a message does not depend on messages behind the next answer, so a prompt
begins with the prompt of the turn before it, and the cache holds.
"""

from __future__ import annotations

import hashlib
import json

from mtkit.base.record import Record, replace
from mtkit.chat.partial_json import close_object
from mtkit.chat.signs import ID, NAME, NUMBER
from mtkit.chat.template import REASONING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeAlias

    from mtkit.chat.answer import Calls

    Message: TypeAlias = "dict[str, Any]"


class Chat(Record):
    """Messages and definitions of tools, if any; the contents of messages are texts."""

    messages: Sequence[Message]
    tools: Sequence[Any] | None


def with_messages(change: Callable[[list[Message]], Iterable[Message]]) -> Callable[[Chat], Chat]:
    """Return a change of messages as one of conversations."""
    return lambda chat: replace(chat, messages=list(change(list(chat.messages))))


def text_of(message: Message) -> str:
    """Return the text of a message."""
    return message.get("content") or ""


def calls_of(message: Message) -> list[Any]:
    """Return the calls of a message."""
    return message.get("tool_calls") or []


def _function(call: Any) -> Message:
    function: Message = call.get("function", call)
    return function


def names_alone(message: Message) -> list[str]:
    """Return the names of the arguments of a call that has no text or other call beside it."""
    calls = calls_of(message)
    arguments = _function(calls[0]).get("arguments") if len(calls) == 1 else None
    return list(arguments) if isinstance(arguments, dict) and not text_of(message) else []


def _is_spoken(message: Message) -> bool:
    """Whether it is a message of the assistant without calls."""
    return message["role"] == "assistant" and not calls_of(message)


def _join(messages: Sequence[Message]) -> Message:
    """Join the texts of messages, and their calls, in the first of them."""
    joined = {**messages[0]}
    for message in messages[1:]:
        joined = {**message, **joined}
    texts = [text for message in messages if (text := text_of(message))]
    calls = [call for message in messages for call in calls_of(message)]
    return {**joined, "content": "\n\n".join(texts)} | ({"tool_calls": calls} if calls else {})


def _groups(
    messages: Sequence[Message], belongs: Callable[[Message, Message], bool]
) -> Iterator[list[Message]]:
    """Cut messages into groups; ``belongs``: whether a message belongs to the one before it."""
    group: list[Message] = []
    for message in messages:
        if group and not belongs(group[-1], message):
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def merge_neighbors(belongs: Callable[[Message, Message], bool]) -> Callable[[Chat], Chat]:
    """Return the change that joins neighbors that belong together."""
    return with_messages(
        lambda messages: (
            group[0] if len(group) == 1 else _join(group) for group in _groups(messages, belongs)
        )
    )


def are_users(first: Message, second: Message) -> bool:
    """Whether both messages are the user's."""
    return bool(first["role"] == second["role"] == "user")


def are_answers(first: Message, second: Message) -> bool:
    """Whether both messages are the assistant's, the first without calls."""
    return _is_spoken(first) and second["role"] == "assistant"


# -- messages of the system


@with_messages
def merge_leading_system(messages: list[Message]) -> list[Message]:
    """Join the messages of the system with which a conversation begins."""
    count = _leading(messages)
    return messages if count < 2 else [_join(messages[:count]), *messages[count:]]


def _leading(messages: Sequence[Message]) -> int:
    return next((n for n, m in enumerate(messages) if m["role"] != "system"), len(messages))


@with_messages
def open_by_user(messages: list[Message]) -> list[Message]:
    """Give what the system says first to the user, with the first message of theirs behind it."""
    count = _leading(messages)
    if not count:
        return messages
    users = [{**message, "role": "user"} for message in messages[:count]]
    end = count + (messages[count:] != [] and messages[count]["role"] == "user")
    return [_join([*users, *messages[count:end]]), *messages[end:]]


@with_messages
def open_last_user(messages: list[Message]) -> list[Message]:
    """Put what the system says first before the last text of the user, if that is not the end."""
    count = _leading(messages)
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    if not count or not users or messages[-1]["role"] == "user":
        return messages
    last = users[-1]
    joined = {**_join([*messages[:count], messages[last]]), "role": "user"}
    return [*messages[count:last], joined, *messages[last + 1 :]]


def late_system_by_user(*before: str) -> Callable[[Chat], Chat]:
    """Return the change that gives late messages of the system to the user.

    Args:
        before: The roles behind which it does.
    """

    def change(messages: list[Message]) -> Iterator[Message]:
        role, count = "", _leading(messages)
        for place, message in enumerate(messages):
            is_system = message["role"] == "system"
            role = role if is_system else message["role"]
            is_late = is_system and place >= count and role in before
            yield {**message, "role": "user"} if is_late else message

    return with_messages(change)


# -- whose turn it is


def _is_empty(messages: Sequence[Message], place: int) -> bool:
    """Whether an answer is empty, as of a turn that was interrupted; the last is still open."""
    message = messages[place]
    return _is_spoken(message) and not text_of(message) and place < len(messages) - 1


@with_messages
def fill_empty(messages: list[Message]) -> Iterator[Message]:
    """Give empty answers a blank."""
    for place, message in enumerate(messages):
        yield {**message, "content": " "} if _is_empty(messages, place) else message


@with_messages
def leave_out_empty(messages: list[Message]) -> list[Message]:
    """Leave out empty answers."""
    return [message for n, message in enumerate(messages) if not _is_empty(messages, n)]


def add_between(
    role: str, text: str, before: Callable[[Message, Message], bool]
) -> Callable[[Chat], Chat]:
    """Return the change that puts a message between two others."""

    def change(messages: list[Message]) -> Iterator[Message]:
        last: Message | None = None
        for message in messages:
            if last is not None and before(last, message):
                yield {"role": role, "content": text}
            yield message
            last = message

    return with_messages(change)


def user_behind_result(first: Message, second: Message) -> bool:
    """Whether the user speaks behind a result."""
    return (first["role"], second["role"]) == ("tool", "user")


def call_behind_text(first: Message, second: Message) -> bool:
    """Whether a message with calls stands behind a text of the assistant."""
    return _is_spoken(first) and bool(calls_of(second))


def add_in_front(text: str) -> Callable[[Chat], Chat]:
    """Return the change that has the user begin where the assistant does, or nobody else."""

    def change(messages: list[Message]) -> list[Message]:
        count = _leading(messages)
        if messages[count:] and messages[count]["role"] == "user":
            return messages
        return [*messages[:count], {"role": "user", "content": text}, *messages[count:]]

    return with_messages(change)


# -- calls and their results


def _change_calls(change: Callable[[Any], Any]) -> Callable[[Chat], Chat]:
    return with_messages(
        lambda messages: (
            {**message, "tool_calls": [change(call) for call in calls]}
            if (calls := calls_of(message))
            else message
            for message in messages
        )
    )


def _with_arguments(call: Any, arguments: Any) -> Message:
    function = {**_function(call), "arguments": arguments}
    return {**call, "function": function} if "function" in call else function


def _arguments_as_object(call: Any) -> Any:
    arguments = _function(call).get("arguments")
    if isinstance(arguments, dict):
        return call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    value = close_object(text)
    return _with_arguments(call, {"text": text} if value is None else value)


def _arguments_as_text(call: Any) -> Any:
    arguments = _function(call).get("arguments")
    if isinstance(arguments, str):
        return call
    return _with_arguments(call, json.dumps(arguments, ensure_ascii=False))


arguments_as_object = _change_calls(_arguments_as_object)
"""Give arguments that are a text, because they are not whole, as an object that holds it."""
arguments_as_text = _change_calls(_arguments_as_text)
"""Give arguments as the text of their JSON."""

_ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ID_LENGTH = 9


def _short_id(name: Any) -> str:
    """Return nine letters and digits, the same for the same id."""
    text = str(name)
    if len(text) == _ID_LENGTH and text.isascii() and text.isalnum():
        return text
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big")
    letters = (number // 62**place % 62 for place in range(_ID_LENGTH))
    return "".join(_ID_LETTERS[letter] for letter in letters)


def _change_ids(
    messages: Sequence[Message], call_id: Callable[[Any], Any], result_id: Callable[[Any], Any]
) -> Iterator[Message]:
    for message in messages:
        if calls := calls_of(message):
            calls = [{**call, "id": call_id(call.get("id"))} for call in calls]
            message = {**message, "tool_calls": calls}
        if message["role"] == "tool":
            message = {**message, "tool_call_id": result_id(message.get("tool_call_id"))}
        yield message


@with_messages
def separate_ids(messages: list[Message]) -> Iterator[Message]:
    """Give calls whose id an earlier one has another id, and their results the same."""
    counts: dict[Any, int] = {}

    def result_id(name: Any) -> Any:
        return f"{name}-{counts[name]}" if counts.get(name, 1) > 1 else name

    def call_id(name: Any) -> Any:
        counts[name] = counts.get(name, 0) + 1
        return result_id(name)

    return _change_ids(messages, call_id, result_id)


@with_messages
def shorten_ids(messages: list[Message]) -> Iterator[Message]:
    """Give calls the ids that Mistral's templates take."""
    return _change_ids(messages, _short_id, _short_id)


@with_messages
def merge_reasoning(messages: list[Message]) -> Iterator[Message]:
    """Join reasoning and text where calls follow."""
    for message in messages:
        values = [message.get(name) for name in (*REASONING, "content")]
        texts = list(dict.fromkeys(text for text in values if text and isinstance(text, str)))
        if calls_of(message) and len(texts) > 1:
            rest = {name: value for name, value in message.items() if name not in REASONING}
            message = {**rest, "content": "\n\n".join(texts)}
        yield message


@with_messages
def texts_behind_results(messages: list[Message]) -> list[Message]:
    """Put what stands between calls and their results behind the results."""
    ordered: list[Message] = []
    waiting: list[Message] = []
    pending: set[Any] = set()
    for message in messages:
        if message["role"] == "tool":
            ordered.append(message)
            pending.discard(message.get("tool_call_id"))
        elif message["role"] == "assistant" or not pending:
            ordered += waiting
            ordered.append(message)
            waiting, pending = [], {call.get("id") for call in calls_of(message)}
        else:
            waiting.append(message)
        if not pending:
            ordered += waiting
            waiting = []
    return [*ordered, *waiting]


def _results_behind(messages: Sequence[Message], place: int) -> list[Message]:
    end = place + 1
    while end < len(messages) and messages[end]["role"] == "tool":
        end += 1
    return list(messages[place + 1 : end])


@with_messages
def order_results(messages: list[Message]) -> list[Message]:
    """Put results in the order of their calls."""
    ordered = list(messages)
    for place, message in enumerate(messages):
        numbers = {call.get("id"): number for number, call in enumerate(calls_of(message))}
        if len(numbers) > 1:
            results = _results_behind(messages, place)
            last = len(numbers)
            results.sort(key=lambda result: numbers.get(result.get("tool_call_id"), last))
            ordered[place + 1 : place + 1 + len(results)] = results
    return ordered


@with_messages
def single_calls(messages: list[Message]) -> list[Message]:
    """Give each call a message of its own, with its result behind it."""
    single: list[Message] = []
    used = 0
    for place, message in enumerate(messages):
        calls = calls_of(message)
        if place < used:
            continue
        if len(calls) < 2:
            single.append(message)
            continue
        results = _results_behind(messages, place)
        used = place + 1 + len(results)
        bare = {name: value for name, value in message.items() if name not in REASONING}
        for number, call in enumerate(calls):
            whole = message if not number else {**bare, "content": ""}
            single.append({**whole, "tool_calls": [call]})
            own = [r for r in results if r.get("tool_call_id") == call.get("id")]
            if number == len(calls) - 1:
                own = results
            single += own
            results = [result for result in results if result not in own]
    return single


NO_RESULT = "(no result)"


@with_messages
def add_results(messages: list[Message]) -> list[Message]:
    """Give calls whose results never came a result that says so; the last ones may still come."""
    whole: list[Message] = []
    missing: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            missing = [r for r in missing if r["tool_call_id"] != message.get("tool_call_id")]
        else:
            whole += missing
            missing = [
                {"role": "tool", "tool_call_id": call.get("id"), "content": NO_RESULT}
                for call in calls_of(message)
            ]
        whole.append(message)
    return whole


@with_messages
def calls_without_content(messages: list[Message]) -> Iterator[Message]:
    """Give messages with calls no content where it is empty: None instead of a text."""
    for message in messages:
        is_bare = bool(calls_of(message)) and message.get("content") == ""
        yield {**message, "content": None} if is_bare else message


def split_texts(content: str | None) -> Callable[[Chat], Chat]:
    """Return the change that gives a text beside calls a message of its own, before theirs.

    The reasoning stays with the calls: templates show it until an answer has come.

    Args:
        content: That of the message with the calls.
    """

    def change(messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            if calls_of(message) and text_of(message):
                yield {"role": "assistant", "content": message["content"]}
                message = {**message, "content": content}
            yield message

    return with_messages(change)


def calls_as_text(
    calls: Calls | None,
    *,
    beside_text: bool = False,
    is_shown: Callable[[Message], bool] = lambda _: False,
) -> Callable[[Chat], Chat]:
    """Return the change that writes calls at the end of the text, in the form of answers.

    Args:
        beside_text: Only those that have a text beside them.
        is_shown: Whether a message stays as it is.
    """
    before, after = '\n<tool_call>\n{"name": "' + NAME + '", "arguments": ', "}\n</tool_call>"
    if calls is not None and calls.sample is not None:
        before, after = calls.sample

    def change(messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            is_written = calls_of(message) and (text_of(message) or not beside_text)
            is_written = is_written and not is_shown(message)
            yield _write_calls(message, before, after) if is_written else message

    return with_messages(change)


def _write_calls(message: Message, before: str, after: str) -> Message:
    texts = [text_of(message)]
    for place, call in enumerate(calls_of(message)):
        function = _function(call)
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments or {}, ensure_ascii=False)
        opening = before.replace(NAME, str(function.get("name"))).replace(NUMBER, str(place))
        texts.append(opening.replace(ID, str(call.get("id"))) + arguments + after)
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "".join(texts) if texts[0] else "".join(texts).lstrip("\n")}


def _result_as_text(message: Message) -> Message:
    content = f"<tool_response>\n{text_of(message)}\n</tool_response>"
    return {"role": "user", "content": content}


@with_messages
def results_as_text(messages: list[Message]) -> Iterator[Message]:
    """Give results of tools as messages of the user."""
    for message in messages:
        yield _result_as_text(message) if message["role"] == "tool" else message


@with_messages
def stray_results_as_text(messages: list[Message]) -> Iterator[Message]:
    """Give results that answer no call before them, or one that has its result, as the user's."""
    pending: list[Any] = []
    for message in messages:
        if calls := calls_of(message):
            pending = [call.get("id") for call in calls]
        elif message["role"] == "tool":
            name = message.get("tool_call_id")
            if name in pending:
                pending.remove(name)
            else:
                message = _result_as_text(message)
        yield message
