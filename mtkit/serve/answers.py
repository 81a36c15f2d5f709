"""The answers to one request: jobs given to the scheduler, what they tell brought to the loop."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.serve.job import Begun, Done, Failed, Job, Piece, Progress
from mtkit.serve.timings import Timings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from typing import Any

    from mtkit.serve.job import Terms
    from mtkit.serve.served import Served


class Answers:
    """The answers to one request; ``cancel`` them when nobody waits any more.

    Attributes:
        count: How many.
        begun: What each found in its slot.
        done: How each ended.
        timings: The times of each.
    """

    def __init__(
        self,
        served: Served,
        prompts: Sequence[list[int]],
        terms: Terms,
        n: int = 1,
        *,
        timed: bool = False,
    ) -> None:
        """Prepare the jobs.

        Args:
            served: What answers.
            prompts: Each is answered ``n`` times.
            terms: How; of several answers each has a seed of its own.
            n: Answers to each prompt.
            timed: The times are kept token by token, not only at the end.

        Raises:
            UsageError: A prompt is empty, or has an id that does not exist, or nothing drafts, or
                they are too many.
            UnsupportedError: The model does not answer.
            ResourceError: One does not fit.
        """
        self._served, self._prompts = served, prompts
        if not served.generates:
            what = f"{served.name} makes vectors of texts; it does not continue them"
            raise UnsupportedError(what)
        self.count = len(prompts) * n
        served.scheduler.check(self.count)
        self.begun: dict[int, Begun] = {}
        self.done: dict[int, Done] = {}
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
                urgent = awaited = isinstance(told, (Done, Failed))
            posts.add(put, (index, told), urgent=urgent, awaited=awaited)

        return emit

    def start(self, *, whole: bool = False) -> Awaitable[None]:
        """Give the jobs to the scheduler; what is returned waits until one begins.

        Args:
            whole: Nobody waits for single tokens; one that has begun may be told at its end.

        Raises:
            Busy: There is no place for them.
        """
        self._is_whole = whole
        self._served.posts.attach()
        self._served.scheduler.submit(self._jobs)
        return self._first()

    async def _first(self) -> None:
        index, told = await self._told.get()
        if isinstance(told, Failed):
            raise told.error
        self._begin(index, told)  # of a job the first that is told, if it does not fail

    def _begin(self, index: int, told: Begun) -> None:
        self.begun[index] = told
        self.timings[index].see(told)

    async def events(self) -> AsyncGenerator[tuple[int, Piece | Done], None]:
        """Yield tokens and ends, each with the number of its answer."""
        async with aclosing(self.with_progress()) as events:
            async for index, told in events:
                if not isinstance(told, Progress):
                    yield index, told

    async def with_progress(self) -> AsyncGenerator[tuple[int, Progress | Piece | Done], None]:
        """Yield the same, and before it how far the prompts are, where that is asked for."""
        metrics, seen = self._served.metrics, False
        while len(self.done) < self.count:
            index, told = await self._told.get()
            if isinstance(told, Failed):
                self._ended(index, "error")
                raise told.error
            if isinstance(told, Begun):
                self._begin(index, told)
                continue
            if self._timed or not isinstance(told, Piece):
                self.timings[index].see(told)
            if isinstance(told, Progress):
                yield index, told
                continue
            if not seen:
                seen = True
                metrics.first((self._first_token or time.perf_counter()) - self._started)
            if isinstance(told, Done):
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
