"""What puts ids into a dynamic vocabulary: the trigger's search, the prompt, the text."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from mtkit.llm.speculative.draft_vocabulary import Dynamic
    from mtkit.llm.speculative.proposal import Outcome
    from mtkit.llm.speculative.trigger import Trigger

    class Search(Protocol):
        """Finds ids that mean much the same."""

        def neighbors(self, token_id: int) -> list[int]:
            """Return the ids nearest to one, itself left out."""
            ...

        def forget(self) -> None:
            """Forget what was found."""
            ...


class Learning:
    """Changes a dynamic vocabulary between rounds.

    Attributes:
        vocabulary: What is changed.
        trigger: Its counters; None where nothing is searched for.
        search_seconds: Time spent on searches.
        neighbors: Ids that searches gave.
        added: Ids that were added, by whatever.
        hits: Accepted tokens that the static vocabulary does not have.
        largest: Most ids that were there at once.
    """

    def __init__(
        self,
        vocabulary: Dynamic,
        *,
        trigger: Trigger | None = None,
        search: Search | None = None,
        seed_prompt: bool = False,
        learn: bool = False,
    ) -> None:
        """Begin with an empty dynamic vocabulary.

        Args:
            vocabulary: The draft's.
            trigger: Says what to search for.
            search: Finds the neighbors; None to add the id itself alone.
            seed_prompt: Add the ids of the prompt.
            learn: Add every id that is emitted.
        """
        self.vocabulary, self.trigger, self._search = vocabulary, trigger, search
        self._seed_prompt, self._learn = seed_prompt, learn
        self.reset()

    def reset(self) -> None:
        """Empty the dynamic vocabulary, and count anew."""
        self.search_seconds = 0.0
        self.neighbors = self.added = self.hits = self.largest = 0
        self._waiting: list[int] = []
        self.vocabulary.clear()
        if self.trigger is not None:
            self.trigger.reset()
        if self._search is not None:
            self._search.forget()

    def begin(self, ids: Sequence[int]) -> None:
        """Take a prompt."""
        if self._seed_prompt:
            self._waiting += dict.fromkeys(ids)

    def ready(self) -> None:
        """Add what waits for the next proposal: where none comes, it costs nothing."""
        if self._waiting:
            self._add(self._waiting)
            self._waiting = []

    def saw(self, outcome: Outcome) -> None:
        """Take a round."""
        known = self.vocabulary
        self.hits += sum(i not in known for i in outcome.drafted[: outcome.accepted])
        for token_id in self.trigger.saw(outcome) if self.trigger else ():
            start = time.perf_counter()
            found = self._search.neighbors(token_id) if self._search else []
            self._add([token_id, *found])
            self.neighbors += len(found)
            self.search_seconds += time.perf_counter() - start
        if self._learn:
            self._waiting += [i for i in outcome.emitted if i >= 0]

    def _add(self, ids: list[int]) -> None:
        self.added += self.vocabulary.add(ids)
        self.largest = max(self.largest, self.vocabulary.size)

    def document(self) -> dict[str, object]:
        """Return the counters for JSON."""
        found: dict[str, object] = {
            "size": self.vocabulary.size,
            "largest": self.largest,
            "added": self.added,
            "hits": self.hits,
        }
        if self.trigger is not None:
            found |= {
                "first_rejected": self.trigger.first_rejected,
                "unknown": self.trigger.unknown,
                "triggers": self.trigger.fired,
                "searches": len(self.trigger.searched),
                "neighbors": self.neighbors,
                "search_seconds": self.search_seconds,
            }
        return found
