"""Find what drafts best for a target, with these prompts on this machine.

The target answers the prompts plainly. Every candidate then reads along with these answers, and is
asked for one token at each place: that says what a drafted token costs and where it is right, and
so, with the costs of the target's batches, how long the answers would have taken with any number
of drafted tokens. Half of the candidates go on to more prompts, until few are left (successive
halving); the best ones then really write the answers, in turn with the target alone.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from hashlib import sha256
from itertools import product

from mtkit.base.record import replace
from mtkit.base.whole_files import write_files
from mtkit.errors import MtkitError
from mtkit.llm.speculative import calibration, exactness, opening
from mtkit.llm.speculative.answers import Answers, Watched, acceptance, speed
from mtkit.llm.speculative.candidates import Candidate, Found
from mtkit.llm.speculative.groups import PLAIN
from mtkit.llm.speculative.loaded_draft import LoadedDraft
from mtkit.llm.speculative.proposal import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.known import Known
    from mtkit.settings import GenerateSettings

_CONFIRMED = 2
"""Candidates that really write."""
_RUNGS = (1, 3, 9)
"""Prompts that candidates read along with, before each halving."""
_SURE = 50.0
"""Rounds that what a candidate read along is worth."""


class Tuner:
    """A target with its context open, and what was found so far; ``save`` remembers it."""

    def __init__(
        self, runner: Runner, settings: GenerateSettings, state: str, until: float
    ) -> None:
        """Take a target.

        Args:
            runner: Its context is open.
            settings: ``prepared``; of drafting, what all candidates have in common.
            state: A file that remembers what was measured; read if it is there.
            until: The time (``time.monotonic``) when nothing more begins but the confirmation.
        """
        assert runner.context is not None
        self._runner, self._settings, self._until = runner, settings, until
        self._context = runner.context
        self._now = calibration.clock(self._context)
        self._state, self._seen = state, {}
        with suppress(OSError), open(state, "rb") as file:
            digest, _, told = file.read().partition(b"\n")
            if digest == _digest(told):  # else what was measured is measured again
                self._seen = json.loads(told)

    def _remember(self, key: str, make: Callable[[], Any]) -> Any:
        if key not in self._seen:
            self._seen[key] = make()
            told = json.dumps(self._seen).encode()
            write_files({self._state: _digest(told) + b"\n" + told}, force=True)
        return self._seen[key]

    def answers(self, prompts: list[list[int]], limit: int) -> Answers:
        """Let the target answer plainly, and measure its batches."""
        written = self._remember("answers", lambda: [self._plain(ids, limit) for ids in prompts])
        found = Answers(prompts, [text for text, _ in written], sum(s for _, s in written)
                        / max(sum(len(text) - 1 for text, _ in written), 1))  # fmt: skip

        def costs() -> dict[str, object]:
            calibration.measure(self._context, calibration.SIZES, found.known)
            return found.known.document()

        found.known.take(self._remember("costs", costs))
        return found

    def _plain(self, ids: list[int], limit: int) -> tuple[list[int], float]:
        from mtkit.llm.sampling import Sampler

        runner = self._runner
        runner.ids = []
        self._context.clear()
        with Sampler(self._context, self._settings.sampler) as sampler:
            runner.feed(ids)
            tokens = runner.stream(sampler, limit)
            next(tokens, None)  # the prompt gives the first one
            start = self._now()
            for _ in tokens:
                pass
            return runner.ids[len(ids) :], self._now() - start

    def watch(self, candidate: Candidate, answers: Answers, count: int) -> Watched | None:
        """Let a candidate read along with so many answers; None where it cannot draft."""

        def make() -> list[Any] | None:
            try:
                return self._watched(candidate, answers, count)
            except MtkitError:
                return None

        drafting = candidate.drafting
        key = f"{drafting.draft} {drafting.sx_static_vocab} {count}"
        found = self._remember(key, make)
        return None if found is None else Watched(*found)

    def _watched(self, candidate: Candidate, answers: Answers, count: int) -> list[Any]:
        alone = replace(candidate.drafting, draft_lookup=False)
        settings = replace(self._settings, drafting=alone)
        right, costs, read, tokens = [], [], 0.0, 0
        with LoadedDraft(self._runner, settings, self._context.n_ctx) as loaded:
            draft = loaded.draft()
            try:
                for prompt, text in zip(answers.prompts, answers.texts[:count], strict=False):
                    draft.reset()
                    draft.begin(prompt)
                    ids, row = [*prompt, *text], []
                    for at in range(len(prompt) + 1, len(ids)):
                        draft.saw(Outcome([], 0, [ids[at - 1]], -1))
                        start = self._now()
                        row.append(draft.propose(ids[:at], 1).ids == ids[at : at + 1])
                        costs.append(self._now() - start)
                        if len(row) == 1:  # it read the prompt
                            read, tokens = read + costs.pop(), tokens + at
                    right.append(row)
            finally:
                draft.close()
        cost = sorted(costs)[len(costs) // 2] if costs else 0.0
        reading = max(read - count * cost, 0.0) / max(tokens, 1)
        return [right, cost / answers.plain, reading / answers.plain]

    def best(self, candidate: Candidate, answers: Answers, watched: Watched | None) -> Found:
        """Return the fastest configuration of a candidate: numbers and width."""
        drafting, best = candidate.drafting, None
        if watched is not None:
            places = [
                float(right) for row, hits in zip(watched.right, answers.hits, strict=False)
                for right, (found, _) in zip(row, hits, strict=True)
                if not (found and drafting.draft_lookup)
            ]  # fmt: skip
            rate = sum(places) / max(len(places), 1)
        else:
            tried, right = acceptance(answers.hits)
            rate = right / max(tried, 1)
        header, load = self._runner.header, self._settings.load
        for width in (1, 4):
            rows = max(calibration.SIZES)
            if drafting.exact:
                found = exactness.profile(header.multiplied, load, header.path, width)
                if width > 1 and found.width != width:
                    continue
                rows = min(rows, found.rows)
                wide = found.width
            elif width > 1:
                continue
            else:
                wide = 1
            numbers = range(1, min(rows, self._context.n_batch))
            drafted = numbers if watched else range(1)
            for number, most in product(drafted, numbers if drafting.draft_lookup else range(1)):
                promised = speed(answers, watched, number, wide, lookup=most)
                if best is None or promised > best.promised:
                    # What a lookup finds differs much: the policy decides how much of it is used.
                    limit = numbers[-1] if drafting.draft_lookup else number
                    chosen = replace(drafting, draft_max=limit, draft_width=width)
                    cost = watched.cost if watched else 0.0
                    best = Found(candidate, chosen, cost, rate, promised)
        assert best is not None
        return best

    def search(
        self,
        candidates: Sequence[Candidate],
        answers: Answers,
        progress: Callable[[float], None] = lambda _: None,
    ) -> list[Found]:
        """Return all candidates, the most promising first; halved from rung to rung."""
        found = {one.name: self.best(one, answers, None)
                 for one in candidates if one.drafting.draft is None}  # fmt: skip
        left = [one for one in candidates if one.drafting.draft is not None]
        rungs = [min(rung, len(answers.texts)) for rung in _RUNGS]
        total, done = sum(len(left) >> n for n in range(len(rungs))) or 1, 0
        for rung in dict.fromkeys(rungs):
            for one in left:
                done += 1
                progress(min(done / total, 0.999))
                if time.monotonic() > self._until:
                    break
                watched = self.watch(one, answers, rung)
                if watched is not None:
                    found[one.name] = self.best(one, answers, watched)
            left = [one for one in left if one.name in found]
            left.sort(key=lambda one: -found[one.name].promised)
            left = left[: max(len(left) // 2, _CONFIRMED)]
        progress(1)
        return sorted(found.values(), key=lambda one: -one.promised)

    def confirm(
        self, found: list[Found], answers: Answers, limit: int
    ) -> tuple[list[Found], dict[str, Known]]:
        """Let the best ones write the answers in turn with the target alone.

        Returns:
            All, those that wrote first and the fastest of them at the front; by name, what is known
            of each that wrote.
        """
        from mtkit.llm.speculative.bench import Bench
        from mtkit.llm.speculative.bench_summary import summaries

        exact = [one for one in found if one.drafting.exact and one.promised > 1]
        other = [one for one in found if not one.drafting.exact and one.promised > 1][:1]
        free = [one for one in exact[_CONFIRMED:] if one.drafting.draft is None]
        tried = [*exact[:_CONFIRMED], *free, *other]  # a model has to beat what needs none
        looked, right = acceptance(answers.hits)
        for one in tried:  # what is known already need not be measured in the texts
            learnt = self._known(one)
            learnt.take({
                **answers.known.document(), "checked": learnt.checked,
                "drafted": [one.cost], "tried": _SURE, "accepted": _SURE * one.acceptance,
                "free": (_SURE, _SURE * right / max(looked, 1)),
            })  # fmt: skip
            learnt.save()
        groups = {PLAIN: None, **{one.candidate.name: one.drafting for one in tried}}
        bench = Bench(self._runner, self._settings, groups)
        prompts = [("prompts", number, ids) for number, ids in enumerate(answers.prompts)]
        rows = {row["group"]: row for row in summaries(
            list(bench.runs(prompts, 0.0, limit)), bench.wide or None, None)}  # fmt: skip
        done = [
            replace(one, measured=rows[one.candidate.name]["speed"],
                    same=rows[one.candidate.name]["identical"])
            for one in tried
        ]  # fmt: skip
        done.sort(key=lambda one: -(one.measured or 0))
        known = {one.candidate.name: self._known(one) for one in done}
        return [*done, *(one for one in found if one not in tried)], known

    def _known(self, one: Found) -> Known:
        exact = exactness.profile(
            self._runner.header.multiplied, self._settings.load, self._runner.header.path,
            one.drafting.draft_width,
        ).width if one.drafting.exact else 1  # fmt: skip
        return opening.known_of(self._runner, self._context, one.drafting, exact)


def _digest(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode()
