"""Which part of each text the most frequent ids cover, drawn over their number."""

from __future__ import annotations

from mtkit.base import plotting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIZE = 6.0, 3.6
"""Inches: width and height."""


def write(sizes: Sequence[int], covered: Mapping[str, Sequence[float]], name: str) -> None:
    """Write NAME.png and NAME.svg, or the one of them that NAME is.

    Args:
        sizes: Numbers of ids.
        covered: Name of a text -> the part that so many ids cover, 0 to 1.
        name: Path.

    Raises:
        MissingExtra: matplotlib is not installed.
        UsageError: They cannot be written.
    """
    with plotting.panels(name, _SIZE) as [[panel]]:
        for at, (label, parts) in enumerate(covered.items()):
            percent = [100 * part for part in parts]
            panel.plot(sizes, percent, "o-" if at < 10 else "s--", markersize=3, label=label)
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
        panel.minorticks_off()
        panel.set_xlabel("ids")
        panel.set_ylabel("% covered")
        panel.grid(alpha=0.3)
        panel.legend(loc="lower right", fontsize="small", ncols=2)
