"""Messages to the prompt of a model: its chat template, and the ids of what that writes."""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.llm.message_ids import message_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llama import Model


class ChatPrompt:
    """Renders conversations for a model; may be used from several threads."""

    def __init__(self, model: Model, template: str | None, *, parse_special: bool = False) -> None:
        """Take a template.

        Args:
            model: Whose tokenizer it is.
            template: The chat template.
            parse_special: Special tokens that messages spell are special tokens.

        Raises:
            UnsupportedError: There is no template, or the model has an encoder.
        """
        if not template:
            raise UnsupportedError(
                "has no chat template", source=model.path, hint="--template FILE gives one"
            )
        if model.has_encoder:
            raise UnsupportedError("is not a chat model: it has an encoder", source=model.path)
        self._model, self._template, self._parse_special = model, template, parse_special

    def ids(self, messages: Sequence[Any], tools: Sequence[Any] | None = None) -> list[int]:
        """Return the tokens of a conversation, the opening of an answer included."""
        model = self._model
        if self._parse_special:
            ids = model.tokenize(self.text(messages, tools), add_special=False)
        else:
            ids = message_ids(model, messages, self.text, tools)
        if model.add_bos and ids[:1] != [model.bos]:  # templates that leave it to the tokenizer
            ids = [model.bos, *ids]
        return ids

    def text(self, messages: Sequence[Any], tools: Sequence[Any] | None = None) -> str:
        """Return what the template writes."""
        from mtkit.chat.template import render

        model = self._model

        def spelled(token_id: int) -> str:
            piece = model.piece(token_id, special=True) if token_id >= 0 else b""
            return piece.decode("utf-8", "replace")

        values = {"bos_token": spelled(model.bos), "eos_token": spelled(model.eos)}
        return render(
            self._template, messages, tools=tools, add_generation_prompt=True, values=values
        ).text
