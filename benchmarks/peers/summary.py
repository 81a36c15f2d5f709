"""What a run says: for each figure mtkit's median, and how many times the others' cost it is."""

from __future__ import annotations

from statistics import median

from benchmarks.peers.libraries import OWN
from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Ratio(Record):
    """mtkit's speed divided by another library's, over rounds.

    Attributes:
        middle: Median of the rounds.
        low: The least.
        high: The greatest.
    """

    middle: float
    low: float
    high: float


class Row(Record):
    """One figure.

    Attributes:
        tokenizer: Name.
        scenario: Name, with its part: "whole fresh".
        text: Name of the text, "" where there is none.
        unit: Of ``costs``.
        costs: Library -> median.
        ratios: Library -> ratio, where its ids and mtkit's are right.
    """

    tokenizer: str
    scenario: str
    text: str
    unit: str
    costs: dict[str, float]
    ratios: dict[str, Ratio]

    def shown(self, library: str) -> tuple[str, str]:
        """Return a cost for people: MB/s of a time a byte."""
        cost = self.costs[library]
        if self.unit == "ns/byte":
            return f"{1000 / cost:.3g}" if cost else "", "MB/s"
        if self.unit == "bytes":
            return f"{cost / 1e6:.1f}", "MB"
        return f"{cost:.1f}" if cost >= 10 else f"{cost:.3g}", self.unit

    @property
    def spread(self) -> float | None:
        """The widest range of a ratio, as a part of its median."""
        parts = [(r.high - r.low) / 2 / r.middle for r in self.ratios.values() if r.middle]
        return max(parts, default=None)


def rows_of(tokenizer: Mapping[str, Any]) -> list[Row]:
    """Return the rows of one tokenizer of a document."""
    states = tokenizer["libraries"]
    found = []
    for figure in tokenizer["figures"]:
        own = figure["costs"].get(OWN)
        if own is None:
            continue
        ratios = {
            name: _ratio(costs, own)
            for name, costs in figure["costs"].items()
            if name != OWN
            and min(own) > 0
            and all(is_exact(states[each], figure["text"]) for each in (OWN, name))
        }
        found.append(
            Row(
                tokenizer["name"],
                f"{figure['scenario']} {figure['part']}".strip(),
                figure["text"],
                figure["unit"],
                {name: median(costs) for name, costs in figure["costs"].items()},
                ratios,
            )
        )
    return found


def _ratio(theirs: list[float], own: list[float]) -> Ratio:
    """Compare round by round: what disturbs one library disturbs its neighbor as well."""
    ratios = [a / b for a, b in zip(theirs, own, strict=False)]
    return Ratio(median(ratios), min(ratios), max(ratios))


def is_exact(state: Mapping[str, Any], text: str) -> bool:
    """Whether a library's ids are right: of a text; without one, of all that people write."""
    wrong = {entry["text"] for entry in state.get("wrong", ())}
    if text:
        return text not in wrong
    return all(name.startswith("hard ") for name in wrong)


def differing(document: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return tokenizers for which mtkit's own ids are not the reference's, and where."""
    return [
        (tokenizer["name"], wrong)
        for tokenizer in document["tokenizers"]
        for wrong in tokenizer["libraries"][OWN]["wrong"]
    ]
