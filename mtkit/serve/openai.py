"""OpenAI's routes: ``/v1/models``, ``/v1/completions``, ``/v1/chat/completions``.

Source: the reference of OpenAI's API, and what the ``openai`` package reads.
"""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.serve.bodies.fields import MOST_BODY
from mtkit.serve.bodies.openai import Chat, Completion, schema_of, values_of
from mtkit.serve.bodies.sampler import read_with_sampler
from mtkit.serve.choices import Messages, Texts
from mtkit.serve.fim import Fim
from mtkit.serve.job import Terms
from mtkit.serve.messages import continuing, from_openai, tools_from_openai
from mtkit.serve.prompts import prompt_ids, prompts_of, spelled, text_only
from mtkit.serve.replies import Problem, as_json, body_of
from mtkit.serve.shapes import answer
from mtkit.serve.tools import Tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.served import Served

_TOKENS = 16
"""Of a completion where nothing else is said; OpenAI's."""


async def models(_: Request, served: Served) -> Response:
    """List the one model."""
    return as_json({"object": "list", "data": [_card(served)]})


async def model(request: Request, served: Served) -> Response:
    """Describe the model."""
    if request.path_params["name"] not in {served.name, *served.aliases}:
        raise Problem(404, "there is no such model", code="model_not_found")
    return as_json(_card(served))


def _card(served: Served) -> dict[str, Any]:
    model = served.model
    return {
        "id": served.name, "object": "model", "created": served.created, "owned_by": "mtkit",
        "aliases": served.aliases, "tags": served.tags, "context_length": served.scheduler.n_slot,
        "meta": {
            "n_vocab": model.n_vocab, "n_ctx_train": model.n_ctx_train, "n_embd": model.n_embd,
        },
    }  # fmt: skip


async def completions(request: Request, served: Served) -> Response:
    """Continue texts."""
    body = await body_of(request, MOST_BODY)
    asked, sampler = read_with_sampler(Completion, body, served.settings.sampler, served.unknown)
    prompts = prompts_of(asked.prompt)
    served.scheduler.check(len(prompts) * asked.count, "prompt" if len(prompts) > 1 else "n")
    limit = served.limit(asked.limit, _TOKENS)
    if asked.suffix:
        fim = Fim(served, suffix_first=served.settings.spm_infill)
        ids = [await fim.ids(text_only(one), asked.suffix, limit=limit) for one in prompts]
    else:
        ids = [await prompt_ids(served, one) for one in prompts]
    if asked.echo and asked.logprobs is not None:
        raise Problem(400, "echo: the prompt's own probabilities are not told", field="echo")
    echoed = [spelled(served.model, one) for one in ids] if asked.echo else []
    terms = Terms(await served.held(sampler), limit, asked.stops, asked.logprobs)
    return await answer(request, Texts(served, asked, terms, ids, echoed))


async def chat(request: Request, served: Served) -> Response:
    """Answer a conversation."""
    body = await body_of(request, MOST_BODY)
    asked, sampler = read_with_sampler(Chat, body, served.settings.sampler, served.unknown)
    schema = schema_of(asked.response_format, body)
    if schema is not None:
        sampler = replace(sampler, grammar=None, json_schema=schema)
    tools, given = conversation(asked, served)
    sampler = await served.held(await tools.forcing(sampler))
    ids = await served.chat_ids(**given)
    if asked.top_logprobs and not asked.logprobs:
        raise Problem(400, "top_logprobs: needs logprobs to be true", field="top_logprobs")
    top = asked.top_logprobs if asked.logprobs else None
    shown = served.markers if tools.shows else frozenset()
    limit, budget = served.limit(asked.limit), served.budget(ids)
    terms = Terms(sampler, limit, asked.stops, top, shown, budget=budget)
    return await answer(request, Messages(served, asked, terms, [ids], tools))


async def input_tokens(request: Request, served: Served) -> Response:
    """Count the tokens of a conversation."""
    _, given = conversation(await _chat_of(request, served), served)
    ids = await served.chat_ids(**given)
    return as_json({"object": "response.input_tokens", "input_tokens": len(ids)})


async def apply_template(request: Request, served: Served) -> Response:
    """Return what the chat template makes of a conversation."""
    _, given = conversation(await _chat_of(request, served), served)
    return as_json({"prompt": await served.chat_text(**given)})


async def _chat_of(request: Request, served: Served) -> Chat:
    body = await body_of(request, MOST_BODY)
    return read_with_sampler(Chat, body, served.settings.sampler, served.unknown)[0]


def conversation(asked: Chat, served: Served) -> tuple[Tools, dict[str, Any]]:
    """Return the tools of a conversation, and what ``Served.chat_ids`` takes.

    Raises:
        UsageError: It makes no sense.
    """
    given, choice, several = asked.tools, asked.tool_choice, asked.parallel_tool_calls
    if asked.functions:  # what OpenAI's API had before there were tools
        given = [*given, *({"type": "function", "function": one} for one in asked.functions)]
        choice, several = asked.function_call, False
    tools = Tools(served.form, tools_from_openai(given), choice, several=several)
    messages = from_openai(asked.messages)
    ending = continuing(
        messages,
        asked.continue_final_message,
        asked.add_generation_prompt,
        prefill=served.settings.prefill_assistant,
    )
    values = values_of(asked)
    return tools, {"messages": messages, "tools": tools.given, "values": values, **ending}
