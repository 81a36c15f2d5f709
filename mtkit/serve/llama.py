"""llama-server's own routes: ``/completion``, ``/infill``, tokens, slots, adapters, properties.

Source: llama.cpp, tools/server/README.md for the names; tools/server/server-task.cpp
(``to_json_non_oaicompat``) for the shape of answers.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import time
from types import MappingProxyType

import msgspec
from starlette.responses import Response

from mtkit.gguf.adapters import parse_adapter
from mtkit.llm.media import PLACE
from mtkit.serve.answer import AnswerReply, send_reply
from mtkit.serve.bodies import Complete, Detokenize, Infill, Saved, Tokenize
from mtkit.serve.job import JobEnd, Terms
from mtkit.serve.model import run_in_thread
from mtkit.serve.prompt import Fim, prompt_ids, prompt_of, prompts_of
from mtkit.serve.reply import Problem, json_response, while_connected
from mtkit.serve.request import (
    Scale,
    read_body,
    read_json,
    read_with_sampler,
    validation_problem,
)
from mtkit.serve.slot import Slot, read_slot_file, write_slot_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from starlette.requests import Request

    from mtkit.llama.media import Chunk
    from mtkit.serve.job import Piece
    from mtkit.serve.model import ServedModel
    from mtkit.serve.pool import ModelPool
    from mtkit.settings import SamplerSettings

    T = TypeVar("T")


_STOPS = {"eog": "eos", "grammar": "eos", "length": "limit", "stop": "word"}
_SETTING_NAMES = {
    "temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
    "top_n_sigma": "top_n_sigma", "xtc_probability": "xtc", "xtc_threshold": "xtc_threshold",
    "typical_p": "typical", "repeat_last_n": "penalty_last", "repeat_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
    "dry_multiplier": "dry", "dry_base": "dry_base", "dry_allowed_length": "dry_length",
    "dry_penalty_last_n": "dry_last", "mirostat": "mirostat", "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta", "ignore_eos": "ignore_eos",
}  # fmt: skip
"""llama-server's names of settings -> ours."""
_FIXED_SETTINGS = {
    "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "adaptive_target": -1.0,
    "adaptive_decay": 0.9, "n_discard": 0, "min_keep": 0, "backend_sampling": False,
}  # fmt: skip
"""Further settings of it, and what they are here."""
_NO_SEED = (1 << 32) - 1
_LEAST_LOGPROB = float.fromhex("-0x1.fffffep+127")
"""The logarithm of 0: the least number of 32 bits."""


def sampler_fields(served: ServedModel, terms: Terms | None = None) -> dict[str, Any]:
    """Return how tokens are chosen: by the terms of a request, or by the server's defaults."""
    sampler = terms.sampler if terms else served.settings.sampler
    limit = terms.limit if terms else served.settings.n_predict
    limit = -1 if limit is None else limit
    fields: dict[str, Any] = {
        **{name: getattr(sampler, ours) for name, ours in _SETTING_NAMES.items()},
        **_FIXED_SETTINGS,
        "seed": _NO_SEED if sampler.seed is None else sampler.seed,
        "max_tokens": limit,
        "n_predict": limit,
        "n_keep": terms.keep if terms else 0,
        "n_probs": (terms.top or 0) if terms else 0,
        "post_sampling_probs": terms.sampled if terms else False,
    }
    if terms:
        fields |= {
            "stop": list(terms.stops),
            "logit_bias": _bias_fields(served, sampler),
            "grammar": sampler.grammar or "",
        }
    return fields


def _bias_fields(served: ServedModel, sampler: SamplerSettings) -> list[dict[str, Any]]:
    pairs = list(sampler.logit_bias)
    if sampler.ignore_eos:
        pairs += [(token_id, float("-inf")) for token_id in sorted(served.model.eog_ids)]
    return [{"bias": bias, "token": token_id} for token_id, bias in pairs]


