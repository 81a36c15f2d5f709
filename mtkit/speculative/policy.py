"""How many tokens to draft in the next round: one rule for every text.

The number with the most tokens for its cost is taken; where none beats plain decoding it is 0, and
now and then a short draft probes whether that has changed. The loss by probes and wrong guesses is
bounded.

With acceptance a at every place, a round of n drafted tokens gives (1 - a^(n+1)) / (1 - a) tokens
(Leviathan et al. 2023), and costs verifying n + 1 tokens and drafting n.

Where a lookup drafts before a model, each has an acceptance of its own, and the lookup is free.

Unknown costs are measured between plain tokens of the text, one batch after the other
(``Batches``), for a bounded part of its time; a draft whose batches cannot pay is not even loaded.

Where a step of the exact configuration computes several rows (``exactness``), every round of a text
costs that, drafted or not. So whether to draft is decided before the text, by the costs known then.
"""

from __future__ import annotations

from collections import deque
from math import ceil, inf
from statistics import median

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.speculative.costs import Costs


HOPE = 0.95
"""The best acceptance that is thought possible."""
WORTH = 1.05
"""Speed against plain decoding from which on drafting is worth it."""
PROBES = (2, 3)
"""Tokens of a probe: whichever costs less."""
LOSS = 0.02
"""Part of the text's time that drafting may lose."""
_PLANNED = 0.01
"""Part of it that is planned with by a profile's costs: true ones can be 1.4 times those, if these
were measured while the machine was busy."""
AHEAD = 256
"""Tokens of the rest of a text to count on at most: it may end at any time."""


def mean_tokens(acceptance: float, number: int) -> float:
    """Return the tokens that a round of ``number`` drafted ones gives on average."""
    acceptance = min(acceptance, 0.999)
    return (1 - acceptance ** (number + 1)) / (1 - acceptance)


def round_cost(costs: Costs, number: int, width: int = 1, *, free: bool = False) -> float:
    """Return the cost of a round of ``number`` drafted tokens, and ``width`` rows at least."""
    return costs.verify(max(number + 1, width)) + costs.draft(number, free=free)


def fastest_number(
    costs: Costs, acceptance: float, most: int, width: int, more: float = 0.0, *, free: bool = False
) -> tuple[int, float]:
    """Return the number that is fastest, and its speed; 0 and 1 where none is worth it."""
    best, speed = 0, WORTH
    for number in range(1, most + 1):
        gain = mean_tokens(acceptance, number) / (
            round_cost(costs, number, width, free=free) + more
        )
        if gain > speed:
            best, speed = number, gain
    return best, speed if best else 1.0


def could_pay(costs: Costs, most: int, width: int, *, free: bool = False) -> bool:
    """Whether any number is worth it at best."""
    return any(
        mean_tokens(HOPE, number) > WORTH * round_cost(costs, number, width, free=free)
        for number in range(1, most + 1)
    )


def break_even(costs: Costs, count: int) -> float | None:
    """Return the acceptance from which on drafting ``count`` tokens pays; None: it never does."""
    cost = round_cost(costs, count)
    if not count or cost >= count + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_tokens(middle, count) < cost else (low, middle)
    return high


