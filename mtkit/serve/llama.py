"""llama-server's own routes that generate: ``/completion``, ``/infill``."""

from __future__ import annotations

from mtkit.serve.bodies.fields import MOST_BODY
from mtkit.serve.bodies.llama import Complete, Infill
from mtkit.serve.bodies.sampler import read_with_sampler
from mtkit.serve.fim import Fim
from mtkit.serve.job import Terms
from mtkit.serve.plain import Plain
from mtkit.serve.prompts import prompt_ids, prompts_of
from mtkit.serve.replies import body_of
from mtkit.serve.shapes import answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.served import Served
    from mtkit.settings import SamplerSettings


async def completion(request: Request, served: Served) -> Response:
    """Continue texts, in llama-server's shape."""
    body = await body_of(request, MOST_BODY)
    asked, sampler = read_with_sampler(Complete, body, served.settings.sampler, served.unknown)
    prompts = prompts_of(asked.prompt)
    served.scheduler.check(len(prompts) * asked.count, "prompt" if len(prompts) > 1 else "n")
    ids = [await prompt_ids(served, one) for one in prompts]
    return await _answer(request, served, asked, sampler, ids)


async def infill(request: Request, served: Served) -> Response:
    """Fill a gap in a text, in llama-server's shape."""
    fim = Fim(served, suffix_first=served.settings.spm_infill)
    body = await body_of(request, MOST_BODY)
    asked, sampler = read_with_sampler(Infill, body, served.settings.sampler, served.unknown)
    limit = served.limit(asked.limit)
    ids = await fim.ids(
        asked.input_prefix, asked.input_suffix, asked.prompt, asked.input_extra, limit
    )
    return await _answer(request, served, asked, sampler, [ids])


async def _answer(
    request: Request,
    served: Served,
    asked: Complete,
    sampler: SamplerSettings,
    ids: list[list[int]],
) -> Response:
    top = asked.n_probs or asked.logprobs
    terms = Terms(await served.held(sampler), served.limit(asked.limit), asked.stops, top or None)
    return await answer(request, Plain(served, asked, terms, ids))
