"""Bars of a run: mtkit's speed divided by each library's, a panel for each tokenizer."""

from __future__ import annotations

from itertools import chain, zip_longest

from benchmarks.peers.summary import rows_of
from mtkit.base import plotting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_WIDTH, _BAR, _AROUND = 6.0, 0.11, 1.1
"""Inches: of a panel, of a bar, around the bars of a panel."""
_FEW = 4
"""Panels that stand one below the other."""
_SHOWN = ("load .mtok", "load", "short", "5 KB", "decode", "whole fresh", "whole again",
          "documents fresh", "documents again", "lines fresh")  # fmt: skip


def write(document: Mapping[str, Any], name: str) -> None:
    """Write NAME.png and NAME.svg, or the one of them that NAME is.

    Raises:
        MissingExtra: matplotlib is not installed.
        UsageError: They cannot be written.
    """
    shown = [(x["name"], _bars(x)) for x in document["tokenizers"]]
    shown = [(title, bars) for title, bars in shown if bars] or shown[:1]
    names = list(dict.fromkeys(name for _, bars in shown for _, x in bars for name in x))
    columns = 1 if len(shown) < _FEW else 2
    lines = [shown[at : at + columns] for at in range(0, len(shown), columns)]
    heights = [
        max(_AROUND + _BAR * sum(len(each) + 1 for _, each in bars) for _, bars in line)
        for line in lines
    ]
    size = columns * _WIDTH, sum(heights)
    with plotting.panels(name, size, heights, columns) as rows:
        for panel, drawn in zip_longest(chain(*rows), shown):
            if drawn is None:
                panel.set_axis_off()
            else:
                title, bars = drawn
                _draw(panel, title, bars, names)


def _bars(tokenizer: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the ratios of the scenarios that are drawn."""
    return [
        (f"{row.scenario}, {row.text}" if row.text else row.scenario, row.ratios)
        for row in rows_of(tokenizer)
        if row.scenario in _SHOWN and row.ratios
    ]


def _draw(panel: Any, title: str, bars: list[tuple[str, dict[str, Any]]], names: list[str]) -> None:
    """Draw bars to both sides of 1, in one color for each library."""
    place, ticks, drawn = 0.0, [], set()
    for _, ratios in bars:
        start = place
        for name in (name for name in names if name in ratios):
            ratio = ratios[name]
            error = [[ratio.middle - ratio.low], [ratio.high - ratio.middle]]
            panel.barh(place, ratio.middle - 1, left=1, xerr=error, height=0.9,
                       color=f"C{names.index(name)}", label=None if name in drawn else name,
                       error_kw={"elinewidth": 0.6})  # fmt: skip
            drawn.add(name)
            place += 1
        ticks.append((start + place - 1) / 2)
        place += 1
    panel.set_yticks(ticks, [label for label, _ in bars])
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.axvline(1, color="black", linewidth=0.8)
    panel.set_xlabel("mtkit's speed divided by the library's")
    panel.set_title(title)
    panel.grid(axis="x", alpha=0.3)
    if drawn:
        panel.legend(loc="lower right")
