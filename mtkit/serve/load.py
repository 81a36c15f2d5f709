"""Loads a model and makes the context whose slots answer: what a server does for each model."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, contextmanager

from mtkit.base.record import replace
from mtkit.errors import ResourceError, UnsupportedError, UsageError, format_count
from mtkit.llama import SlotContext
from mtkit.llm.runner import open_header, open_model, plan_settings
from mtkit.llm.sampling import Sampler
from mtkit.memory_plan.plan import fitting_context
from mtkit.serve.scheduler import Scheduler
from mtkit.settings import AnswerSettings
from mtkit.speculative import exactness, setup
from mtkit.speculative.seats import SharedDrafting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.llm.header import ModelHeader
    from mtkit.llm.runner import Runner
    from mtkit.memory_plan.plan import Plan
    from mtkit.settings import ContextSettings, ServeSettings


_NAMED = re.compile(r"([^=/\\]+)=(.+)", re.DOTALL)


def split_model(text: str) -> tuple[str | None, str]:
    """Return name and file of ``NAME=FILE``, or of a file alone."""
    match = None if os.path.exists(text) else _NAMED.fullmatch(text)
    return (match[1], match[2]) if match else (None, text)


def settings_of_models(settings: ServeSettings) -> list[ServeSettings]:
    """Return the settings of each model of a server."""
    if not settings.models:
        return [settings]
    if len(settings.models) > 1:
        for field, value in (("--alias", settings.alias), ("--lora", settings.lora)):
            if value:
                hint = "use --model NAME=FILE" if field == "--alias" else ""
                raise UsageError("is for one model, not for several", field=field, hint=hint)
    each = []
    for text in settings.models:
        name, file = split_model(text)
        each.append(replace(settings, models=(), model=file, alias=name or settings.alias))
    return each


_SLOT_TOKENS = 4096
"""Tokens of each slot on average by default, if the model was trained with as many."""
_LEAST, _LITTLE = 16, 512
"""Tokens that a slot has at least: by the settings, and by default."""


@contextmanager
def open_scheduler(
    settings: ServeSettings,
    on_progress: Callable[[float], None] | None = None,
    *,
    room: int | None = None,
) -> Iterator[tuple[Runner, Scheduler]]:
    """Load a model, and yield it with the scheduler of its slots, which is not started yet.

    Args:
        room: Bytes that other models leave; None: there are none.

    Raises:
        ResourceError: It does not fit.
    """
    drafting = setup.apply_profile(settings.drafting, settings.model, settings.context.threads)
    settings = replace(settings, drafting=drafting)
    setup.check_settings(replace(drafting, exact=False))
    if settings.context_shift and setup.is_drafting(drafting):
        raise UsageError("does not go with drafts", field="--context-shift")
    header = open_header(settings)
    settings = replace(settings, context=_context_settings(header, settings, room))
    context = settings.context
    if room is not None:
        plan = header.plan(plan_settings(settings, context.n_ctx or 1))
        if plan.most > room:
            raise ResourceError("does not fit beside the models that are loaded")
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
            media = stack.enter_context(runner.open_media().projector) if header.projector else None
            scheduler = Scheduler(
                slots, settings.queue, shared, media, shifts=settings.context_shift
            )
            stack.callback(scheduler.close)
            yield runner, scheduler


def _context_settings(
    header: ModelHeader, settings: ServeSettings, room: int | None
) -> ContextSettings:
    """Return the settings of the context, whose size is chosen where none was asked for.

    Then the slots share what the model was trained with, as far as memory allows: an answer can
    take all of it. With ``exact`` each has as much for itself; with drafts, which take memory, too,
    ``_SLOT_TOKENS`` at most. Beside other models, a slot gets ``_SLOT_TOKENS`` at least: rather one
    of them is unloaded than this one served with next to nothing.
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

    least = min(few, _LITTLE * settings.slots) if room is None else few
    return replace(context, n_ctx=fitting_context(plan, most, least, room))


def _check_exact(runner: Runner, settings: ServeSettings) -> None:
    """Check that a batch of any size gives the same bits as single rows."""
    exact = exactness.exact_rows(runner.header.multiplied, settings.load, runner.model.path)
    if exact.width > 1 or exact.rows < exactness.MOST_ROWS:
        raise UnsupportedError(
            "with these weights an answer depends on what else is computed",
            source=runner.model.path,
            hint="--exact needs weights in Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 or IQ4_NL",
        )
