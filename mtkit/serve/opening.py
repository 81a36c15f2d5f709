"""Load a model and make the context whose slots answer."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError, counted
from mtkit.llama import SlotContext
from mtkit.llm.open_model import open_model
from mtkit.llm.preflight import ModelHeader
from mtkit.llm.runner import plan_settings
from mtkit.llm.sampling import Sampler
from mtkit.llm.speculative import exactness, opening, profile
from mtkit.llm.speculative.shared import SharedDrafting
from mtkit.memory_plan.fitting import fitting_context
from mtkit.serve.scheduler import Scheduler
from mtkit.settings import AnswerSettings
from mtkit.sources.locate import MODEL, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.llm.runner import Runner
    from mtkit.memory_plan.plan import Plan
    from mtkit.settings import ContextSettings, ServeSettings

_TOKENS = 4096
"""Of each slot on the average where the settings do not say, if the model was trained with as many.
"""
_LEAST, _LITTLE = 16, 512
"""Tokens that a slot has at least, asked for and chosen."""


@contextmanager
def opened(
    settings: ServeSettings, on_progress: Callable[[float], None] | None = None
) -> Iterator[tuple[Runner, Scheduler]]:
    """Load a model, and give it with the scheduler of its slots, which is not started yet.

    Raises:
        UsageError: The context or its batches are too small for the slots, or the sampler's
            settings make no sense with this model.
        UnsupportedError: The model cannot be served, or not exactly.
        ResourceError: It does not fit the memory.
    """
    drafting = profile.applied(settings.drafting)
    settings = replace(settings, drafting=drafting)
    opening.check_used(replace(drafting, exact=False))
    if settings.context_shift and opening.is_wanted(drafting):
        raise UsageError("does not go with drafts", field="--context-shift")
    header = ModelHeader(locate(settings.model, MODEL).path, settings.lora)
    settings = replace(settings, context=_context(header, settings))
    context = settings.context
    if context.n_ctx is not None and context.n_ctx < _LEAST * settings.slots:
        what = f"is {context.n_ctx}, too few for {counted(settings.slots, 'slot')}"
        raise UsageError(what, field="--ctx", hint=f"each takes {_LEAST} tokens at least")
    if context.n_batch <= settings.slots:  # llama.cpp would call the model damaged
        what = f"is {context.n_batch}, too few for {counted(settings.slots, 'slot')}"
        raise UsageError(what, field="--batch", hint=f"more than {settings.slots} are needed")
    with open_model(settings, on_progress, header=header) as runner:
        if runner.model.has_encoder:
            raise UnsupportedError("cannot be served: it has an encoder", source=runner.model.path)
        if drafting.exact:
            _check_exact(runner, settings)
        made = runner.open_context(kind=SlotContext)
        assert isinstance(made, SlotContext)
        Sampler(made, settings.sampler).close()  # what is wrong here would be so in every request
        with ExitStack() as stack:
            shared = None
            if opening.is_wanted(drafting):
                asked = AnswerSettings(settings.model, context, settings.load, drafting=drafting)
                shared = stack.enter_context(SharedDrafting(runner, made, asked))
            scheduler = Scheduler(made, settings.queue, shared, shifts=settings.context_shift)
            stack.callback(scheduler.close)
            yield runner, scheduler


def _context(header: ModelHeader, settings: ServeSettings) -> ContextSettings:
    """Return the settings of the context, whose size is chosen where none was asked for.

    Then the slots share what the model was trained with, as far as memory allows: an answer can
    take all of it. With ``exact`` each has as much for itself; with drafts, which take memory, too,
    ``_TOKENS`` at most.
    """
    context = replace(settings.context, n_seq=settings.slots, kv_unified=settings.kv_unified)
    drafting, trained = settings.drafting, header.n_ctx_train or _TOKENS
    if opening.is_wanted(drafting):
        context = replace(context, swa_full=True)
    if drafting.exact:
        if settings.kv_unified:
            what = "an answer depends on the others' tokens"
            raise UsageError(what, field="--kv-unified", hint="omit it with --exact")
        context = exactness.exact_context(context)
    if context.n_ctx is not None:
        return context
    most = few = min(trained, _TOKENS) * settings.slots
    if drafting.exact:
        most = trained * settings.slots
    if not drafting.exact and not opening.is_wanted(drafting):
        context, most = replace(context, kv_unified=True), max(trained, few)

    def plan(n_ctx: int) -> Plan:
        return header.plan(plan_settings(replace(settings, context=context), n_ctx))

    return replace(context, n_ctx=fitting_context(plan, most, min(few, _LITTLE * settings.slots)))


def _check_exact(runner: Runner, settings: ServeSettings) -> None:
    """See that a batch of any size gives the bits of single rows.

    Raises:
        UnsupportedError: It does not, with these weights.
    """
    found = exactness.profile(runner.header.multiplied, settings.load, runner.model.path)
    if found.width > 1 or found.rows < exactness.MOST_ROWS:
        raise UnsupportedError(
            "with these weights an answer depends on what else is computed",
            source=runner.model.path,
            hint="--exact needs weights in Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 or IQ4_NL",
        )
