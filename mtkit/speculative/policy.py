"""How many tokens to draft in the next round: one rule for every text.

The number with the most tokens for its costs is taken; where none beats plain decoding it is 0, and
a short draft looks now and then whether that has changed. What looks and wrong guesses lose is
bounded.

With acceptance a at every place, a round of n drafted tokens gives (1 - a^(n+1)) / (1 - a) tokens
(Leviathan et al. 2023), and costs verifying n + 1 tokens and drafting n.

Where a lookup is asked before a model, each has an acceptance of its own, and the lookup is free.

Costs that nobody knows are measured beside plain tokens of the text, one batch after the other
(``Batches``), for a bounded part of its time; a draft whose batches cannot pay is not even loaded.

Where a step of the exact configuration computes several rows (``exactness``), every round of a text
costs that, drafted or not. So whether to draft is decided before it, by what is known.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.speculative.costs import Costs


HOPE = 0.95
"""The best acceptance that is thought possible."""
WORTH = 1.05
"""Speed against plain decoding from which on it is worth drafting."""
PROBES = (2, 3)
"""Tokens of a draft that only looks: what costs less."""
LOSS = 0.02
"""Part of the text that drafting may lose."""
AHEAD = 256
"""Tokens of the rest of a text that are counted on: it may end at any time."""


def mean_tokens(acceptance: float, number: int) -> float:
    """Return the tokens that a round of so many drafted ones gives."""
    acceptance = min(acceptance, 0.999)
    return (1 - acceptance ** (number + 1)) / (1 - acceptance)


def round_cost(known: Costs, number: int, width: int = 1, *, free: bool = False) -> float:
    """Return the cost of a round of so many drafted tokens, and so many rows at least."""
    return known.verify(max(number + 1, width)) + known.draft(number, free=free)


def fastest_number(
    known: Costs,
    acceptance: float,
    most: int,
    width: int,
    more: float = 0.0,
    *,
    free: bool = False,
) -> tuple[int, float]:
    """Return the number that is fastest, and its speed; 0 and 1 where none is worth it.

    Args:
        more: What a round costs beside that.
    """
    best, speed = 0, WORTH
    for number in range(1, most + 1):
        found = mean_tokens(acceptance, number) / (
            round_cost(known, number, width, free=free) + more
        )
        if found > speed:
            best, speed = number, found
    return best, speed if best else 1.0


def could_pay(known: Costs, most: int, width: int, *, free: bool = False) -> bool:
    """Whether any number is worth it at best; ``free``: drafting costs nothing."""
    return any(
        mean_tokens(HOPE, number) > WORTH * round_cost(known, number, width, free=free)
        for number in range(1, most + 1)
    )


def break_even(known: Costs, count: int) -> float | None:
    """Return the acceptance from which on drafting so many tokens pays; None: it never does."""
    wanted = round_cost(known, count)
    if not count or wanted >= count + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_tokens(middle, count) < wanted else (low, middle)
    return high


def shared_number(
    known: Costs, rates: Sequence[float], others: int, behind: int, left: int, most: int
) -> tuple[int, int]:
    """Return the tokens that a batch's sequences draft, and the rounds until the next look."""
    size = len(rates)
    plain = known.verify(size + others)

    def together(number: int) -> float:
        rows = size * (number + (not others))  # of other numbers, in a second batch
        return known.verify(rows) + (plain if others else 0) + size * known.draft(number)

    def speed(number: int, rates: Sequence[float]) -> float:
        tokens = others + sum(mean_tokens(rate, number) for rate in rates)
        return tokens * plain / (together(number) * (size + others))

    numbers, entry = range(1, most + 1), known.reading(behind)
    best = max(numbers, key=lambda number: speed(number, rates))
    if speed(best, rates) > WORTH:
        gain = (1 - 1 / speed(best, rates)) * min(left, AHEAD) * plain
        if gain > entry:
            return best, 0
    if max(speed(number, [HOPE] * size) for number in numbers) < WORTH:
        return 0, AHEAD  # not even then
    probe = min(PROBES[0], most)
    lost = together(probe) + entry - plain * speed(probe, rates)
    return probe, ceil(max(lost, plain) / (LOSS * plain))


