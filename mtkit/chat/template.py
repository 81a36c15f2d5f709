"""Chat templates: messages to the text that a model expects, as ``transformers`` renders it.

``render`` runs one template on one conversation, in a process of its own (``process``). ``apply``
takes template and special tokens from a specification and prepares the messages as
``apply_chat_template`` does: keys without a value are left out, the text of a reasoning goes by all
names that templates know.

A rendering may end inside its last message, for the model to continue it: a mark is put behind the
text of the message, and the rendering is cut there. A template that takes the message apart may
leave a part of the mark before the cut; so there are two renderings with marks that differ in each
letter, and they have to be equal once cut.

Source: huggingface/transformers 5.23, utils/chat_template_utils.py (``render_jinja_template``,
``continue_final_message``), tokenization_utils_base.py (``apply_chat_template``,
``get_chat_template``).
"""

from __future__ import annotations

import os
import re

from mtkit.base.record import Record
from mtkit.chat.process import Limits
from mtkit.errors import FormatError, ResourceError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from mtkit.spec import TokenizerSpec


class Rendering(Record):
    """A rendered conversation.

    Attributes:
        generation: (start, end) in characters of each part in ``{% generation %}`` tags.
    """

    text: str
    generation: tuple[tuple[int, int], ...] = ()


_MISSING_FIELD = re.compile(r"'dict object' has no attribute ('\w+')")
"""What Jinja says of a key that is missing."""


class TemplateRefusal(UsageError):
    """The template does not take these messages; ``message`` is its own text.

    ``own``: it raised that itself (``raise_exception``).
    """

    def __init__(self, message: str, *, own: bool) -> None:
        text = f"the chat template refuses: {message}" if own else message
        lacks = None if own else _MISSING_FIELD.fullmatch(message)
        if lacks:
            text = f"a message or a value in it has no {lacks[1]}, which the chat template needs"
        super().__init__(text, hint="check the order and the roles of the messages")
        self.message = message


def render_in_process(
    template: str,
    variables: dict[str, Any],
    now: datetime | None,
    limits: Limits,
    deadline: float,
) -> Rendering:
    """Render a template in a process of its own, until a deadline of ``time.monotonic``."""
    from datetime import datetime

    from mtkit.chat import renderer
    from mtkit.chat.process import ask_process

    try:
        answer = ask_process(template, variables, now or datetime.now(), limits, deadline)
    except ValueError as error:
        raise UsageError(f"cannot be given to a template: {error}", field="messages") from None
    if answer.kind == renderer.DONE:
        return Rendering(answer.text, answer.spans)
    if answer.kind == renderer.SYNTAX:
        raise FormatError(answer.text, field="chat template")
    if answer.kind == renderer.UNSAFE:
        raise UnsupportedError(f"the chat template is not safe: {answer.text}")
    if answer.kind == renderer.EXHAUSTED:
        raise ResourceError(f"the chat template {answer.text}")
    raise TemplateRefusal(answer.text, own=answer.kind == renderer.REFUSED)


REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names of a message's reasoning; most templates read the first."""
_MARK_LETTERS = ("BCDFGHJK", "LMNPQRST")
"""Letters of the two marks: consonants in capitals, which make no word."""
_MARK_LENGTH = 26
"""Length of the reference's mark without its trailing blank: a template may count."""


def render_continuation(
    template: str,
    chat: list[dict[str, Any]],
    field: str,
    rendered: Callable[[list[dict[str, Any]]], Rendering],
) -> Rendering:
    """Render a conversation up to the end of a field of its last message."""
    names, text = _continued_fields(template, chat, field)
    first, second = (
        _cut_rendering(rendered([*chat[:-1], _mark_message(chat[-1], names, mark)]), mark, text)
        for mark in _two_marks()
    )
    if first != second:
        raise UsageError("the chat template takes the message apart that is to be continued")
    return first


