"""Settings of drafting: checked, completed from a profile, and opened.

A profile is a file of schema ``mtkit.draft-profile/1`` that ``mtkit sx tune`` writes for a target:
settings of drafting, costs, and what it was made with: processor, threads, llama.cpp and the files.
``--draft-profile FILE`` applies its settings where no option says otherwise; with anything else, it
changes nothing, which is said. Paths in it are relative to the file, or absolute.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack

from mtkit.base.binary import map_file
from mtkit.base.files import write_files
from mtkit.base.record import replace
from mtkit.base.watch import say
from mtkit.errors import FormatError, UsageError, wording
from mtkit.sources.locate import MODEL, locate
from mtkit.speculative import exactness
from mtkit.speculative.costs import Costs, choose_clock, costs_path
from mtkit.speculative.draft_model import DraftLoader, check_can_cut
from mtkit.speculative.policy import Policy
from mtkit.speculative.rounds import Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.settings import AnswerSettings, DraftSettings
    from mtkit.speculative.drafts import Draft

    S = TypeVar("S", bound=AnswerSettings)


PROFILE_SCHEMA = "mtkit.draft-profile/1"
_FILES = ("draft", "sx_static_vocab")
_PROFILE_SETTINGS = (
    *_FILES, "draft_lookup", "draft_max", "draft_width", "sx_seed_prompt", "sx_learn", "exact",
)  # fmt: skip


_ENDS = 1 << 20
"""Bytes at the beginning and at the end of a file that tell it from others."""


def describe_origin(model: str | None, draft: str | None, threads: int | None) -> dict[str, object]:
    """Return what costs depend on."""
    from hashlib import sha256

    from mtkit.llama import library_file, system_info
    from mtkit.llm.threads import cores
    from mtkit.llm.trial import processor

    def stamp(path: str) -> str:
        data = map_file(path)
        ends = sha256(data[:_ENDS])
        ends.update(data[-_ENDS:])
        return f"{len(data)} bytes, {ends.hexdigest()[:16]}"

    name, flags = processor()
    return {
        "processor": f"{name}, {sha256(flags.encode()).hexdigest()[:8]}",
        "threads": threads or (1 if cores() == 1 else None),
        # Builds with other kernels have the same libllama.
        "llama.cpp": f"{stamp(library_file())}, {sha256(system_info().encode()).hexdigest()[:8]}",
        "model": stamp(locate(model, MODEL).path),
        **({} if draft is None else {"draft model": stamp(draft)}),
    }


def write_profile(
    path: str, drafting: DraftSettings, costs: Costs, about: dict[str, object]
) -> None:
    """Write a profile; ``about`` has its ``origin`` (``describe_origin``)."""
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
    document = {"schema": PROFILE_SCHEMA, **about, "settings": settings, "known": costs.document()}
    write_files({path: (json.dumps(document, indent=1) + "\n").encode()}, force=True)


def read_profile(path: str) -> dict[str, Any]:
    """Return the document of a profile."""
    try:
        document = json.loads(bytes(map_file(path)))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("schema") != PROFILE_SCHEMA:
        raise FormatError("is not a profile", source=path, hint="mtkit sx tune writes them")
    return document


def apply_profile(drafting: DraftSettings, model: str | None, threads: int | None) -> DraftSettings:
    """Return settings with those of their profile in place of defaults.

    A profile that was made with another machine, library or file leaves them as they are.
    """
    path = drafting.draft_profile
    if path is None:
        return drafting
    document = read_profile(path)
    settings, changes = document.get("settings"), {}
    if not isinstance(settings, dict) or not settings.keys() <= set(_PROFILE_SETTINGS):
        raise FormatError("has settings that are not known", source=path, field="settings")
    for name, value in settings.items():
        declared = drafting.declared[name]
        if not isinstance(value, type(declared.default) if declared.default is not None else str):
            raise FormatError(f"is {value!r}", source=path, field=f"settings.{name}")
        if name in _FILES:
            value = settings[name] = os.path.join(os.path.dirname(os.path.abspath(path)), value)
        if declared.options and getattr(drafting, name) == declared.default:
            changes[name] = value
    if not settings:
        return replace(drafting, draft_profile=None)
    other = _other_origin(document.get("origin"), model, settings.get("draft"), threads)
    if other:
        say(f"{path}: {other}; not used: mtkit sx tune makes one for here")
        return replace(drafting, draft_profile=None)
    if drafting.declared["exact"].default is False:  # a server's has another meaning
        changes.pop("exact", None)
    return replace(drafting, **changes)


def _other_origin(origin: object, model: str | None, draft: str | None, threads: int | None) -> str:
    """Return what is not as it was when a profile was made; empty if all is."""
    if not isinstance(origin, dict):
        return "does not say what it was made with"
    for name, value in describe_origin(model, draft, threads).items():
        if origin.get(name) == value:
            continue
        if name == "threads":
            return f"was made for --threads {origin.get(name)}"
        if name == "processor":
            return f"was made on another processor ({origin.get(name)})"
        return f"was made with another {name}"
    return ""


_LEAST_COST = 0.7
"""Least cost of a drafted token, in times of reading its weights."""
_SEARCH_SETTINGS = ("sx_scales", "sx_topk", "sx_threshold")


def is_drafting(settings: DraftSettings) -> bool:
    """Whether anything drafts."""
    return settings.draft is not None or settings.draft_lookup


def prepare_settings(settings: S) -> S:
    """Return settings to open the target with."""
    drafting = apply_profile(settings.drafting, settings.model, settings.context.threads)
    settings = replace(settings, drafting=drafting)
    check_settings(settings.drafting)
    if not is_drafting(settings.drafting):
        return settings
    if settings.drafting.exact:
        return replace(settings, context=exactness.exact_context(settings.context, alone=True))
    return replace(settings, context=replace(settings.context, swa_full=True))


def check_settings(drafting: DraftSettings) -> None:
    """Refuse settings that have no effect."""
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
    for name, (what, is_there) in needed.items():
        declared = drafting.declared[name]
        if not is_there and getattr(drafting, name) != declared.default:
            python = what.replace("--", "").replace("-", "_")
            raise UsageError(
                f"does nothing without {wording(what, python)}",
                field=wording(declared.options[-1], name),
            )


def uses_rejection(settings: AnswerSettings) -> bool:
    """Whether drafted tokens are accepted by rejection sampling.

    Not with a grammar or mirostat: they have a state, so each token has to be their own choice.
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
    """Open the draft of a target whose context is open and empty; None without one.

    Args:
        lazily: Load a draft model only when it may pay, if ``draft_auto`` is set.
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
            hint=f"use {wording('--batch 2', 'n_batch=2')} or more",
        )
    rows, width = min(exactness.MOST_ROWS, context.n_batch), 1
    if drafting.exact:
        exact = exactness.exact_rows(
            runner.header.multiplied, settings.load, runner.model.path, drafting.draft_width
        )
        rows, width = min(rows, exact.rows), exact.width
    most = min(drafting.draft_max, rows - 1)
    draft_seed = seed if uses_rejection(settings) else None
    clock = choose_clock(context)
    with ExitStack() as stack:
        loaded = stack.enter_context(DraftLoader(runner, settings, context.n_ctx))
        costs = open_costs(runner, context, drafting, width)
        costs.guess = _guess_cost(runner, loaded) if drafting.draft_auto else 0.0
        auto = drafting.draft_auto and most > 0
        checks = drafting.exact and width == 1 and auto
        policy = Policy(
            most, costs, width=width, auto=auto,
            mixed=drafting.draft_lookup and drafting.draft is not None,
            checks=checks, strict=drafting.draft_profile is not None,
        )  # fmt: skip
        loaded.is_ahead = policy.is_ahead
        lazy = None
        if auto and lazily and drafting.draft is not None:
            lazy = loaded.lazy(draft_seed, policy.pays, clock)
        draft: Draft = loaded.before(lazy) if lazy else loaded.draft(draft_seed)
        stack.callback(draft.close)
        random = None
        if draft_seed is not None:
            import numpy as np

            random = np.random.default_rng(draft_seed)
        speculation = Speculation(
            draft, policy, random=random, clock=clock, checks=checks,
            lazy=lazy, loaded=loaded,
        )  # fmt: skip
        if drafting.exact and not (auto and (width == 1 or policy.hopeless)):
            _check_bits(context, costs, most + 1, width, speculation)
        stack.pop_all()
    return speculation


def _check_bits(
    context: Context, costs: Costs, rows: int, width: int, speculation: Speculation
) -> None:
    """Compare bits before a text that has no plain steps to compare with."""
    start = time.perf_counter()
    if costs.checked < rows:
        exactness.check(context, [max(context.model.bos, 0), 0, 1, 2], rows, width)
        costs.checked = rows
    speculation.statistics.measure_seconds += time.perf_counter() - start


def open_costs(runner: Runner, context: Context, drafting: DraftSettings, width: int) -> Costs:
    """Return the costs of the profile, or else those of today on this machine."""
    if drafting.draft_profile is not None:
        costs = Costs()
        costs.take(read_profile(drafting.draft_profile).get("known"))
        return costs
    clock = choose_clock(context).__name__
    return Costs(costs_path(runner.header, context, [
        drafting.draft, drafting.sx_static_vocab, drafting.sx_quant_embd,
        (drafting.draft_lookup, drafting.sx_seed_prompt or drafting.sx_learn),
        (width, drafting.exact), clock,
    ]))  # fmt: skip


def _guess_cost(runner: Runner, loaded: DraftLoader) -> float:
    """Return the least cost of a drafted token, by the weights that it reads."""
    large = sum(tensor.n_bytes for tensor in exactness.matrices(runner.header.multiplied))
    return _LEAST_COST * loaded.n_bytes / max(large, 1)