def end_fields(
    reply: AnswerReply, index: int, text: str, content: str, ids: Sequence[int]
) -> dict[str, Any]:
    """Return the end of an answer."""
    answers, served = reply.answers, reply.served
    end, prompt = answers.ends[index], answers.prompt(index)
    names = getattr(reply.fields, "response_fields", None) or ["prompt"]
    return {
        "index": index,
        "content": content,
        "tokens": list(ids),
        "id_slot": answers.starts[index].slot,
        "stop": True,
        "model": served.name,
        "tokens_predicted": end.generated,
        "tokens_evaluated": len(prompt),
        "generation_settings": {
            **sampler_fields(served, reply.terms),
            "stream": reply.fields.stream,
            "timings_per_token": reply.fields.timings_per_token,
        },
        "prompt": served.spell(prompt) if "prompt" in names else None,
        "has_new_line": "\n" in text,
        "truncated": end.truncated,
        "stop_type": _STOPS[end.end],
        "stopping_word": end.stop or "",
        "tokens_cached": len(prompt) + max(end.generated - 1, 0),
        "timings": answers.timings[index].fields(),
        **({"cache": answers.explain_cache()} if reply.fields.explain_cache else {}),
    }


class LlamaReply(AnswerReply):
    """The reply of ``/completion``."""

    fields: Complete

    def __init__(self, served: ServedModel, fields: Complete, terms: Terms, prompts: Any) -> None:
        """Prepare the answers."""
        super().__init__(served, fields, terms, prompts)
        self._pieces: list[list[Piece]] = [[] for _ in range(self.answers.count)]
        self._texts = [""] * self.answers.count

    def handle(self, index: int, event: Piece | JobEnd) -> list[Any]:
        """Return the chunk of an event."""
        self.add(index, event)
        if isinstance(event, JobEnd):
            return [self._select(end_fields(self, index, self._texts[index], event.text, []))]
        chunk = self.chunk(index, event.text, [event.id])
        return [{**chunk, **self.times(index), **self._probabilities([event])}]

    def add(self, index: int, event: Piece | JobEnd) -> None:
        """Keep an event for the whole."""
        self._texts[index] += event.text
        if not isinstance(event, JobEnd):
            self._pieces[index].append(event)

    def whole(self) -> Any:
        """Return the answer, or a list of them."""
        answers = []
        for index, (text, pieces) in enumerate(zip(self._texts, self._pieces, strict=True)):
            ids = [piece.id for piece in pieces] if self.fields.return_tokens else []
            answer = {**end_fields(self, index, text, text, ids), **self._probabilities(pieces)}
            answers.append(self._select(answer))
        return answers[0] if len(answers) == 1 else answers

    def chunk(self, index: int, text: str = "", ids: Sequence[int] = ()) -> dict[str, Any]:
        """Return a chunk of one answer."""
        return {
            "index": index,
            "content": text,
            "tokens": list(ids),
            "stop": False,
            "id_slot": self.answers.starts[index].slot,
            "tokens_predicted": len(self._pieces[index]),
            "tokens_evaluated": len(self.answers.prompt(index)),
        }

    def _probabilities(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return how probable tokens were, and others in their place."""
        model, sampled = self.served.model, self.terms.sampled

        def row(token_id: int, raw: bytes, chance: float) -> dict[str, Any]:
            probability = math.exp(chance) if sampled else max(chance, _LEAST_LOGPROB)
            return {
                "id": token_id,
                "token": raw.decode("utf-8", "replace"),
                "bytes": list(raw),
                "prob" if sampled else "logprob": probability,
            }

        rows = []
        for piece in pieces:
            if piece.chances is not None:
                top = [
                    row(token_id, model.piece(token_id, special=True), chance)
                    for token_id, chance in piece.chances.top
                ]
                token = row(piece.id, piece.raw, piece.chances.logprob)
                rows.append({**token, "top_probs" if sampled else "top_logprobs": top})
        return {"completion_probabilities": rows} if rows else {}

    def _select(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that the request asks for, by the names that it has for them."""
        if not self.fields.response_fields:
            return answer
        fields = {}
        for name in self.fields.response_fields:
            value: Any = answer
            for key in name.split("/"):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                fields[name] = value
        return fields


async def completion(request: Request, served: ServedModel) -> Response:
    """Continue texts, in llama-server's shape."""
    body = await read_json(request)
    fields, sampler = read_with_sampler(Complete, body, served.settings.sampler, served.unknown)
    media = served.open_media()
    prompts = prompts_of(fields.prompt, media=media, scheduler=served.scheduler)
    served.scheduler.check(len(prompts) * fields.count, "prompt" if len(prompts) > 1 else "n")
    ids = [await prompt_ids(served, prompt, media) for prompt in prompts]
    return await _send_answers(request, served, fields, sampler, ids, media.chunks)


async def infill(request: Request, served: ServedModel) -> Response:
    """Fill a gap in a text, in llama-server's shape."""
    fim = Fim(served, suffix_first=served.settings.spm_infill)
    body = await read_json(request)
    fields, sampler = read_with_sampler(Infill, body, served.settings.sampler, served.unknown)
    limit = served.limit(fields.limit)
    ids = await fim.ids(
        fields.input_prefix, fields.input_suffix, fields.prompt, fields.input_extra, limit
    )
    return await _send_answers(request, served, fields, sampler, [ids])


async def _send_answers(
    request: Request,
    served: ServedModel,
    fields: Complete,
    sampler: SamplerSettings,
    ids: list[list[int]],
    chunks: Mapping[int, Chunk] = MappingProxyType({}),
) -> Response:
    sampler = await served.check_grammar(sampler)
    top = fields.n_probs or fields.logprobs or None
    terms = Terms(sampler, served.limit(fields.limit), fields.stops, top, chunks=chunks)
    reply = LlamaReply(served, fields, terms, ids)
    return await send_reply(request, reply, streams=fields.stream)


async def tokenize(request: Request, served: ServedModel) -> Response:
    """Return the tokens of a text."""
    fields = read_body(Tokenize, await read_json(request), served.unknown)
    prompt = prompt_of(fields.content, "content")
    ids = await prompt_ids(
        served, prompt, add_special=fields.add_special, parse_special=fields.parse_special
    )

    def answer() -> Response:
        return json_response({"tokens": _piece_fields(ids, served) if fields.with_pieces else ids})

    return await run_in_thread(answer, len(ids))


def _piece_fields(ids: list[int], served: ServedModel) -> list[dict[str, Any]]:
    tokens = []
    for token_id in ids:
        raw = served.model.piece(token_id, special=True)
        try:
            piece: str | list[int] = raw.decode()
        except UnicodeDecodeError:
            piece = list(raw)
        tokens.append({"id": token_id, "piece": piece})
    return tokens


async def detokenize(request: Request, served: ServedModel) -> Response:
    """Return the text of tokens."""
    fields = read_body(Detokenize, await read_json(request), served.unknown)

    def answer() -> Response:
        served.model.check_ids(fields.tokens)
        return json_response({"content": served.spell(fields.tokens, special=fields.special)})

    return await run_in_thread(answer, len(fields.tokens))


async def health(_: Request, pool: ModelPool) -> Response:
    """Say whether requests are answered."""
    is_open = pool.is_open
    return json_response({"status": "ok" if is_open else "ending"}, 200 if is_open else 503)


async def metrics(_: Request, pool: ModelPool) -> Response:
    """Return the counters."""
    if not pool.settings.metrics:
        raise Problem(501, "this server was started with --no-metrics")
    kind = "text/plain; version=0.0.4; charset=utf-8"
    response = Response(pool.metrics.text(), media_type=kind)
    # raw, for its capitals, which llama-server's readers look for
    response.raw_headers.append((b"Process-Start-Time-Unix", b"%d" % pool.created))
    return response


async def props(request: Request, pool: ModelPool) -> Response:
    """Return how the server was started, and what a model is; one that sleeps goes on sleeping."""
    model = pool.choose(request.query_params.get("model"))
    if model.served is None and model.properties:
        return json_response({**model.properties, "is_sleeping": True})
    async with pool.lend(model) as served:
        return json_response({**properties(served), "is_sleeping": False})


def properties(served: ServedModel) -> dict[str, Any]:
    """Return how a model is served, and what it is."""
    model, settings = served.model, served.settings

    def token(token_id: int) -> str:
        return served.spell([token_id]) if token_id >= 0 else ""

    fields = {
        "default_generation_settings": {
            "params": sampler_fields(served),
            "n_ctx": served.scheduler.n_slot,
        },
        "total_slots": len(served.scheduler.slots),
        "model_alias": served.name,
        "model_path": served.file_name,
        "modalities": served.modalities,
        "media_marker": PLACE,
        "endpoint_slots": settings.show_slots,
        "endpoint_props": False,
        "endpoint_metrics": settings.metrics,
        "ui": settings.webui,
        "chat_template": served.template,
        "bos_token": token(model.bos),
        "eos_token": token(model.eos),
        "build_info": served.fingerprint,
    }
    if served.tool_template not in ("", served.template):
        fields["chat_template_tool_use"] = served.tool_template
    if served.form is not None and not served.form.shows_tools:
        fields["tools_are_told_by"] = "mtkit"  # the template has no place for them
    return fields


async def slots(request: Request, pool: ModelPool) -> Response:
    """Return what the slots of a model do, never what they were asked; none of one that sleeps."""
    if not pool.settings.show_slots:
        raise Problem(501, "this server was started with --no-slots")
    served = pool.choose(request.query_params.get("model")).served
    if served is None:
        return json_response([])
    rows = [_slot_fields(slot, served) for slot in served.scheduler.slots]
    is_full = all(row["is_processing"] for row in rows)
    if is_full and request.query_params.get("fail_on_no_slot"):
        raise Problem(503, "no slot is free")
    return json_response(rows)


def _slot_fields(slot: Slot, served: ServedModel) -> dict[str, Any]:
    job, generated = slot.job, slot.generated
    fields: dict[str, Any] = {
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
        fields["drafting"] = figures
    return fields


_SLOT_NUMBER = re.compile("[0-9]{1,9}")
_SLOT_FILE_NAME = re.compile(r"(?!\.)[\w.+@=-]{1,200}")


async def change_slot(request: Request, served: ServedModel) -> Response:
    """Save, restore or erase what a slot remembers."""
    action = request.query_params.get("action", "")
    digits = request.path_params["slot"]
    if not _SLOT_NUMBER.fullmatch(digits):  # int() takes no more than 4,300 digits
        raise Problem(404, f"there is no slot {digits[:20]}")
    number = int(digits)
    if action == "erase":
        erased = await _run_on_slot(request, served, number, Slot.erase)
        return json_response({"id_slot": number, "n_erased": erased})
    if action not in ("save", "restore"):
        raise Problem(400, "action: is not save, restore or erase", field="action")
    fields = read_body(Saved, await read_json(request), served.unknown)
    path = _slot_path(served, fields.filename)
    saves, start = action == "save", time.perf_counter()
    served.scheduler.check_slot(number)
    async with served.slot_files[number]:  # one at a time: it holds all of the slot in memory
        if saves:
            tokens, parts = await _run_on_slot(request, served, number, Slot.save)
            size = await asyncio.to_thread(write_slot_file, served.model, path, parts)
        else:
            data = await asyncio.to_thread(read_slot_file, served.model, path)
            size = len(data)
            tokens = await _run_on_slot(request, served, number, lambda slot: slot.restore(data))
    ms = round(1e3 * (time.perf_counter() - start), 3)
    return json_response(
        {
            "id_slot": number,
            "filename": fields.filename,
            "n_saved" if saves else "n_restored": tokens,
            "n_written" if saves else "n_read": size,
            "timings": {f"{action}_ms": ms},
        }
    )


def _slot_path(served: ServedModel, name: str) -> str:
    folder = served.settings.slot_save_path
    if folder is None:
        raise Problem(501, "start the server with --slot-save-path to save slots")
    if not _SLOT_FILE_NAME.fullmatch(name):
        raise Problem(
            400, "filename: is not the name of a file, without a folder", field="filename"
        )
    return os.path.join(folder, name)


async def _run_on_slot(
    request: Request, served: ServedModel, number: int, work: Callable[[Slot], T]
) -> T:
    """Have something done once a slot is free."""
    future = asyncio.wrap_future(served.scheduler.run_on_slot(number, work))
    value: T = await while_connected(request.receive, future)
    return value


async def list_adapters(_: Request, served: ServedModel) -> Response:
    """Return the adapters."""
    files = [os.path.basename(parse_adapter(text)[0]) for text in served.settings.lora]
    scales = served.model.adapter_scales
    return json_response([
        {"id": place, "path": file, "scale": scale}
        for place, (file, scale) in enumerate(zip(files, scales, strict=True))
    ])  # fmt: skip


async def scale_adapters(request: Request, served: ServedModel) -> Response:
    """Set the scales of adapters, for all answers from now on; the others get 0."""
    body = await read_json(request, list)
    try:
        rows = msgspec.convert(body, list[Scale])
    except msgspec.ValidationError as error:
        raise validation_problem(str(error)) from None
    scales = {row.id: row.scale for row in rows}
    await asyncio.wrap_future(served.scheduler.scale_adapters(scales))
    return json_response({"success": True})