def _continued_fields(
    template: str, chat: list[dict[str, Any]], name: str
) -> tuple[list[str], str]:
    """Return the names of the fields that are marked, and their text."""
    final = chat[-1].get(name) if chat else None
    if final is None:
        raise UsageError(f"has no {name} to continue", field="messages")
    names = [name]
    if name in REASONING:
        names = [other for other in REASONING if chat[-1].get(other) == final]
    if not any(other in template for other in names):
        raise UsageError(f"the chat template does not know the field {name}")
    if isinstance(final, (list, tuple)):
        blocks = [block for block in final if isinstance(block, dict) and "text" in block]
        final = blocks[-1]["text"] if blocks else None
    if not isinstance(final, str):
        raise UsageError("the last message has no text to continue", field="messages")
    return names, final


def _two_marks() -> tuple[str, str]:
    """Return two random marks that differ in each letter."""
    bits = int.from_bytes(os.urandom(_MARK_LENGTH), "little")
    first, second = (
        "".join(letters[bits >> 3 * place & 7] for place in range(_MARK_LENGTH))
        for letters in _MARK_LETTERS
    )
    return first, second


def _mark_message(message: dict[str, Any], names: list[str], mark: str) -> dict[str, Any]:
    """Return a message with a mark and a blank after the text of some fields."""
    marked = dict(message)
    for name in names:
        if isinstance(message[name], str):
            marked[name] = f"{message[name]}{mark} "
        else:
            blocks = list(message[name])
            at = max(i for i, b in enumerate(blocks) if isinstance(b, dict) and "text" in b)
            blocks[at] = {**blocks[at], "text": f"{blocks[at]['text']}{mark} "}
            marked[name] = blocks
    return marked


def _cut_rendering(rendering: Rendering, mark: str, text: str) -> Rendering:
    """Cut a rendering where the message ends; blanks that the template took there go, too."""
    before, separator, after = rendering.text.rpartition(mark)
    if not separator or text.strip() not in rendering.text:
        raise UsageError("the chat template leaves out part of the message to be continued")
    if mark in before:
        raise UsageError("the chat template writes the message to be continued more than once")
    if not after.startswith(" "):
        before = before.rstrip()
    spans = ((start, min(end, len(before))) for start, end in rendering.generation)
    return Rendering(before, tuple(span for span in spans if span[0] <= span[1]))


SECONDS = 10.0
"""Time that a template may take; the slowest of the known ones needs a hundredth of a second."""
CHARACTERS = 1 << 25
"""Length that the text of a conversation may have."""
MEMORY = 256 << 20
"""Bytes that a template may take, besides eight times what it is given."""
_OF_RENDER = frozenset(
    ("tools", "documents", "add_generation_prompt", "continue_final_message", "now", "seconds",
     "characters", "memory")
)  # fmt: skip


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any] | Callable[..., Any]] | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool | str = False,
    values: Mapping[str, Any] | None = None,
    now: datetime | None = None,
    seconds: float = SECONDS,
    characters: int = CHARACTERS,
    memory: int = MEMORY,
) -> Rendering:
    """Render one conversation.

    Args:
        continue_final_message: End inside the last message (its field, or "content" for True).
    """
    from time import monotonic

    limits, deadline = Limits(seconds, characters, memory), monotonic() + seconds
    try:
        chat = _check_messages(messages)
        variables = {
            "tools": check_tools(tools),
            "documents": _check_mappings(documents, "documents"),
            "add_generation_prompt": add_generation_prompt,
            **plain_value(dict(values or {})),
        }
    except RecursionError:
        raise UsageError("nest too deeply for a template", field="messages") from None

    def whole(chat: list[dict[str, Any]]) -> Rendering:
        return render_in_process(template, {"messages": chat, **variables}, now, limits, deadline)

    if not continue_final_message:
        return whole(chat)
    field = continue_final_message if isinstance(continue_final_message, str) else "content"
    return render_continuation(template, chat, field, whole)


