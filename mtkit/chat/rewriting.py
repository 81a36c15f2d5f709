"""What a template refuses or leaves out, given to it in other messages: a table of rewritings.

Clients send what templates were not written for: texts behind a result, calls whose arguments were
cut, several messages of the system. Each row of ``_rewritings`` has a small conversation of that
kind, all of whose texts are marks, and changes that write it differently. A row counts where a
conversation has what its changes are about, and where the template refuses the small conversation
or leaves out one of its marks. Then it gets the first change with which the template shows all of
them. Nothing else changes: a conversation that a template shows is rendered as it is.

The choice depends on the template alone, and a change of a message on its neighbors, not on what
comes later. So earlier turns are rendered as before when there is a new one. A call stays as it is
where a template reads arguments by just its names.

If the template refuses a conversation nevertheless, it gets the same texts in the plainest form:
user and assistant in turns, with calls, results and definitions of tools as text.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from functools import cache
from time import monotonic

from mtkit.base.record import Record
from mtkit.chat.conversation import (
    Chat,
    add_between,
    add_in_front,
    add_results,
    are_answers,
    are_users,
    arguments_as_object,
    arguments_as_text,
    call_behind_text,
    calls_as_text,
    calls_without_content,
    fill_empty,
    late_system_by_user,
    leave_out_empty,
    merge_leading_system,
    merge_neighbors,
    merge_reasoning,
    names_alone,
    open_by_user,
    open_last_user,
    order_results,
    results_as_text,
    separate_ids,
    shorten_ids,
    single_calls,
    split_texts,
    stray_results_as_text,
    texts_behind_results,
    user_behind_result,
)
from mtkit.chat.probes import (
    CONTENT,
    OTHER,
    PLAIN,
    REASON,
    USER,
    Probe,
    call_message,
    probe_tools,
)
from mtkit.chat.template import TemplateRefusal
from mtkit.chat.tool_definitions import (
    add_missing,
    add_properties,
    add_to_schemas,
    add_values,
    bare_tools,
    empty_tools,
    introduce_tools,
    leave_out_types,
    split_types,
)
from mtkit.errors import FormatError, MtkitError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from mtkit.chat.answer import Calls

    Change: TypeAlias = Callable[[Chat], Chat]
    Message: TypeAlias = dict[str, Any]


class Rewriting(Record):
    """A row of the table.

    Attributes:
        about: What a template may not take.
        messages: A conversation of that kind.
        marks: What has to be in its rendering, each as often as it stands here.
        changes: Ways to write it differently, those that change least first.
        kept: The marks once it is written differently, where they are others.
        order: Marks that have to stand in this order.
        concern: A change of all that the row is about; None: the first one is.
        tools: Definitions that the conversation needs; None: those that any takes, where the
            conversation that is rewritten has some.
    """

    about: str
    messages: tuple[Message, ...]
    marks: tuple[str, ...]
    changes: tuple[Change, ...]
    tools: tuple[Any, ...] | None = None
    kept: tuple[str, ...] | None = None
    order: tuple[str, ...] = ()
    concern: Change | None = None


SYSTEM, LATER, RESULT, SECOND = "Sqtezuv", "Lqatuze", "Tqresuz", "Tqsecuz"
"""Marks of messages."""
_CUT = '{"kqeya": "vqala", "kqeyb": "vqa'
_LONG_ID = "call_iqd0000-000000000000a"


def _message(role: str, content: str, **fields: Any) -> Message:
    return {"role": role, "content": content, **fields}


def _called(*calls: Any, content: str = "", **fields: Any) -> Message:
    return _message("assistant", content, tool_calls=list(calls), **fields)


def _result(call: Any, content: str) -> Message:
    return _message("tool", content, tool_call_id=call["id"])


def _tool(name: str, **fields: Any) -> tuple[Any, ...]:
    return ({"type": "function", "function": {"name": name, **fields}},)


def _parameters(**schema: Any) -> Message:
    return {"type": "object", "properties": {"kqeya": schema}, "required": []}


@cache
def _tool_rewritings() -> tuple[Rewriting, ...]:
    """Return the rows about definitions of tools."""
    name, user, empty = PLAIN.name, (_message("user", USER),), {"type": "object", "properties": {}}
    text, does = {"type": "string"}, {"description": "Does it."}
    described = {"description": "Says it."}

    def row(about: str, change: Change, **function: Any) -> Rewriting:
        return Rewriting(about, user, (name, USER), (change,), _tool(name, **function))

    return (
        row("a tool without a description", add_missing(description=""),
            parameters=_parameters(**text, **described)),
        row("a tool without parameters", add_missing(parameters=empty), **does),
        row("parameters without properties", add_properties, **does, parameters={}),
        row("a list of types", split_types, **does,
            parameters=_parameters(type=["string", "null"], **described)),
        row("a type that is none of JSON's", leave_out_types, **does,
            parameters=_parameters(type="null", **described)),
        row("an object without a schema of its values", add_values, **does,
            parameters=_parameters(type="object", **described)),
        row("a parameter without a type", add_to_schemas(type="string"), **does,
            parameters=_parameters(**described)),
        row("a parameter without a description", add_to_schemas(description=""), **does,
            parameters=_parameters(**text)),
        Rewriting("tools", user, (PLAIN.name, OTHER.name, USER), (bare_tools, introduce_tools),
                  tuple(probe_tools()), concern=introduce_tools),
    )  # fmt: skip


def _rewritings(
    calls: Callable[[], Calls | None], is_shown: Callable[[Message], bool]
) -> tuple[Rewriting, ...]:
    """Return the table; a row may change what rows behind it are about.

    Args:
        calls: Finds how calls are written in an answer.
        is_shown: Whether the template shows a message whose arguments have names that it reads.
    """
    user, later = _message("user", USER), _message("user", LATER)
    text, system = _message("assistant", CONTENT), _message("system", SYSTEM)
    call, other = call_message(PLAIN, False), call_message(OTHER, False)
    cut = {**call, "function": {"name": PLAIN.name, "arguments": _CUT}}
    long = {**call, "id": _LONG_ID}
    turn = (user, _called(call), _result(call, RESULT))
    pair = (user, _called(call, other), _result(call, RESULT), _result(other, SECOND))
    values = (USER, PLAIN.name, *PLAIN.arguments.values())
    both = (*values, OTHER.name, *OTHER.arguments.values())
    late, more = {**system, "content": LATER}, (text, user)

    def write_calls(chat: Chat) -> Chat:
        return calls_as_text(calls(), is_shown=is_shown)(chat)

    def write_calls_beside_text(chat: Chat) -> Chat:
        return calls_as_text(calls(), beside_text=True)(chat)

    return (
        Rewriting("no tools", (user,), (USER,), (empty_tools,)),
        *_tool_rewritings(),
        Rewriting("arguments that are not whole", (user, _called(cut), _result(call, RESULT)),
                  (USER, _CUT), (arguments_as_object,), kept=(USER, "vqala", "vqa")),
        Rewriting("arguments", turn, values, (arguments_as_text,)),
        Rewriting("calls", turn, values, (calls_without_content, write_calls),
                  concern=calls_as_text(None)),
        Rewriting("results", turn, (USER, RESULT), (results_as_text,)),
        Rewriting("an id in two turns", (*pair, *more, _called(other), _result(other, LATER)),
                  (RESULT, SECOND, LATER), (separate_ids,)),
        Rewriting("ids of other servers", (user, _called(long), _result(long, RESULT)), values,
                  (shorten_ids,)),
        Rewriting("a result without a call",
                  (user, _result(long, REASON), text, *pair, text, _result(other, LATER), *more),
                  (REASON, RESULT, SECOND, LATER), (stray_results_as_text,)),
        Rewriting("texts between a call and its result", (*turn[:2], later, turn[2], *more),
                  (LATER, RESULT), (texts_behind_results,)),
        Rewriting("results in another order",
                  (user, _called(call, other), _result(other, SECOND), _result(call, RESULT)),
                  (RESULT, SECOND, PLAIN.id, PLAIN.id), (order_results,), kept=(RESULT, SECOND)),
        Rewriting("several calls in a message",
                  pair, (*both, RESULT, SECOND), (single_calls,)),
        Rewriting("a call without a result", (*turn[:2], later, *more), (*values, LATER),
                  (add_results,)),
        Rewriting("several messages of the system", (system, late, user), (SYSTEM, LATER, USER),
                  (merge_leading_system,)),
        Rewriting("a message of the system", (system, user), (SYSTEM, USER), (open_by_user,)),
        Rewriting("a message of the system, and a result at the end", (system, *turn),
                  (SYSTEM, USER), (open_last_user,)),
        Rewriting("a message of the system behind the user's", (system, user, late, *more),
                  (SYSTEM, USER, LATER), (late_system_by_user("user", ""),), order=(USER, LATER)),
        Rewriting("a message of the system behind an answer",
                  (system, user, text, late, user, *more), (SYSTEM, CONTENT, LATER),
                  (late_system_by_user("assistant"),), order=(CONTENT, LATER)),
        Rewriting("a message of the system behind a result", (system, *turn, late, *more),
                  (SYSTEM, RESULT, LATER), (late_system_by_user("tool"),), order=(RESULT, LATER)),
        Rewriting("an empty answer", (user, _message("assistant", ""), later, *more),
                  (USER, LATER), (fill_empty, leave_out_empty)),
        Rewriting("several answers", (user, text, _message("assistant", LATER), user),
                  (CONTENT, LATER), (merge_neighbors(are_answers),)),
        Rewriting("calls behind an answer", (user, text, *turn[1:], *more),
                  (CONTENT, *values, RESULT),
                  (merge_neighbors(are_answers), *_add_user(call_behind_text))),
        Rewriting("a text beside calls",
                  (user, _called(call, content=CONTENT), turn[2], *more),
                  (CONTENT, CONTENT, *values),
                  (*_split(""), *_split(None), write_calls_beside_text)),
        Rewriting("reasoning, text and calls in a message",
                  (user, _called(call, content=CONTENT, reasoning_content=REASON)), values,
                  (merge_reasoning,)),
        Rewriting("a text of the user behind a result", (*turn, later, *more),
                  (RESULT, LATER, CONTENT),
                  (add_between("assistant", "", user_behind_result),
                   add_between("assistant", " ", user_behind_result),
                   merge_neighbors(user_behind_result)), order=(RESULT, LATER, CONTENT)),
        Rewriting("several messages of the user", (user, later, *more), (USER, LATER),
                  (merge_neighbors(are_users),)),
        Rewriting("an answer first", (text, user), (CONTENT, USER),
                  (add_in_front(""), add_in_front(" "))),
        Rewriting("a message of the system alone", (system,), (SYSTEM,),
                  (_alone(open_by_user),)),
    )  # fmt: skip


def _add_user(before: Callable[[Message, Message], bool]) -> tuple[Change, ...]:
    return tuple(add_between("user", text, before) for text in ("", " "))


def _split(content: str | None) -> tuple[Change, ...]:
    """Return the ways to split texts from calls, without and with a message between them."""
    split = split_texts(content)
    return (split, *(_in_turn(split, change) for change in _add_user(call_behind_text)))


def _in_turn(*changes: Change) -> Change:
    def change(chat: Chat) -> Chat:
        for part in changes:
            chat = part(chat)
        return chat

    return change


def _alone(change: Change) -> Change:
    """Return a change of conversations in which only the system speaks."""
    return lambda chat: (
        change(chat) if all(message["role"] == "system" for message in chat.messages) else chat
    )


_PLAIN_CHANGES: tuple[Change, ...] = (
    introduce_tools, texts_behind_results, calls_as_text(None), results_as_text,
    merge_leading_system, open_by_user, late_system_by_user("user", "assistant", ""),
    leave_out_empty, merge_neighbors(are_users), merge_neighbors(are_answers), add_in_front(""),
)  # fmt: skip
"""What makes of any conversation one of user and assistant in turns."""

_PROBE_SECONDS = 60.0
"""Time that the small conversations of a template may take, all together."""


class Rewriter:
    """Writes conversations as one template takes them; may be used from several threads."""

    def __init__(
        self,
        render: Callable[[Sequence[Any], Sequence[Any] | None], str],
        calls: Callable[[], Calls | None],
        template: str = "",
    ) -> None:
        """Take a template.

        Args:
            render: Renders messages and tools, with an opened answer.
            calls: Finds how calls are written in an answer.
            template: Its text, for the names of arguments that it reads.
        """
        self._render = render
        self._rows = _rewritings(calls, self._shows_call)
        self._words = frozenset(re.findall(r"\w+", template))
        self._read_names: dict[str, bool] = {}
        self._choices: dict[bool, dict[int, Change | None]] = {False: {}, True: {}}
        self._lock = threading.RLock()
        self._seconds = _PROBE_SECONDS

    def rewrite(self, messages: Sequence[Any], tools: Sequence[Any] | None) -> Chat:
        """Return messages and tools as the template shows them."""
        chat = Chat(list(messages), list(tools) if tools else None)
        for place, message in enumerate(messages):
            _check_ids(message, f"messages[{place}]")
        if not all(map(_is_plain, messages)):
            return chat
        with self._lock:
            return self._rewrite(chat, has_tools=bool(tools))

    def _rewrite(self, chat: Chat, *, has_tools: bool) -> Chat:
        for number, row in enumerate(self._rows):
            if (row.concern or row.changes[0])(chat) != chat:
                change = self._choice(number, has_tools=has_tools)
                chat = chat if change is None else change(chat)
        return chat

    def _choice(self, number: int, *, has_tools: bool) -> Change | None:
        """Return the change that a row needs; None: it needs none, or none helps."""
        choices, row = self._choices[has_tools], self._rows[number]
        if number not in choices:
            before = dict(choices)
            for change in (None, *row.changes):
                choices[number] = change
                marks = row.marks if change is None or row.kept is None else row.kept
                if self._shows(row, marks, has_tools=has_tools):
                    break
                choices.clear()  # what was found with a change that does not help
                choices.update(before)
            choices.setdefault(number, None)
        return choices[number]

    def _shows_call(self, message: Message) -> bool:
        """Whether the template shows a call because it reads arguments of just these names."""
        names = names_alone(message)
        return bool(names) and all(map(self._shows_argument, names))

    def _shows_argument(self, name: str) -> bool:
        if name not in self._words:
            return False
        if name not in self._read_names:
            call = call_message(Probe(PLAIN.name, PLAIN.id, {name: CONTENT}), False)
            try:
                text = self._render([_message("user", USER), _called(call)], probe_tools())
            except MtkitError:
                text = ""
            self._read_names[name] = all(mark in text for mark in (USER, PLAIN.name, CONTENT))
        return self._read_names[name]

    def _shows(self, row: Rewriting, marks: Sequence[str], *, has_tools: bool) -> bool:
        """Whether the template shows a row's conversation, as it is written by now."""
        tools = list(row.tools or probe_tools()) if has_tools else None
        chat = self._rewrite(Chat(list(row.messages), tools), has_tools=has_tools)
        if self._seconds <= 0:
            return True
        start = monotonic()
        try:
            text = self._render(chat.messages, chat.tools)
        except FormatError:
            raise
        except MtkitError:
            return False
        finally:
            self._seconds -= monotonic() - start
        is_whole = all(text.count(mark) >= times for mark, times in Counter(marks).items())
        return is_whole and _has_order(text, row.order)


