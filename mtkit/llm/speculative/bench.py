"""Decoding with and without drafts, prompt by prompt: who is how fast, and writes the same.

All groups share one target and its context, and each prompt goes through all of them in turn, so
that what else the machine does meets all alike. Every text is a session of its own: the vocabulary
that it learnt is forgotten before the next, and a draft reads the prompt within the time that is
measured. What drafts cost and how often they are right is remembered, as in any process.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from mtkit.base.record import Record, replace
from mtkit.llm.sampling import Sampler
from mtkit.llm.speculative import calibration, exactness, opening
from mtkit.llm.speculative.groups import PLAIN
from mtkit.llm.speculative.known import Known
from mtkit.llm.speculative.lookup import Lookup
from mtkit.llm.speculative.model_draft import ModelDraft
from mtkit.llm.speculative.policy import Policy
from mtkit.llm.speculative.rounds import Speculation
from mtkit.llm.speculative.scripted import Script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.llm.runner import Runner
    from mtkit.settings import DraftSettings, GenerateSettings

_WARM_UP = 8
"""Tokens that each group writes before anything is measured: memory is touched then."""


class Run(Record):
    """One text of one group.

    Attributes:
        source: The file that its prompt is from.
        prompt: Its place there.
        group: Name of the group.
        temperature: 0 for greedy choice.
        ids: Tokens written.
        seconds: Time of writing them, by ``calibration.clock``.
        wall_seconds: The same by the clock on the wall.
        log_likelihood: Of a token on average, by the target alone; None for greedy choice.
        drafting: What was counted; None of the target alone.
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
        known: Costs of the target's batches.
        plain: Seconds of a token of the target.
        wide: The group of the target alone in several rows a token; empty where it takes one.
    """

    def __init__(
        self,
        runner: Runner,
        settings: GenerateSettings,
        groups: Mapping[str, DraftSettings | None],
        rates: Sequence[float] = (),
    ) -> None:
        """Take a target.

        Args:
            runner: Its context is open.
            settings: ``prepared``, with what all groups have in common.
            groups: Name -> what drafts, of ``groups_of``.
            rates: Acceptances to make up, for "B", "C" and no draft at all.
        """
        self._runner, self._settings = runner, settings
        self._groups, self._rates = groups, rates
        assert runner.context is not None
        self._context = runner.context
        self._now = calibration.clock(self._context)
        width = 1
        most = min(settings.drafting.draft_max, exactness.MOST_ROWS - 1)
        if settings.drafting.exact:
            found = exactness.profile(
                runner.header.multiplied, settings.load, runner.model.path,
                settings.drafting.draft_width,
            )  # fmt: skip
            width, most = found.width, min(most, found.rows - 1)
        self._most = min(most, self._context.n_batch - 1)
        self._width, self.wide = width, f"A{width}" if width > 1 else ""
        self.known = Known()
        sizes = [size for size in calibration.SIZES if size <= self._most + 1]
        self.plain = calibration.measure(self._context, [*sizes, width], self.known)

    def runs(
        self, prompts: Sequence[tuple[str, int, list[int]]], temperature: float, limit: int
    ) -> Iterator[Run]:
        """Write behind every prompt with every group.

        Args:
            prompts: Source, number and ids of each.
            temperature: 0 for greedy choice.
            limit: Tokens of a text.
        """
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
                    written, seconds, wall = self._write(group, ids, limit)
                    if name == (self.wide or PLAIN):
                        reference = written
                    seen = None if speculation is None else speculation.statistics.document()
                    chance = self._log_likelihood(ids, written) if temperature else None
                    yield Run(
                        source, number, name, temperature, written, seconds, wall, chance, seen
                    )
                order.append(order.pop(0))  # what ran before is in the caches

    def _names(self, temperature: float) -> list[str]:
        found = [
            PLAIN,
            *([self.wide] if self.wide else []),
            *(g for g in self._groups if g != PLAIN),
        ]
        if temperature:
            return found
        return found + [f"{name}@{rate:g}" for name in ("", "B", "C") for rate in self._rates
                        if not name or name in self._groups]  # fmt: skip

    def _open(
        self, name: str, settings: GenerateSettings, stack: ExitStack
    ) -> tuple[Sampler, Speculation | None, Script | None]:
        kind, _, rate = name.partition("@")
        drafting = self._groups.get(kind)
        settings = replace(settings, drafting=drafting or replace(
            settings.drafting, draft=None, draft_lookup=False))  # fmt: skip
        by_rejection = opening.by_rejection(settings)
        sampler = stack.enter_context(
            Sampler(self._context, settings.sampler, distributions=by_rejection)
        )
        script = Script(float(rate)) if rate else None
        if drafting is not None:
            speculation = opening.open_speculation(
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
        known = Known()
        known.take(self.known.document())
        auto = self._settings.drafting.draft_auto and most > 0
        return Policy(most, known, width=self._width, auto=auto)

    def _write(
        self, group: tuple[Sampler, Speculation | None, Script | None], ids: list[int], limit: int
    ) -> tuple[list[int], float, float]:
        """Return the tokens behind a prompt, and the seconds that they took."""
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

    def _log_likelihood(self, prompt: list[int], written: list[int]) -> float:
        """Return the mean logarithm of the tokens' probabilities."""
        from mtkit.llm.runner import logprob

        context = self._context
        context.clear()
        context.decode(prompt)
        total = logprob(context.logits(), written[0])
        for at in range(0, len(written) - 1, context.n_batch):
            part = written[at : at + context.n_batch + 1]
            context.decode(part[:-1], outputs="all")
            total += sum(logprob(context.logits(row), i) for row, i in enumerate(part[1:]))
        return total / len(written)
