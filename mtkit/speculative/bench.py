"""Decoding with and without drafts, prompt by prompt: how fast is each, and is the text the same.

All groups share one target and its context, and each prompt goes through all of them in turn, so
that other load on the machine affects all alike. Every text is a session of its own: a learned
vocabulary is forgotten before the next, and the time includes reading the prompt with the draft.
Costs and acceptance of drafts are kept, as in any process.

The groups are those of the document that proposes ShenXing, and more:

=======  =========================================================================================
A        the target alone
A2, A4   the target alone in the configuration that makes drafting with its weights exact: so many
         rows a token (``exactness``); only where that is more than one
lookup   what followed the last tokens before
B        a draft model
C        the draft with a static vocabulary (FR-Spec)
D        C with the trigger's search (ShenXing)
D+       D that also learns the prompt's ids and all that are emitted
E        C that learns those, without a search
B@0.7    the draft's costs, but right at this rate: the target's own next token, or another one
@0.7     the same without a draft's costs
=======  =========================================================================================
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from operator import attrgetter
from statistics import median, stdev

from mtkit.base.record import Record, replace
from mtkit.llm.runner import logprob
from mtkit.llm.sampling import Sampler
from mtkit.speculative import exactness, setup
from mtkit.speculative.costs import BATCH_SIZES, Costs, choose_clock, measure_batches
from mtkit.speculative.draft_model import ModelDraft
from mtkit.speculative.drafts import Lookup, Script
from mtkit.speculative.policy import Policy
from mtkit.speculative.rounds import Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.settings import DraftSettings, GenerateSettings


PLAIN, LOOKUP = "A", "lookup"


def groups_of(drafting: DraftSettings) -> dict[str, DraftSettings | None]:
    """Return the drafting settings of each group that these settings allow; None: no drafting."""
    common = replace(
        drafting, draft=None, draft_lookup=False, sx_static_vocab=None, sx_quant_embd=None,
        sx_scales=None, sx_seed_prompt=False, sx_learn=False,
    )  # fmt: skip
    groups: dict[str, DraftSettings | None] = {
        PLAIN: None,
        LOOKUP: replace(common, draft_lookup=True),
    }
    if drafting.draft is None:
        return groups
    groups["B"] = whole = replace(common, draft=drafting.draft)
    if drafting.sx_static_vocab is None:
        return groups
    groups["C"] = static = replace(whole, sx_static_vocab=drafting.sx_static_vocab)
    if drafting.sx_quant_embd is not None:
        search = replace(static, sx_quant_embd=drafting.sx_quant_embd, sx_scales=drafting.sx_scales)
        groups["D"] = search
        groups["D+"] = replace(search, sx_seed_prompt=True, sx_learn=True)
    groups["E"] = replace(static, sx_seed_prompt=True, sx_learn=True)
    return groups


_WARM_UP = 8
"""Tokens that each group writes before anything is measured, to touch its memory."""


class Run(Record):
    """One text of one group.

    Attributes:
        temperature: 0 for greedy choice.
        log_likelihood: Mean over the tokens, by the target alone; None for greedy choice.
        drafting: Counts of ``Statistics``; None of the target alone.
    """

    source: str
    prompt: int
    group: str
    temperature: float
    ids: list[int]
    seconds: float
    wall_seconds: float
    log_likelihood: float | None
    drafting: dict[str, Any] | None


class Bench:
    """A target with its context open, and groups that write with it in turn.

    Attributes:
        wide: The group of the target alone with several rows a token; empty if it takes one.
    """

    def __init__(
        self,
        runner: Runner,
        settings: GenerateSettings,
        groups: Mapping[str, DraftSettings | None],
        rates: Sequence[float] = (),
    ) -> None:
        """Take a target."""
        self._runner, self._settings = runner, settings
        self._groups, self._rates = groups, rates
        assert runner.context is not None
        self._context = runner.context
        self._now = choose_clock(self._context)
        width = 1
        most = min(settings.drafting.draft_max, exactness.MOST_ROWS - 1)
        if settings.drafting.exact:
            exact = exactness.exact_rows(
                runner.header.multiplied, settings.load, runner.model.path,
                settings.drafting.draft_width,
            )  # fmt: skip
            width, most = exact.width, min(most, exact.rows - 1)
        self._most = min(most, self._context.n_batch - 1)
        self._width, self.wide = width, f"A{width}" if width > 1 else ""
        self.known = Costs()
        sizes = [size for size in BATCH_SIZES if size <= self._most + 1]
        self.plain = measure_batches(self._context, [*sizes, width], self.known)

    def runs(
        self, prompts: Sequence[tuple[str, int, list[int]]], temperature: float, limit: int
    ) -> Iterator[Run]:
        """Write behind every prompt with every group."""
        sampler = replace(self._settings.sampler, temperature=temperature)
        settings = replace(self._settings, sampler=sampler)
        with ExitStack() as stack:
            opened = {name: self._open(name, settings, stack) for name in self._names(temperature)}
            for name in opened if prompts else ():
                self._write(opened[name], prompts[0][2], min(_WARM_UP, limit))
            scripted = [name for name, (_, _, script) in opened.items() if script is not None]
            order = [name for name in opened if name not in scripted]
            for source, number, ids in prompts:
                reference: list[int] = []
                for name in order + scripted:
                    group = opened[name]
                    _, speculation, script = group
                    if script is not None:
                        script.ids = [*ids, *reference]
                    text, seconds, wall = self._write(group, ids, limit)
                    if name == (self.wide or PLAIN):
                        reference = text
                    counts = None if speculation is None else speculation.statistics.document()
                    chance = mean_log_likelihood(self._context, ids, text) if temperature else None
                    yield Run(
                        source, number, name, temperature, text, seconds, wall, chance, counts
                    )
                order.append(order.pop(0))  # the group before leaves its mark on the caches

    def _names(self, temperature: float) -> list[str]:
        names = [
            PLAIN,
            *([self.wide] if self.wide else []),
            *(g for g in self._groups if g != PLAIN),
        ]
        if temperature:
            return names
        return names + [f"{name}@{rate:g}" for name in ("", "B", "C") for rate in self._rates
                        if not name or name in self._groups]  # fmt: skip

    def _open(
        self, name: str, settings: GenerateSettings, stack: ExitStack
    ) -> tuple[Sampler, Speculation | None, Script | None]:
        kind, _, rate = name.partition("@")
        drafting = self._groups.get(kind)
        settings = replace(settings, drafting=drafting or replace(
            settings.drafting, draft=None, draft_lookup=False))  # fmt: skip
        by_rejection = setup.uses_rejection(settings)
        sampler = stack.enter_context(
            Sampler(self._context, settings.sampler, distributions=by_rejection)
        )
        script = Script(float(rate)) if rate else None
        if drafting is not None:
            speculation = setup.open_speculation(
                self._runner, settings, sampler.seed, lazily=script is None
            )
            assert speculation is not None
            if script is not None:
                assert isinstance(speculation.draft, ModelDraft)
                speculation.draft.script = script.token
        elif script is not None:
            speculation = Speculation(script, self._policy(self._most), clock=self._now)
        elif name == self.wide:
            speculation = Speculation(Lookup(), self._policy(0))
        else:
            return sampler, None, None
        stack.callback(speculation.close)
        return sampler, speculation, script

    def _policy(self, most: int) -> Policy:
        costs = Costs()
        costs.take(self.known.document())
        auto = self._settings.drafting.draft_auto and most > 0
        return Policy(most, costs, width=self._width, auto=auto)

    def _write(
        self, group: tuple[Sampler, Speculation | None, Script | None], ids: list[int], limit: int
    ) -> tuple[list[int], float, float]:
        """Return the tokens behind a prompt, and their seconds, by our clock and the wall clock."""
        sampler, speculation, script = group
        if speculation is not None:
            speculation.reset()
        if script is not None:
            script.reset()
        self._context.clear()
        self._runner.ids = []
        self._runner.feed(ids)
        sampler.accept(ids)
        began, start = time.perf_counter(), self._now()
        for _ in self._runner.stream(sampler, limit, speculation=speculation):
            pass
        seconds, wall = self._now() - start, time.perf_counter() - began
        return self._runner.ids[len(ids) :], seconds, wall


def mean_log_likelihood(context: Context, prompt: list[int], text: list[int]) -> float:
    """Return the mean logarithm of the probabilities of tokens behind a prompt."""
    context.clear()
    context.decode(prompt)
    total = logprob(context.logits(), text[0])
    for at in range(0, len(text) - 1, context.n_batch):
        part = text[at : at + context.n_batch + 1]
        context.decode(part[:-1], outputs="all")
        total += sum(logprob(context.logits(row), i) for row, i in enumerate(part[1:]))
    return total / len(text)


ALL_SOURCES = "all"
_LARGEST_KEY = "largest"


def summarize(
    runs: Sequence[Run], paired: str | None, static: Collection[int] | None
) -> list[dict[str, object]]:
    """Return a row for each temperature, source and group, and for all sources together.

    Args:
        paired: The group whose greedy text a drafted text should equal; None for A.
        static: The static vocabulary, to count tokens outside; None without one.
    """
    sources = list(dict.fromkeys(run.source for run in runs))
    rows = []
    for temperature in dict.fromkeys(run.temperature for run in runs):
        for source in [*sources, *[ALL_SOURCES] * (len(sources) > 1)]:
            of_source = [
                run
                for run in runs
                if run.temperature == temperature and source in (run.source, ALL_SOURCES)
            ]
            by_group = {
                name: [run for run in of_source if run.group == name]
                for name in dict.fromkeys(run.group for run in of_source)
            }
            plain = by_group["A"]
            for name, group in by_group.items():
                row: dict[str, object] = {
                    "temperature": temperature, "source": source, "group": name,
                    **_speeds(group, plain),
                }  # fmt: skip
                if temperature:
                    row |= _likelihood(group)
                else:
                    drafted = by_group[paired] if paired not in (None, name) else plain
                    row["identical"] = sum(
                        run.ids == (alone if _is_plain(run) else pair).ids
                        for run, alone, pair in zip(group, plain, drafted, strict=True)
                    )
                if static is not None:
                    ids = [i for run in group for i in run.ids]
                    row["outside"] = sum(i not in static for i in ids) / len(ids)
                if group[0].drafting is not None:
                    row["drafting"] = add_counts([run.drafting or {} for run in group])
                rows.append(row)
    return rows


def _is_plain(run: Run) -> bool:
    """Whether nothing was to be drafted in a text."""
    return run.drafting is None or bool(run.drafting["declined_texts"])


def _speeds(group: Sequence[Run], plain: Sequence[Run]) -> dict[str, object]:
    def rate(runs: Sequence[Run], seconds: Callable[[Run], float] = attrgetter("seconds")) -> float:
        return sum(len(run.ids) for run in runs) / sum(map(seconds, runs))

    wall = attrgetter("wall_seconds")
    rates = [rate([run]) for run in group]
    return {
        "prompts": len(group),
        "tokens": sum(len(run.ids) for run in group),
        "seconds": sum(run.seconds for run in group),
        "wall_seconds": sum(map(wall, group)),
        "tokens_per_second": rate(group),
        "median_tokens_per_second": median(rates),
        "speed": rate(group) / rate(plain),
        "median_speed": median(x / rate([run]) for x, run in zip(rates, plain, strict=True)),
        "wall_speed": rate(group, wall) / rate(plain, wall),
    }


def _likelihood(group: Sequence[Run]) -> dict[str, object]:
    """Return the mean of the texts' log-likelihoods, and its standard error."""
    likelihoods = [run.log_likelihood for run in group if run.log_likelihood is not None]
    error = stdev(likelihoods) / len(likelihoods) ** 0.5 if len(likelihoods) > 1 else None
    return {"log_likelihood": sum(likelihoods) / len(likelihoods), "log_likelihood_error": error}


def add_counts(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of several texts as one."""
    total: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            if isinstance(value, dict):
                total[key] = add_counts([total[key], value] if key in total else [value])
            elif isinstance(value, list):
                before = total.get(key, [])
                size = max(len(before), len(value))
                total[key] = [sum(p) for p in zip(*(_padded(x, size) for x in (before, value)))]  # noqa: B905  both have the size
            elif isinstance(value, str):
                total[key] = value
            elif key == _LARGEST_KEY:
                total[key] = max(total.get(key, 0), value)
            else:
                total[key] = total.get(key, 0) + value
    if "rounds" in total:
        total["acceptance"] = _ratio(total["accepted"], total["drafted"])
        total["tokens_per_round"] = _ratio(total["emitted"], total["rounds"])
        total["acceptance_by_place"] = [
            _ratio(*pair)
            for pair in zip(total["accepted_by_place"], total["tried_by_place"], strict=True)
        ]
    return total


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _padded(numbers: list[float], size: int) -> list[float]:
    return [*numbers, *[0] * (size - len(numbers))]
