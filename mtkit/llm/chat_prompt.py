"""Messages to the prompt of a model: its chat template, and the ids of what that writes."""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.llm.message_ids import message_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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

    def ids(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        continue_final: bool | str = False,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """Return the tokens of a conversation, as ``text`` has it."""
        model = self._model

        def rendered(messages: Sequence[Any], tools: Sequence[Any] | None) -> str:
            return self.text(
                messages,
                tools,
                values=values,
                continue_final=continue_final,
                add_generation_prompt=add_generation_prompt,
            )

        if self._parse_special:
            ids = model.tokenize(rendered(messages, tools), add_special=False)
        else:
            ids = message_ids(model, messages, rendered, tools)
        if model.add_bos and ids[:1] != [model.bos]:  # templates that leave it to the tokenizer
            ids = [model.bos, *ids]
        return ids

    def text(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        continue_final: bool | str = False,
        add_generation_prompt: bool = True,
    ) -> str:
        """Return what the template writes; of messages that it does not take, what ``turns`` says.

        Args:
            messages: The conversation.
            tools: Definitions of tools.
            values: Further variables of the template; they count more than the special tokens.
            continue_final: End inside the last message: behind its content, or the field named.
            add_generation_prompt: Otherwise: end with what opens an answer.
        """
        from mtkit.chat.template import render
        from mtkit.chat.turns import written

        model = self._model

        def spelled(token_id: int) -> str:
            piece = model.piece(token_id, special=True) if token_id >= 0 else b""
            return piece.decode("utf-8", "replace")

        tokens = {"bos_token": spelled(model.bos), "eos_token": spelled(model.eos)}

        def rendered(messages: Sequence[Any]) -> str:
            return render(
                self._template,
                messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt and not continue_final,
                continue_final_message=continue_final,
                values={**tokens, **(values or {})},
            ).text

        return written(messages, rendered)
