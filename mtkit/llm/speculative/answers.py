"""What a target answered, and how fast a draft would have written it.

A draft that has read along, and said at each place whether it was right, says for every number of
drafted tokens which rounds there would have been.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.llm.speculative.exactness import MOST_ROWS
from mtkit.llm.speculative.known import Known
from mtkit.llm.speculative.lookup import Lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Watched(Record):
    """How a candidate reads along with some answers.

    Attributes:
        right: For each answer, whether it was right at each place.
        cost: Of a drafted token, in plain ones.
        reading: Of a token that it reads, in plain ones.
    """

    right: list[list[bool]]
    cost: float
    reading: float


class Answers:
    """What the target answers, and what its batches cost.

    Attributes:
        prompts: Ids of each.
        texts: Ids of each answer.
        plain: Seconds of a token.
        known: Costs of batches.
        hits: For each answer and place, how many tokens a lookup proposes there, and how many of
            them are right.
    """

    def __init__(self, prompts: list[list[int]], texts: list[list[int]], plain: float) -> None:
        self.prompts, self.texts, self.plain = prompts, texts, plain
        self.known = Known()
        self.hits = [list(_hits(p, t)) for p, t in zip(prompts, texts, strict=True)]

    def cheapest(self, size: int, rows: int) -> float:
        """Return the cost of a batch of so many tokens, with up to so many rows."""
        verify, sizes = self.known.verify, self.known.sizes if size > 1 else ()
        return min(map(verify, (size, *(one for one in sizes if size < one <= rows))))


def acceptance(hits: list[list[tuple[int, int]]]) -> tuple[float, float]:
    """Return how many places a lookup tried, and at how many of them it was right."""
    found = [hit for row in hits for hit in row if hit[0]]
    tried = sum(min(right + 1, drafted) for drafted, right in found)
    return float(tried), float(sum(right for _, right in found))


def _hits(prompt: list[int], text: list[int]) -> Iterator[tuple[int, int]]:
    lookup, ids = Lookup(), [*prompt, *text]
    for at in range(len(prompt) + 1, len(ids)):
        proposed = lookup.propose(ids[:at], MOST_ROWS).ids
        right = 0
        while right < min(len(proposed), len(ids) - at) and proposed[right] == ids[at + right]:
            right += 1
        yield len(proposed), right


def speed(
    answers: Answers,
    watched: Watched | None,
    number: int,
    width: int,
    *,
    lookup: int,
) -> float:
    """Return times plain decoding that the answers would have been written.

    Args:
        answers: Of the target.
        watched: How a draft read along with the first of them; None without a draft.
        number: Drafted by the draft in each round, at most.
        width: Rows that a step computes at least.
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
