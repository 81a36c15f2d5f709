"""Routes that are neither OpenAI's nor Anthropic's; the first three are llama.cpp's server's."""

from __future__ import annotations

from starlette.responses import Response

from mtkit.serve.bodies.fields import MOST_BODY, read
from mtkit.serve.bodies.llama import ApplyTemplate, Detokenize, Tokenize
from mtkit.serve.messages import continuing, from_openai, tools_from_openai
from mtkit.serve.replies import as_json, body_of
from mtkit.serve.served import SHORT, aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request

    from mtkit.serve.served import Served


async def tokenize(request: Request, served: Served) -> Response:
    """Return the tokens of a text."""
    asked = read(Tokenize, await body_of(request, MOST_BODY), served.unknown)
    ids = await served.text_ids(
        asked.content, add_special=asked.add_special, parse_special=asked.parse_special
    )

    def answer() -> Response:
        return as_json({"tokens": _with_pieces(ids, served) if asked.with_pieces else ids})

    return await aside(answer, is_short=len(ids) < SHORT)


def _with_pieces(ids: list[int], served: Served) -> list[dict[str, Any]]:
    tokens = []
    for token_id in ids:
        raw = served.model.piece(token_id, special=True)
        try:
            piece: str | list[int] = raw.decode()
        except UnicodeDecodeError:
            piece = list(raw)
        tokens.append({"id": token_id, "piece": piece})
    return tokens


async def detokenize(request: Request, served: Served) -> Response:
    """Return the text of tokens."""
    asked = read(Detokenize, await body_of(request, MOST_BODY), served.unknown)

    def answer() -> Response:
        served.model.check_ids(asked.tokens)
        piece = served.model.piece
        raw = b"".join([piece(token_id, special=asked.special) for token_id in asked.tokens])
        return as_json({"content": raw.decode("utf-8", "replace")})

    return await aside(answer, is_short=len(asked.tokens) < SHORT)


async def apply_template(request: Request, served: Served) -> Response:
    """Return what the chat template makes of a conversation."""
    asked = read(ApplyTemplate, await body_of(request, MOST_BODY), served.unknown)
    messages, tools = from_openai(asked.messages), tools_from_openai(asked.tools)
    ending = continuing(messages, asked.continue_final_message, asked.add_generation_prompt)
    values = asked.chat_template_kwargs
    return as_json({"prompt": await served.chat_text(messages, tools, values=values, **ending)})


async def health(_: Request, served: Served) -> Response:
    """Say whether requests are answered."""
    is_open = served.scheduler.is_open
    return as_json({"status": "ok" if is_open else "ending"}, 200 if is_open else 503)


async def metrics(_: Request, served: Served) -> Response:
    """Return the counters."""
    return Response(served.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def slots(_: Request, served: Served) -> Response:
    """Return what the slots do; never what they were asked."""
    return as_json(
        [
            {
                "id": slot.number,
                "state": slot.state,
                "n_ctx": served.scheduler.n_slot,
                "tokens": len(slot.ids),
                "computed": slot.past,
                "cached": slot.cached,
                "generated": slot.generated,
                **({"drafting": figures} if (figures := slot.drafting) else {}),
            }
            for slot in served.scheduler.slots
        ]
    )
