"""How many tokens to draft in the next round.

With acceptance a at every place, a round of n drafted tokens gives (1 - a^(n+1)) / (1 - a) tokens
(Leviathan et al. 2023) and takes the time of verifying n + 1 tokens and of drafting n. The number
with the most tokens a second is taken, which can be none.

A text begins with some plain rounds, which say how fast the machine is now. A draft is begun where
the costs measured on this machine and a modest acceptance promise more than it takes to read the
text so far. Else decoding is plain, and a short draft looks now and then whether it would pay. What
such looks and wrong guesses have lost is kept below a small part of the text's time.

Whether to draft in a text at all is decided before it (``declined``): not where even an acceptance
that hardly occurs would not pay. With float weights the exact configuration makes every round of a
text cost two rows, drafted or not, so there drafting has to pay for that as well, by what earlier
texts say. Plain texts say it, too: now and then a draft proposes in them, and nothing is verified.
Without a model that costs nothing; one that has a model is presumed to be often wrong, and is asked
as long as its answers cost a small part of the text's time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.llm.speculative.costs import Costs

_MEMORY = 0.95
"""What a round counts against the next one: some twenty are remembered."""
_EXPECTED, _WEIGHT = 0.6, 4.0
"""Acceptance before anything was seen, and how many tokens that belief is worth."""
_HOPE, _FEAR = 0.95, 0.4
"""The best acceptance that is thought possible; what a draft's is taken for before a text that is
to be drafted as a whole."""
_PRIOR, _PRIOR_OF_MODELS, _SLOWLY = 32.0, 4.0, 0.995
"""Rounds that this fear is worth against those of earlier texts: fewer where looks are dear and
therefore rare; how slowly texts are forgotten."""
_HARDLY = 1.03
"""Times a plain token that a round without a draft may take: then a wrong decision costs little."""
_PROBE = 2
"""Tokens of a draft that only looks."""
_LOSS = 0.03
"""Part of the text's time that drafting may lose against plain decoding."""
_ASKING = 0.02
"""Part of a plain text's time that asking a draft may take which could be twice as fast."""
_GRACE, _LENT = 1.0, 16.0
"""Plain tokens that it may lose at once at the start, and at most of what it won before."""
_WORTH = 1.1
"""Speed against plain decoding from which on a draft is begun."""
_AHEAD = 256
"""Tokens of the rest of a text that are counted on: it may end at any time."""
_NEWS = 0.2
"""What the last draft, and the plain round behind it, counts against all before."""
_TEXTS = 8
"""Texts in a row that are drafted where a text in pairs cannot tell how fast plain decoding is."""
_LISTEN = 3
"""Plain rounds at the start, which say how fast the machine is now."""
_LONGEST_PAUSE = 32
"""Plain rounds until it is thought over again."""