def apply(
    spec: TokenizerSpec,
    messages: Sequence[Mapping[str, Any]],
    *,
    template: str | None = None,
    chat_template: str | None = None,
    values: Mapping[str, Any] | None = None,
    **options: Any,
) -> Rendering:
    """Render a conversation with a tokenizer's template and special tokens.

    Args:
        values: Further variables of the template; they count more than the special tokens.
    """
    if not messages:
        raise UsageError("the conversation has no messages", field="messages")
    continued = options.get("continue_final_message")
    if continued and options.get("add_generation_prompt"):
        raise UsageError("a message cannot be continued after a generation prompt")
    template = chat_template if template is None else template
    text = choose_template(spec, template, has_tools=options.get("tools") is not None)
    chat = [
        {key: value for key, value in message.items() if value is not None}
        if hasattr(message, "items")
        else message
        for message in messages
    ]
    variables = special_tokens(spec) | {k: v for k, v in options.items() if k not in _OF_RENDER}
    render_options = {key: value for key, value in options.items() if key in _OF_RENDER}
    return render(text, chat, values={**variables, **(values or {})}, **render_options)


def choose_template(spec: TokenizerSpec, template: str | None, *, has_tools: bool = False) -> str:
    """Return the text of the template of that name, or of the one that fits."""
    templates = {entry.name: entry.text for entry in spec.chat_templates}
    if template is not None:
        return templates.get(template, template)
    if len(templates) > 1 and has_tools and "tool_use" in templates:
        return templates["tool_use"]
    if "default" in templates:
        return templates["default"]
    if not templates:
        raise UnsupportedError(
            "the tokenizer has no chat template", hint="give one, or use the original repository"
        )
    raise UnsupportedError(
        "the tokenizer has several chat templates and no default",
        hint=f"name one of {', '.join(sorted(templates))}",
    )


def special_tokens(spec: TokenizerSpec) -> dict[str, str]:
    """Return ``bos_token`` and the like, those that the tokenizer has."""
    tokens = {token.id: token.content for token in spec.added_tokens.tokens}
    texts = {}
    for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        number = getattr(spec.special_ids, role)
        if number is not None and (number in tokens or number < len(spec.vocabulary)):
            piece = tokens.get(number) or spec.vocabulary.pieces[number]
            texts[f"{role}_token"] = piece.decode("utf-8", "replace")
    return texts


def plain_value(value: Any) -> Any:
    """Rebuild a value of JSON types, so that a template sees no object with methods of its own."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    for kind in (str, int, float):  # subclasses lose what they add
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    if hasattr(value, "items") and hasattr(value, "keys"):
        return {plain_value(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [plain_value(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return plain_value(value.item())
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: plain_value(getattr(value, name)) for name in value.__dataclass_fields__}
    if callable(getattr(value, "model_dump", None)):
        return plain_value(value.model_dump())
    return f"<{type(value).__name__}>"


def _check_messages(messages: Any) -> list[dict[str, Any]]:
    """Check and copy the messages; a reasoning gets all its names."""
    chat = plain_value(messages)
    if not isinstance(chat, (list, tuple)):
        raise UsageError("is not a list of messages", field="messages")
    checked = []
    for place, message in enumerate(chat):
        if not isinstance(message, dict):
            raise UsageError("is not an object with role and content", field=f"messages[{place}]")
        reasoning = [message[name] for name in REASONING if message.get(name) is not None]
        if reasoning:
            message = {"thinking": reasoning[0], **message, REASONING[0]: reasoning[0]}
        checked.append(message)
    return checked


def check_tools(values: Any) -> Any:
    """Return tools as JSON schemas; functions become those of their hints and docstrings."""
    if isinstance(values, (list, tuple)) and any(_is_function(value) for value in values):
        from mtkit.chat.function_schema import function_schema

        values = [function_schema(v) if _is_function(v) else v for v in values]
    return _check_mappings(values, "tools")


def _is_function(value: Any) -> bool:
    return callable(value) and not hasattr(value, "items") and not hasattr(value, "model_dump")


def _check_mappings(values: Any, name: str) -> Any:
    mappings = plain_value(values)
    if mappings is None:
        return None
    if not isinstance(mappings, (list, tuple)) or not all(isinstance(v, dict) for v in mappings):
        raise UsageError("is not a list of objects", field=name)
    return list(mappings)
