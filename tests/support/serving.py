"""A scheduler and its answers, for the tests of serving."""

from __future__ import annotations

import queue
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support import reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextmanager
def serving(model: Path, **given: Any) -> Iterator[Any]:
    """Start a scheduler; gives it with its runner."""
    reference("llama_cpp")
    from mtkit.serve.load import open_scheduler
    from mtkit.settings import ServeSettings
    from mtkit.settings.declaration import settings_of

    given = {"threads": 1, "trial": False, "n_ctx": 2048, "temperature": 0, **given}
    settings = settings_of(ServeSettings, {**given, "model": str(model)})
    with open_scheduler(settings) as (runner, scheduler):
        scheduler.start()
        yield runner, scheduler


class Asked:
    """A job with everything that it told."""

    def __init__(self, ids: Sequence[int], limit: int = 20, **options: Any) -> None:
        from mtkit.base.record import fields
        from mtkit.serve.job import Job, Terms
        from mtkit.settings import SamplerSettings
        from mtkit.settings.declaration import settings_of

        names = set(fields(Terms)) - {"sampler", "limit"}
        sampler = {name: value for name, value in options.items() if name not in names}
        rest = {name: value for name, value in options.items() if name in names}
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.events: list[Any] = []
        settings = settings_of(SamplerSettings, sampler)
        self.job = Job(ids, Terms(settings, limit, **rest), limit, self.told.put)

    def next(self) -> Any:
        """Wait for the next event."""
        self.events.append(self.told.get(timeout=60))
        return self.events[-1]

    def all(self) -> Any:
        """Wait for the end; returns its event."""
        from mtkit.serve.job import JobEnd, JobFailure

        while not self.events or not isinstance(self.events[-1], (JobEnd, JobFailure)):
            self.next()
        return self.events[-1]

    @property
    def ids(self) -> list[int]:
        """Tokens of the answer."""
        from mtkit.serve.job import Piece

        return [event.id for event in self.events if isinstance(event, Piece)]

    @property
    def text(self) -> str:
        """Text of the answer."""
        return "".join(getattr(event, "text", "") for event in self.events)
