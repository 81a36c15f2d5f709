"""Find what drafts best for a target, with these prompts on this machine.

The target answers the prompts plainly. Every candidate then reads along with these answers, and is
asked for one token at each place: that says what a drafted token costs and where it is right, and
so, with the costs of the target's batches, how long the answers would have taken with any number
of drafted tokens. Half of the candidates go on to more prompts, until few are left (successive
halving); the best ones then really write the answers, in turn with the target alone.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from hashlib import sha256
from itertools import product

from mtkit.base.files import write_files
from mtkit.base.record import Record, replace
from mtkit.errors import MtkitError
from mtkit.speculative import exactness, setup
from mtkit.speculative.bench import PLAIN
from mtkit.speculative.costs import BATCH_SIZES, Costs, clock, measure_batches
from mtkit.speculative.draft_model import DraftLoader
from mtkit.speculative.drafts import Lookup
from mtkit.speculative.exactness import MOST_ROWS
from mtkit.speculative.verification import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mtkit.llm.runner import Runner
    from mtkit.settings import DraftSettings, GenerateSettings


VOCABULARY_SIZES = (65536, 32768, 16384, 8192, 4096)
"""Ids of a static vocabulary that are tried, beside all of them."""
DRAFT_TYPES = ("Q4_0",)
"""Types of weights that drafts are quantized to, beside those that they have: the fastest."""
_WORTH = 1.03
"""Times plain decoding that is worth a draft."""


class Candidate(Record):
    """Something that drafts."""

    name: str
    drafting: DraftSettings


class CandidateResult(Record):
    """What a candidate promises, and gives.

    Attributes:
        measured: The same where it really wrote; None where it did not.
    """

    candidate: Candidate
    drafting: DraftSettings
    cost: float
    acceptance: float
    promised: float
    measured: float | None = None
    same: int = 0


def fastest_candidate(found: Sequence[CandidateResult], *, exact: bool) -> CandidateResult | None:
    """Return the fastest candidate that wrote; None where none was worth it."""
    good = (one for one in found if one.measured is not None and one.measured > _WORTH)
    return next((one for one in good if one.drafting.exact or not exact), None)


def candidates_of(
    drafting: DraftSettings, drafts: Sequence[str], vocabularies: dict[int, str]
) -> list[Candidate]:
    """Return the table of candidates.

    Args:
        vocabularies: Number of ids -> vocab.txt.
    """
    found = [Candidate("lookup", replace(drafting, draft_lookup=True))]
    for path in drafts:
        name = os.path.basename(path).removesuffix(".gguf")
        whole = replace(drafting, draft=path)
        found.append(Candidate(name, whole))
        for size, vocabulary in vocabularies.items():
            cut = replace(whole, sx_static_vocab=vocabulary, sx_seed_prompt=True, sx_learn=True)
            found.append(Candidate(f"{name}, {size} ids", cut))
    found += [
        Candidate(f"lookup, {one.name}", replace(one.drafting, draft_lookup=True))
        for one in found[1:]
    ]
    return [*found, *(
        Candidate(f"{one.name}, not exact", replace(one.drafting, exact=False)) for one in found
    )]  # fmt: skip


class ReadAlong(Record):
    """How a candidate reads along with some answers.

    Attributes:
        right: For each answer, whether it was right at each place.
    """

    right: list[list[bool]]
    cost: float
    reading: float


class Answers:
    """What the target answers, and what its batches cost.

    Attributes:
        hits: For each answer and place, how many tokens a lookup proposes there, and how many of
            them are right.
    """

    def __init__(self, prompts: list[list[int]], texts: list[list[int]], plain: float) -> None:
        self.prompts, self.texts, self.plain = prompts, texts, plain
        self.known = Costs()
        self.hits = [list(_lookup_hits(p, t)) for p, t in zip(prompts, texts, strict=True)]

    def cheapest(self, size: int, rows: int) -> float:
        """Return the cost of a batch of so many tokens, with up to so many rows."""
        verify, sizes = self.known.verify, self.known.sizes if size > 1 else ()
        return min(map(verify, (size, *(one for one in sizes if size < one <= rows))))


def lookup_acceptance(hits: list[list[tuple[int, int]]]) -> tuple[float, float]:
    """Return how many places a lookup tried, and at how many of them it was right."""
    found = [hit for row in hits for hit in row if hit[0]]
    tried = sum(min(right + 1, drafted) for drafted, right in found)
    return float(tried), float(sum(right for _, right in found))


def _lookup_hits(prompt: list[int], text: list[int]) -> Iterator[tuple[int, int]]:
    lookup, ids = Lookup(), [*prompt, *text]
    for at in range(len(prompt) + 1, len(ids)):
        proposed = lookup.propose(ids[:at], MOST_ROWS).ids
        right = 0
        while right < min(len(proposed), len(ids) - at) and proposed[right] == ids[at + right]:
            right += 1
        yield len(proposed), right


def expected_speed(
    answers: Answers,
    watched: ReadAlong | None,
    number: int,
    width: int,
    *,
    lookup: int,
) -> float:
    """Return times plain decoding that the answers would have been written.

    Args:
        watched: How a draft read along with the first of them; None without a draft.
        number: Drafted by the draft in each round, at most.
        lookup: Drafted by a lookup, which goes first, at most; 0 for none.
    """
    count = len(watched.right) if watched else len(answers.texts)
    costs = [answers.cheapest(max(size, width), max(number, lookup) + 1)
             for size in range(1, max(number, lookup) + 2)]  # fmt: skip
    spent = tokens = 0.0
    for which in range(count):
        size, at = len(answers.texts[which]) - 1, 0
        unread, all_right = len(answers.prompts[which]), False
        while at < size:
            drafted, right = answers.hits[which][at] if lookup else (0, 0)
            drafted = min(drafted, lookup, size - at)
            cost = 0.0
            if not drafted and watched is not None:
                drafted = min(number, size - at)
                row, right = watched.right[which], 0
                while right < drafted and row[at + right]:
                    right += 1
                # It has not computed the last of those that it drafted itself.
                cost = watched.cost * (drafted + all_right) + watched.reading * unread
                unread, all_right = 0, right == drafted
            else:
                unread += min(right, drafted) + 1
            spent += costs[drafted] + cost
            at += min(right, drafted) + 1
        tokens += size
    return tokens / spent if spent else 1.0


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
            settings: ``prepared``; of drafting, what all candidates have in common.
            state: A file that remembers what was measured; read if it is there.
            until: The time (``time.monotonic``) when nothing more begins but the confirmation.
        """
        assert runner.context is not None
        self._runner, self._settings, self._until = runner, settings, until
        self._context = runner.context
        self._now = clock(self._context)
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
            measure_batches(self._context, BATCH_SIZES, found.known)
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

    def watch(self, candidate: Candidate, answers: Answers, count: int) -> ReadAlong | None:
        """Let a candidate read along with so many answers; None where it cannot draft."""

        def make() -> list[Any] | None:
            try:
                return self._watched(candidate, answers, count)
            except MtkitError:
                return None

        drafting = candidate.drafting
        key = f"{drafting.draft} {drafting.sx_static_vocab} {count}"
        found = self._remember(key, make)
        return None if found is None else ReadAlong(*found)

    def _watched(self, candidate: Candidate, answers: Answers, count: int) -> list[Any]:
        alone = replace(candidate.drafting, draft_lookup=False)
        settings = replace(self._settings, drafting=alone)
        right, costs, read, tokens = [], [], 0.0, 0
        with DraftLoader(self._runner, settings, self._context.n_ctx) as loaded:
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

    def best(
        self, candidate: Candidate, answers: Answers, watched: ReadAlong | None
    ) -> CandidateResult:
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
            tried, right = lookup_acceptance(answers.hits)
            rate = right / max(tried, 1)
        header, load = self._runner.header, self._settings.load
        for width in (1, 4):
            rows = max(BATCH_SIZES)
            if drafting.exact:
                found = exactness.exact_rows(header.multiplied, load, header.path, width)
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
                promised = expected_speed(answers, watched, number, wide, lookup=most)
                if best is None or promised > best.promised:
                    # What a lookup finds differs much: the policy decides how much of it is used.
                    limit = numbers[-1] if drafting.draft_lookup else number
                    chosen = replace(drafting, draft_max=limit, draft_width=width)
                    cost = watched.cost if watched else 0.0
                    best = CandidateResult(candidate, chosen, cost, rate, promised)
        assert best is not None
        return best

    def search(
        self,
        candidates: Sequence[Candidate],
        answers: Answers,
        progress: Callable[[float], None] = lambda _: None,
    ) -> list[CandidateResult]:
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
        self, found: list[CandidateResult], answers: Answers, limit: int
    ) -> tuple[list[CandidateResult], dict[str, Costs]]:
        """Let the best ones write the answers in turn with the target alone.

        Returns:
            All, those that wrote first and the fastest of them at the front; by name, what is known
            of each that wrote.
        """
        from mtkit.speculative.bench import Bench, summarize

        exact = [one for one in found if one.drafting.exact and one.promised > 1]
        other = [one for one in found if not one.drafting.exact and one.promised > 1][:1]
        free = [one for one in exact[_CONFIRMED:] if one.drafting.draft is None]
        tried = [*exact[:_CONFIRMED], *free, *other]  # a model has to beat what needs none
        looked, right = lookup_acceptance(answers.hits)
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
        rows = {row["group"]: row for row in summarize(
            list(bench.runs(prompts, 0.0, limit)), bench.wide or None, None)}  # fmt: skip
        done = [
            replace(one, measured=rows[one.candidate.name]["speed"],
                    same=rows[one.candidate.name]["identical"])
            for one in tried
        ]  # fmt: skip
        done.sort(key=lambda one: -(one.measured or 0))
        known = {one.candidate.name: self._known(one) for one in done}
        return [*done, *(one for one in found if one not in tried)], known

    def _known(self, one: CandidateResult) -> Costs:
        exact = exactness.exact_rows(
            self._runner.header.multiplied, self._settings.load, self._runner.header.path,
            one.drafting.draft_width,
        ).width if one.drafting.exact else 1  # fmt: skip
        return setup.open_costs(self._runner, self._context, one.drafting, exact)


def _digest(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode()
