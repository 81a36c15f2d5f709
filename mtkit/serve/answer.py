"""The answers to one request: jobs given to the scheduler, and what they tell sent to the client.

``Answers`` brings what the jobs tell to the event loop, ``Shape`` says it in the words of the API
that was asked, whole or as events, and nothing goes to a client that has left.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress

from starlette.responses import Response

from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.serve.job import Job, JobEnd, JobFailure, JobProgress, JobStart, Piece, Timings
from mtkit.serve.reply import ClientGone, error_body, json_response, problem_of, sse_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from typing import Any

    from starlette.requests import Request

    from mtkit.serve.bodies import Answer
    from mtkit.serve.job import Terms
    from mtkit.serve.model import ServedModel


class Answers:
    """The answers to one request; ``cancel`` them when nobody waits any more."""

    def __init__(
        self,
        served: ServedModel,
        prompts: Sequence[list[int]],
        terms: Terms,
        n: int = 1,
        *,
        timed: bool = False,
    ) -> None:
        """Prepare the jobs.

        Args:
            prompts: Each is answered ``n`` times.
            terms: How; of several answers each has a seed of its own.
            timed: The times are kept token by token, not only at the end.
        """
        self._served, self._prompts = served, prompts
        if not served.generates:
            what = f"{served.name} makes vectors of texts; it does not continue them"
            raise UnsupportedError(what)
        self.count = len(prompts) * n
        served.scheduler.check(self.count)
        self.begun: dict[int, JobStart] = {}
        self.done: dict[int, JobEnd] = {}
        self._told: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        self._started = time.perf_counter()
        self._first_token = 0.0
        self._is_whole = False
        if terms.speculative and not served.scheduler.drafts:
            raise UsageError(
                "nothing drafts here", field="speculative",
                hint="the server has to be started with --draft or --draft-lookup",
            )  # fmt: skip
        self._timed = timed
        self.timings = [Timings(len(prompts[index // n])) for index in range(self.count)]
        self._jobs = []
        for index in range(self.count):
            ids = prompts[index // n]
            served.model.check_ids(ids)
            room = served.scheduler.room(len(ids))
            seed, own = terms.sampler.seed, terms
            if seed is not None:
                seed = (seed + index % n) % (1 << 32)
                own = replace(terms, sampler=replace(terms.sampler, seed=seed))
            most = room if terms.limit is None else terms.limit
            if not served.scheduler.shifts:
                most = min(most, room)
            self._jobs.append(Job(ids, own, most, self._emit(index)))

    def _emit(self, index: int) -> Callable[[Any], None]:
        posts, put = self._served.posts, self._told.put_nowait
        goes_on = False

        def emit(told: Any) -> None:
            nonlocal goes_on
            before, goes_on = goes_on, isinstance(told, Piece)
            if goes_on and not self._first_token:
                self._first_token = time.perf_counter()
            urgent = not (before and goes_on)
            awaited = True
            if self._is_whole:
                urgent = awaited = isinstance(told, (JobEnd, JobFailure))
            posts.add(put, (index, told), urgent=urgent, awaited=awaited)

        return emit

    def start(self, *, whole: bool = False) -> Awaitable[None]:
        """Give the jobs to the scheduler; what is returned waits until one begins.

        Args:
            whole: Nobody waits for single tokens; one that has begun may be told at its end.
        """
        self._is_whole = whole
        self._served.posts.attach()
        self._served.scheduler.submit(self._jobs)
        return self._first()

    async def _first(self) -> None:
        index, told = await self._told.get()
        if isinstance(told, JobFailure):
            raise told.error
        self._begin(index, told)  # of a job the first that is told, if it does not fail

    def _begin(self, index: int, told: JobStart) -> None:
        self.begun[index] = told
        self.timings[index].see(told)

    async def events(self) -> AsyncGenerator[tuple[int, Piece | JobEnd], None]:
        """Yield tokens and ends, each with the number of its answer."""
        async with aclosing(self.with_progress()) as events:
            async for index, told in events:
                if not isinstance(told, JobProgress):
                    yield index, told

    async def with_progress(self) -> AsyncGenerator[tuple[int, JobProgress | Piece | JobEnd], None]:
        """Yield the same, and before it how far the prompts are, where that is asked for."""
        metrics, seen = self._served.metrics, False
        while len(self.done) < self.count:
            index, told = await self._told.get()
            if isinstance(told, JobFailure):
                self._ended(index, "error")
                raise told.error
            if isinstance(told, JobStart):
                self._begin(index, told)
                continue
            if self._timed or not isinstance(told, Piece):
                self.timings[index].see(told)
            if isinstance(told, JobProgress):
                yield index, told
                continue
            if not seen:
                seen = True
                metrics.first((self._first_token or time.perf_counter()) - self._started)
            if isinstance(told, JobEnd):
                self.done[index] = told
                metrics.answer(len(self._jobs[index].ids), self.begun[index].cached, told)
            yield index, told

    def has_more(self) -> bool:
        """Whether ``events`` does not have to wait: something was told, or all has been."""
        return len(self.done) == self.count or not self._told.empty()

    def cancel(self) -> None:
        """End what still runs."""
        for index in range(len(self._jobs)):
            self._ended(index, "cancelled")

    def _ended(self, index: int, end: str) -> None:
        job = self._jobs[index]
        if not job.cancelled and index not in self.done:
            self._served.metrics.ended(end)
        job.cancelled = True

    def prompt(self, index: int) -> list[int]:
        """Return the prompt of an answer."""
        return self._prompts[index * len(self._prompts) // self.count]

    # -- figures

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts, each counted once."""
        return sum(map(len, self._prompts))

    @property
    def cached(self) -> int:
        """Tokens of the prompts that did not have to be computed."""
        n = self.count // len(self._prompts)
        return sum(begun.cached for index, begun in self.begun.items() if index % n == 0)

    @property
    def generated(self) -> int:
        """Tokens of all answers."""
        return sum(done.generated for done in self.done.values())

    def explanation(self) -> list[dict[str, Any]]:
        """Return what each answer found in its slot, and which token broke it."""
        piece = self._served.model.piece

        def named(token_id: int | None) -> dict[str, Any] | None:
            if token_id is None:
                return None
            text = piece(token_id, special=True).decode("utf-8", "replace")
            return {"id": token_id, "text": text}

        return [
            {
                "choice": index,
                "slot": begun.slot,
                "cached_tokens": begun.cached,
                "broken_at": begun.broken.position,
                "cached": named(begun.broken.cached),
                "prompt": named(begun.broken.prompt),
            }
            for index, begun in sorted(self.begun.items())
        ]


