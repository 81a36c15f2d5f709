"""llama.cpp's own chat templates, which are known by name and are not Jinja.

Source: llama.h of llama.cpp (``llama_chat_apply_template``).
"""

from __future__ import annotations

import ctypes

from mtkit.errors import UsageError
from mtkit.llama.shared_library import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_FIELDS = ("role", "content")


def builtin_templates() -> list[str]:
    """Return their names."""
    lib = library()
    count = lib.llama_chat_builtin_templates(None, 0)
    names = (ctypes.c_char_p * count)()
    lib.llama_chat_builtin_templates(names, count)
    return [(name or b"").decode() for name in names]


def apply_builtin(name: str, messages: Sequence[Any], *, add_generation_prompt: bool) -> str:
    """Return what one of them writes.

    Args:
        name: Which.
        messages: Each with ``role`` and ``content``.
        add_generation_prompt: End with what opens an answer.

    Raises:
        UsageError: A message is none, or holds a NUL.
    """
    lib = library()
    chat = (lib.llama_chat_message * len(messages))()
    kept, size = [], 0
    for place, message in enumerate(messages):
        texts = [message.get(key) if isinstance(message, dict) else None for key in _FIELDS]
        if not all(isinstance(text, str) and "\0" not in text for text in texts):
            raise UsageError("is not a role and a text without NUL", field=f"messages[{place}]")
        role, content = (str(text).encode() for text in texts)
        kept += [role, content]  # the structures only point at them
        chat[place].role, chat[place].content = role, content
        size += len(role) + len(content)
    while True:
        room = 2 * size + 4096
        buffer = ctypes.create_string_buffer(room)
        written = lib.llama_chat_apply_template(
            name.encode(), chat, len(chat), add_generation_prompt, buffer, room
        )
        if written < 0:
            raise UsageError(f"llama.cpp has no chat template {name!r}", field="--chat-template")
        if written <= room:
            return buffer.raw[:written].decode("utf-8", "replace")
        size = written
