"""How answers are told: as events, or all at once, in the shape of the API that was asked."""

from __future__ import annotations

from contextlib import aclosing

from mtkit.base.record import replace
from mtkit.serve.answers import Answers
from mtkit.serve.job import Progress
from mtkit.serve.replies import event
from mtkit.serve.sending import reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.bodies.openai import Answer
    from mtkit.serve.job import Done, Piece, Terms
    from mtkit.serve.served import Served

_LAST = b"data: [DONE]\n\n"
_WAIT = b":\n\n"
"""A comment, so that a long prompt is not computed in silence: clients would give up."""


class Shape:
    """The shape of the answers to one request.

    Attributes:
        served: What answers.
        asked: The body of the request.
        terms: How it is answered.
        answers: The answers.
    """

    def __init__(
        self, served: Served, asked: Answer, terms: Terms, prompts: Sequence[list[int]]
    ) -> None:
        """Prepare the answers.

        Args:
            served: What answers.
            asked: The body of the request; it is answered as often as it says.
            terms: How.
            prompts: The prompts.

        Raises:
            UsageError, ResourceError: As ``Answers``.
        """
        slot = asked.id_slot if asked.id_slot >= 0 else None
        self.served, self.asked = served, asked
        self.terms = replace(
            terms,
            speculative=asked.speculative,
            sampled=asked.post_sampling_probs,
            slot=slot,
            cached=asked.cache_prompt,
            keep=asked.n_keep,
            seconds=asked.t_max_predict_ms / 1e3 if asked.t_max_predict_ms > 0 else None,
            indent=asked.n_indent,
            progress=asked.stream,
        )
        timed = asked.timings_per_token and asked.stream
        self.answers = Answers(served, prompts, self.terms, asked.count, timed=timed)

    def opening(self) -> list[Any]:
        """Return the events before anything is told."""
        return []

    def told(self, index: int, told: Progress | Piece | Done) -> list[Any]:
        """Return the events of what was told of an answer."""
        raise NotImplementedError

    def closing(self) -> list[Any]:
        """Return the events behind all answers."""
        return []

    def keep(self, index: int, told: Progress | Piece | Done) -> None:
        """Remember what was told of an answer, for the whole."""
        raise NotImplementedError

    def whole(self) -> Any:
        """Return all answers."""
        raise NotImplementedError

    def timed(self, index: int) -> dict[str, Any]:
        """Return the times of an answer so far, if they are asked for."""
        if not self.asked.timings_per_token:
            return {}
        return {"timings": self.answers.timings[index].told()}

    def progress(self, index: int, told: Progress) -> dict[str, Any]:
        """Return how far a prompt is."""
        return {"prompt_progress": told.shown(), **self.timed(index)}


async def answer(request: Request, shape: Shape) -> Response:
    """Have a request answered, as a stream if it asks for one."""
    answers = shape.answers
    chunks = _events(shape) if shape.asked.stream else None
    return await reply(request, answers, chunks, lambda: _whole(shape), _LAST)


async def _events(shape: Shape) -> AsyncGenerator[bytes, None]:
    for value in shape.opening():
        yield event(value)
    async with aclosing(shape.answers.with_progress()) as events:
        async for index, told in events:
            if isinstance(told, Progress) and not shape.asked.return_progress:
                if told.cached < told.processed < told.total:
                    yield _WAIT
                continue
            for value in shape.told(index, told):
                yield event(value)
    for value in shape.closing():
        yield event(value)
    yield _LAST


async def _whole(shape: Shape) -> Any:
    async with aclosing(shape.answers.events()) as events:
        async for index, told in events:
            shape.keep(index, told)
    return shape.whole()
