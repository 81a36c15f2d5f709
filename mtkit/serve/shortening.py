"""What is left out of a prompt that is too long, where a request asks for that.

Ollama's ``truncate``, and ``truncation: "auto"`` of ``/v1/responses``: a conversation loses its
oldest messages, a plain prompt the part behind its first tokens.

Source: Ollama, server/prompt.go; OpenAI's API reference, ``truncation``.
"""

from __future__ import annotations

from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.serve.conversation import Conversation
    from mtkit.serve.model import ServedModel


_SPARE_PART = 8
"""One eighth of a slot is left to the answer where a part of the prompt is left out."""


async def shorten_conversation(
    served: ServedModel, conversation: Conversation, field: str
) -> Conversation:
    """Return a conversation without its oldest messages if it is too long.

    System messages and the last one stay. What is left begins with the user's.

    Args:
        field: The field that asks for this, noted once.
    """
    n_slot, messages = served.scheduler.n_slot, conversation.messages
    old = [place for place, row in enumerate(messages[:-1]) if row["role"] != "system"]
    n_bytes = sum(len(str(row)) for row in messages)
    if not old or n_bytes < n_slot or len(await served.chat_ids(conversation)) < n_slot:
        return conversation
    least, most, best = 0, len(old), conversation
    while least < most:  # how many of the oldest go
        middle = (least + most) // 2
        gone = set(old[: middle + 1])
        rest = [row for place, row in enumerate(messages) if place not in gone]
        first = next((at for at, row in enumerate(rest) if row["role"] != "system"), 0)
        while first < len(rest) - 1 and rest[first]["role"] != "user":
            del rest[first]
        shorter = replace(conversation, messages=rest)
        if len(await served.chat_ids(shorter)) <= n_slot - n_slot // _SPARE_PART:
            most, best = middle, shorter
        else:
            least = middle + 1
    if best is not conversation:
        served.unknown.note(
            field, "the oldest messages of a conversation that was too long were left out"
        )
    return best


def cut_prompt(served: ServedModel, ids: list[int], keep: int) -> list[int]:
    """Return a prompt without the part behind its first tokens that a slot has no room for."""
    n_slot = served.scheduler.n_slot
    if len(ids) < n_slot:
        return ids
    served.unknown.note("truncate", "the beginning of a prompt that was too long was left out")
    most = n_slot - n_slot // _SPARE_PART
    keep = min(max(keep, int(served.model.add_bos)), most // 2)
    return [*ids[:keep], *ids[len(ids) - most + keep :]]
