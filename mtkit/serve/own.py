"""Routes that generate nothing: tokens, and what the server tells of itself.

Source of the names: llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

from starlette.responses import Response

from mtkit.serve.bodies.fields import MOST_BODY, read
from mtkit.serve.bodies.llama import Detokenize, Tokenize
from mtkit.serve.plain import settings_told
from mtkit.serve.prompts import prompt_ids, prompt_of, spelled
from mtkit.serve.replies import Problem, as_json, body_of
from mtkit.serve.served import SHORT, aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request

    from mtkit.serve.served import Served
    from mtkit.serve.slot import Slot


async def tokenize(request: Request, served: Served) -> Response:
    """Return the tokens of a text."""
    asked = read(Tokenize, await body_of(request, MOST_BODY), served.unknown)
    prompt = prompt_of(asked.content, "content")
    ids = await prompt_ids(
        served, prompt, add_special=asked.add_special, parse_special=asked.parse_special
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


async def health(_: Request, served: Served) -> Response:
    """Say whether requests are answered."""
    is_open = served.scheduler.is_open
    return as_json({"status": "ok" if is_open else "ending"}, 200 if is_open else 503)


async def metrics(_: Request, served: Served) -> Response:
    """Return the counters."""
    if not served.settings.metrics:
        raise Problem(501, "this server was started with --no-metrics")
    kind = "text/plain; version=0.0.4; charset=utf-8"
    found = Response(served.metrics.text(), media_type=kind)
    begun = b"%d" % served.created  # in capitals, which llama-server's readers look for
    found.raw_headers.append((b"Process-Start-Time-Unix", begun))
    return found


async def props(_: Request, served: Served) -> Response:
    """Return how the server was started, and what its model is."""
    model, settings = served.model, served.settings

    def token(token_id: int) -> str:
        return spelled(model, [token_id]) if token_id >= 0 else ""

    found = {
        "default_generation_settings": {
            "params": settings_told(served),
            "n_ctx": served.scheduler.n_slot,
        },
        "total_slots": len(served.scheduler.slots),
        "model_alias": served.name,
        "model_path": served.file_name,
        "modalities": {"vision": False, "audio": False, "video": False},
        "endpoint_slots": settings.show_slots,
        "endpoint_props": False,
        "endpoint_metrics": settings.metrics,
        "ui": settings.webui,
        "chat_template": served.template,
        "bos_token": token(model.bos),
        "eos_token": token(model.eos),
        "build_info": served.fingerprint,
        "is_sleeping": False,
    }
    if served.tool_template not in ("", served.template):
        found["chat_template_tool_use"] = served.tool_template
    if served.form is not None and not served.form.shows_tools:
        found["tools_are_told_by"] = "mtkit"  # the template has no place for them
    return as_json(found)


async def slots(request: Request, served: Served) -> Response:
    """Return what the slots do; never what they were asked."""
    if not served.settings.show_slots:
        raise Problem(501, "this server was started with --no-slots")
    found = [_slot(slot, served) for slot in served.scheduler.slots]
    is_full = all(one["is_processing"] for one in found)
    if is_full and request.query_params.get("fail_on_no_slot"):
        raise Problem(503, "no slot is free")
    return as_json(found)


def _slot(slot: Slot, served: Served) -> dict[str, Any]:
    job, generated = slot.job, slot.generated
    found: dict[str, Any] = {
        "id": slot.number,
        "state": slot.state,
        "n_ctx": served.scheduler.n_slot,
        "is_processing": job is not None,
        "speculative": served.scheduler.drafts,
        "tokens": len(slot.ids),
        "computed": slot.past,
        "cached": slot.cached,
        "generated": generated,
        "n_prompt_tokens_cache": slot.cached,
        "next_token": [{
            "has_next_token": job is not None,
            "n_remain": job.limit - generated if job is not None else -1,
            "n_decoded": generated if job is not None else 0,
        }],
    }  # fmt: skip
    if figures := slot.drafting:
        found["drafting"] = figures
    return found
