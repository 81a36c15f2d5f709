"""Open what settings say of drafting."""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.llm.speculative import calibration, exactness
from mtkit.llm.speculative.drafts import FirstOf
from mtkit.llm.speculative.lookup import Lookup
from mtkit.llm.speculative.model_draft import ModelDraft
from mtkit.llm.speculative.pace import Adaptive, Steady
from mtkit.llm.speculative.rounds import Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.drafts import Draft
    from mtkit.llm.speculative.pace import Pace
    from mtkit.settings import AnswerSettings, DraftSettings, SamplerSettings

    S = TypeVar("S", bound=AnswerSettings)

_MOST_INEXACT = 63


def is_wanted(settings: DraftSettings) -> bool:
    """Whether anything drafts."""
    return settings.draft is not None or settings.draft_lookup


def prepared(settings: S) -> S:
    """Return settings for opening the target.

    Raises:
        UsageError: A setting would do nothing.
    """
    _check_used(settings.drafting)
    if is_wanted(settings.drafting) and settings.drafting.exact:
        return replace(settings, context=exactness.exact_context(settings.context))
    return settings


def _check_used(drafting: DraftSettings) -> None:
    model, lookup = drafting.draft is not None, drafting.draft_lookup
    needed = {
        "draft_p_min": ("--draft", model),
        "draft_lookup_min": ("--draft-lookup", lookup),
        "draft_max": ("--draft or --draft-lookup", model or lookup),
        "draft_match": ("--draft or --draft-lookup", model or lookup),
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


def open_speculation(runner: Runner, settings: AnswerSettings, seed: int) -> Speculation | None:
    """Load the draft of a target whose context is open, and empty; None where none is wanted.

    Raises:
        UsageError: There is no such draft, or it has another vocabulary.
        UnsupportedError: The target cannot be verified in batches, or not exactly.
        FormatError: The draft is damaged.
        ResourceError: It does not fit the memory.
    """
    drafting = settings.drafting
    if not is_wanted(drafting):
        return None
    context = runner.context
    assert context is not None
    _check_can_cut(runner)
    rows, pairs = min(_MOST_INEXACT, context.n_batch), False
    if drafting.exact:
        found = exactness.profile(runner.header.tensors, settings.load, runner.model.path)
        rows, pairs = min(rows, found.rows), found.pairs
    most = min(drafting.draft_max, rows - 1)
    if drafting.exact:
        exactness.check(context, [max(runner.model.bos, 0), 0, 1, 2], most + 1, pairs=pairs)
    draft, step = _draft(runner, settings, seed)
    try:
        pace: Pace = Steady(most)
        if drafting.draft_auto and most:
            costs = calibration.remembered(runner.header, context, most + 1, pairs=pairs)
            pace = Adaptive(most, calibration.Costs(costs, step))
    except BaseException:
        draft.close()
        raise
    random = None
    if by_rejection(settings):
        import numpy as np

        random = np.random.default_rng(seed)
    return Speculation(draft, pace, pairs=pairs, random=random)


def _draft(runner: Runner, settings: AnswerSettings, seed: int) -> tuple[Draft, float]:
    """Return what drafts, and the seconds of a drafted token."""
    drafting = settings.drafting
    lookup = Lookup(drafting.draft_lookup_min)
    if drafting.draft is None:
        return lookup, 0.0
    model, seconds = _model_draft(runner, drafting.draft, settings, seed)
    if drafting.draft_lookup:
        return FirstOf((lookup, model)), seconds
    return model, seconds


def _model_draft(
    runner: Runner, name: str, settings: AnswerSettings, seed: int
) -> tuple[ModelDraft, float]:
    from mtkit.llm.open_model import open_model
    from mtkit.llm.sampling import cuts
    from mtkit.settings import ModelSettings

    assert runner.context is not None
    n_ctx = runner.context.n_ctx
    small = open_model(
        ModelSettings(name, replace(settings.context, n_ctx=n_ctx), settings.load), n_ctx=n_ctx
    )
    try:
        _check_vocabulary(runner, small)
        context = small.open_context()
        _check_can_cut(small)
        chain = random = None
        if by_rejection(settings):
            import numpy as np

            chain = cuts(context, _without_penalties(settings.sampler))
            random = np.random.default_rng([seed, 1])
        seconds = calibration.step_seconds(context)
        least = settings.drafting.draft_p_min
        return ModelDraft(small, least=least, cuts=chain, random=random), seconds
    except BaseException:
        small.close()
        raise


def _without_penalties(sampler: SamplerSettings) -> SamplerSettings:
    """Return settings without what depends on the tokens before: a draft may ignore them."""
    return replace(
        sampler, repeat_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0, dry=0.0
    )


def _check_can_cut(runner: Runner) -> None:
    model = runner.model
    if model.is_recurrent or model.has_encoder:
        kind = "an encoder" if model.has_encoder else "a recurrent state"
        raise UnsupportedError(
            f"has {kind}: rejected tokens cannot be taken back", source=model.path
        )
    if not runner.settings.context.swa_full:
        raise UsageError(
            "rejected tokens cannot be taken back from a window alone",
            hint="leave out --no-swa-full",
        )


def _check_vocabulary(target: Runner, draft: Runner) -> None:
    """Check that an id means the same in both, as far as both have it."""
    key = "tokenizer.ggml.tokens"
    ours, theirs = (r.header.file.metadata.get(key) or () for r in (target, draft))
    for token_id, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            raise UsageError(
                f"has another vocabulary: id {token_id} is {other!r}, the model's is {one!r}",
                source=draft.model.path,
                hint="a draft needs the model's ids",
            )