def shared_number(
    costs: Costs,
    rates: Sequence[float],
    others: int,
    behind: int,
    left: int,
    most: int,
    budget: float = inf,
) -> tuple[int, float, int]:
    """Return how many tokens each sequence of a batch drafts, and what the batch costs.

    The cost is in tokens of plain batches; then comes the number of rounds until the next probe.

    Args:
        budget: Such tokens that may be lost if all that is drafted is wrong.
    """
    size = len(rates)
    plain = costs.verify(size + others)

    def cost(number: int) -> float:
        rows = size * (number + (not others))  # of other numbers, in a second batch
        return costs.verify(rows) + (plain if others else 0) + size * costs.draft(number)

    def speed(number: int, rates: Sequence[float]) -> float:
        tokens = others + sum(mean_tokens(rate, number) for rate in rates)
        return tokens * plain / (cost(number) * (size + others))

    numbers, entry, rest = range(1, most + 1), costs.reading(behind), 0
    number = max(numbers, key=lambda number: speed(number, rates))
    best = speed(number, rates)
    if best <= WORTH or (1 - 1 / best) * min(left, AHEAD) * plain <= entry:
        if max(speed(number, [HOPE] * size) for number in numbers) < WORTH:
            return 0, 0.0, AHEAD  # not even with the best acceptance
        number = min(PROBES[0], most)
        loss = cost(number) + entry - plain * speed(number, rates)
        rest = ceil(max(loss, plain) / (LOSS * plain))
    tokens = (size + others) / plain
    while number and (cost(number) + entry - plain) * tokens > budget:
        number -= 1
    return number, (cost(number) + entry) * tokens, rest


MEASURED_SIZES = (4, 8, 16)
"""Batches to measure, in this order: kernels compute four rows at a time."""
_TIMES_TO_JUDGE, _TIMES_IF_WIDE = 2, 3
"""Times that a batch is measured before a draft is given up; before all steps of a text are as
wide."""


class Batches:
    """The sizes of batches that matter, and which of them are measured."""

    def __init__(self, costs: Costs, most: int, width: int, *, checks: bool) -> None:
        """With ``checks``, only batches count whose bits were compared with single tokens'."""
        self._costs, self._most, self._checks, self.width = costs, most, checks, width
        sizes = [min(size, most + 1) for size in MEASURED_SIZES]
        self._sizes = list(dict.fromkeys([*[width] * (width > 1), *sizes]))

    @property
    def is_measured(self) -> bool:
        """Whether the first size is measured, which any decision needs."""
        return self._has(self._sizes[0])

    @property
    def can_judge(self) -> bool:
        """Whether it is measured often enough to give a draft up."""
        return self.is_measured and self._costs.times(self._sizes[0]) >= _TIMES_TO_JUDGE

    @property
    def limit(self) -> int:
        """Return the largest number of drafted tokens whose batch is measured."""
        rows = max(self._costs.sizes)
        return min(self._most, (min(rows, self._costs.checked) if self._checks else rows) - 1)

    def next(self) -> int:
        """Return the size to measure next; 0 for none."""
        costs, first = self._costs, self._sizes[0]
        if self._checks and costs.checked < 0:
            return 0
        if costs.times(first) < _TIMES_TO_JUDGE and not could_pay(costs, self._most, self.width):
            return first
        return next((size for size in self._sizes if not self._has(size)), 0)

    def _has(self, size: int) -> bool:
        costs, wide = self._costs, 1 < size == self.width
        is_measured = costs.times(size) >= (_TIMES_IF_WIDE if wide else 1)
        return is_measured and (not self._checks or costs.checked >= size)


_EXPECTED, _WEIGHT = 0.6, 4.0
"""Acceptance before any draft, and how many tokens the acceptance so far weighs in a new text."""
_MEMORY = 0.95
"""Weight of a round against the next one of a text: some twenty are remembered."""
_NEWS = 0.2
"""Weight of the last plain token behind a draft against all before."""
_HALF = 8.0
"""Tokens that a lookup is assumed to have written of twice as many, before a text begins."""
_FEAR = 0.4
"""Assumed acceptance, if unknown, where a text is drafted as a whole or not at all."""
_GRACE, _LENT = 2.0, 16.0
"""Tokens that drafting may lose at once; that earlier gains allow it to lose at most."""
_LISTEN, _OFTEN = 4, 64
"""Plain tokens that show the speed of the machine; rounds after which two of them renew it."""
_LONGEST = 32
"""Plain tokens until the next decision."""
_MEASURED, _SECONDS = 8.0, 1.0
"""Plain tokens that measuring may cost at first, and seconds at most."""


