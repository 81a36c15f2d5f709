"""The models of a server: loaded when a request chooses one, unloaded when idle or in the way.

One lock orders all loading and unloading, first come, first served. A model that has to go first
ends its requests; those that come for it meanwhile wait until it is loaded again. A model fits if
its plan does beside those of the others; if not, the one that was not used for longest goes.

Unloading after ``--sleep-idle-seconds`` or Ollama's ``keep_alive`` is the same act.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import math
import os
import time
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cached_property

from mtkit.base.record import replace
from mtkit.chat.process import end_idle
from mtkit.errors import MtkitError, ResourceError, UsageError
from mtkit.llm.runner import open_header, plan_settings
from mtkit.memory_plan.plan import available_memory
from mtkit.serve.job import ServerClosed
from mtkit.serve.load import open_scheduler, settings_of_models
from mtkit.serve.metrics import Metrics
from mtkit.serve.model import CHATML, ServedModel, split_names, start_form_analysis
from mtkit.serve.reply import Problem
from mtkit.serve.request import UnknownFields
from mtkit.serve.response_store import ResponseStore
from mtkit.sources.locate import MODEL, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Any, TypeVar

    from mtkit.chat.answer import Form
    from mtkit.llm.header import ModelHeader
    from mtkit.llm.runner import Runner
    from mtkit.serve.scheduler import Scheduler
    from mtkit.settings import ServeSettings

    T = TypeVar("T")


_CLOCK_SECONDS = 0.01
"""By how much a timer may come early."""
_LATEST = ":latest"
"""The tag that Ollama's clients add to names without one."""


