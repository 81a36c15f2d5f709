"""What drafting costs and gives, drawn: the cost of batches, and the speed of each candidate."""

from __future__ import annotations

from mtkit.base import plotting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.llm.speculative.candidates import Found
    from mtkit.llm.speculative.known import Known

_SIZE = 9.0, 3.6
"""Inches: width and height."""
_SHOWN = 12
"""Candidates at most, the fastest."""


def write(known: Known, found: Sequence[Found], name: str) -> None:
    """Write NAME.png and NAME.svg, or the one of them that NAME is.

    Args:
        known: Costs of the target's batches.
        found: Candidates, the fastest first.
        name: Path.

    Raises:
        MissingExtra: matplotlib is not installed.
        UsageError: They cannot be written.
    """
    sizes, shown = sorted(known.sizes), list(reversed(found[:_SHOWN]))
    with plotting.panels(name, _SIZE, columns=2) as [[cost, gain]]:
        cost.plot(sizes, [known.sizes[size] for size in sizes], "o-", markersize=3, label="a batch")
        cost.plot(sizes, sizes, "--", color="gray", label="its tokens one by one")
        cost.set_xlabel("tokens in a batch")
        cost.set_ylabel("cost, in tokens")
        cost.set_ylim(bottom=0)
        cost.legend(fontsize="small")
        gain.barh(range(len(shown)), [one.promised for one in shown], alpha=0.4, label="expected")
        measured = [(at, one.measured) for at, one in enumerate(shown) if one.measured is not None]
        gain.plot(
            [speed for _, speed in measured], [at for at, _ in measured], "o", label="measured"
        )
        gain.set_yticks(range(len(shown)), [one.candidate.name for one in shown], fontsize=6)
        gain.axvline(1, color="gray", linestyle="--")
        gain.set_xlabel("times plain decoding")
        gain.legend(fontsize="small", loc="lower right")
        for panel in (cost, gain):
            panel.grid(alpha=0.3)
