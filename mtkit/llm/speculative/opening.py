"""Open what settings say of drafting."""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.rows import Rows
from mtkit.gguf.vocabulary_rows import EMBEDDING
from mtkit.llm.open_model import open_model
from mtkit.llm.speculative import calibration, draft_files, exactness
from mtkit.llm.speculative.draft_vocabulary import Shared, Static, Whole
from mtkit.llm.speculative.drafts import FirstOf
from mtkit.llm.speculative.growth import is_dynamic, open_learning
from mtkit.llm.speculative.lookup import Lookup
from mtkit.llm.speculative.model_draft import ModelDraft
from mtkit.llm.speculative.pace import Adaptive, Steady
from mtkit.llm.speculative.rounds import Speculation
from mtkit.llm.speculative.translated_draft import TranslatedDraft
from mtkit.llm.speculative.translation import Translation
from mtkit.settings import ModelSettings
from mtkit.sources.locate import MODEL, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from mtkit.gguf import GgufFile
    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.drafts import Draft
    from mtkit.llm.speculative.pace import Pace
    from mtkit.settings import AnswerSettings, DraftSettings, SamplerSettings

    S = TypeVar("S", bound=AnswerSettings)

MOST_INEXACT = 63
_LONGER = 3
"""Times the target's context that a draft of another vocabulary has: it may need more tokens."""
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
    _check_used(settings.drafting)
    if is_wanted(settings.drafting) and settings.drafting.exact:
        return replace(settings, context=exactness.exact_context(settings.context))
    return settings


def _check_used(drafting: DraftSettings) -> None:
    model, lookup = drafting.draft is not None, drafting.draft_lookup
    table = drafting.sx_quant_embd is not None
    searches = table or drafting.sx_neighbours is not None
    needed = {
        "draft_p_min": ("--draft", model),
        "draft_lookup_min": ("--draft-lookup", lookup),
        **dict.fromkeys(
            ("draft_max", "draft_match", "draft_auto", "exact"),
            ("--draft or --draft-lookup", model or lookup),
        ),
        **dict.fromkeys(
            ("draft_by_text", "sx_static_vocab", "sx_seed_prompt", "sx_learn", "sx_neighbours"),
            ("--draft", model),
        ),
        **dict.fromkeys(_TABLE, ("--sx-quant-embd", table)),
        **dict.fromkeys(_SEARCH, ("--sx-quant-embd or --sx-neighbours", searches)),
        "sx_quant_embd": ("--sx-scales", drafting.sx_scales is not None),
        "sx_cap": (
            "--sx-quant-embd, --sx-neighbours, --sx-seed-prompt or --sx-learn",
            is_dynamic(drafting),
        ),
    }
    for name, (what, given) in needed.items():
        declared = drafting.declared[name]
        if not given and getattr(drafting, name) != declared.default:
            raise UsageError(f"does nothing without {what}", field=declared.options[-1])
    if table and drafting.sx_neighbours is not None:
        raise UsageError("takes the place of --sx-quant-embd", field="--sx-neighbours")
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
    rows, pairs = min(MOST_INEXACT, context.n_batch), False
    if drafting.exact:
        found = exactness.profile(runner.header.tensors, settings.load, runner.model.path)
        rows, pairs = min(rows, found.rows), found.pairs
    most = min(drafting.draft_max, rows - 1)
    if drafting.exact:
        exactness.check(context, [max(runner.model.bos, 0), 0, 1, 2], most + 1, pairs=pairs)
    draft, small = _draft(runner, settings, seed)
    try:
        pace: Pace = Steady(most)
        if drafting.draft_auto and most:
            costs = calibration.remembered(runner.header, context, most + 1, pairs=pairs)
            mixed = drafting.draft_lookup and small is not None
            pace = Adaptive(
                most, calibration.costs_now(costs, context, small, pairs=pairs, mixed=mixed)
            )
    except BaseException:
        draft.close()
        raise
    random = None
    if by_rejection(settings):
        import numpy as np

        random = np.random.default_rng(seed)
    return Speculation(draft, pace, pairs=pairs, random=random, clock=calibration.clock(context))


