"""What settings say of drafting: checked, filled in from a profile, and opened.

A profile is what ``mtkit sx tune`` found for a target: settings of drafting, and what is known of
costs. A file of schema ``mtkit.draft-profile/1``. ``--draft-profile FILE`` takes its settings where
no option says otherwise. Paths in it are those of files beside it, or absolute.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack

from mtkit.base.binary import map_file
from mtkit.base.files import write_files
from mtkit.base.record import replace
from mtkit.errors import FormatError, UsageError
from mtkit.speculative import costs, exactness
from mtkit.speculative.draft_model import DraftLoader, check_can_cut
from mtkit.speculative.policy import Policy
from mtkit.speculative.rounds import Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.settings import AnswerSettings, DraftSettings
    from mtkit.speculative.costs import Costs
    from mtkit.speculative.drafts import Draft

    S = TypeVar("S", bound=AnswerSettings)


PROFILE_SCHEMA = "mtkit.draft-profile/1"
_FILES = ("draft", "sx_static_vocab")
_PROFILE_SETTINGS = (
    *_FILES, "draft_lookup", "draft_max", "draft_width", "sx_seed_prompt", "sx_learn", "exact",
)  # fmt: skip


def write_profile(
    path: str, drafting: DraftSettings, known: Costs, about: dict[str, object]
) -> None:
    """Write a profile."""
    folder = os.path.dirname(os.path.abspath(path))
    settings = {
        name: getattr(drafting, name)
        for name in _PROFILE_SETTINGS
        if getattr(drafting, name) != drafting.declared[name].default
    }
    for name in _FILES:
        if name in settings:
            near = os.path.dirname(os.path.abspath(settings[name])) == folder
            whole = os.path.abspath(settings[name])
            settings[name] = os.path.basename(whole) if near else whole
    document = {"schema": PROFILE_SCHEMA, **about, "settings": settings, "known": known.document()}
    write_files({path: (json.dumps(document, indent=1) + "\n").encode()}, force=True)


def read_profile(path: str) -> dict[str, Any]:
    """Return the document of a profile."""
    try:
        found = json.loads(bytes(map_file(path)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != PROFILE_SCHEMA:
        raise FormatError("is not a profile", source=path, hint="mtkit sx tune writes them")
    return found


def apply_profile(drafting: DraftSettings) -> DraftSettings:
    """Return settings with those of their profile, where they say nothing themselves."""
    path = drafting.draft_profile
    if path is None:
        return drafting
    settings, given = read_profile(path).get("settings"), {}
    if not isinstance(settings, dict) or not settings.keys() <= set(_PROFILE_SETTINGS):
        raise FormatError("has settings that are not known", source=path, field="settings")
    for name, value in settings.items():
        declared = drafting.declared[name]
        if not declared.options or getattr(drafting, name) != declared.default:
            continue
        if not isinstance(value, type(declared.default) if declared.default is not None else str):
            raise FormatError(f"is {value!r}", source=path, field=f"settings.{name}")
        if name in _FILES:
            value = os.path.join(os.path.dirname(os.path.abspath(path)), value)
        given[name] = value
    if drafting.declared["exact"].default is False:  # of a server: it means another thing
        given.pop("exact", None)
    return replace(drafting, **given)


_LEAST_COST = 0.7
"""Times as long as reading the weights that a drafted token takes at least."""
_SEARCH_SETTINGS = ("sx_scales", "sx_topk", "sx_threshold")


def is_drafting(settings: DraftSettings) -> bool:
    """Whether anything drafts."""
    return settings.draft is not None or settings.draft_lookup


def prepare_settings(settings: S) -> S:
    """Return settings for opening the target."""
    settings = replace(settings, drafting=apply_profile(settings.drafting))
    check_settings(settings.drafting)
    if not is_drafting(settings.drafting):
        return settings
    if settings.drafting.exact:
        return replace(settings, context=exactness.exact_context(settings.context))
    return replace(settings, context=replace(settings.context, swa_full=True))


def check_settings(drafting: DraftSettings) -> None:
    """Check that every setting does something."""
    model, lookup = drafting.draft is not None, drafting.draft_lookup
    table = drafting.sx_quant_embd is not None
    needed = {
        "draft_p_min": ("--draft", model),
        **dict.fromkeys(
            ("draft_max", "draft_match", "draft_auto", "draft_width", "exact"),
            ("--draft or --draft-lookup", model or lookup),
        ),
        **dict.fromkeys(("sx_static_vocab", "sx_seed_prompt", "sx_learn"), ("--draft", model)),
        **dict.fromkeys(_SEARCH_SETTINGS, ("--sx-quant-embd", table)),
        "sx_quant_embd": ("--sx-scales", drafting.sx_scales is not None),
    }
    for name, (what, given) in needed.items():
        declared = drafting.declared[name]
        if not given and getattr(drafting, name) != declared.default:
            raise UsageError(f"does nothing without {what}", field=declared.options[-1])


def uses_rejection(settings: AnswerSettings) -> bool:
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
        or not is_drafting(settings.drafting)
    )


def open_speculation(
    runner: Runner, settings: AnswerSettings, seed: int, *, lazily: bool = True
) -> Speculation | None:
    """Find the draft of a target whose context is open, and empty; None where none is wanted.

    Where the number of drafted tokens is to be found, the draft is loaded when it may pay.

    Args:
        lazily: Wait with loading; otherwise the draft is loaded now.
    """
    drafting = settings.drafting
    if not is_drafting(drafting):
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
        found = exactness.exact_rows(
            runner.header.multiplied, settings.load, runner.model.path, drafting.draft_width
        )
        rows, width = min(rows, found.rows), found.width
    most = min(drafting.draft_max, rows - 1)
    drawn = seed if uses_rejection(settings) else None
    clock = costs.clock(context)
    with ExitStack() as stack:
        loaded = stack.enter_context(DraftLoader(runner, settings, context.n_ctx))
        learnt = open_costs(runner, context, drafting, width)
        learnt.guess = _guess_cost(runner, loaded) if drafting.draft_auto else 0.0
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
            _check_bits(context, learnt, most + 1, width, made)
        stack.pop_all()
    return made


def _check_bits(context: Context, learnt: Costs, rows: int, width: int, made: Speculation) -> None:
    """Compare bits before a text, where no plain step of it can be compared with."""
    start = time.perf_counter()
    if learnt.checked < rows:
        exactness.check(context, [max(context.model.bos, 0), 0, 1, 2], rows, width)
        learnt.checked = rows
    made.statistics.measure_seconds += time.perf_counter() - start


def open_costs(runner: Runner, context: Context, drafting: DraftSettings, width: int) -> Costs:
    """Return what is remembered of a target and what drafts for it, on this machine."""
    clock = costs.clock(context).__name__
    path = costs.costs_path(runner.header, context, [
        drafting.draft, drafting.sx_static_vocab, drafting.sx_quant_embd,
        (drafting.draft_lookup, drafting.sx_seed_prompt or drafting.sx_learn),
        (width, drafting.exact), clock,
    ])  # fmt: skip
    found = costs.Costs(path)
    if drafting.draft_profile is not None and len(found.sizes) == 1:
        found.take(read_profile(drafting.draft_profile).get("known"))
        found.checked = 0  # bits are this machine's
    return found


def _guess_cost(runner: Runner, loaded: DraftLoader) -> float:
    """Return what a drafted token costs at least, by what has to be read for it."""
    large = sum(tensor.n_bytes for tensor in exactness.matrices(runner.header.multiplied))
    return _LEAST_COST * loaded.n_bytes / max(large, 1)
