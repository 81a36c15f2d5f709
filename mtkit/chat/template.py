"""Chat templates: messages to the text that a model expects, as ``transformers`` renders it.

``render`` runs one template on one conversation. ``apply`` takes template and special tokens
from a specification and prepares the messages as ``apply_chat_template`` does: keys without a
value are left out, the text of a reasoning goes by all names that templates know.

Source: huggingface/transformers 5.23, utils/chat_template_utils.py (``render_jinja_template``),
tokenization_utils_base.py (``apply_chat_template``, ``get_chat_template``).
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import FormatError, MtkitError, ResourceError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from mtkit.spec import TokenizerSpec

SECONDS = 10.0
"""Time that a template may take; the slowest of the known ones needs a hundredth of a second."""
CHARACTERS = 1 << 25
"""Length that the text of a conversation may have."""
REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names of a message's reasoning; the first is the one that templates read."""
_MARK = "MTKIT_CONTINUES_HERE "


class Rendering(Record):
    """A rendered conversation.

    Attributes:
        text: What the model reads.
        generation: (start, end) in characters of each part in ``{% generation %}`` tags.
    """

    text: str
    generation: tuple[tuple[int, int], ...] = ()


class TemplateRefusal(UsageError):
    """The template does not take these messages; ``message`` is what it says itself."""

    def __init__(self, message: str, *, own: bool) -> None:
        said = f"the chat template refuses: {message}" if own else message
        super().__init__(said, hint="check the order and the roles of the messages")
        self.message = message


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool | str = False,
    values: Mapping[str, Any] | None = None,
    now: datetime | None = None,
    seconds: float = SECONDS,
    characters: int = CHARACTERS,
) -> Rendering:
    """Render one conversation.

    Args:
        template: The Jinja template.
        messages: Each with ``role`` and mostly ``content``.
        tools: JSON schemas of functions.
        documents: Each with ``title`` and ``text``.
        add_generation_prompt: End with what opens the assistant's answer.
        continue_final_message: End inside the last message (its field, or "content" for True).
        values: Further variables: the special tokens, and what the template knows besides.
        now: The time that ``strftime_now`` tells.
        seconds: Limit of wall-clock time.
        characters: Limit of the output's length.

    Raises:
        TemplateRefusal: The template raises an exception on these messages.
        UsageError: The messages are no conversation.
        FormatError: The template is no template.
        ResourceError: It takes too long or writes too much.
    """
    chat = _conversation(messages)
    field = _mark_end(template, chat, continue_final_message) if continue_final_message else ""
    variables = {
        "messages": chat,
        "tools": _mappings(tools, "tools"),
        "documents": _mappings(documents, "documents"),
        "add_generation_prompt": add_generation_prompt,
        **plain(dict(values or {})),
    }
    made = _run(template, variables, now, seconds, characters)
    if field:
        return Rendering(_cut_at_mark(made.text, field), made.generation)
    return made


def apply(
    spec: TokenizerSpec,
    messages: Sequence[Mapping[str, Any]],
    *,
    template: str | None = None,
    values: Mapping[str, Any] | None = None,
    **options: Any,
) -> Rendering:
    """Render a conversation with a tokenizer's template and special tokens.

    Args:
        spec: The tokenizer.
        messages: The conversation.
        template: Name of one of its templates, or a template; None: the one that fits.
        values: Further variables of the template; they count more than the special tokens.
        options: As for ``render``.

    Raises:
        UnsupportedError: The tokenizer has no chat template.
        UsageError: There is no message, or as ``render``.
    """
    if not messages:
        raise UsageError("the conversation has no messages", field="messages")
    continued = options.get("continue_final_message")
    if continued and options.get("add_generation_prompt"):
        raise UsageError("a message cannot be continued behind a generation prompt")
    text = choose(spec, template, has_tools=options.get("tools") is not None)
    kept = [
        {key: value for key, value in message.items() if value is not None}
        if hasattr(message, "items")
        else message
        for message in messages
    ]
    tokens = special_tokens(spec)
    return render(text, kept, values={**tokens, **(values or {})}, **options)


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
            "the tokenizer has no chat template", hint="give one, or take the original repository"
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


def _mappings(values: Any, name: str) -> Any:
    made = plain(values)
    if made is None:
        return None
    if not isinstance(made, (list, tuple)) or not all(isinstance(v, dict) for v in made):
        raise UsageError("is not a list of objects", field=name)
    return list(made)


def _mark_end(template: str, chat: list[dict[str, Any]], field: bool | str) -> str:
    """Put a mark behind the last message; returns the text that it stands behind."""
    name = field if isinstance(field, str) else "content"
    final = chat[-1].get(name) if chat else None
    if final is None:
        raise UsageError(f"has no {name} to continue", field="messages")
    names = [name]
    if name in REASONING:
        names = [other for other in REASONING if chat[-1].get(other) == final]
    if not any(other in template for other in names):
        raise UsageError(f"the chat template does not know the field {name}")
    if isinstance(final, (list, tuple)):
        block = next((b for b in reversed(final) if isinstance(b, dict) and "text" in b), None)
        if block is None:
            raise UsageError("the last message has no text to continue", field="messages")
        text = str(block["text"])
        block["text"] = text + _MARK
        return text
    for other in names:
        chat[-1][other] = final + _MARK
    return str(final)


def _cut_at_mark(text: str, final: str) -> str:
    """Cut a rendering where the last message ends; blanks that the template took go, too."""
    mark = _MARK.strip()
    at = text.rfind(mark)
    if at < 0 or final.strip() not in text:
        raise UsageError("the chat template leaves out part of the message to be continued")
    return text[:at] if text[at : at + len(_MARK)] == _MARK else text[:at].rstrip()


def _run(
    template: str, variables: dict[str, Any], now: datetime | None, seconds: float, characters: int
) -> Rendering:
    """Run a template and turn what it raises into one kind of error."""
    from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError

    from mtkit.chat.limits import BUDGET, Budget
    from mtkit.chat.sandbox import compile_template

    budget = Budget(seconds, characters, now)
    token = BUDGET.set(budget)
    try:
        size = 0
        for block in compile_template(template).generate(variables):
            size += len(block)
            budget.room(size)
            budget.tick()
            budget.blocks.append(block)
    except TemplateSyntaxError as error:
        raise FormatError(f"{error.message} (line {error.lineno})", field="chat template") from None
    except SecurityError as error:
        raise UnsupportedError(f"the chat template is not safe: {error}") from None
    except (MemoryError, RecursionError) as error:
        raise ResourceError(f"the chat template fails: {type(error).__name__}") from None
    except MtkitError:
        raise
    except TemplateError as error:
        raise TemplateRefusal(str(error.message), own=type(error) is TemplateError) from None
    except Exception as error:  # noqa: BLE001  a template can raise what Python can
        text = f"the chat template fails: {type(error).__name__}: {error}"
        raise TemplateRefusal(text, own=False) from None
    finally:
        BUDGET.reset(token)
    return Rendering("".join(budget.blocks), tuple(budget.generation))
