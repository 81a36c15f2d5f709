"""Rejection sampling leaves the target's distribution as it is: chi-square over table models.

The joint distribution of three tokens is known exactly. Three shortcuts that look right are known
to be biased; the same test has to find them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from chi_square import TableContext, TableModel, TableSampler, chances, joint, p_value

from mtkit.speculative import verification
from mtkit.speculative.costs import Costs
from mtkit.speculative.drafts import FirstOf, Lookup
from mtkit.speculative.policy import Policy
from mtkit.speculative.rounds import Speculation
from mtkit.speculative.verification import Distribution, Proposal

PROMPT = [3, 1, 2, 3, 1]
RUNS = 3_000
UNLIKELY = 1e-4


class TableDraft:
    """Draws from a table, of some ids alone."""

    free, overlap = False, 0
    learning = None

    def __init__(
        self,
        table: TableModel,
        random: Any,
        known: Sequence[int] = range(7),
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        least: float = 0.0,
        most_likely: bool = False,
        told: bool = True,
        drop: float = 0.0,
    ) -> None:
        self._table, self._random, self._known = table, random, np.array(known)
        self._temperature, self._top_k, self._least = temperature, top_k, least
        self._most_likely, self._told, self._drop = most_likely, told, drop

    def begin(self, ids: Sequence[int]) -> None:
        """Nothing is kept."""

    def behind(self, ids: Sequence[int]) -> int:
        """Nothing has to be read."""
        return 0

    def reset(self) -> None:
        """Nothing is kept."""

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Draw, or take the most likely."""
        proposed: list[int] = []
        distributions: list[Distribution] = []
        for _ in range(most):
            row = self._table.row([*ids, *proposed])[self._known]
            distribution = Distribution(
                self._known.astype(np.int64), chances(row, self._temperature, self._top_k)
            )
            if distribution.chances.max() < self._least:
                break
            if self._most_likely:
                token_id = int(distribution.ids[distribution.chances.argmax()])
            else:
                token_id = distribution.draw(self._random)
            if distribution.of(token_id) < self._drop:  # unsound: it depends on what was drawn
                break
            proposed.append(token_id)
            distributions.append(distribution)
        return Proposal(proposed, distributions if self._told else None)

    def saw(self, outcome: object) -> None:
        """Nothing is learnt."""

    def close(self) -> None:
        """Nothing is held."""


def counted(
    make: Callable[[TableModel, Any], Any],
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    policy: Callable[[], Policy] = lambda: Policy(3, Costs(), auto=False),
    seed: int = 0,
    length: int = 3,
) -> tuple[float, Speculation]:
    """Return the p-value of the joint of the first tokens, and the last speculation."""
    table = TableModel(seed)
    expected = joint(table, PROMPT, 3, temperature, top_k)
    seen: Counter[tuple[int, ...]] = Counter()
    random = np.random.default_rng(seed + 1)
    for _ in range(RUNS):
        context = TableContext(table)
        context.decode(PROMPT)
        runner: Any = Runner(context, PROMPT)
        speculation = Speculation(make(table, random), policy(), random=random)
        sampler: Any = TableSampler(context, temperature, top_k, random)
        chosen = speculation.choose(runner, sampler, length, logprobs=False)
        for choice in chosen:
            runner.ids.append(choice.token_id)
            if len(runner.ids) == len(PROMPT) + length:
                break
        chosen.close()
        assert context.ids == runner.ids[:-1]
        assert sampler.taken == runner.ids[len(PROMPT) :]
        seen[tuple(runner.ids[len(PROMPT) : len(PROMPT) + 3])] += 1
    return p_value(seen, expected), speculation


class Runner:
    """What the loop needs of a runner."""

    def __init__(self, context: TableContext, ids: list[int]) -> None:
        self.context, self.ids = context, list(ids)
        self.stop_requested, self.end = False, ""
        self.load_seconds = self.prompt_seconds = 0.0


def near(table: TableModel, seed: int = 9) -> TableModel:
    """Return a model that is nearly right."""
    made = TableModel(seed)
    made.logits = table.logits + 0.3 * made.logits
    return made


