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
    lookup: bool,
) -> float:
    """Return times plain decoding that the answers would have been written.

    Args:
        answers: Of the target.
        watched: How a draft read along with the first of them; None without a draft.
        number: Drafted in each round, at most.
        width: Rows that a step computes at least.
        lookup: What a lookup finds goes first.
    """
    count = len(watched.right) if watched else len(answers.texts)
    spent = tokens = 0.0
    for which in range(count):
        size, at = len(answers.texts[which]) - 1, 0
        spent += watched.reading * len(answers.prompts[which]) if watched else 0.0
        while at < size:
            drafted, right = answers.hits[which][at] if lookup else (0, 0)
            drafted = min(drafted, number, size - at)
            cost = 0.0
            if not drafted and watched is not None:
                drafted = min(number, size - at)
                row, right = watched.right[which], 0
                while right < drafted and row[at + right]:
                    right += 1
                cost = watched.cost * drafted
            spent += answers.known.verify(max(drafted + 1, width)) + cost
            at += min(right, drafted) + 1
        tokens += size
    return tokens / spent if spent else 1.0
