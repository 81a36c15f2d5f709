"""Find the fastest drafting for a target, with given prompts on this machine.

The target answers some of the prompts plainly. Every candidate then reads along with these answers
and drafts one token at each place. That gives the cost of a drafted token and where it is right,
hence, with the costs of the target's batches, the time of the answers with any number of drafted
tokens. Half of the candidates go on to more prompts, until few are left (successive halving).

What counts is the time of whole processes: ``Comparison`` generates behind the other prompts,
with a profile and with the defaults.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from hashlib import sha256
from itertools import product

from mtkit.base.files import write_files
from mtkit.base.process import command_line
from mtkit.base.record import Record, replace
from mtkit.errors import MtkitError, ResourceError
from mtkit.llm.runner import common_length
from mtkit.speculative import exactness
from mtkit.speculative.costs import BATCH_SIZES, Costs, choose_clock, measure_batches
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
"""Sizes of static vocabularies to try, besides all ids."""
DRAFT_TYPES = ("Q4_0",)
"""Types to quantize drafts to, besides the one that they have: the fastest."""
LEAST, WORTH = 0.99, 1.1
"""Speed that every kind of prompt has to reach with a profile, and one of them at least."""


class Candidate(Record):
    """Drafting settings to try."""

    name: str
    drafting: DraftSettings


class ReadAlong(Record):
    """How a candidate reads along with some answers.

    Attributes:
        right: For each answer, whether it was right at each place.
        cost: Of a drafted token, in plain tokens; ``reading``: of a token read; ``load``: of
            loading the draft model.
    """

    right: list[list[bool]]
    cost: float
    reading: float
    load: float = 0.0


class CandidateResult(Record):
    """How fast a candidate is expected to be, and is.

    Attributes:
        drafting: The candidate's settings with its best numbers.
        read_along: None without a draft model.
        measured: Least and greatest speed of a kind of prompts; None where it was not measured.
        same: How many of its texts are those of plain generation.
    """

    candidate: Candidate
    drafting: DraftSettings
    read_along: ReadAlong | None
    acceptance: float
    promised: float
    measured: tuple[float, float] | None = None
    same: int = 0

    @property
    def cost(self) -> float:
        """Cost of a drafted token, in plain tokens."""
        return self.read_along.cost if self.read_along else 0.0


def candidates_of(
    drafting: DraftSettings, drafts: Sequence[str], vocabularies: dict[int, str]
) -> list[Candidate]:
    """Return the table of candidates.

    Args:
        vocabularies: Number of ids -> vocab.txt.
    """
    candidates = [Candidate("lookup", replace(drafting, draft_lookup=True))]
    for path in drafts:
        name = os.path.basename(path).removesuffix(".gguf")
        whole = replace(drafting, draft=path)
        candidates.append(Candidate(name, whole))
        for size, vocabulary in vocabularies.items():
            cut = replace(whole, sx_static_vocab=vocabulary, sx_seed_prompt=True, sx_learn=True)
            candidates.append(Candidate(f"{name}, {size} ids", cut))
    candidates += [
        Candidate(f"lookup, {candidate.name}", replace(candidate.drafting, draft_lookup=True))
        for candidate in candidates[1:]
    ]
    inexact = [
        Candidate(f"{candidate.name}, not exact", replace(candidate.drafting, exact=False))
        for candidate in candidates
    ]
    return candidates + inexact


class Answers:
    """The target's answers, and the costs of its batches.

    Attributes:
        hits: For each answer and place, how many tokens a lookup proposes there, and how many of
            them are right.
    """

    def __init__(self, prompts: list[list[int]], texts: list[list[int]], plain: float) -> None:
        self.prompts, self.texts, self.plain = prompts, texts, plain
        self.known = Costs()
        self.hits = [list(_lookup_hits(p, t)) for p, t in zip(prompts, texts, strict=True)]

    def cheapest(self, size: int, rows: int) -> float:
        """Return the cost of a batch of so many tokens, padded (up to ``rows``) if that is less."""
        sizes = self.known.sizes if size > 1 else ()
        return min(map(self.known.verify, (size, *(n for n in sizes if size < n <= rows))))


def lookup_acceptance(hits: list[list[tuple[int, int]]]) -> tuple[float, float]:
    """Return how many tokens a lookup tried, and how many of them were right."""
    tries = [hit for row in hits for hit in row if hit[0]]
    tried = sum(min(right + 1, drafted) for drafted, right in tries)
    return float(tried), float(sum(right for _, right in tries))


def _lookup_hits(prompt: list[int], text: list[int]) -> Iterator[tuple[int, int]]:
    lookup, ids = Lookup(), [*prompt, *text]
    for at in range(len(prompt) + 1, len(ids)):
        proposed = lookup.propose(ids[:at], MOST_ROWS).ids
        yield len(proposed), common_length(proposed, ids[at : at + MOST_ROWS])


def expected_speed(
    answers: Answers, read_along: ReadAlong | None, number: int, width: int, *, lookup: int
) -> float:
    """Return the expected speed of the answers, in times plain decoding.

    Args:
        read_along: How a draft read along with the first answers; None without a draft.
        lookup: Tokens of a lookup, which goes first, at most; 0 for none.
    """
    count = len(read_along.right) if read_along else len(answers.texts)
    costs = [answers.cheapest(max(size, width), max(number, lookup) + 1)
             for size in range(1, max(number, lookup) + 2)]  # fmt: skip
    spent = tokens = 0.0
    for index in range(count):
        size, at = len(answers.texts[index]) - 1, 0
        unread, all_right = len(answers.prompts[index]), False
        while at < size:
            drafted, right = answers.hits[index][at] if lookup else (0, 0)
            drafted = min(drafted, lookup, size - at)
            cost = 0.0
            if not drafted and read_along is not None:
                drafted = min(number, size - at)
                row, right = read_along.right[index], 0
                while right < drafted and row[at + right]:
                    right += 1
                # After a round that was all right, it has yet to compute its own last token.
                cost = read_along.cost * (drafted + all_right) + read_along.reading * unread
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
"""Prompts to read along with before each halving."""
_SURE = 50.0
"""Weight of the acceptance from reading along, in rounds."""
_REPEATS, _NEAR = 3, 0.8
"""Times that each is timed while its speed is less than ``LEAST``, but not by far: next to other
programs, CPU times of the same text differ by a tenth and more."""
_MEASURED = 15.0
"""Seconds for measuring batches."""


class Tuner:
    """A target with its context open, and the measurements so far, kept in a file."""

    def __init__(
        self, runner: Runner, settings: GenerateSettings, state: str, until: float
    ) -> None:
        """Take a target."""
        assert runner.context is not None
        self._runner, self._settings, self._until = runner, settings, until
        self._context = runner.context
        self._now = choose_clock(self._context)
        self._state, self._seen = state, {}
        with suppress(OSError), open(state, "rb") as file:
            digest, _, content = file.read().partition(b"\n")
            if digest == _digest(content):  # else measure again
                self._seen = json.loads(content)

    def remember(self, key: str, make: Callable[[], Any]) -> Any:
        """Return what an earlier run measured under a key, else measure it now and write it."""
        if key not in self._seen:
            self._seen[key] = make()
            content = json.dumps(self._seen).encode()
            write_files({self._state: _digest(content) + b"\n" + content}, force=True)
        return self._seen[key]

    def answers(self, prompts: list[list[int]], limit: int) -> Answers:
        """Let the target answer plainly, and measure its batches."""
        runs = self.remember("answers", lambda: [self._write(ids, limit) for ids in prompts])
        texts, times = [text for text, _ in runs], [seconds for _, seconds in runs]
        plain = sum(times) / max(sum(len(text) - 1 for text in texts), 1)
        answers = Answers(prompts, texts, plain)

        def costs() -> dict[str, object]:
            measure_batches(self._context, BATCH_SIZES, answers.known, _MEASURED)
            with suppress(MtkitError):  # it gives other bits: nothing is exact
                exactness.check(self._context, prompts[0], max(BATCH_SIZES), 1)
                answers.known.checked = max(BATCH_SIZES)
            return answers.known.document()

        answers.known.take(self.remember("costs", costs))
        return answers

    def _write(self, ids: list[int], limit: int) -> tuple[list[int], float]:
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
                return self._read_along(candidate, answers, count)
            except MtkitError:
                return None

        drafting = candidate.drafting
        key = f"{drafting.draft} {drafting.sx_static_vocab} {count}"
        values = self.remember(key, make)
        return None if values is None else ReadAlong(*values)

    def _read_along(self, candidate: Candidate, answers: Answers, count: int) -> list[Any]:
        alone = replace(candidate.drafting, draft_lookup=False)
        settings = replace(self._settings, drafting=alone)
        right, times, read, tokens = [], [], 0.0, 0
        with DraftLoader(self._runner, settings, self._context.n_ctx) as loaded:
            start = self._now()
            draft = loaded.draft()
            load = self._now() - start
            try:
                for prompt, text in zip(answers.prompts, answers.texts[:count], strict=False):
                    draft.reset()
                    draft.begin(prompt)
                    ids, row = [*prompt, *text], []
                    for at in range(len(prompt) + 1, len(ids)):
                        draft.saw(Outcome([], 0, [ids[at - 1]], -1))
                        start = self._now()
                        row.append(draft.propose(ids[:at], 1).ids == ids[at : at + 1])
                        times.append(self._now() - start)
                        if len(row) == 1:  # it read the prompt
                            read, tokens = read + times.pop(), tokens + at
                    right.append(row)
            finally:
                draft.close()
        cost = sorted(times)[len(times) // 2] if times else 0.0
        reading = max(read - count * cost, 0.0) / max(tokens, 1)
        return [right, *(seconds / answers.plain for seconds in (cost, reading, load))]

    def best(
        self, candidate: Candidate, answers: Answers, read_along: ReadAlong | None
    ) -> CandidateResult:
        """Return the fastest numbers of a candidate, in single rows (``policy``: width)."""
        drafting, best = candidate.drafting, None
        if read_along is not None:
            places = [
                float(right) for row, hits in zip(read_along.right, answers.hits, strict=False)
                for right, (proposed, _) in zip(row, hits, strict=True)
                if not (proposed and drafting.draft_lookup)
            ]  # fmt: skip
            rate = sum(places) / max(len(places), 1)
        else:
            tried, right = lookup_acceptance(answers.hits)
            rate = right / max(tried, 1)
        rows = max(BATCH_SIZES)
        if drafting.exact:
            header = self._runner.header
            exact = exactness.exact_rows(header.multiplied, self._settings.load, header.path)
            rows = min(rows, exact.rows, answers.known.checked) if exact.width == 1 else 0
        numbers = range(1, min(rows, self._context.n_batch))
        drafted = numbers if read_along else range(1)
        for number, most in product(drafted, numbers if drafting.draft_lookup else range(1)):
            promised = expected_speed(answers, read_along, number, 1, lookup=most)
            if best is None or promised > best.promised:
                # Lookups vary much: leave it to the policy how much of them to use.
                limit = numbers[-1] if drafting.draft_lookup else number
                settings = replace(drafting, draft_max=limit)
                best = CandidateResult(candidate, settings, read_along, rate, promised)
        return best or CandidateResult(candidate, drafting, read_along, rate, 0.0)

    def search(
        self,
        candidates: Sequence[Candidate],
        answers: Answers,
        progress: Callable[[float], None] = lambda _: None,
    ) -> list[CandidateResult]:
        """Return the results of all candidates, the most promising first."""
        results = {
            candidate.name: self.best(candidate, answers, None)
            for candidate in candidates
            if candidate.drafting.draft is None
        }
        left = [candidate for candidate in candidates if candidate.drafting.draft is not None]
        rungs = [min(rung, len(answers.texts)) for rung in _RUNGS]
        total, n_done = sum(len(left) >> n for n in range(len(rungs))) or 1, 0
        for rung in dict.fromkeys(rungs):
            for candidate in left:
                n_done += 1
                progress(min(n_done / total, 0.999))
                if time.monotonic() > self._until:
                    break
                read_along = self.watch(candidate, answers, rung)
                if read_along is not None:
                    results[candidate.name] = self.best(candidate, answers, read_along)
            left = [candidate for candidate in left if candidate.name in results]
            left.sort(key=lambda candidate: -results[candidate.name].promised)
            left = left[: max(len(left) // 2, _CONFIRMED)]
        progress(1)
        return sorted(results.values(), key=lambda candidate: -candidate.promised)


def finalists(results: Sequence[CandidateResult], *, exact: bool) -> list[CandidateResult]:
    """Return the results to measure, the first one first; a model has to beat a lookup by far.

    A lookup always is: it costs nothing to load, and what it loses in one kind of prompts, which
    the mean shows, is left to the policy.
    """
    good = [x for x in results if x.promised > (x.drafting.draft is not None)]
    good = [x for x in good if x.drafting.exact or not exact]
    model = (x.drafting.draft is not None for x in good)
    keys = [
        x.promised / (WORTH if is_model else 1) for x, is_model in zip(good, model, strict=True)
    ]
    order = sorted(range(len(good)), key=lambda at: -keys[at])
    return [good[at] for at in order[:_CONFIRMED]]


def profile_costs(result: CandidateResult, answers: Answers) -> Costs:
    """Return what a policy has to know."""
    costs, read_along = Costs(), result.read_along
    tried, right = lookup_acceptance(answers.hits)
    free = _SURE, _SURE * right / max(tried, 1)
    costs.take({
        **answers.known.document(),
        "drafted": [read_along.cost] if read_along else [],
        "read": [read_along.reading] if read_along else [],
        "load": read_along.load if read_along else 0.0,
        "tried": _SURE, "accepted": _SURE * result.acceptance, "free": free,
    })  # fmt: skip
    return costs


def split_prompts(prompts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the prompts of a kind to choose by and those to measure with; of one, the same.

    By length, every other one: a long prompt is often a file to edit. The odd one is measured with:
    that decides.
    """
    ordered = sorted(prompts, key=len, reverse=True)
    return ordered[1::2] or ordered, ordered[::2]