class PooledModel:
    """A model of a server, loaded or not.

    Attributes:
        served: What answers while it is loaded; None while it is not.
        users: The requests that it answers.
        used: When the last of them ended (``time.monotonic``).
        keep: Seconds that it stays loaded without any; negative: for ever.
        n_bytes, n_bytes_on_gpu: The memory that it takes, by its plan.
        is_leaving: It is being unloaded, or about to be.
        properties: What ``/props`` said of it before it was unloaded.
    """

    def __init__(self, settings: ServeSettings, template: str | None) -> None:
        self.settings, self._template = settings, template
        self.path = locate(settings.model, MODEL).path
        self.aliases = split_names(settings.alias)
        self.name = self.aliases[0] if self.aliases else os.path.basename(self.path)
        self.served: ServedModel | None = None
        self.users, self.used = 0, time.monotonic()
        self.n_bytes = self.n_bytes_on_gpu = 0
        self.keep = float(settings.sleep_idle_seconds)
        self.is_leaving = False
        self.properties: dict[str, Any] = {}
        self._gap = False
        self._timer: asyncio.TimerHandle | None = None
        self._stack = ExitStack()

    @cached_property
    def header(self) -> ModelHeader:
        """The head of its file."""
        return open_header(replace(self.settings, model=self.path))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Tokens of its vocabulary and of the texts that it was trained with, width of a state."""
        metadata = self.header.file.metadata
        width = metadata.get(f"{metadata.get('general.architecture')}.embedding_length")
        table = next((row for row in self.header.tensors if row.name == "token_embd.weight"), None)
        return {
            "n_vocab": table.shape[-1] if table is not None else 0,
            "n_ctx_train": self.header.n_ctx_train,
            "n_embd": width if type(width) is int else 0,
        }

    @property
    def inputs(self) -> list[str]:
        """What it takes besides text, in OpenRouter's words."""
        projector = self.header.projector
        return sorted(projector.kinds, reverse=True) if projector is not None else []

    @property
    def generates(self) -> bool:
        """Whether it continues texts; others only make vectors of them."""
        metadata = self.header.file.metadata
        return metadata.get(f"{metadata.get('general.architecture')}.attention.causal") is not False

    @property
    def template(self) -> str:
        """Its chat template."""
        own = self._template or self.header.file.metadata.get("tokenizer.chat_template")
        return own if own and isinstance(own, str) else CHATML

    @property
    def form(self) -> Form | None:
        """How it writes answers; waits until that is known."""
        if self.served is not None:
            return self.served.form
        metadata = self.header.file.metadata
        tokens, eos = (
            metadata.get(f"tokenizer.ggml.{name}") for name in ("tokens", "eos_token_id")
        )
        sign = tokens[eos] if tokens is not None and type(eos) is int and eos < len(tokens) else ""
        return start_form_analysis(self.template, sign).result()

    @property
    def fills_gaps(self) -> bool:
        """Whether its vocabulary marks a gap in a text."""
        if self.served is not None and self.served.model.has_vocabulary:
            self._gap = {"pre", "suf", "mid"} <= self.served.model.fim.keys()
        return self._gap

    @property
    def is_ready(self) -> bool:
        """Whether it answers at once."""
        return self.served is not None and not self.is_leaving

    @property
    def seconds_left(self) -> float:
        """How long it stays loaded without further requests; infinite: for ever."""
        idle = 0.0 if self.users else time.monotonic() - self.used
        return self.keep - idle if self.keep >= 0 else math.inf

    @property
    def is_idle(self) -> bool:
        """Whether it was without requests for as long as it stays loaded."""
        return not self.users and self.seconds_left <= _CLOCK_SECONDS

    def load(self, pool: ModelPool, room: int | None) -> None:
        """Load it; waits."""
        with ExitStack() as stack:
            start = time.monotonic()
            runner, scheduler = stack.enter_context(open_scheduler(self.settings, room=room))
            self.adopt(pool, stack, runner, scheduler)
        pool.note(f"{self.name}: loaded in {time.monotonic() - start:.1f} s")

    def adopt(
        self, pool: ModelPool, stack: ExitStack, runner: Runner, scheduler: Scheduler
    ) -> None:
        """Serve what is loaded, and take over what unloads it."""
        self.served = ServedModel(
            runner,
            scheduler,
            self.settings,
            self._template,
            pool.unknown,
            pool.metrics,
            pool.responses,
            pool.note,
        )
        pool.metrics.add(scheduler)
        plan = runner.header.plan(plan_settings(runner.settings, runner.n_ctx))
        self.n_bytes, self.n_bytes_on_gpu = plan.most, plan.gpu
        self.keep = float(self.settings.sleep_idle_seconds)
        scheduler.start()
        self._stack = stack.pop_all()

    def unload(self, pool: ModelPool) -> None:
        """Free context and model, end the processes of its template; waits."""
        served, self.served = self.served, None
        if served is None:
            return
        self._stack.close()
        pool.metrics.remove(served.scheduler)
        self.n_bytes = self.n_bytes_on_gpu = 0
        end_idle({served.template, served.tool_template})
        del served
        gc.unfreeze()  # the first model was frozen at the start
        gc.collect()
        _trim_heap()

    def watch(self, pool: ModelPool) -> None:
        """Unload it once it was idle for ``keep`` seconds, counted from now."""
        self.stop_watching()
        self.used = time.monotonic()
        if self.keep >= 0 and self.served is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.keep, pool.put_to_sleep, self)

    def stop_watching(self) -> None:
        """Count no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ModelPool:
    """The models of a server, and what they share.

    Attributes:
        created: When the server started, in seconds since 1970.
        models: All of them; the first answers where no name is known.
        describe: Makes the ``properties`` of a model.
    """

    def __init__(
        self,
        settings: ServeSettings,
        template: str | None = None,
        on_note: Callable[[str], None] | None = None,
        memory: int | None = None,
    ) -> None:
        """Look for the models; none is loaded yet.

        Args:
            memory: What they may take together, in bytes; None: what is free now.
        """
        self.settings = settings
        self.created = int(time.time())
        self.tags = split_names(settings.tags)
        self.describe: Callable[[ServedModel], dict[str, Any]] = lambda _: {}
        self.note: Callable[[str], None] = on_note or (lambda _: None)
        self.metrics, self.responses = Metrics(), ResponseStore()
        self.unknown = UnknownFields(
            strict=settings.strict, count=self.metrics.count_ignored, say=self.note
        )
        self.models = [PooledModel(own, template) for own in settings_of_models(settings)]
        self._memory = available_memory() if memory is None else memory
        self._change, self._tasks = asyncio.Lock(), set[asyncio.Task[None]]()
        self._idle = asyncio.Event()
        self._is_closing = False
        names = [name for model in self.models for name in {model.name, *model.aliases}]
        for name in names:
            if names.count(name) > 1:
                hint = "use --model NAME=FILE"
                raise UsageError(f"two models have the name {name}", field="--model", hint=hint)
        for model in self.models[1:]:
            model.header.check(plan_settings(model.settings, model.settings.context.n_ctx or 1))

    @property
    def first(self) -> PooledModel:
        """The model that is loaded at first."""
        return self.models[0]

    @property
    def is_open(self) -> bool:
        """Whether requests are answered."""
        loaded = [model.served for model in self.models]
        return not self._is_closing and all(
            served.scheduler.is_open for served in loaded if served is not None
        )

    def find(self, name: Any) -> PooledModel | None:
        """Return the model of a name; None where there is none."""
        if not isinstance(name, str):
            return None
        for text in (name, name.removesuffix(_LATEST)):
            for model in self.models:
                if text == model.name or text in model.aliases:
                    return model
        return None

    def choose(self, name: Any) -> PooledModel:
        """Return the model of a name; the first where there is none."""
        return self.find(name) or self.first

    @asynccontextmanager
    async def lend(self, model: PooledModel) -> AsyncIterator[ServedModel]:
        """Have a model loaded as long as a request is answered."""
        served = await self.acquire(model)
        try:
            yield served
        finally:
            self.release(model)

    async def acquire(self, model: PooledModel) -> ServedModel:
        """Have a model loaded until it is released."""
        if not model.is_ready:
            async with self._change:
                if model.served is None:
                    await self._load(model)
                model.users += 1
        else:
            model.users += 1
        model.stop_watching()
        assert model.served is not None
        return model.served

    def release(self, model: PooledModel, keep: float | None = None) -> None:
        """End a use of a model; ``keep`` is what the request says of its ``keep``."""
        model.users -= 1
        if keep is not None:
            model.keep = keep
        if not model.users:
            self._idle.set()
            model.watch(self)

    async def _load(self, model: PooledModel) -> None:
        most = self.settings.models_max
        others = [other for other in self.models if other.served is not None]
        others.sort(key=lambda other: (other.users > 0, other.used))
        while most and len(others) >= most:
            await self._unload(others.pop(0))
        while True:
            if self._is_closing:
                raise ServerClosed("the server is ending")
            room = self._room(others) if others else None
            try:
                await to_the_end(asyncio.to_thread(model.load, self, room))
            except ResourceError as error:
                if not others:
                    raise _load_problem(model, error) from None
            except MtkitError as error:
                raise _load_problem(model, error) from None
            else:
                return
            await self._unload(others.pop(0))

    def _room(self, others: list[PooledModel]) -> int | None:
        """Return the bytes that other models leave."""
        now = available_memory()
        if now is None or self._memory is None:
            return None
        return min(now, self._memory - sum(other.n_bytes for other in others))

    async def _unload(self, model: PooledModel) -> None:
        """Unload a model once its requests have ended."""

        def work() -> None:
            if model.served is not None:
                model.properties = self.describe(model.served)
                model.unload(self)

        model.is_leaving = True
        try:
            while model.users:
                self._idle.clear()
                await self._idle.wait()
            model.stop_watching()
            await to_the_end(asyncio.to_thread(work))
            self.note(f"{model.name}: unloaded")
        finally:
            model.is_leaving = False

    def put_to_sleep(self, model: PooledModel) -> None:
        """Unload a model, unless a request has come for it meanwhile."""

        async def work() -> None:
            async with self._change:
                if model.served is not None and model.is_idle:
                    await self._unload(model)

        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def watch(self) -> None:
        """Count the seconds without requests, from now on."""
        for model in self.models:
            model.watch(self)

    def drain(self) -> None:
        """Take no more jobs; those that run go on."""
        self._is_closing = True
        self._each_scheduler("drain")

    def end_answers(self) -> None:
        """End all jobs."""
        self._is_closing = True
        self._each_scheduler("close")

    def _each_scheduler(self, act: str) -> None:
        for served in [model.served for model in self.models]:
            if served is not None:
                getattr(served.scheduler, act)()

    def close(self) -> None:
        """Unload all models."""
        self._is_closing = True
        for model in self.models:
            model.unload(self)


def _load_problem(model: PooledModel, error: MtkitError) -> Problem:
    what = ": ".join(part for part in (error.field, error.what) if part)
    hint = f"; {error.hint}" if error.hint else ""
    return Problem(503, f"{model.name} cannot be loaded: {what}{hint}")


def _trim_heap() -> None:
    """Give memory back that the C library keeps for later; glibc's alone keeps much."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for work of a thread, also if nobody wants it any more: no other may begin meanwhile."""
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled and task.exception() is None:
        raise asyncio.CancelledError
    return task.result()
