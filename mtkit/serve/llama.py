"""llama-server's own routes: ``/completion``, ``/infill``, tokens, slots, adapters, what it tells.

Source: llama.cpp, tools/server/README.md for the names; tools/server/server-task.cpp
(``to_json_non_oaicompat``) for the shape of answers.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import time

import msgspec
from starlette.responses import Response

from mtkit.llm.header import parse_adapter
from mtkit.serve.answer import Shape, send_shape, while_connected
from mtkit.serve.bodies import Complete, Detokenize, Infill, Saved, Scale, Tokenize
from mtkit.serve.job import JobEnd, JobProgress, Terms
from mtkit.serve.model import SHORT_TEXT, run_in_thread
from mtkit.serve.prompt import Fim, prompt_ids, prompt_of, prompts_of, spell_tokens
from mtkit.serve.reply import Problem, json_response, read_json
from mtkit.serve.request import MOST_BODY, read_body, read_with_sampler, validation_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from starlette.requests import Request

    from mtkit.serve.job import Piece
    from mtkit.serve.model import ServedModel
    from mtkit.serve.slot import Slot
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
"""What it can set besides, and what it is here."""
_NO_SEED = (1 << 32) - 1
_LEAST_LOGPROB = float.fromhex("-0x1.fffffep+127")
"""In the place of the logarithm of 0: the least number of 32 bits."""


def sampler_fields(served: ServedModel, terms: Terms | None = None) -> dict[str, Any]:
    """Return how tokens are chosen; of a request, or where one does not say."""
    sampler = terms.sampler if terms else served.settings.sampler
    limit = terms.limit if terms else served.settings.n_predict
    limit = -1 if limit is None else limit
    found: dict[str, Any] = {name: getattr(sampler, ours) for name, ours in _SETTING_NAMES.items()}
    found |= {
        **_FIXED_SETTINGS,
        "seed": _NO_SEED if sampler.seed is None else sampler.seed,
        "max_tokens": limit,
        "n_predict": limit,
        "n_keep": terms.keep if terms else 0,
        "n_probs": (terms.top or 0) if terms else 0,
        "post_sampling_probs": terms.sampled if terms else False,
    }
    if terms:
        found |= {
            "stop": list(terms.stops),
            "logit_bias": _bias_fields(served, sampler),
            "grammar": sampler.grammar or "",
        }
    return found


def _bias_fields(served: ServedModel, sampler: SamplerSettings) -> list[dict[str, Any]]:
    model = served.model
    pairs: list[tuple[int, float]] = []
    for name, bias in sampler.logit_bias:
        ids = [name] if isinstance(name, int) else model.tokenize(name, add_special=False)
        pairs += [(token_id, bias) for token_id in ids]
    if sampler.ignore_eos:
        pairs += [(token_id, float("-inf")) for token_id in sorted(model.eog_ids)]
    return [{"bias": bias, "token": token_id} for token_id, bias in pairs]


def end_fields(
    shape: Shape, index: int, text: str, said: str, ids: Sequence[int]
) -> dict[str, Any]:
    """Return what is told at the end of an answer."""
    answers, served = shape.answers, shape.served
    done, prompt = answers.done[index], answers.prompt(index)
    fields = getattr(shape.asked, "response_fields", None) or ["prompt"]
    return {
        "index": index,
        "content": said,
        "tokens": list(ids),
        "id_slot": answers.begun[index].slot,
        "stop": True,
        "model": served.name,
        "tokens_predicted": done.generated,
        "tokens_evaluated": len(prompt),
        "generation_settings": {
            **sampler_fields(served, shape.terms),
            "stream": shape.asked.stream,
            "timings_per_token": shape.asked.timings_per_token,
        },
        "prompt": spell_tokens(served.model, prompt) if "prompt" in fields else None,
        "has_new_line": "\n" in text,
        "truncated": done.truncated,
        "stop_type": _STOPS[done.end],
        "stopping_word": done.stop or "",
        "tokens_cached": len(prompt) + max(done.generated - 1, 0),
        "timings": answers.timings[index].told(),
        **({"cache": answers.explanation()} if shape.asked.explain_cache else {}),
    }


class LlamaShape(Shape):
    """The shape of ``/completion``."""

    asked: Complete

    def __init__(self, served: ServedModel, asked: Complete, terms: Terms, prompts: Any) -> None:
        """Prepare the answers, as ``Shape``."""
        super().__init__(served, asked, terms, prompts)
        self._pieces: list[list[Piece]] = [[] for _ in range(self.answers.count)]
        self._texts = [""] * self.answers.count

    def told(self, index: int, told: JobProgress | Piece | JobEnd) -> list[Any]:
        """Return the event of what was told."""
        if isinstance(told, JobProgress):
            return [{**self._part(index, "", []), **self.progress(index, told)}]
        self._texts[index] += told.text
        if isinstance(told, JobEnd):
            return [self._fields(end_fields(self, index, self._texts[index], told.text, []))]
        self._pieces[index].append(told)
        part = self._part(index, told.text, [told.id])
        return [{**part, **self.timed(index), **self._probabilities([told])}]

    def keep(self, index: int, told: JobProgress | Piece | JobEnd) -> None:
        """Remember what was told."""
        if isinstance(told, JobProgress):
            return
        self._texts[index] += told.text
        if not isinstance(told, JobEnd):
            self._pieces[index].append(told)

    def whole(self) -> Any:
        """Return the answer, or a list of them."""
        found = []
        for index, (text, pieces) in enumerate(zip(self._texts, self._pieces, strict=True)):
            ids = [piece.id for piece in pieces] if self.asked.return_tokens else []
            one = {**end_fields(self, index, text, text, ids), **self._probabilities(pieces)}
            found.append(self._fields(one))
        return found[0] if len(found) == 1 else found

    def _part(self, index: int, text: str, ids: list[int]) -> dict[str, Any]:
        return {
            "index": index,
            "content": text,
            "tokens": ids,
            "stop": False,
            "id_slot": self.answers.begun[index].slot,
            "tokens_predicted": len(self._pieces[index]),
            "tokens_evaluated": len(self.answers.prompt(index)),
        }

    def _probabilities(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return how probable tokens were, and others in their place."""
        model, sampled = self.served.model, self.terms.sampled

        def named(token_id: int, raw: bytes, chance: float) -> dict[str, Any]:
            one: dict[str, Any] = {"id": token_id, "token": raw.decode("utf-8", "replace")}
            one["bytes"] = list(raw)
            one["prob" if sampled else "logprob"] = (
                math.exp(chance) if sampled else max(chance, _LEAST_LOGPROB)
            )
            return one

        found = []
        for piece in pieces:
            if piece.chances is not None:
                top = [
                    named(token_id, model.piece(token_id, special=True), chance)
                    for token_id, chance in piece.chances.top
                ]
                one = named(piece.id, piece.raw, piece.chances.logprob)
                found.append({**one, "top_probs" if sampled else "top_logprobs": top})
        return {"completion_probabilities": found} if found else {}

    def _fields(self, one: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that are asked for, by the names that the request has."""
        if not self.asked.response_fields:
            return one
        found = {}
        for name in self.asked.response_fields:
            value: Any = one
            for key in name.split("/"):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                found[name] = value
        return found


async def completion(request: Request, served: ServedModel) -> Response:
    """Continue texts, in llama-server's shape."""
    body = await read_json(request, MOST_BODY)
    asked, sampler = read_with_sampler(Complete, body, served.settings.sampler, served.unknown)
    prompts = prompts_of(asked.prompt)
    served.scheduler.check(len(prompts) * asked.count, "prompt" if len(prompts) > 1 else "n")
    ids = [await prompt_ids(served, one) for one in prompts]
    return await _send_answers(request, served, asked, sampler, ids)


async def infill(request: Request, served: ServedModel) -> Response:
    """Fill a gap in a text, in llama-server's shape."""
    fim = Fim(served, suffix_first=served.settings.spm_infill)
    body = await read_json(request, MOST_BODY)
    asked, sampler = read_with_sampler(Infill, body, served.settings.sampler, served.unknown)
    limit = served.limit(asked.limit)
    ids = await fim.ids(
        asked.input_prefix, asked.input_suffix, asked.prompt, asked.input_extra, limit
    )
    return await _send_answers(request, served, asked, sampler, [ids])


async def _send_answers(
    request: Request,
    served: ServedModel,
    asked: Complete,
    sampler: SamplerSettings,
    ids: list[list[int]],
) -> Response:
    top = asked.n_probs or asked.logprobs
    terms = Terms(await served.held(sampler), served.limit(asked.limit), asked.stops, top or None)
    return await send_shape(request, LlamaShape(served, asked, terms, ids))


async def tokenize(request: Request, served: ServedModel) -> Response:
    """Return the tokens of a text."""
    asked = read_body(Tokenize, await read_json(request, MOST_BODY), served.unknown)
    prompt = prompt_of(asked.content, "content")
    ids = await prompt_ids(
        served, prompt, add_special=asked.add_special, parse_special=asked.parse_special
    )

    def answer() -> Response:
        return json_response({"tokens": _piece_fields(ids, served) if asked.with_pieces else ids})

    return await run_in_thread(answer, is_short=len(ids) < SHORT_TEXT)


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
    asked = read_body(Detokenize, await read_json(request, MOST_BODY), served.unknown)

    def answer() -> Response:
        served.model.check_ids(asked.tokens)
        piece = served.model.piece
        raw = b"".join([piece(token_id, special=asked.special) for token_id in asked.tokens])
        return json_response({"content": raw.decode("utf-8", "replace")})

    return await run_in_thread(answer, is_short=len(asked.tokens) < SHORT_TEXT)


async def health(_: Request, served: ServedModel) -> Response:
    """Say whether requests are answered."""
    is_open = served.scheduler.is_open
    return json_response({"status": "ok" if is_open else "ending"}, 200 if is_open else 503)


async def metrics(_: Request, served: ServedModel) -> Response:
    """Return the counters."""
    if not served.settings.metrics:
        raise Problem(501, "this server was started with --no-metrics")
    kind = "text/plain; version=0.0.4; charset=utf-8"
    found = Response(served.metrics.text(), media_type=kind)
    begun = b"%d" % served.created  # in capitals, which llama-server's readers look for
    found.raw_headers.append((b"Process-Start-Time-Unix", begun))
    return found


async def props(_: Request, served: ServedModel) -> Response:
    """Return how the server was started, and what its model is."""
    model, settings = served.model, served.settings

    def token(token_id: int) -> str:
        return spell_tokens(model, [token_id]) if token_id >= 0 else ""

    found = {
        "default_generation_settings": {
            "params": sampler_fields(served),
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
    return json_response(found)


async def slots(request: Request, served: ServedModel) -> Response:
    """Return what the slots do; never what they were asked."""
    if not served.settings.show_slots:
        raise Problem(501, "this server was started with --no-slots")
    found = [_slot_fields(slot, served) for slot in served.scheduler.slots]
    is_full = all(one["is_processing"] for one in found)
    if is_full and request.query_params.get("fail_on_no_slot"):
        raise Problem(503, "no slot is free")
    return json_response(found)


def _slot_fields(slot: Slot, served: ServedModel) -> dict[str, Any]:
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


_SLOT_FILE_NAME = re.compile(r"(?!\.)[\w.+@=-]{1,200}")


async def change_slot(request: Request, served: ServedModel) -> Response:
    """Save, restore or erase what a slot remembers."""
    action = request.query_params.get("action", "")
    number = request.path_params["slot"]
    if action == "erase":
        erased, _ = await _run_on_slot(request, served, number, lambda slot: slot.erase())
        return json_response({"id_slot": number, "n_erased": erased})
    if action not in ("save", "restore"):
        raise Problem(400, "action: is not save, restore or erase", field="action")
    asked = read_body(Saved, await read_json(request, MOST_BODY), served.unknown)
    path = _slot_path(served, asked.filename)
    saves = action == "save"
    (tokens, size), took = await _run_on_slot(
        request, served, number, lambda slot: slot.save(path) if saves else slot.restore(path)
    )
    return json_response(
        {
            "id_slot": number,
            "filename": asked.filename,
            "n_saved" if saves else "n_restored": tokens,
            "n_written" if saves else "n_read": size,
            "timings": {f"{action}_ms": took},
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
) -> tuple[T, float]:
    """Have something done once a slot is free; returns the result, and the milliseconds."""

    def timed(slot: Slot) -> tuple[Any, float]:
        begun = time.perf_counter()
        return work(slot), round(1e3 * (time.perf_counter() - begun), 3)

    future = asyncio.wrap_future(served.scheduler.errand(number, timed))
    found: tuple[T, float] = await while_connected(request.receive, future)
    return found


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
    body = await read_json(request, MOST_BODY, list)
    try:
        asked = msgspec.convert(body, list[Scale])
    except msgspec.ValidationError as error:
        raise validation_problem(str(error)) from None
    scales = {one.id: one.scale for one in asked}
    await asyncio.wrap_future(served.scheduler.scale_adapters(scales))
    return json_response({"success": True})
