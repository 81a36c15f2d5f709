"""Chat templates: messages to the text that a model expects, as ``transformers`` renders it.

``render`` runs one template on one conversation. ``apply`` takes template and special tokens
from a specification and prepares the messages as ``apply_chat_template`` does: keys without a
value are left out, the text of a reasoning goes by all names that templates know.

Source: huggingface/transformers 5.23, utils/chat_template_utils.py (``render_jinja_template``),
tokenization_utils_base.py (``apply_chat_template``, ``get_chat_template``).
"""

from __future__ import annotations

from mtkit.chat.continuation import REASONING, continued
from mtkit.chat.process import Limits
from mtkit.chat.rendering import Rendering, rendered
from mtkit.errors import UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from mtkit.spec import TokenizerSpec

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
        template: The Jinja template.
        messages: Each with ``role`` and mostly ``content``.
        tools: JSON schemas of functions, or functions with type hints and a docstring.
        documents: Each with ``title`` and ``text``.
        add_generation_prompt: End with what opens the assistant's answer.
        continue_final_message: End inside the last message (its field, or "content" for True).
        values: Further variables: the special tokens, and what the template knows besides.
        now: The time that ``strftime_now`` tells.
        seconds: Limit of wall-clock time.
        characters: Limit of the output's length.
        memory: Limit of the memory in bytes, where the system has one.

    Raises:
        TemplateRefusal: The template raises an exception on these messages.
        UsageError: The messages are not a conversation.
        FormatError: The template is not a template.
        ResourceError: It takes too long or writes too much.
    """
    from time import monotonic

    limits, deadline = Limits(seconds, characters, memory), monotonic() + seconds
    try:
        chat = _conversation(messages)
        variables = {
            "tools": _tools(tools),
            "documents": _mappings(documents, "documents"),
            "add_generation_prompt": add_generation_prompt,
            **plain(dict(values or {})),
        }
    except RecursionError:
        raise UsageError("nest too deeply for a template", field="messages") from None

    def whole(chat: list[dict[str, Any]]) -> Rendering:
        return rendered(template, {"messages": chat, **variables}, now, limits, deadline)

    if not continue_final_message:
        return whole(chat)
    field = continue_final_message if isinstance(continue_final_message, str) else "content"
    return continued(template, chat, field, whole)


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
        spec: The tokenizer.
        messages: The conversation.
        template: Name of one of its templates, or a template; None: the one that fits.
        chat_template: The same, by transformers' name.
        values: Further variables of the template; they count more than the special tokens.
        options: As for ``render``; what ``render`` does not take is a variable, too.

    Raises:
        UnsupportedError: The tokenizer has no chat template.
        UsageError: There is no message, or as ``render``.
    """
    if not messages:
        raise UsageError("the conversation has no messages", field="messages")
    continued = options.get("continue_final_message")
    if continued and options.get("add_generation_prompt"):
        raise UsageError("a message cannot be continued after a generation prompt")
    template = chat_template if template is None else template
    text = choose(spec, template, has_tools=options.get("tools") is not None)
    kept = [
        {key: value for key, value in message.items() if value is not None}
        if hasattr(message, "items")
        else message
        for message in messages
    ]
    variables = special_tokens(spec) | {k: v for k, v in options.items() if k not in _OF_RENDER}
    taken = {key: value for key, value in options.items() if key in _OF_RENDER}
    return render(text, kept, values={**variables, **(values or {})}, **taken)


def choose(spec: TokenizerSpec, template: str | None, *, has_tools: bool = False) -> str:
    """Return the text of the template that is asked for, or of the one that fits.

    Raises:
        UnsupportedError: There is none, or several of which none is the default.
    """
    found = {entry.name: entry.text for entry in spec.chat_templates}
    if template is not None:
        return found.get(template, template)
    if len(found) > 1 and has_tools and "tool_use" in found:
        return found["tool_use"]
    if "default" in found:
        return found["default"]
    if not found:
        raise UnsupportedError(
            "the tokenizer has no chat template", hint="give one, or use the original repository"
        )
    raise UnsupportedError(
        "the tokenizer has several chat templates and no default",
        hint=f"name one of {', '.join(sorted(found))}",
    )


def special_tokens(spec: TokenizerSpec) -> dict[str, str]:
    """Return ``bos_token`` and the like, those that the tokenizer has."""
    tokens = {token.id: token.content for token in spec.added_tokens.tokens}
    found = {}
    for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        number = getattr(spec.special_ids, role)
        if number is not None and (number in tokens or number < len(spec.vocabulary)):
            piece = tokens.get(number) or spec.vocabulary.pieces[number]
            found[f"{role}_token"] = piece.decode("utf-8", "replace")
    return found


def plain(value: Any) -> Any:
    """Rebuild a value of JSON types, so that a template sees no object with methods of its own."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    for kind in (str, int, float):  # subclasses lose what they add
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    if hasattr(value, "items") and hasattr(value, "keys"):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return plain(value.item())
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if callable(getattr(value, "model_dump", None)):
        return plain(value.model_dump())
    return f"<{type(value).__name__}>"


def _conversation(messages: Any) -> list[dict[str, Any]]:
    """Check and copy the messages; a reasoning gets all its names."""
    chat = plain(messages)
    if not isinstance(chat, (list, tuple)):
        raise UsageError("is not a list of messages", field="messages")
    made = []
    for place, message in enumerate(chat):
        if not isinstance(message, dict):
            raise UsageError("is not an object with role and content", field=f"messages[{place}]")
        said = [message[name] for name in REASONING if message.get(name) is not None]
        if said:
            message = {"thinking": said[0], **message, REASONING[0]: said[0]}
        made.append(message)
    return made


def _tools(values: Any) -> Any:
    if isinstance(values, (list, tuple)) and any(_is_function(value) for value in values):
        from mtkit.chat.function_schema import function_schema

        values = [function_schema(one) if _is_function(one) else one for one in values]
    return _mappings(values, "tools")


def _is_function(value: Any) -> bool:
    return callable(value) and not hasattr(value, "items") and not hasattr(value, "model_dump")


def _mappings(values: Any, name: str) -> Any:
    made = plain(values)
    if made is None:
        return None
    if not isinstance(made, (list, tuple)) or not all(isinstance(v, dict) for v in made):
        raise UsageError("is not a list of objects", field=name)
    return list(made)
