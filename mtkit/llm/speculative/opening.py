"""Open what settings say of drafting."""

from __future__ import annotations

import time
from contextlib import ExitStack

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.llm.speculative import calibration, exactness, known, profile
from mtkit.llm.speculative.loaded_draft import LoadedDraft, check_can_cut
from mtkit.llm.speculative.policy import Policy
from mtkit.llm.speculative.rounds import Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.drafts import Draft
    from mtkit.llm.speculative.known import Known
    from mtkit.settings import AnswerSettings, DraftSettings

    S = TypeVar("S", bound=AnswerSettings)

_LEAST = 0.7
"""Times as long as reading the weights that a drafted token takes at least."""
_SEARCH = ("sx_scales", "sx_topk", "sx_threshold")


def is_wanted(settings: DraftSettings) -> bool:
    """Whether anything drafts."""
    return settings.draft is not None or settings.draft_lookup


def prepared(settings: S) -> S:
    """Return settings for opening the target.

    Raises:
        UsageError: A setting would do nothing, or cannot be exact.
    """
    settings = replace(settings, drafting=profile.applied(settings.drafting))
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
    needed = {
        "draft_p_min": ("--draft", model),
        **dict.fromkeys(
            ("draft_max", "draft_match", "draft_auto", "draft_width", "exact"),
            ("--draft or --draft-lookup", model or lookup),
        ),
        **dict.fromkeys(("sx_static_vocab", "sx_seed_prompt", "sx_learn"), ("--draft", model)),
        **dict.fromkeys(_SEARCH, ("--sx-quant-embd", table)),
        "sx_quant_embd": ("--sx-scales", drafting.sx_scales is not None),
    }
    for name, (what, given) in needed.items():
        declared = drafting.declared[name]
        if not given and getattr(drafting, name) != declared.default:
            raise UsageError(f"does nothing without {what}", field=declared.options[-1])


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


def open_speculation(
    runner: Runner, settings: AnswerSettings, seed: int, *, lazily: bool = True
) -> Speculation | None:
    """Find the draft of a target whose context is open, and empty; None where none is wanted.

    Where the number of drafted tokens is to be found, the draft is loaded when it may pay.

    Args:
        runner: The target.
        settings: What drafts, and how.
        seed: Of what is drawn.
        lazily: Wait with loading; otherwise the draft is loaded now.

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
    rows, width = min(exactness.MOST_ROWS, context.n_batch), 1
    if drafting.exact:
        found = exactness.profile(
            runner.header.multiplied, settings.load, runner.model.path, drafting.draft_width
        )
        rows, width = min(rows, found.rows), found.width
    most = min(drafting.draft_max, rows - 1)
    drawn = seed if by_rejection(settings) else None
    clock = calibration.clock(context)
    with ExitStack() as stack:
        loaded = stack.enter_context(LoadedDraft(runner, settings, context.n_ctx))
        learnt = known_of(runner, context, drafting, width)
        learnt.guess = _guess(runner, loaded) if drafting.draft_auto else 0.0
        auto = drafting.draft_auto and most > 0
        checks = drafting.exact and width == 1 and auto
        policy = Policy(
            most, learnt, width=width, auto=auto,
            mixed=drafting.draft_lookup and drafting.draft is not None,
            checks=checks,
        )  # fmt: skip
        lazy = None
        if auto and lazily and drafting.draft is not None:
            lazy = loaded.lazy(drawn, policy.pays, clock)
        draft: Draft = loaded.before(lazy) if lazy else loaded.draft(drawn)
        stack.callback(draft.close)
        random = None
        if drawn is not None:
            import numpy as np

            random = np.random.default_rng(drawn)
        made = Speculation(
            draft, policy, random=random, clock=clock, checks=checks,
            lazy=lazy, loaded=loaded,
        )  # fmt: skip
        if drafting.exact and not (auto and (width == 1 or policy.hopeless)):
            _check(context, learnt, most + 1, width, made)
        stack.pop_all()
    return made


def _check(context: Context, learnt: Known, rows: int, width: int, made: Speculation) -> None:
    """Compare bits before a text, where no plain step of it can be compared with."""
    start = time.perf_counter()
    if learnt.checked < rows:
        exactness.check(context, [max(context.model.bos, 0), 0, 1, 2], rows, width)
        learnt.checked = rows
    made.statistics.measure_seconds += time.perf_counter() - start


def known_of(runner: Runner, context: Context, drafting: DraftSettings, width: int) -> Known:
    """Return what is remembered of a target and what drafts for it, on this machine."""
    clock = calibration.clock(context).__name__
    path = known.path_of(runner.header, context, [
        drafting.draft, drafting.sx_static_vocab, drafting.sx_quant_embd,
        (drafting.draft_lookup, drafting.sx_seed_prompt or drafting.sx_learn),
        (width, drafting.exact), clock,
    ])  # fmt: skip
    found = known.Known(path)
    if drafting.draft_profile is not None and len(found.sizes) == 1:
        found.take(profile.read(drafting.draft_profile).get("known"))
        found.checked = 0  # bits are this machine's
    return found


def _guess(runner: Runner, loaded: LoadedDraft) -> float:
    """Return what a drafted token costs at least, by what has to be read for it."""
    large = sum(tensor.n_bytes for tensor in exactness.matrices(runner.header.multiplied))
    return _LEAST * loaded.n_bytes / max(large, 1)
