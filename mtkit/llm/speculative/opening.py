"""Open what settings say of drafting."""

from __future__ import annotations

from contextlib import ExitStack

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.llm.speculative import calibration, exactness
from mtkit.llm.speculative.adaptive import Adaptive
from mtkit.llm.speculative.growth import is_dynamic
from mtkit.llm.speculative.loaded_draft import LoadedDraft, check_can_cut
from mtkit.llm.speculative.pace import Steady
from mtkit.llm.speculative.rounds import Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.pace import Pace
    from mtkit.settings import AnswerSettings, DraftSettings

    S = TypeVar("S", bound=AnswerSettings)

_TABLE = ("sx_scales", "sx_quantile")
_SEARCH = ("sx_topk", "sx_threshold", "sx_trigger", "sx_position")


def is_wanted(settings: DraftSettings) -> bool:
    """Whether anything drafts."""
    return settings.draft is not None or settings.draft_lookup


def prepared(settings: S) -> S:
    """Return settings for opening the target.

    Raises:
        UsageError: A setting would do nothing, or cannot be exact.
    """
    check_used(settings.drafting)
    if not is_wanted(settings.drafting):
        return settings
    if settings.drafting.exact:
        return replace(settings, context=exactness.exact_context(settings.context))
    return replace(settings, context=replace(settings.context, swa_full=True))


def check_used(drafting: DraftSettings) -> None:
    """Check that every setting does something.

    Raises:
        UsageError: One does not.
    """
    model, lookup = drafting.draft is not None, drafting.draft_lookup
    table = drafting.sx_quant_embd is not None
    searches = table or drafting.sx_neighbors is not None
    needed = {
        "draft_p_min": ("--draft", model),
        "draft_lookup_min": ("--draft-lookup", lookup),
        **dict.fromkeys(
            ("draft_max", "draft_match", "draft_auto", "exact"),
            ("--draft or --draft-lookup", model or lookup),
        ),
        **dict.fromkeys(
            ("draft_by_text", "sx_static_vocab", "sx_seed_prompt", "sx_learn", "sx_neighbors"),
            ("--draft", model),
        ),
        **dict.fromkeys(_TABLE, ("--sx-quant-embd", table)),
        **dict.fromkeys(_SEARCH, ("--sx-quant-embd or --sx-neighbors", searches)),
        "sx_quant_embd": ("--sx-scales", drafting.sx_scales is not None),
        "sx_cap": (
            "--sx-quant-embd, --sx-neighbors, --sx-seed-prompt or --sx-learn",
            is_dynamic(drafting),
        ),
    }
    for name, (what, given) in needed.items():
        declared = drafting.declared[name]
        if not given and getattr(drafting, name) != declared.default:
            raise UsageError(f"does nothing without {what}", field=declared.options[-1])
    if table and drafting.sx_neighbors is not None:
        raise UsageError("takes the place of --sx-quant-embd", field="--sx-neighbors")
    given_threshold = drafting.sx_threshold != drafting.declared["sx_threshold"].default
    if drafting.sx_quantile is not None and given_threshold:
        raise UsageError("takes the place of --sx-threshold", field="--sx-quantile")


def by_rejection(settings: AnswerSettings) -> bool:
    """Whether drafted tokens are accepted by rejection sampling.

    A grammar and mirostat choose with a state of their own: they have to choose themselves.
    """
    sampler = settings.sampler
    return not (
        sampler.is_greedy
        or sampler.mirostat
        or sampler.grammar is not None
        or sampler.json_schema is not None
        or settings.drafting.draft_match
        or not is_wanted(settings.drafting)
    )


def open_speculation(runner: Runner, settings: AnswerSettings, seed: int) -> Speculation | None:
    """Load the draft of a target whose context is open, and empty; None where none is wanted.

    Raises:
        UsageError: There is no such draft, or it has another vocabulary; a batch is one token.
        UnsupportedError: The target cannot be verified in batches, or not exactly.
        FormatError: The draft is damaged.
        ResourceError: It does not fit the memory.
    """
    drafting = settings.drafting
    if not is_wanted(drafting):
        return None
    context = runner.context
    assert context is not None
    check_can_cut(runner)
    if context.n_batch < 2:
        raise UsageError(
            "a batch of one token has no room for what is drafted",
            hint="use --batch 2 or more",
        )
    rows, pairs = min(exactness.MOST_ROWS, context.n_batch), False
    if drafting.exact:
        found = exactness.profile(runner.header.multiplied, settings.load, runner.model.path)
        rows, pairs = min(rows, found.rows), found.pairs
    most = min(drafting.draft_max, rows - 1)
    if drafting.exact:
        exactness.check(context, [max(runner.model.bos, 0), 0, 1, 2], most + 1, pairs=pairs)
    drawn = seed if by_rejection(settings) else None
    with ExitStack() as stack:
        loaded = stack.enter_context(LoadedDraft(runner, settings, context.n_ctx))
        draft = loaded.draft(drawn)
        stack.callback(draft.close)
        pace: Pace = Steady(most)
        if drafting.draft_auto and most:
            small = loaded.context
            costs = calibration.remembered(runner.header, context, most + 1, pairs=pairs)
            mixed = drafting.draft_lookup and small is not None
            pace = Adaptive(
                most, calibration.costs_now(costs, context, small, pairs=pairs, mixed=mixed)
            )
        stack.pop_all()
    random = None
    if drawn is not None:
        import numpy as np

        random = np.random.default_rng(drawn)
    clock = calibration.clock(context)
    return Speculation(draft, pace, pairs=pairs, random=random, clock=clock, loaded=loaded)