def _draft(runner: Runner, settings: AnswerSettings, seed: int) -> tuple[Draft, Context | None]:
    """Return what drafts, and the context of its model."""
    drafting = settings.drafting
    lookup = Lookup(drafting.draft_lookup_min)
    if drafting.draft is None:
        return lookup, None
    model, context = _model_draft(runner, settings, seed)
    if drafting.draft_lookup:
        return FirstOf((lookup, model)), context
    return model, context


def _model_draft(runner: Runner, settings: AnswerSettings, seed: int) -> tuple[Draft, Context]:
    from mtkit.llm.sampling import cuts

    assert runner.context is not None
    assert settings.drafting.draft is not None
    n_ctx = runner.context.n_ctx
    whole = open_gguf(locate(settings.drafting.draft, MODEL))
    path, whole, ids = draft_files.find(whole, settings.drafting.sx_static_vocab)
    differs = _difference(runner, whole)
    if ids is not None and differs:
        raise UsageError(
            f"has another vocabulary: {differs}",
            source=whole.name,
            hint="a static vocabulary needs the model's ids",
        )
    if ids is not None and max(ids) >= runner.model.n_vocab:
        raise UsageError(
            f"can propose id {max(ids)}, which the model does not have", source=whole.name,
            hint="mtkit sx vocab -t MODEL counts the model's ids",
        )  # fmt: skip
    grows = is_dynamic(settings.drafting)
    if grows and ids is None:
        raise UsageError(
            "every id can be proposed: nothing is left to add",
            source=path,
            hint="--sx-static-vocab, or a draft that mtkit sx prune made",
        )
    by_text = settings.drafting.draft_by_text
    if differs or by_text:
        n_ctx *= _LONGER
    context_settings = replace(settings.context, n_ctx=n_ctx, embeddings=grows)
    load = replace(settings.load, trial=settings.load.trial and ids is None)
    small = open_model(ModelSettings(path, context_settings, load), n_ctx=n_ctx)
    try:
        context = small.open_context()
        _check_can_cut(small)
        vocabulary, learning, translation = Whole(context, runner.model.n_vocab), None, None
        if differs or by_text:
            translation = _translation(runner, small)
            vocabulary = Whole(context) if by_text else Shared(context, list(translation.shared))
        elif ids is not None and grows:
            vocabulary, learning = open_learning(runner, settings.drafting, context, ids, whole)
        elif ids is not None:
            vocabulary = Static(context, ids, Rows(whole, whole.names[EMBEDDING]))
        chain = random = None
        if by_rejection(settings) and not by_text:
            import numpy as np

            chain = cuts(context, replace(_without_penalties(settings.sampler), seed=seed))
            random = np.random.default_rng([seed, 1])
        least = settings.drafting.draft_p_min
    except BaseException:
        small.close()
        raise
    draft = ModelDraft(small, vocabulary, least=least, cuts=chain, random=random, learning=learning)
    if translation is not None:
        return TranslatedDraft(draft, translation, by_text=by_text), context
    return draft, context


def _translation(runner: Runner, draft: Runner) -> Translation:
    """Return what translates between the ids of a target and of a draft."""
    from mtkit.tokenizer.load import load

    target, small = load(runner.model.path), load(draft.model.path)
    front = [draft.model.bos] if draft.model.add_bos else []
    found = Translation(target, small, front)
    if not found.shared:
        raise UsageError("has no token that the model has", source=draft.model.path)
    return found


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


def _difference(target: Runner, draft: GgufFile) -> str:
    """Return which id means something else in a draft; empty where none does that both have."""
    key = "tokenizer.ggml.tokens"
    ours, theirs = (file.metadata.get(key) or () for file in (target.header.file, draft))
    for token_id, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return f"id {token_id} is {other!r}, the model's is {one!r}"
    return ""
