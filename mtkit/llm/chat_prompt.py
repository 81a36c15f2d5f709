"""Messages to the prompt of a model: its chat template, and the ids of what that writes."""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.llama.chat_templates import apply_builtin, builtin_templates
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
            template: The chat template, or the name of one of llama.cpp's own.
            parse_special: Special tokens that messages spell are special tokens.

        Raises:
            UnsupportedError: There is no template, or the model has an encoder.
        """
        if not template:
            raise UnsupportedError(
                "has no chat template", source=model.path, hint="add --chat-template-file FILE"
            )
        if model.has_encoder:
            raise UnsupportedError("is not a chat model: it has an encoder", source=model.path)
        self._model, self._template, self._parse_special = model, template, parse_special
        self._is_builtin = template.isprintable() and template in builtin_templates()

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

        opens = add_generation_prompt and not continue_final
        if self._is_builtin:
            return self._builtin(messages, tools, continue_final=continue_final, opens=opens)
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
                add_generation_prompt=opens,
                continue_final_message=continue_final,
                values={**tokens, **(values or {})},
            ).text

        return written(messages, rendered)

    def _builtin(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None,
        *,
        continue_final: bool | str,
        opens: bool,
    ) -> str:
        from mtkit.chat.continuation import continued
        from mtkit.chat.rendering import Rendering

        if tools:
            raise UnsupportedError(f"the chat template {self._template} has no place for tools")

        def whole(chat: Sequence[Any]) -> Rendering:
            return Rendering(apply_builtin(self._template, chat, add_generation_prompt=opens))

        if not continue_final:
            return whole(messages).text
        return continued("content", list(messages), "content", whole).text