SOUND: dict[str, Callable[[TableModel, Any], Any]] = {
    "another": lambda _, random: TableDraft(TableModel(77), random),
    "near": lambda table, random: TableDraft(near(table), random),
    "the same": TableDraft,
    "some ids": lambda table, random: TableDraft(near(table), random, (0, 2, 4)),
    "one id": lambda table, random: TableDraft(near(table), random, (5,)),
    "colder": lambda table, random: TableDraft(near(table), random, temperature=0.5, top_k=3),
    "most likely": lambda table, random: TableDraft(
        near(table), random, most_likely=True, told=False
    ),
    "least": lambda table, random: TableDraft(near(table), random, least=0.4),
    "lookup": lambda _table, _random: Lookup(1),
    "lookup, then a model": lambda table, random: FirstOf(
        Lookup(2), TableDraft(near(table), random)
    ),
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, 0), (0.7, 4)])
def test_the_distribution_is_the_targets(name: str, temperature: float, top_k: int) -> None:
    p, speculation = counted(SOUND[name], temperature=temperature, top_k=top_k, length=5)
    assert p > UNLIKELY
    assert speculation.statistics.drafted or name in ("least", "lookup")


def test_the_number_depends_on_earlier_rounds_alone() -> None:
    def policy() -> Policy:
        known = Costs()
        for size, cost in ((2, 1.1), (3, 1.2), (4, 1.3)):
            known.saw_batch(size, cost)
        found = Policy(3, known)
        found.saw_plain(4, [0.01] * 4)
        return found

    p, _ = counted(SOUND["near"], policy=policy, length=5)
    assert p > UNLIKELY


UNSOUND: dict[str, Callable[[TableModel, Any], Any]] = {
    # A rule that stops on the probability of what was drawn keeps likely draws only.
    "stops on the drawn token": lambda table, random: TableDraft(near(table), random, drop=0.2),
    # The most likely token was not drawn: it is certain, whatever the softmax says.
    "judges the most likely by its softmax": lambda table, random: TableDraft(
        near(table), random, most_likely=True
    ),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_shortcuts_are_found(name: str) -> None:
    p, _ = counted(UNSOUND[name], length=5)
    assert p < UNLIKELY


def test_correcting_from_the_target_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn in the place of a rejected token comes from the residual."""

    def wrong(target: Distribution, draft: Distribution, drafted: int, random: Any) -> int:
        if random.random() * draft.of(drafted) < target.of(drafted):
            return drafted
        return target.draw(random)

    monkeypatch.setattr(verification, "accept_or_draw", wrong)
    p, _ = counted(SOUND["another"], length=5)
    assert p < UNLIKELY


@pytest.mark.parametrize("seed", range(20))
def test_distributions_in_any_order(seed: int) -> None:
    """Probability, residual and draw follow the ids, as a dictionary would have them."""
    random = np.random.default_rng(seed)

    def drawn(size: int) -> tuple[Distribution, dict[int, float]]:
        ids = random.permutation(40)[:size].astype(np.int32)
        logits = random.normal(0, 3, size).astype(np.float32)
        weights = {int(i): float(np.exp(np.float64(x))) for i, x in zip(ids, logits, strict=True)}
        total = sum(weights.values())
        return Distribution.of_logits(ids, logits), {i: w / total for i, w in weights.items()}

    target, wanted = drawn(int(random.integers(1, 40)))
    draft, proposed = drawn(int(random.integers(1, 40)))
    assert [target.of(i) for i in range(40)] == pytest.approx(
        [wanted.get(i, 0.0) for i in range(40)]
    )
    rest = {i: max(chance - proposed.get(i, 0.0), 0.0) for i, chance in wanted.items()}
    total = sum(rest.values())
    residual = target.without(draft)
    if not total:
        assert residual is target
        return
    assert [residual.of(i) for i in range(40)] == pytest.approx(
        [rest.get(i, 0.0) / total for i in range(40)]
    )
    assert {residual.draw(random) for _ in range(50)} <= {i for i, c in rest.items() if c > 0}


def test_aligned_by_id_not_by_place() -> None:
    """The residual takes from each id what the draft gave that id."""
    target = Distribution(np.array([1, 4, 6]), np.array([0.5, 0.3, 0.2]))
    draft = Distribution(np.array([4, 5, 9]), np.array([0.2, 0.7, 0.1]))
    rest = target.without(draft)
    assert rest.ids.tolist() == [1, 4, 6]
    np.testing.assert_allclose(rest.chances, np.array([0.5, 0.1, 0.2]) / 0.8)
    same = target.without(target)
    assert same is target
    assert [target.of(i) for i in (0, 1, 5, 6, 7)] == [0, 0.5, 0, 0.2, 0]
