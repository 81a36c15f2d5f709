"""Bodies of the routes that llama.cpp's server has, too."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mtkit.serve.bodies.fields import Id  # noqa: TC001  msgspec reads the annotations
from mtkit.serve.bodies.openai import Messages, Tools  # noqa: TC001  as above


class Tokenize(Struct, kw_only=True):
    """A body of ``/tokenize``."""

    content: str
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class Detokenize(Struct, kw_only=True):
    """A body of ``/detokenize``."""

    tokens: list[Id]
    special: bool = True


class ApplyTemplate(Struct, kw_only=True):
    """A body of ``/apply-template``."""

    messages: Messages
    tools: Tools = []
    continue_final_message: bool | str | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] = {}