class Budget:
    """What drafting may lose: two tokens, a part of the time so far, and what it gained before.

    Attributes:
        tokens: The time so far, in plain tokens.
        loss: Of these, what drafting has cost more than it gave.
    """

    def __init__(self, part: float = LOSS) -> None:
        self._part = part
        self.tokens = self.loss = 0.0

    @property
    def left(self) -> float:
        """Return how many plain tokens may be lost now."""
        return _GRACE + self._part * self.tokens - self.loss

    def begin(self) -> None:
        """Begin a text, which may not lose all that long ones earned."""
        self.tokens = min(self.tokens, (max(self.loss, 0.0) + _LENT) / self._part)

    def saw(self, tokens: float, cost: float) -> None:
        """Count tokens, and what they took in plain ones."""
        self.tokens += tokens
        self.loss = max(self.loss + cost - tokens, -_LENT)


class Verdict(Record):
    """What could pay at best.

    Attributes:
        changes: State of the costs that it is based on (``Costs.changes``).
        draft: Whether any draft could, a free lookup included.
    """

    changes: int = -1
    draft: bool = True
    model: bool = True


class Policy:
    """Decides how many tokens to draft."""

    def __init__(
        self,
        most: int,
        costs: Costs,
        *,
        width: int = 1,
        auto: bool = True,
        mixed: bool = False,
        checks: bool = False,
        strict: bool = False,
    ) -> None:
        """Set up for the texts of a session.

        Args:
            checks: Only batches whose bits were compared with those of single tokens are used.
            strict: ``costs`` are those of a profile: nothing is measured, and loading a model and
                reading the prompt with it count as lost. Otherwise somebody asked for a draft.
        """
        self._most, self.costs, self.width = most, costs, width
        self._auto, self._mixed, self._strict = auto, mixed, strict
        self._batches = Batches(costs, most, width, checks=checks)
        self._plain: deque[float] = deque(maxlen=7)
        self._budget = Budget(_PLANNED if strict else LOSS)
        self._measuring_cost = self._investment = 0.0
        self._seconds_before: float | None = None
        self.load_cost = costs.load
        # Extra cost of a plain token behind a draft, times how often one follows.
        self._switch_cost = 0.0
        self._rest = self._rounds_since_plain = self._unread = 0
        self._last_verdict = Verdict()
        self._after_draft = False
        self._begin_text()

    def _begin_text(self) -> None:
        costs = self.costs
        self._rates = {
            free: (_WEIGHT, _WEIGHT * (accepted / tried if tried > 1 else _EXPECTED))
            for free, (tried, accepted) in (
                (False, (costs.tried, costs.accepted)), (True, costs.free),
            )
        }  # fmt: skip
        self._lookup_tokens, self._text_tokens = _HALF, 2 * _HALF

    @property
    def unit(self) -> float:
        """Return the seconds of a plain token now; 0 while none was timed."""
        return median(self._plain) if self._plain else 0.0

    def began(self, seconds: float) -> None:
        """Learn how long the process took before its first text: ``LOSS`` is a part of that, too.

        The command loads the model and reads the prompt with drafts and without.
        """
        if self._seconds_before is None:
            self._seconds_before = seconds

    def saw_load(self, seconds: float) -> None:
        """Learn that the draft model was loaded."""
        self.load_cost = 0.0
        if self.unit:
            self.costs.load = round(seconds / self.unit, 2)
            self._budget.saw(0, self._strict * seconds / self.unit)

    def is_ahead(self) -> bool:
        """Whether more may be lost than what is planned with."""
        return not self._strict or self._budget.loss < 0

    def refusal(self, left: int, behind: int) -> str:
        """Begin a text; return why to draft nothing in it, empty where drafting may pay."""
        self._budget.begin()
        self._begin_text()
        if not self._auto or not self._most:
            return ""
        if self.hopeless:
            return self.hopeless
        if self.width == 1:
            return ""
        if not self._batches.is_measured:
            return "the cost of drafting on this machine is not known yet"
        costs = self.costs
        rate = costs.accepted / costs.tried if costs.tried > 1 else _FEAR
        number, speed = self._fastest(rate)
        if number and (1 - 1 / speed) * min(left, AHEAD) > costs.reading(behind):
            return ""
        step = costs.verify(self.width)
        return f"a step of this exact configuration costs {step:.2f} plain steps"

    @property
    def hopeless(self) -> str:
        """Return why no draft could pay, whatever is accepted; empty where one could."""
        return "" if self._verdict.draft else "no draft pays for itself on this machine"

    def pays(self) -> bool:
        """Whether a draft model could pay, as far as costs are known."""
        return self._verdict.model

    @property
    def _verdict(self) -> Verdict:
        costs = self.costs
        if self._last_verdict.changes != costs.changes:
            model = draft = True
            if self._auto and self._batches.can_judge:
                model = could_pay(costs, self._most, self.width)
                free = self._mixed and could_pay(costs, self._most, self.width, free=True)
                draft = model or free
            self._last_verdict = Verdict(costs.changes, draft, model)
        return self._last_verdict

    def size_to_measure(self, steps: int) -> int:
        """Return the batch to measure now, after so many plain steps in a row; 0 for none."""
        size = self._next_size
        return size if len(self._plain) >= _LISTEN and size <= steps and self.waits else 0

    @property
    def waits(self) -> bool:
        """Whether a batch is to be measured as soon as there are enough plain steps."""
        size, allowed = self._next_size, max(_MEASURED, LOSS * self._budget.tokens)
        within = (
            self._measuring_cost + size <= allowed and self._measuring_cost * self.unit < _SECONDS
        )
        return bool(size) and within

    @property
    def _next_size(self) -> int:
        measures = self._auto and not self._strict and not self.hopeless
        return self._batches.next() if measures else 0

    def saw_measurement(self, size: int, seconds: float) -> None:
        """Learn the time of a batch that was computed only to be measured."""
        self._measuring_cost += seconds / self.unit
        self.costs.saw_batch(size, seconds / self.unit)

    def count(self, left: int, behind: int, *, free: bool = False, overlap: int = 0) -> int:
        """Return the number for the next round; where it is 0, ``rest`` says for how long.

        Args:
            overlap: Tokens that a lookup found again: the more, the surer are those behind them.
        """
        if not self._auto:
            return self._most
        self._unread, self._investment = behind, 0.0
        self._rest = self._plain_tokens_due()
        if self._rest:
            return 0
        entry, budget, alone = self.costs.reading(behind), self._budget.left, self.width == 1
        entry += 0.0 if free else self.load_cost
        tried, accepted = self._rates[free]
        rate = (accepted + overlap) / (tried + overlap)
        number, speed = self._fastest(rate, free=free)
        promises, risk = number, self._strict * entry + self._switch_cost - 1
        while alone and number and risk + self._round_cost(number, free=free) > budget:
            number -= 1  # as many as can all be wrong
        if promises and not number:
            self._rest = 1 if self._mixed else _LISTEN
            return 0
        if self._mixed and not free:  # a lookup writes the rest
            left = ceil(left * (1 - self._lookup_tokens / self._text_tokens))
        gain = (1 - 1 / speed) * min(left, AHEAD)
        if not number or gain <= entry:
            return self._probe(entry, budget, free=free)
        if alone and number == self._batches.limit and self.waits:  # a larger batch may be better
            self._rest = self._next_size
            return 0
        self._investment = 0.0 if self._strict else entry
        return number

    def _round_cost(self, number: int, *, free: bool) -> float:
        """Return the cost of a round in the rows that it is computed in."""
        return self.costs.verify(self.rows(number + 1)) + self.costs.draft(number, free=free)

    def _plain_tokens_due(self) -> int:
        """Return how many plain tokens have to be timed before anything is drafted."""
        if self.width > 1:  # a text of wide steps has none
            return 0
        missing = _LISTEN - len(self._plain)
        if missing > 0 or not self._batches.is_measured:
            return max(missing, 1)
        if self._rounds_since_plain >= _OFTEN:
            self._rounds_since_plain = 0
            return 2
        return 0

    def _probe(self, entry: float, budget: float, *, free: bool) -> int:
        """Return the number for a round that only probes the acceptance; 0 if it costs too much."""
        if self.hopeless:
            self._rest = _LONGEST
            return 0
        cost, number = min(
            (self._round_cost(n, free=free), n)
            for n in PROBES if n <= self._batches.limit or n == PROBES[0]
        )  # fmt: skip
        price = entry + cost - 1 + self._switch_cost  # if all is wrong
        if price <= budget:
            return min(number, self._batches.limit)
        later = min(max(ceil((price - budget) / LOSS), 1), _LONGEST)
        self._rest = 1 if self._mixed else later  # the other may draft behind the next token
        return 0

    def rows(self, size: int) -> int:
        """Return how many rows to compute for a batch: four may take less time than three."""
        size, verify = max(size, self.width), self.costs.verify
        if not self._auto or size == 1:
            return size
        larger = (n for n in self.costs.sizes if size < n <= self._batches.limit + 1)
        return min([size, *larger], key=verify)

    def rest(self) -> int:
        """Return after how many plain rounds to decide again."""
        return self._rest

    def saw_plain(self, count: int, seconds: Sequence[float]) -> None:
        """Learn of plain rounds, and how long each of the first ones took."""
        if self._after_draft and seconds and self.unit:
            # It takes longer: llama.cpp builds its graph anew where the size of a batch changes.
            more = min(max(seconds[0] / self.unit - 1, 0.0), 1.0)
            self._budget.saw(0, more)
            self._switch_cost += _NEWS * more
            seconds = seconds[1:]
        self._plain.extend(seconds)
        if self._seconds_before and len(self._plain) >= _LISTEN:
            before, self._seconds_before = self._seconds_before / self.unit, 0.0
            self._budget.saw(before, before)
        self._budget.saw(count, count)
        self._text_tokens += count
        self._after_draft = False

    def saw(
        self,
        drafted: int,
        accepted: int,
        draft_seconds: float,
        verify_seconds: float,
        *,
        free: bool = False,
    ) -> None:
        """Learn how a round went."""
        size = self.rows(drafted + 1)
        if self.width > 1:  # no step of such a text is plain
            self._plain.append(verify_seconds / self.costs.verify(size))
        unit = self.unit or verify_seconds / self.costs.verify(size)
        drafting, verifying = draft_seconds / unit, verify_seconds / unit
        if drafted and self._plain:
            self._learn_costs(drafted, size, drafting, verifying, free=free)
        if self.width > 1 or drafted:  # a step that drafts nothing costs as much there
            self.costs.saw_round(max(drafted, 1), accepted, free=free)
        if drafted:
            self._switch_cost *= 1 - _NEWS
            tried, right = self._rates[free]
            tried = _MEMORY * tried + min(accepted + 1, drafted)
            self._rates[free] = tried, _MEMORY * right + accepted
        self._after_draft = drafted > 0
        self._rounds_since_plain += 1
        self._text_tokens += accepted + 1
        self._lookup_tokens += free * (accepted + 1)
        cost = max(drafting - self._investment, 0.0) + verifying
        self._budget.saw(accepted + 1, cost)
        self._investment = 0.0

    def _learn_costs(
        self, drafted: int, size: int, drafting: float, verifying: float, *, free: bool
    ) -> None:
        costs, behind = self.costs, self._unread
        if self.width == 1:
            costs.saw_batch(size, verifying)
        if free:
            return
        if behind >= _LISTEN and drafting > costs.draft(drafted):  # reading was part of it
            costs.saw_reading(behind, drafting - costs.draft(drafted))
        else:
            costs.saw_draft(drafted, drafting)

    def _fastest(self, acceptance: float, *, free: bool = False) -> tuple[int, float]:
        return fastest_number(
            self.costs, acceptance, self._batches.limit, self.width, self._switch_cost, free=free
        )
