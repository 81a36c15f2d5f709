"""What reads a model's answers, whole or as they come."""

from __future__ import annotations

from mtkit.chat.answer_analysis import form_of
from mtkit.chat.answer_parts import calls_in, reasoning_in, text_in
from mtkit.chat.answer_reader import AnswerReader
from mtkit.chat.channels import ChannelReader
from mtkit.chat.signs import EOS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeAlias

    from mtkit.chat.answer_form import Form

    Reader: TypeAlias = "AnswerReader | ChannelReader"


def reader_of(
    form: Form,
    tools: Sequence[Mapping[str, Any]] | None = None,
    prompt: str = "",
    *,
    several: bool = True,
    calls: bool = True,
    reasoning: bool = True,
    streams: bool = True,
) -> Reader:
    """Return what reads one answer; the arguments are those of ``AnswerReader``."""
    if form.channels:
        return ChannelReader(tools, several=several, calls=calls, reasoning=reasoning)
    return AnswerReader(
        form, tools, prompt, several=several, calls=calls, reasoning=reasoning, streams=streams
    )


def parse_response(
    template: str,
    text: str,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    prompt: str = "",
    eos: str | None = None,
) -> dict[str, Any]:
    """Take apart what a model wrote, as its chat template writes it.

    Args:
        template: The chat template.
        text: What the model wrote, with or without what ends a turn.
        tools: What it may call, in OpenAI's form.
        prompt: What it saw last: its end says whether the answer begins in a reasoning.
        eos: The token that ends a text.

    Returns:
        ``content``, a text; ``reasoning_content``, a text or None; ``tool_calls``, None or a list
        with ``id``, ``type`` and ``function``, whose ``arguments`` are JSON.

    Raises:
        FormatError: The template is none.
    """
    parts = reader_of(form_of(template, eos or EOS), tools, prompt, streams=False).finish(text)
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls_in(parts)
    ]
    return {
        "content": text_in(parts),
        "reasoning_content": reasoning_in(parts) or None,
        "tool_calls": calls or None,
    }