class Adaptive:
    """The number that promises the most tokens a second, within what may be lost."""

    def __init__(self, most: int, costs: Costs) -> None:
        """Begin.

        Args:
            most: Largest number.
            costs: What a round takes on this machine; what is seen later corrects it.
        """
        self._most, self._costs = most, costs
        self._tried = self._ever_tried = _WEIGHT
        self._accepted = self._ever_accepted = _WEIGHT * _EXPECTED
        # In seconds: what plain decoding of all texts takes or would take, what asking took of it;
        # the part of it that may still count for drafting, what that lost.
        self._decoded = self._asked = 0.0
        self._due = self._lost = self._invested = 0.0
        self._change = self._returns = 0.0
        self._drafted, self._texts = False, 0
        self._pause, self._look = 0, min(_PROBE, most)
        self._first: list[float] = []
        # Of rounds of texts in pairs, made or imagined: tokens, and their cost in plain ones.
        number, rounds = 0, _PRIOR
        if costs.draft_seconds:
            number, rounds = self._best(_FEAR, costs.verify(1), 1.0)[0], _PRIOR_OF_MODELS
        self._gave = rounds * _expected(_FEAR, number)
        self._took = rounds * self._seconds(number) / costs.plain

    def declined(self, left: int, behind: int) -> str:
        """Return why to draft nothing in a text; empty where drafting may pay.

        A text may end in a loop that everything foresees: the next one begins as any does.
        """
        costs = self._costs
        # What long texts have earned is not for one text to lose.
        self._due = min(self._due, (self._lost + _LENT * costs.plain) / _LOSS)
        self._tried = _WEIGHT
        self._accepted = _WEIGHT * self._ever_accepted / self._ever_tried
        self._look = self._best(self._acceptance, costs.verify(1))[0] or min(_PROBE, self._most)
        if not self._could_pay:
            return "no draft pays for what it costs on this machine"
        speed, entry = self._gave / self._took, behind * costs.read_seconds / costs.plain
        pays = speed > _WORTH and (1 - 1 / speed) * min(left, _AHEAD) > entry
        if not costs.pairs or costs.step <= _HARDLY:
            return ""
        self._texts = self._texts + 1 if pays else 0
        if self._texts > _TEXTS:
            self._texts = 0
            return "now and then a text says how fast plain decoding is"
        if pays:
            return ""
        return f"in this exact configuration a step costs {costs.step:.2f} of a plain one"

    @property
    def looks(self) -> bool:
        """Return whether proposals in texts that were declined could change a mind."""
        return self._costs.pairs and self._could_pay

    def imagines(self, behind: int, done: int) -> int:
        """Return how many tokens to propose, where that costs no more than may be lost.

        What seems far from paying is asked less, and so is what could win little.
        """
        costs = self._costs
        part = _ASKING * min(self._gave / self._took, 1.0) ** 2
        part *= min(self._best(_HOPE, costs.plain)[1] - 1, 1.0)
        price = behind * costs.read_seconds + costs.draft(self._look)
        allowed = part * (self._decoded + done * costs.plain) + _GRACE * costs.plain
        if price and self._asked + price > allowed:
            return 0
        self._asked += price
        return self._look

    @property
    def _could_pay(self) -> bool:
        costs = self._costs
        return any(
            _expected(_HOPE, number) * costs.plain
            > _WORTH * (costs.verify(number + 1) + (0 if costs.mixed else costs.draft(number)))
            for number in range(1, self._most + 1)
        )

    def imagined(self, drafted: int, accepted: int) -> None:
        """Learn how a round would have gone."""
        self._went(drafted, accepted)

    def _went(self, drafted: int, accepted: int) -> None:
        self._gave = _SLOWLY * self._gave + accepted + 1
        self._took = _SLOWLY * self._took + self._seconds(drafted) / self._costs.plain
        if drafted:
            tried = min(accepted + 1, drafted)
            self._tried = _MEMORY * self._tried + tried
            self._accepted = _MEMORY * self._accepted + accepted
            self._ever_tried = _SLOWLY * self._ever_tried + tried
            self._ever_accepted = _SLOWLY * self._ever_accepted + accepted

    def count(self, left: int, behind: int) -> int:
        """Return the number for the next round."""
        self._pause = _LISTEN - len(self._first)
        if self._pause:
            return 0
        costs = self._costs
        plain, entry = costs.verify(1), behind * costs.read_seconds
        allowed = _LOSS * self._due - self._lost
        best, speed = self._best(self._acceptance, plain)
        gain = (1 - 1 / speed) * min(left, _AHEAD) * plain
        if best and gain > entry and allowed + _GRACE * plain > 0:
            self._invested = entry
            return best
        self._invested = 0.0
        probe = min(_PROBE, self._most)
        expected = _expected(self._acceptance, probe)
        missing = entry + self._seconds(probe) + self._change - expected * plain - allowed
        if missing <= 0:
            return probe
        self._pause = min(int(missing / (_LOSS * plain)), _LONGEST_PAUSE)
        return 0

    def rest(self) -> int:
        """Return for how many rounds there is no need to think again."""
        return self._pause

    def rested(self, rounds: int, seconds: Sequence[float]) -> None:
        """Account for plain rounds, and learn how fast the machine is now."""
        if seconds and self._drafted:
            self._went_back(seconds[0])
            seconds = seconds[2:]  # the second is slower yet
        for each in seconds:
            self._was_plain(each, self._costs.plain)
        self._wrote(rounds * self._costs.plain)
        self._pause = 0

    def _wrote(self, seconds: float) -> None:
        self._decoded += seconds
        self._due += seconds

    def _went_back(self, seconds: float) -> None:
        """Account for the first plain round behind a draft, which says nothing of the machine.

        It takes longer, because llama.cpp makes its graph anew where the size of a batch changes.
        """
        plain = self._costs.verify(1)
        more = min(max(seconds - plain, 0.0), plain)
        self._change += _NEWS * (more - self._change)
        self._returns += _NEWS * (1 - self._returns)
        self._lost += more
        self._drafted = False

    def _was_plain(self, seconds: float, before: float) -> None:
        """Learn from a plain round behind another one, which was thought to take ``before``."""
        if len(self._first) == _LISTEN:
            self._costs.saw_plain(seconds, before)
            return
        self._first.append(seconds / before)
        if len(self._first) == _LISTEN:
            self._costs.scale(min(self._first))

    @property
    def _acceptance(self) -> float:
        return self._accepted / self._tried

    def _seconds(self, number: int) -> float:
        return self._costs.verify(number + 1) + self._costs.draft(number)

    def _best(self, acceptance: float, base: float, least: float = _WORTH) -> tuple[int, float]:
        """Return the fastest number, and its speed; 0 and 1 where none is worth it.

        Args:
            acceptance: At every place.
            base: Seconds of a token, which has speed 1.
            least: The speed has to be above.
        """
        best, best_speed, returning = 0, least, self._returns * self._change
        for number in range(1, self._most + 1):
            speed = _expected(acceptance, number) * base / (self._seconds(number) + returning)
            if speed > best_speed:
                best, best_speed = number, speed
        return best, best_speed if best else 1.0

    def saw(self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn acceptance and times, and account for what was lost or won."""
        draft_seconds = max(draft_seconds - self._invested, 0.0)
        if drafted:
            self._costs.saw(drafted, draft_seconds, verify_seconds)
        elif self._drafted:
            self._went_back(verify_seconds)
        else:
            self._was_plain(verify_seconds, self._costs.verify(1))
        plain = self._costs.verify(1)
        self._went(drafted, accepted)
        self._wrote((accepted + 1) * plain)
        if not drafted:  # a draft that was not sure enough of anything has been paid for, too
            self._lost += draft_seconds
            return
        self._returns -= self._drafted * _NEWS * self._returns
        self._drafted = True
        self._lost += draft_seconds + verify_seconds - (accepted + 1) * plain
        self._lost = max(self._lost, -_LENT * plain)


def _expected(acceptance: float, number: int) -> float:
    """Return the tokens that a round of so many drafted ones gives."""
    acceptance = min(acceptance, 0.999)
    return (1 - acceptance ** (number + 1)) / (1 - acceptance)