class Comparison:
    """The time of whole processes with a profile, and of plain ones, in turn."""

    def __init__(self, model: str, options: Sequence[str], *, alone: bool) -> None:
        """Set up.

        Args:
            options: Of every process.
            alone: It has one thread: CPU time counts, of which other programs take none.
        """
        self._model, self._options, self._alone = model, options, alone

    def speed(self, paths: Sequence[str], profile: str, *more: str) -> tuple[float, int]:
        """Return the speed behind the prompts of some files, and how many texts are the same.

        The least time of each counts: other programs only add to it.

        Args:
            more: Further options of the processes with the profile.
        """
        options = (), ("--draft-profile", profile, *more)
        spent: dict[tuple[str, ...], dict[str, list[float]]] = {key: {} for key in options}
        texts: dict[str, set[str]] = {path: set() for path in paths}
        speed = 0.0
        for _ in range(_REPEATS):
            for path, (key, least) in product(paths, spent.items()):
                seconds, text = self._run(path, *key)
                least[path] = list(map(min, seconds, least.get(path, seconds)))
                texts[path].add(text)
            plain, drafting = (
                [sum(column) for column in zip(*least.values(), strict=True)]
                for least in spent.values()
            )
            speed = min(a / b for a, b in zip(plain, drafting, strict=True))
            if not _NEAR < speed < LEAST:
                break
        return speed, sum(len(answers) == 1 for answers in texts.values())

    def _run(self, path: str, *more: str) -> tuple[list[float], str]:
        """Return the seconds of a process, which are to be less, and its text."""
        import resource
        import subprocess

        def used() -> float:
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        line = ["generate", "-m", self._model, "-q", "--temp", "0", "-f", path, *self._options]
        before, start = used(), time.perf_counter()
        run = subprocess.run(  # noqa: S603  our own
            command_line("mtkit.speculative.tune", (*line, *more)), capture_output=True, check=False
        )
        seconds = [used() - before, time.perf_counter() - start]
        if run.returncode:
            words = run.stderr.decode("utf-8", "replace").strip().splitlines()
            raise ResourceError((words or ["generate failed"])[-1])
        return seconds[: 1 + (not self._alone)], run.stdout.decode("utf-8", "replace")


def main(*arguments: str) -> None:
    """Run a command of mtkit: in a process of ``Comparison``."""
    from importlib import import_module

    sys.exit(import_module("mtkit.cli").main(list(arguments)))


def _digest(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode()
