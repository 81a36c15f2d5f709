"""Vectors of texts, computed by the scheduler's thread between two batches, one after the other."""

from __future__ import annotations

import asyncio
from functools import partial

from mtkit.base.record import replace
from mtkit.llama.embedder import Embedder
from mtkit.serve.replies import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.llama import Model
    from mtkit.serve.scheduler import Scheduler
    from mtkit.settings import ServeSettings


class Vectors:
    """What makes vectors of texts, made when it is first asked for."""

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler,
        settings: ServeSettings,
        note: Callable[[str], None],
        *,
        ranks: bool,
    ) -> None:
        """Take what they are made with.

        Args:
            model: The model.
            scheduler: In whose thread they are made.
            settings: How the server was started.
            note: Tells the user something.
            ranks: The model has a head that says how well a text answers a question.
        """
        self._ranks = ranks
        self._model, self._scheduler, self._settings = model, scheduler, settings
        self._note = note
        self._made: Embedder | None = None

    async def of(self, prompts: Sequence[list[int]], pooling: str | None = None) -> list[Any]:
        """Return the vectors of texts.

        Args:
            prompts: The tokens of each text.
            pooling: The way that is needed.

        Raises:
            Problem: The model has another way.
            UsageError, ResourceError: A text is empty or too long.
        """
        found = []
        for ids in prompts:
            future = self._scheduler.between(partial(self._vector, ids, pooling))
            found.append(await asyncio.wrap_future(future))
        return found

    def _vector(self, ids: list[int], pooling: str | None) -> Any:
        if self._made is None:
            settings = self._settings
            threads = self._scheduler.threads
            kind = settings.pooling or ("rank" if self._ranks else None)
            context = replace(settings.context, pooling=kind, threads=threads)
            self._made = Embedder(self._model, context)
            if not self._made.is_own and kind is None:
                self._note("the model does not say how it embeds: the mean is taken")
        found = self._made.pooling
        if (pooling or found) != found or (pooling is None and found == "rank"):
            raise Problem(501, f"this model cannot do that: its pooling is {found}")
        return self._made.vector(ids)