async def while_connected(receive: Callable[[], Awaitable[Any]], work: Awaitable[Any]) -> Any:
    """Do some work as long as the client is there."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientGone
        return doing.result()
    finally:
        for task in (doing, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


class Events(Response):
    """An answer of server-sent events; ends with an event of its own where one fails."""

    media_type = "text/event-stream"

    def __init__(
        self,
        request: Request,
        answers: Answers,
        chunks: AsyncGenerator[bytes, None],
        last: bytes,
    ) -> None:
        """Take the events.

        Args:
            answers: What they tell; cancelled in any case, also where not one event was asked for.
        """
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._path, self._answers = request.url.path, answers
        self._chunks, self._last = chunks, last

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002
        """Send the events until they end or the client leaves."""

        async def write() -> None:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            parts: list[bytes] = []
            try:
                async for chunk in self._chunks:
                    parts.append(chunk)
                    if not self._answers.has_more():  # what is there at once is sent at once
                        body, parts = b"".join(parts), []
                        await send({"type": "http.response.body", "body": body, "more_body": True})
            except Exception as error:  # noqa: BLE001  the status is sent: it is told as an event
                parts += sse_event(error_body(self._path, problem_of(error)), "error"), self._last
            body = b"".join(parts)
            await send({"type": "http.response.body", "body": body, "more_body": False})

        try:
            with suppress(ClientGone):
                await while_connected(receive, write())
        finally:
            self._answers.cancel()
            await self._chunks.aclose()


async def send_answers(
    request: Request,
    answers: Answers,
    chunks: AsyncGenerator[bytes, None] | None,
    whole: Callable[[], Awaitable[dict[str, Any]]],
    last: bytes = b"",
) -> Response:
    """Have a request answered.

    Args:
        chunks: The events of a stream; None: all is sent at once.
    """
    try:
        await while_connected(request.receive, answers.start(whole=chunks is None))
        if chunks is not None:
            return Events(request, answers, chunks, last)
        return json_response(await while_connected(request.receive, whole()))
    except BaseException:
        answers.cancel()
        raise


_LAST_EVENT = b"data: [DONE]\n\n"
_WAIT_COMMENT = b":\n\n"
"""A comment, so that a long prompt is not computed in silence: clients would give up."""


class Shape:
    """The shape of the answers to one request."""

    def __init__(
        self, served: ServedModel, asked: Answer, terms: Terms, prompts: Sequence[list[int]]
    ) -> None:
        """Prepare the answers."""
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

    def told(self, index: int, told: JobProgress | Piece | JobEnd) -> list[Any]:
        """Return the events of what was told of an answer."""
        raise NotImplementedError

    def closing(self) -> list[Any]:
        """Return the events behind all answers."""
        return []

    def keep(self, index: int, told: JobProgress | Piece | JobEnd) -> None:
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

    def progress(self, index: int, told: JobProgress) -> dict[str, Any]:
        """Return how far a prompt is."""
        return {"prompt_progress": told.shown(), **self.timed(index)}


async def send_shape(request: Request, shape: Shape) -> Response:
    """Have a request answered, as a stream if it asks for one."""
    answers = shape.answers
    chunks = _shape_events(shape) if shape.asked.stream else None
    return await send_answers(request, answers, chunks, lambda: _whole_answer(shape), _LAST_EVENT)


async def _shape_events(shape: Shape) -> AsyncGenerator[bytes, None]:
    for value in shape.opening():
        yield sse_event(value)
    async with aclosing(shape.answers.with_progress()) as events:
        async for index, told in events:
            if isinstance(told, JobProgress) and not shape.asked.return_progress:
                if told.cached < told.processed < told.total:
                    yield _WAIT_COMMENT
                continue
            for value in shape.told(index, told):
                yield sse_event(value)
    for value in shape.closing():
        yield sse_event(value)
    yield _LAST_EVENT


async def _whole_answer(shape: Shape) -> Any:
    async with aclosing(shape.answers.events()) as events:
        async for index, told in events:
            shape.keep(index, told)
    return shape.whole()