MEASURED_SIZES = (4, 8, 16)
"""Tokens in a batch that are measured, in this order: kernels compute four rows at a time."""
_OFTEN_ENOUGH, _SURELY = 2, 3
"""Times that a batch is measured before a draft is given up for it; before all steps of a text
compute as many rows."""


class Batches:
    """Sizes of batches that matter, and what is known of them."""

    def __init__(self, known: Costs, most: int, width: int, *, checks: bool) -> None:
        """Begin.

        Args:
            checks: Only batches whose bits were compared with those of single tokens count.
        """
        self._known, self._most, self._checks, self.width = known, most, checks, width
        sizes = [min(size, most + 1) for size in MEASURED_SIZES]
        self._sizes = list(dict.fromkeys([*[width] * (width > 1), *sizes]))

    @property
    def is_measured(self) -> bool:
        """Whether enough is known to decide anything."""
        return self._has(self._sizes[0])

    @property
    def can_judge(self) -> bool:
        """Whether enough is known to give a draft up."""
        return self.is_measured and self._known.times(self._sizes[0]) >= _OFTEN_ENOUGH

    @property
    def limit(self) -> int:
        """Return the largest number of drafted tokens whose batch is known."""
        rows = max(self._known.sizes)
        return min(self._most, (min(rows, self._known.checked) if self._checks else rows) - 1)

    def next(self) -> int:
        """Return the size to measure next; 0 for none."""
        known, first = self._known, self._sizes[0]
        if self._checks and known.checked < 0:
            return 0
        if known.times(first) < _OFTEN_ENOUGH and not could_pay(known, self._most, self.width):
            return first
        return next((size for size in self._sizes if not self._has(size)), 0)

    def _has(self, size: int) -> bool:
        known, wide = self._known, 1 < size == self.width
        often = known.times(size) >= (_SURELY if wide else 1)
        return often and (not self._checks or known.checked >= size)


_EXPECTED, _WEIGHT = 0.6, 8.0
"""Acceptance where nothing is known, and how many tokens what is known before a text is worth."""
_MEMORY = 0.95
"""What a round counts against the next one of a text: some twenty are remembered."""
_NEWS = 0.2
"""What the last plain token behind a draft counts against all before."""
_HALF = 8.0
"""Tokens of a text, and as many again, before which a lookup is taken to write half of it."""
_FEAR = 0.4
"""What acceptance is taken for before a text that is to be drafted as a whole."""
_GRACE, _LENT = 2.0, 16.0
"""Tokens that drafting may lose at once; at most of what it won before."""
_LISTEN, _OFTEN = 4, 64
"""Plain tokens that say how fast the machine is; rounds after which two of them say it again."""
_LONGEST = 32
"""Plain tokens until it is thought over again."""
_MEASURED, _SECONDS = 8.0, 1.0
"""Plain tokens that measuring may take at first, and seconds at most."""


