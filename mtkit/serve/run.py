"""The process that serves: loads the model, makes the context whose slots answer, ends in order.

What answers over HTTP (starlette, uvicorn, msgspec) is imported by a thread of its own while the
model is loaded, so nothing here imports it at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec

from mtkit.base.record import replace
from mtkit.errors import ResourceError, UnsupportedError, UsageError, format_count
from mtkit.llama import SlotContext
from mtkit.llm.header import ModelHeader
from mtkit.llm.runner import open_model, plan_settings
from mtkit.llm.sampling import Sampler
from mtkit.memory_plan.plan import fitting_context
from mtkit.serve.access import keys_of, names_of
from mtkit.serve.scheduler import Scheduler
from mtkit.settings import AnswerSettings
from mtkit.sources.locate import MODEL, locate
from mtkit.speculative import exactness, setup
from mtkit.speculative.seats import SharedDrafting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.llm.runner import Runner
    from mtkit.memory_plan.plan import Plan
    from mtkit.serve.guard import Guard
    from mtkit.serve.model import ServedModel
    from mtkit.settings import ContextSettings, ServeSettings


_SLOT_TOKENS = 4096
"""Tokens of each slot on average by default, if the model was trained with as many."""
_LEAST, _LITTLE = 16, 512
"""Tokens that a slot has at least: by the settings, and by default."""


@contextmanager
def open_scheduler(
    settings: ServeSettings, on_progress: Callable[[float], None] | None = None
) -> Iterator[tuple[Runner, Scheduler]]:
    """Load a model, and yield it with the scheduler of its slots, which is not started yet."""
    drafting = setup.apply_profile(settings.drafting)
    settings = replace(settings, drafting=drafting)
    setup.check_settings(replace(drafting, exact=False))
    if settings.context_shift and setup.is_drafting(drafting):
        raise UsageError("does not go with drafts", field="--context-shift")
    header = ModelHeader(locate(settings.model, MODEL).path, settings.lora)
    settings = replace(settings, context=_context_settings(header, settings))
    context = settings.context
    if context.n_ctx is not None and context.n_ctx < _LEAST * settings.slots:
        what = f"is {context.n_ctx}, too few for {format_count(settings.slots, 'slot')}"
        raise UsageError(what, field="--ctx", hint=f"each takes {_LEAST} tokens at least")
    if context.n_batch <= settings.slots:  # llama.cpp would call the model damaged
        what = f"is {context.n_batch}, too few for {format_count(settings.slots, 'slot')}"
        raise UsageError(what, field="--batch", hint=f"more than {settings.slots} are needed")
    with open_model(settings, on_progress, header=header) as runner:
        if runner.model.has_encoder:
            raise UnsupportedError("cannot be served: it has an encoder", source=runner.model.path)
        if drafting.exact:
            _check_exact(runner, settings)
        slots = runner.open_context(kind=SlotContext)
        assert isinstance(slots, SlotContext)
        Sampler(slots, settings.sampler).close()  # an error here would be one in every request
        with ExitStack() as stack:
            shared = None
            if setup.is_drafting(drafting):
                answer = AnswerSettings(settings.model, context, settings.load, drafting=drafting)
                shared = stack.enter_context(SharedDrafting(runner, slots, answer))
            scheduler = Scheduler(slots, settings.queue, shared, shifts=settings.context_shift)
            stack.callback(scheduler.close)
            yield runner, scheduler


def _context_settings(header: ModelHeader, settings: ServeSettings) -> ContextSettings:
    """Return the settings of the context, whose size is chosen where none was asked for.

    Then the slots share what the model was trained with, as far as memory allows: an answer can
    take all of it. With ``exact`` each has as much for itself; with drafts, which take memory, too,
    ``_SLOT_TOKENS`` at most.
    """
    context = replace(settings.context, n_seq=settings.slots, kv_unified=settings.kv_unified)
    drafting, trained = settings.drafting, header.n_ctx_train or _SLOT_TOKENS
    if setup.is_drafting(drafting):
        context = replace(context, swa_full=True)
    if drafting.exact:
        if settings.kv_unified:
            what = "an answer depends on the others' tokens"
            raise UsageError(what, field="--kv-unified", hint="omit it with --exact")
        context = exactness.exact_context(context)
    if context.n_ctx is not None:
        return context
    most = few = min(trained, _SLOT_TOKENS) * settings.slots
    if drafting.exact:
        most = trained * settings.slots
    if not drafting.exact and not setup.is_drafting(drafting):
        context, most = replace(context, kv_unified=True), max(trained, few)

    def plan(n_ctx: int) -> Plan:
        return header.plan(plan_settings(replace(settings, context=context), n_ctx))

    return replace(context, n_ctx=fitting_context(plan, most, min(few, _LITTLE * settings.slots)))


def _check_exact(runner: Runner, settings: ServeSettings) -> None:
    """Check that a batch of any size gives the same bits as single rows."""
    exact = exactness.exact_rows(runner.header.multiplied, settings.load, runner.model.path)
    if exact.width > 1 or exact.rows < exactness.MOST_ROWS:
        raise UnsupportedError(
            "with these weights an answer depends on what else is computed",
            source=runner.model.path,
            hint="--exact needs weights in Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 or IQ4_NL",
        )


_SWITCH_SECONDS = 0.0005
"""Seconds that the scheduler waits for Python's lock at most. Python's own 5 ms are what a small
model takes for a token, and loading one asks for the lock some hundred times."""

for _name in ("uvicorn", "starlette", "msgspec", "prometheus_client"):  # imported later
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f"No module named {_name!r}", name=_name)


@contextmanager
def _open_app(
    settings: ServeSettings,
    template: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Iterator[tuple[Guard, ServedModel]]:
    """Load a model, and yield the application with its ``ServedModel``."""
    keys = keys_of(settings)
    names_of(settings)  # before the model is loaded
    folder = settings.slot_save_path
    if folder is not None and not os.path.isdir(folder):
        raise UsageError("is not a folder", source=folder, field="--slot-save-path")
    web = threading.Thread(target=_import_web)
    web.start()
    with open_scheduler(settings, on_progress) as (runner, scheduler):
        web.join()
        from mtkit.serve.app import application
        from mtkit.serve.model import ServedModel

        served = ServedModel(runner, scheduler, settings, template, on_note)
        scheduler.start()
        yield application(served, keys), served


def _import_web() -> None:
    """Import the web server while the model is loaded: it takes as long as a small one."""
    with suppress(ImportError):  # the next import of it reports that
        for name in ("numpy", "mtkit.serve.app", "mtkit.serve.server"):
            import_module(name)


def asgi(settings: ServeSettings, *, template: str | None = None) -> Guard:
    """Load a model, and return the ASGI application for another server.

    The model stays loaded as long as the process runs. A server that other machines can reach needs
    a key or another protection; ``allow_host`` takes its names.
    """
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(_open_app(settings, template))[0]


def serve(
    settings: ServeSettings,
    *,
    template: str | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    listening: Callable[[str, ServedModel], None],
) -> None:
    """Serve a model until a signal ends it.

    Args:
        on_progress: Called with the part that is loaded, 0 to 1.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    with ExitStack() as stack:
        app, served = stack.enter_context(_open_app(settings, template, on_progress, on_note))
        gc.freeze()  # what is there now lives as long as the process
        from mtkit.serve.server import bind_sockets, listen

        sockets = [stack.enter_context(bound) for bound in bind_sockets(settings)]
        server = listen(app, served, sockets, lambda address: listening(address, served))
    for timer in server.timers:
        timer.cancel()
    if not server.started:
        raise ResourceError("the server did not start")
