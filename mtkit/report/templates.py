"""Chat templates as a page shows them: their text, and a short conversation rendered by each."""

from __future__ import annotations

from mtkit.base.escape import visible
from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.tokenizer.tokenizer import Tokenizer

MESSAGES = (
    {"role": "user", "content": "Which way is up?"},
    {"role": "assistant", "content": "Away from the ground."},
    {"role": "user", "content": "And on the Moon?"},
)
"""What every template takes: some refuse a system message."""
_MOST_TOKENS = 2000
_PLAIN = {"normal", "byte", "unused"}


def templates(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Return name, text and example of each template; the example as its tokens."""
    return [
        {"name": one.name, "text": one.text, **_example(tokenizer, one.text)}
        for one in tokenizer.spec.chat_templates
    ]


def _example(tokenizer: Tokenizer, template: str) -> dict[str, Any]:
    from mtkit.chat.template import apply

    try:
        text = apply(tokenizer.spec, MESSAGES, template=template, add_generation_prompt=True).text
        ids = tokenizer.encode_ids(text, add_special_tokens=False, parse_special=True)
    except MtkitError as error:
        return {"error": str(error)}
    shown = [
        [i, visible(tokenizer.token_bytes(i)), tokenizer.token_kind(i) not in _PLAIN]
        for i in ids[:_MOST_TOKENS]
    ]
    return {"count": len(ids), "tokens": shown}
