"""Thinking that ends after a number of tokens: what closes a reasoning is written for the model.

Source: llama.cpp, common/reasoning-budget.cpp, for what such a budget does.
"""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.llm.sampling import Sampler
    from mtkit.llm.speculative.proposal import Proposal
    from mtkit.llm.speculative.verification import Verification

_MOST_TEXT = 200
"""Characters in which a sign is looked for; none has as many."""


class Budget(Record):
    """How long a model may think.

    Attributes:
        tokens: At most.
        is_open: The answer begins in a reasoning.
        opening: What opens one.
        closings: What closes one, any of them.
        ids: Tokens of what closes one.
    """

    tokens: int
    is_open: bool
    opening: str
    closings: tuple[str, ...]
    ids: tuple[int, ...]


class Bounded:
    """Chooses as another does, and ends the reasoning where its tokens are spent."""

    def __init__(
        self,
        inner: Verification,
        sampler: Sampler,
        budget: Budget,
        piece: Callable[[int], bytes],
    ) -> None:
        """Begin an answer.

        Args:
            inner: Chooses the tokens.
            sampler: Is told of tokens that it did not choose.
            budget: What may be spent.
            piece: Gives the bytes that a token is spelled with, control tokens too.
        """
        self._inner, self._sampler, self._budget, self._piece = inner, sampler, budget, piece
        self._forced: list[int] = []
        self._text, self._spent = "", 0
        self._is_open, self._is_over = budget.is_open, False

    def choose(self, proposal: Proposal, place: int, row: int) -> int:
        """Return the next token: the one that is due, or the one that is chosen."""
        if self._forced:
            token = self._forced.pop(0)
            self._sampler.accept((token,))
            return token
        token = self._inner.choose(proposal, place, row)
        if token >= 0 and not self._is_over:
            self._see(token)
        return token

    def _see(self, token: int) -> None:
        budget = self._budget
        self._text = (self._text + self._piece(token).decode("utf-8", "ignore"))[-_MOST_TEXT:]
        if not self._is_open:
            self._is_open = bool(budget.opening) and budget.opening in self._text
            begun = self._text.lstrip()
            self._is_over = not self._is_open and not budget.opening.startswith(begun)
            self._text = "" if self._is_open else self._text
            return
        self._spent += 1
        if any(one in self._text for one in budget.closings):
            self._is_over = True
        elif self._spent >= budget.tokens:
            self._forced, self._is_over = list(budget.ids), True