def _has_order(text: str, marks: Sequence[str]) -> bool:
    return re.search(".*".join(map(re.escape, marks)), text, re.DOTALL) is not None


def _check_ids(message: Any, field: str) -> None:
    """Refuse ids of calls and results that are lists or objects: they are looked up."""
    if not isinstance(message, dict):
        return
    calls = message.get("tool_calls")
    calls = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    for name, value in [("tool_call_id", message.get("tool_call_id")),
                        *(("tool_calls.id", call.get("id")) for call in calls)]:  # fmt: skip
        if isinstance(value, (list, dict)):
            raise UsageError("is not a text", field=f"{field}.{name}")


def _is_plain(message: Any) -> bool:
    content = message.get("content", "") if isinstance(message, dict) else 0
    return bool(content is None or isinstance(content, str)) and "role" in message


def render_or_simplify(
    messages: Sequence[Any],
    tools: Sequence[Any] | None,
    render: Callable[[Sequence[Any], Sequence[Any] | None], str],
) -> str:
    """Render a conversation, or where the template refuses it, the plainest with the same texts."""
    try:
        return render(messages, tools)
    except TemplateRefusal:
        if not all(map(_is_plain, messages)):
            raise
        chat = Chat(list(messages), list(tools) if tools else None)
        plain = _in_turn(*_PLAIN_CHANGES)(chat)
        if plain == chat:
            raise
        try:
            return render(plain.messages, plain.tools)
        except TemplateRefusal:
            pass
        raise
