"""The answers to one request: jobs for the scheduler, and the reply that their events become.

``Answers`` brings the jobs' events to the event loop; a ``Reply`` puts them into the shape of an
API, whole or as server-sent events; nothing goes to a client that has left.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress

from starlette.responses import Response

from mtkit.base.record import Record, replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.llama.media import text_ids
from mtkit.serve.job import (
    Echo,
    Job,
    JobEnd,
    JobFailure,
    JobProgress,
    JobStart,
    Piece,
    ServerClosed,
    Timings,
)
from mtkit.serve.reply import (
    ClientGone,
    error_body,
    json_response,
    problem_of,
    sse_event,
    while_connected,
)
from mtkit.serve.request import long_texts, room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
    from typing import Any

    from starlette.requests import Request

    from mtkit.serve.bodies import AnswerRequest
    from mtkit.serve.job import Terms
    from mtkit.serve.model import ServedModel


_MOST_UNSENT = 1 << 14
"""Events of a streamed answer that wait for its reader: some 20 MB where each has 50 chances."""
_MOST_ROWS = 1_000
"""Chances of tokens that are put into an answer in the event loop: a thousand take 3 ms."""


class Silence(Record):
    """Nothing has happened for a while."""


class Answers:
    """The answers to one request; ``cancel`` them once the client is gone.

    Attributes:
        starts: The first event of each job that has begun, by the number of its answer.
        keepalive: Seconds of silence after which a stream sends something; 0: any.
    """

    def __init__(
        self,
        served: ServedModel,
        prompts: Sequence[list[int]],
        terms: Terms,
        n: int = 1,
        *,
        timed: bool = False,
    ) -> None:
        """Prepare the jobs."""
        self._served, self._prompts = served, prompts
        if not served.generates:
            what = f"{served.name} makes vectors of texts; it does not continue them"
            raise UnsupportedError(what)
        self.count = len(prompts) * n
        served.scheduler.check(self.count)
        self.starts: dict[int, JobStart] = {}
        self.ends: dict[int, JobEnd] = {}
        self._queue: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        self._started = time.perf_counter()
        self._first_token = 0.0
        self._is_whole = False
        if terms.speculative and not served.scheduler.drafts:
            raise UsageError(
                "nothing drafts here", field="speculative",
                hint="the server has to be started with --draft or --draft-lookup",
            )  # fmt: skip
        if terms.chunks:  # drafts are of text alone
            terms = replace(terms, speculative=False)
        self._timed = timed
        self.keepalive = served.settings.keepalive
        self.timings = [Timings(len(prompts[index // n])) for index in range(self.count)]
        self._jobs = []
        for index in range(self.count):
            ids = prompts[index // n]
            served.model.check_ids(text_ids(ids) if terms.chunks else ids)
            room = served.scheduler.room(len(ids))
            seed, own = terms.sampler.seed, terms
            if seed is not None:
                seed = (seed + index % n) % (1 << 32)
                own = replace(terms, sampler=replace(terms.sampler, seed=seed))
            most = room if terms.limit is None else terms.limit
            if not served.scheduler.shifts or terms.chunks:
                most = min(most, room)
            self._jobs.append(Job(ids, own, most, self._emitter(index)))

    def _emitter(self, index: int) -> Callable[[Any], None]:
        """Return what a job calls, in the scheduler's thread, with each of its events."""
        add, put = self._served.mailbox.add, self._queue.put_nowait
        follows_token = False

        def emit(event: Any) -> None:
            nonlocal follows_token
            is_token = isinstance(event, Piece)
            if is_token and not self._first_token:
                self._first_token = time.perf_counter()
            if self._queue.qsize() > _MOST_UNSENT and not self._is_whole:
                self._jobs[index].cancelled = True
                event = JobFailure(ServerClosed("the answer is read too slowly"))
                is_token = False
            if self._is_whole:  # nothing is sent before the end
                urgent = awaited = isinstance(event, (JobEnd, JobFailure))
            else:  # a token behind a token may wait for the next fetch, all else is sent at once
                urgent, awaited = not (is_token and follows_token), True
            follows_token = is_token
            add(put, (index, event), urgent=urgent, awaited=awaited)

        return emit

    def start(self, *, whole: bool = False) -> None:
        """Give the jobs to the scheduler.

        Args:
            whole: Nobody waits for single tokens: events may come together at the end.
        """
        self._is_whole = whole
        self._served.mailbox.attach()
        self._served.scheduler.submit(self._jobs)

    async def first(self, seconds: float) -> None:
        """Wait until a job begins, or for so long; a job that cannot begin raises its error."""
        try:
            index, event = await asyncio.wait_for(self._queue.get(), seconds)
        except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
            return
        if isinstance(event, JobFailure):
            raise event.error
        self._begin(index, event)  # a job that does not fail begins with its JobStart

    def _begin(self, index: int, event: JobStart) -> None:
        self.starts[index] = event
        self.timings[index].add(event)

    def report_silence(self) -> None:
        """Have ``events`` yield a ``Silence``, unless there is something else."""
        if not self.has_more():
            self._queue.put_nowait((0, Silence()))

    async def events(
        self,
    ) -> AsyncGenerator[tuple[int, JobStart | JobProgress | Echo | Piece | JobEnd | Silence], None]:
        """Yield what happens, each with the number of its answer."""
        metrics, has_token = self._served.metrics, False
        for index, start in self.starts.items():
            yield index, start
        while len(self.ends) < self.count:
            index, event = await self._queue.get()
            if isinstance(event, JobFailure):
                self._count_end(index, "error")
                raise event.error
            if isinstance(event, (Silence, Echo)):
                yield index, event
                continue
            if isinstance(event, JobStart):
                self._begin(index, event)
                yield index, event
                continue
            if self._timed or not isinstance(event, Piece):
                self.timings[index].add(event)
            if isinstance(event, JobProgress):
                yield index, event
                continue
            if not has_token:
                has_token = True
                metrics.count_first((self._first_token or time.perf_counter()) - self._started)
            if isinstance(event, JobEnd):
                self.ends[index] = event
                metrics.count_answer(len(self._jobs[index].ids), self.starts[index].cached, event)
            yield index, event

    def has_more(self) -> bool:
        """Whether ``events`` does not have to wait."""
        return len(self.ends) == self.count or not self._queue.empty()

    def cancel(self) -> None:
        """End what still runs."""
        for index in range(len(self._jobs)):
            self._count_end(index, "cancelled")

    def _count_end(self, index: int, end: str) -> None:
        job = self._jobs[index]
        if not job.cancelled and index not in self.ends:
            self._served.metrics.count_end(end)
        job.cancelled = True

    def prompt(self, index: int) -> list[int]:
        """Return the prompt of an answer."""
        return self._prompts[index * len(self._prompts) // self.count]

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts, each counted once."""
        return sum(map(len, self._prompts))

    @property
    def cached(self) -> int:
        """Tokens of the prompts that did not have to be computed."""
        n = self.count // len(self._prompts)
        return sum(start.cached for index, start in self.starts.items() if index % n == 0)

    @property
    def generated(self) -> int:
        """Tokens of all answers."""
        return sum(end.generated for end in self.ends.values())

    def explain_cache(self) -> list[dict[str, Any]]:
        """Return what each answer reused of its slot, and which token broke it."""

        def token(token_id: int | None) -> dict[str, Any] | None:
            if token_id is None:
                return None
            return {"id": token_id, "text": self._served.spell([token_id])}

        return [
            {
                "choice": index,
                "slot": start.slot,
                "cached_tokens": start.cached,
                "broken_at": start.broken.position,
                "cached": token(start.broken.cached),
                "prompt": token(start.broken.prompt),
            }
            for index, start in sorted(self.starts.items())
        ]


class Reply:
    """The reply to one request in the shape of its API.

    A subclass turns events into the values that a stream sends (``handle``), or keeps them for the
    ``whole`` (``add``).
    """

    last = b""
    """The end of a stream."""
    media_type = "text/event-stream"

    def __init__(
        self, answers: Answers, *, has_progress: bool = False, has_times: bool = False
    ) -> None:
        """Take the answers of the request."""
        self.answers = answers
        self.has_progress, self.has_times = has_progress, has_times

    def encode(self, value: Any) -> bytes:
        """Return a value as a server-sent event."""
        return sse_event(value)

    def opening(self) -> Iterable[Any]:
        """Return the values before any event."""
        return ()

    def handle(self, index: int, event: Piece | JobEnd) -> Iterable[Any]:
        """Return the values for an event of an answer."""
        raise NotImplementedError

    def echo(self, index: int, event: Echo) -> None:
        """Keep how probable tokens of the prompt were; a reply that asks for that gets it."""

    def progress(self, index: int, event: JobProgress) -> Any:
        """Return the value that says how far a prompt is."""
        raise NotImplementedError

    def keep_alive(self) -> bytes:
        """Return bytes to send in a silence: proxies and clients give up on a silent server."""
        return b":\n\n"

    def waiting(self) -> bytes:
        """Return bytes to send while no slot has taken the request."""
        return self.keep_alive()

    def closing(self) -> Iterable[Any]:
        """Return the values behind all answers."""
        return ()

    def failure(self, path: str, error: Exception) -> bytes:
        """Return what ends a stream that fails: its status is sent, so an event says it."""
        return sse_event(error_body(path, problem_of(error)), "error") + self.last

    def add(self, index: int, event: Piece | JobEnd) -> None:
        """Keep an event for the whole."""
        for _ in self.handle(index, event):
            pass

    def whole(self) -> Any:
        """Return all answers."""
        raise NotImplementedError

    def times(self, index: int = 0) -> dict[str, Any]:
        """Return the times of an answer so far, if the client wants them."""
        return {"timings": self.answers.timings[index].fields()} if self.has_times else {}

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the reply as server-sent events."""
        has_begun = False
        if not self.answers.starts:
            yield self.waiting()
        async with aclosing(self.answers.events()) as events:
            async for index, event in events:
                if isinstance(event, (Piece, JobEnd)):
                    for value in self.handle(index, event):
                        yield self.encode(value)
                elif isinstance(event, Echo):
                    self.echo(index, event)
                elif isinstance(event, Silence):
                    yield self.keep_alive() if has_begun else self.waiting()
                elif isinstance(event, JobStart):
                    for value in () if has_begun else self.opening():
                        yield self.encode(value)
                    has_begun = True
                elif self.has_progress:
                    yield self.encode(self.progress(index, event))
        for value in self.closing():
            yield self.encode(value)
        if self.last:
            yield self.last

    async def collect(self) -> Response:
        """Wait for all answers, and return them."""
        rows = 0
        async with aclosing(self.answers.events()) as events:
            async for index, event in events:
                if isinstance(event, (Piece, JobEnd)):
                    self.add(index, event)
                    if isinstance(event, Piece) and event.chances is not None:
                        rows += 1 + len(event.chances.top)
                elif isinstance(event, Echo):
                    self.echo(index, event)
                    rows += len(event.pieces)
        if rows > _MOST_ROWS:
            return await long_texts.run(lambda: json_response(self.whole()))
        return json_response(self.whole())


class AnswerReply(Reply):
    """A reply to what ``AnswerRequest`` asks for: OpenAI's completions and llama-server's."""

    last = b"data: [DONE]\n\n"

    def __init__(
        self,
        served: ServedModel,
        fields: AnswerRequest,
        terms: Terms,
        prompts: Sequence[list[int]],
    ) -> None:
        """Prepare the answers."""
        self.served, self.fields = served, fields
        self.terms = replace(
            terms,
            speculative=fields.speculative,
            sampled=fields.post_sampling_probs,
            slot=fields.id_slot if fields.id_slot >= 0 else None,
            cached=fields.cache_prompt,
            keep=fields.n_keep,
            seconds=fields.t_max_predict_ms / 1e3 if fields.t_max_predict_ms > 0 else None,
            indent=fields.n_indent,
            adapters=served.adapters(fields.lora),
            progress=fields.stream and fields.return_progress,
        )
        timed = fields.timings_per_token and fields.stream
        super().__init__(
            Answers(served, prompts, self.terms, fields.count, timed=timed),
            has_progress=fields.return_progress,
            has_times=fields.timings_per_token,
        )

    def chunk(self, index: int) -> dict[str, Any]:
        """Return the value of an answer to which nothing is added."""
        raise NotImplementedError

    def progress(self, index: int, event: JobProgress) -> Any:
        """Return the value that says how far a prompt is."""
        return {**self.chunk(index), "prompt_progress": event.fields(), **self.times(index)}


_PATIENCE = 0.1
"""Seconds that a stream waits for its slot before its status is sent: an error may come first."""


class EventStream(Response):
    """A response of server-sent events, or of lines."""

    def __init__(self, request: Request, reply: Reply) -> None:
        """Take a reply, whose answers are cancelled in any case, also if no event is read."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(headers=headers, media_type=reply.media_type)
        del self.headers["content-length"]
        self._path, self._reply = request.url.path, reply
        self._last_write = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002
        """Send the events until they end or the client leaves."""
        reply, chunks = self._reply, self._reply.stream()
        now = asyncio.get_running_loop().time

        async def write() -> None:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            parts: list[bytes] = []
            try:
                async for chunk in chunks:
                    parts.append(chunk)
                    if not reply.answers.has_more():  # what is there at once is sent at once
                        body, parts = b"".join(parts), []
                        await send({"type": "http.response.body", "body": body, "more_body": True})
                        self._last_write = now()
            except Exception as error:  # noqa: BLE001  the stream says it
                parts.append(reply.failure(self._path, error))
            body = b"".join(parts)
            await send({"type": "http.response.body", "body": body, "more_body": False})

        watch = asyncio.ensure_future(self._watch())
        try:
            with suppress(ClientGone):
                await while_connected(receive, write())
        finally:
            watch.cancel()
            reply.answers.cancel()
            await chunks.aclose()

    async def _watch(self) -> None:
        """Report each silence of ``--keepalive`` seconds."""
        answers, now = self._reply.answers, asyncio.get_running_loop().time
        most = left = answers.keepalive
        while most > 0:  # llama-server spells never as -1
            await asyncio.sleep(left)
            left = self._last_write + most - now()
            if left <= 0:
                answers.report_silence()
                left = most


async def send_reply(request: Request, reply: Reply, *, streams: bool) -> Response:
    """Have a request answered, as a stream or whole."""
    try:
        reply.answers.start(whole=not streams)
        room.leave()
        if streams:
            await while_connected(request.receive, reply.answers.first(_PATIENCE))
            return EventStream(request, reply)
        response: Response = await while_connected(request.receive, reply.collect())
    except BaseException:
        reply.answers.cancel()
        raise
    return response
