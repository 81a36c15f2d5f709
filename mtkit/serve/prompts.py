"""Prompts that are no conversations: a text, ids, both in turn, or several of these."""

from __future__ import annotations

from mtkit.errors import UsageError
from mtkit.serve.served import SHORT, aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from mtkit.llama import Model
    from mtkit.serve.served import Served

    Prompt: TypeAlias = "list[str | int]"

_TEXT, _MEDIA = "prompt_string", "multimodal_data"
"""What a text, and what belongs to it, is called in an object; llama-server's."""
_MOST_ID = 1 << 31


def prompts_of(given: Any, field: str = "prompt") -> list[Prompt]:
    """Return the prompts of a request, each of texts and ids in turn.

    Raises:
        UsageError: It is something else, or there is none.

    Source: llama.cpp, tools/server/server-common.cpp (``tokenize_input_prompts``).
    """
    is_list = isinstance(given, list)
    if not is_list or any(type(one) is int for one in given):
        return [prompt_of(given, field)]
    if not given:
        raise UsageError("is empty", field=field)
    return [prompt_of(one, field) for one in given]


def prompt_of(given: Any, field: str) -> Prompt:
    """Return one prompt.

    Raises:
        UsageError: It is something else.
    """
    found: list[str | int] = []
    for one in given if isinstance(given, list) else [given]:
        if isinstance(one, dict):
            if one.get(_MEDIA):
                raise UsageError("holds media; this model takes text", field=f"{field}.{_MEDIA}")
            one = one.get(_TEXT)
        if not isinstance(one, str) and not (type(one) is int and 0 <= one < _MOST_ID):
            raise UsageError("is not a text, ids, or a list of them", field=field)
        found.append(one)
    return found


def text_only(prompt: Prompt) -> str:
    """Return a prompt that is one text.

    Raises:
        UsageError: It is more, or ids.
    """
    if len(prompt) != 1 or not isinstance(prompt[0], str):
        raise UsageError("is not one text", field="prompt")
    return prompt[0]


async def prompt_ids(
    served: Served, prompt: Prompt, *, add_special: bool = True, parse_special: bool = True
) -> list[int]:
    """Return the tokens of a prompt; what stands around a text goes to one that begins it alone."""
    if not any(isinstance(one, str) for one in prompt):
        return [one for one in prompt if isinstance(one, int)]
    size = sum(len(one) if isinstance(one, str) else 1 for one in prompt)

    def work() -> list[int]:
        ids: list[int] = []
        for place, one in enumerate(prompt):
            if isinstance(one, int):
                ids.append(one)
            else:
                special = add_special and not place
                ids += served.model.tokenize(one, add_special=special, parse_special=parse_special)
        return ids

    return await aside(work, is_short=size < SHORT)


def spelled(model: Model, ids: list[int]) -> str:
    """Return the text of tokens, control tokens as they are spelled."""
    raw = b"".join([model.piece(token_id, special=True) for token_id in ids])
    return raw.decode("utf-8", "replace")
