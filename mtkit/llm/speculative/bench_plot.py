"""Box plots of a benchmark: tokens a second of every group, a box over its prompts."""

from __future__ import annotations

from mtkit.base import plotting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llm.speculative.bench import Run

_WIDTH, _HEIGHT = 1.2, 3.0
"""Inches: around the boxes of a panel, and of its height."""
_BOX = 0.45


def write(runs: Sequence[Run], name: str) -> None:
    """Write NAME.png and NAME.svg, or the one of them that NAME is.

    Raises:
        MissingExtra: matplotlib is not installed.
        UsageError: They cannot be written.
    """
    sources = list(dict.fromkeys(run.source for run in runs))
    temperatures = list(dict.fromkeys(run.temperature for run in runs))
    widest = len({run.group for run in runs})
    size = len(sources) * (_WIDTH + _BOX * widest), len(temperatures) * _HEIGHT
    with plotting.panels(name, size, [1] * len(temperatures), len(sources)) as rows:
        for row, temperature in zip(rows, temperatures, strict=True):
            for panel, source in zip(row, sources, strict=True):
                _panel(panel, [
                    run for run in runs if (run.temperature, run.source) == (temperature, source)
                ])  # fmt: skip
                panel.set_title(f"{source}, temperature {temperature:g}")
            row[0].set_ylabel("tokens per second")


def _panel(panel: Any, runs: Sequence[Run]) -> None:
    groups = list(dict.fromkeys(run.group for run in runs))
    long = [run for run in runs if len(run.ids) > 1] or runs  # the prompt gives the first token
    rates = [[len(run.ids) / run.seconds for run in long if run.group == name] for name in groups]
    panel.boxplot(rates, widths=0.6)
    panel.set_xticks(range(1, len(groups) + 1), groups, rotation=45 if len(groups) > 8 else 0)
    panel.set_ylim(bottom=0)
    panel.grid(axis="y", alpha=0.3)
