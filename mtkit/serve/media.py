"""Pictures, sounds and files in a conversation with a model that takes text.

What the user shows now is refused: an answer could only be made up. What a tool returned, or the
user showed in an earlier turn, would end the session with every further request, so a text stands
in its place, which tells the model, too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MEDIA = {
    "image": "image", "image_url": "image", "input_image": "image", "input_audio": "audio",
    "audio_url": "audio", "video_url": "video", "file": "file", "input_file": "file",
    "document": "document",
}  # fmt: skip
"""The types of parts that are no text, in all APIs."""
_ANSWERS = ("reasoning", "function_call", "custom_tool_call")
"""Types of items of the Responses API that a model wrote, besides its messages."""


def media_as_text(messages: Sequence[Any]) -> list[Any]:
    """Return messages or items of any API in which a text stands for media that are not new."""
    answers = [place for place, message in enumerate(messages) if _is_answer(message)]
    last = answers[-1] if answers else -1
    return [_replace_media(message, is_past=place < last) for place, message in enumerate(messages)]


def _is_answer(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    return message.get("role") == "assistant" or message.get("type") in _ANSWERS


def _replace_media(message: Any, *, is_past: bool) -> Any:
    if not isinstance(message, dict):
        return message
    is_result = message.get("role") == "tool" or "output" in message
    changed = dict(message)
    for name in ("content", "output"):
        parts = message.get(name)
        if isinstance(parts, list):
            changed[name] = [_replace_part(part, is_past or is_result) for part in parts]
    return changed


def _replace_part(part: Any, is_past: bool) -> Any:
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if kind == "tool_result" and isinstance(part.get("content"), list):
        return {**part, "content": [_replace_part(inner, True) for inner in part["content"]]}
    is_medium = isinstance(kind, str) and kind in MEDIA and not _holds_text(part)
    if not is_past or not is_medium:
        return part
    return {"type": "text", "text": f"[{MEDIA[str(kind)]} left out: this model takes text]"}


def _holds_text(part: Mapping[str, Any]) -> bool:
    """Whether it is one of Anthropic's documents that are texts."""
    source = part.get("source")
    return isinstance(source, dict) and source.get("type") in ("text", "content")