class Policy:
    """Says how many tokens to draft."""

    def __init__(
        self,
        most: int,
        known: Costs,
        *,
        width: int = 1,
        auto: bool = True,
        mixed: bool = False,
        checks: bool = False,
    ) -> None:
        """Begin.

        Args:
            auto: Find the number; else it is always ``most``.
            mixed: Some of what is drafted costs nothing: a lookup is asked before a model.
            checks: Only batches whose bits were compared with those of single tokens are used.
        """
        self._most, self.known, self.width = most, known, width
        self._auto, self._mixed = auto, mixed
        self._batches = Batches(known, most, width, checks=checks)
        self._plain: deque[float] = deque(maxlen=7)
        self._wrote = self._lost = self._entry = self._invested = self._spent = 0.0
        # What a plain token behind a draft takes more, times how often one follows.
        self._back = 0.0
        self._rest = self._since = 0
        self._judged = -1, True, True
        self._after_draft = False
        self._begin()

    def _begin(self) -> None:
        known = self.known
        self._rates = {
            free: (_WEIGHT, _WEIGHT * (accepted / tried if tried > 1 else _EXPECTED))
            for free, (tried, accepted) in (
                (False, (known.tried, known.accepted)), (True, known.free),
            )
        }  # fmt: skip
        self._looked_up, self._text = _HALF, 2 * _HALF

    @property
    def unit(self) -> float:
        """Return the seconds of a plain token now; 0 while none was timed."""
        return median(self._plain) if self._plain else 0.0

    def declined(self, left: int, behind: int) -> str:
        """Return why to draft nothing in a text; empty where drafting may pay."""
        self._lost = max(self._lost, -_LENT)  # what long texts earn is not for one text to lose
        self._wrote = min(self._wrote, (max(self._lost, 0.0) + _LENT) / LOSS)
        self._begin()
        if not self._auto or not self._most:
            return ""
        if self.hopeless:
            return self.hopeless
        if self.width == 1:
            return ""
        if not self._batches.is_measured:
            return "the cost of drafting on this machine is not known yet"
        known = self.known
        rate = known.accepted / known.tried if known.tried > 1 else _FEAR
        number, speed = self._fastest(rate)
        if number and (1 - 1 / speed) * min(left, AHEAD) > known.reading(behind):
            return ""
        step = known.verify(self.width)
        return f"a step of this exact configuration costs {step:.2f} plain steps"

    @property
    def hopeless(self) -> str:
        """Return why no draft could pay, whatever is accepted; empty where one could."""
        return "" if self._verdict[1] else "no draft pays for itself on this machine"

    def pays(self) -> bool:
        """Whether a model that drafts could pay, as far as that is known."""
        return self._verdict[2]

    @property
    def _verdict(self) -> tuple[int, bool, bool]:
        """Return of which state of what is known, whether a draft, and a model, could pay."""
        known = self.known
        if self._judged[0] != known.changes:
            model = lookup = True
            if self._auto and self._batches.can_judge:
                model = could_pay(known, self._most, self.width)
                free = self._mixed and could_pay(known, self._most, self.width, free=True)
                lookup = model or free
            self._judged = known.changes, lookup, model
        return self._judged

    # -- what is measured

    def size_to_measure(self, steps: int) -> int:
        """Return the batch to measure now; 0 for none."""
        size = self._next_size
        return size if len(self._plain) >= _LISTEN and size <= steps and self.waits else 0

    @property
    def waits(self) -> bool:
        """Whether a batch is to be measured as soon as there were plain steps enough."""
        size, allowed = self._next_size, max(_MEASURED, LOSS * self._wrote)
        within = self._spent + size <= allowed and self._spent * self.unit < _SECONDS
        return bool(size) and within

    @property
    def _next_size(self) -> int:
        return 0 if not self._auto or self.hopeless else self._batches.next()

    def measured(self, size: int, seconds: float) -> None:
        """Learn what a batch took that was computed for that alone."""
        self._spent += seconds / self.unit
        self.known.saw_batch(size, seconds / self.unit)

    # -- what is drafted

    def count(self, left: int, behind: int, *, free: bool = False) -> int:
        """Return the number for the next round."""
        if not self._auto:
            return self._most
        alone = self.width == 1
        self._rest = _LISTEN - len(self._plain)
        if alone and (self._rest > 0 or not self._batches.is_measured):
            self._rest = max(self._rest, 1)
            return 0
        if alone and self._since >= _OFTEN:
            self._since, self._rest = 0, 2
            return 0
        entry, allowed = self.known.reading(behind), _GRACE + LOSS * self._wrote - self._lost
        tried, accepted = self._rates[free]
        number, speed = self._fastest(accepted / tried, free=free)
        if self._mixed and not free:  # a lookup writes the rest
            left = ceil(left * (1 - self._looked_up / self._text))
        gain = (1 - 1 / speed) * min(left, AHEAD)
        self._entry, self._invested = float(behind), 0.0
        if number and gain > entry and (allowed > 0 or not alone):
            if alone and number == self._batches.limit and self.waits:  # more may be better yet
                self._rest = self._next_size
                return 0
            self._invested = entry
            return number
        if self.hopeless:
            self._rest = _LONGEST
            return 0
        lost, probe = min(
            (round_cost(self.known, n, self.width, free=free) - mean_tokens(accepted / tried, n), n)
            for n in PROBES if n <= self._batches.limit or n == PROBES[0]
        )  # fmt: skip
        price = entry + lost
        if price <= allowed:
            return min(probe, self._batches.limit)
        later = min(max(ceil((price - allowed) / LOSS), 1), _LONGEST)
        self._rest = 1 if self._mixed else later  # the other may draft behind the next token
        return 0

    def rows(self, size: int) -> int:
        """Return the rows to compute for a batch: four may take less time than three."""
        size, verify = max(size, self.width), self.known.verify
        if not self._auto or size == 1:
            return size
        more = [one for one in self.known.sizes if size < one <= self._batches.limit + 1]
        return min([size, *more], key=verify)

    def rest(self) -> int:
        """Return for how many rounds there is no need to think again."""
        return self._rest

    def plain(self, count: int, seconds: Sequence[float]) -> None:
        """Learn that so many rounds were plain, and how long the first of them took each."""
        if self._after_draft and seconds and self.unit:
            # It takes longer: llama.cpp makes its graph anew where the size of a batch changes.
            more = min(max(seconds[0] / self.unit - 1, 0.0), 1.0)
            self._lost += more
            self._back += _NEWS * more
            seconds = seconds[1:]
        self._plain.extend(seconds)
        self._wrote += count
        self._text += count
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
        """Learn how a round went.

        Args:
            verify_seconds: Of all else: computing, choosing, cutting, learning.
        """
        size = self.rows(drafted + 1)
        if self.width > 1:  # no step of such a text says what a plain token takes
            self._plain.append(verify_seconds / self.known.verify(size))
        unit = self.unit or verify_seconds / self.known.verify(size)
        drafting, verifying = draft_seconds / unit, verify_seconds / unit
        if drafted and self._plain:
            self._learn_costs(drafted, size, drafting, verifying, free=free)
        if self.width > 1 or drafted:  # a step that drafts nothing costs as much there
            self.known.saw_round(max(drafted, 1), accepted, free=free)
        if drafted:
            self._back *= 1 - _NEWS
            tried, right = self._rates[free]
            tried = _MEMORY * tried + min(accepted + 1, drafted)
            self._rates[free] = tried, _MEMORY * right + accepted
        self._after_draft = drafted > 0
        self._since += 1
        self._wrote += accepted + 1
        self._text += accepted + 1
        self._looked_up += free * (accepted + 1)
        spent = max(drafting - self._invested, 0.0) + verifying
        self._lost, self._invested = max(self._lost + spent - (accepted + 1), -_LENT), 0.0

    def _learn_costs(
        self, drafted: int, size: int, drafting: float, verifying: float, *, free: bool
    ) -> None:
        known, behind = self.known, int(self._entry)
        if self.width == 1:
            known.saw_batch(size, verifying)
        if free:
            return
        if behind >= _LISTEN and drafting > known.draft(drafted):  # it read what it had missed
            known.saw_reading(behind, drafting - known.draft(drafted))
        else:
            known.saw_draft(drafted, drafting)

    def _fastest(self, acceptance: float, *, free: bool = False) -> tuple[int, float]:
        return fastest_number(
            self.known, acceptance, self._batches.limit, self.width, self._back, free=free
        )
