"""Plots of drafting: speeds of a benchmark, results of tuning, coverage of vocabularies."""

from __future__ import annotations

from mtkit.base import plotting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.speculative.bench import Run
    from mtkit.speculative.costs import Costs
    from mtkit.speculative.tune import CandidateResult


_WIDTH, _HEIGHT = 1.2, 3.0
"""Inches: around the boxes of a panel, and of its height."""
_BOX = 0.45


def plot_bench(runs: Sequence[Run], name: str) -> None:
    """Write NAME.png and NAME.svg, or the one of them that NAME is."""
    sources = list(dict.fromkeys(run.source for run in runs))
    temperatures = list(dict.fromkeys(run.temperature for run in runs))
    widest = len({run.group for run in runs})
    size = len(sources) * (_WIDTH + _BOX * widest), len(temperatures) * _HEIGHT
    with plotting.panels(name, size, [1] * len(temperatures), len(sources)) as rows:
        for row, temperature in zip(rows, temperatures, strict=True):
            for panel, source in zip(row, sources, strict=True):
                _draw_boxes(panel, [
                    run for run in runs if (run.temperature, run.source) == (temperature, source)
                ])  # fmt: skip
                panel.set_title(f"{source}, temperature {temperature:g}")
            row[0].set_ylabel("tokens per second")


def _draw_boxes(panel: Any, runs: Sequence[Run]) -> None:
    groups = list(dict.fromkeys(run.group for run in runs))
    long = [run for run in runs if len(run.ids) > 1] or runs  # the prompt gives the first token
    rates = [[len(run.ids) / run.seconds for run in long if run.group == name] for name in groups]
    panel.boxplot(rates, widths=0.6)
    panel.set_xticks(range(1, len(groups) + 1), groups, rotation=45 if len(groups) > 8 else 0)
    panel.set_ylim(bottom=0)
    panel.grid(axis="y", alpha=0.3)


_TUNING_SIZE = 9.0, 3.6
"""Inches: width and height."""
_MOST_CANDIDATES = 12
"""Candidates at most, the fastest."""


def plot_tuning(costs: Costs, results: Sequence[CandidateResult], name: str) -> None:
    """Write NAME.png and NAME.svg, or the one of them that NAME is; the fastest result is first."""
    sizes, bars = sorted(costs.sizes), list(reversed(results[:_MOST_CANDIDATES]))
    with plotting.panels(name, _TUNING_SIZE, columns=2) as [[cost, gain]]:
        cost.plot(sizes, [costs.sizes[size] for size in sizes], "o-", markersize=3, label="a batch")
        cost.plot(sizes, sizes, "--", color="gray", label="its tokens one by one")
        cost.set_xlabel("tokens in a batch")
        cost.set_ylabel("cost, in tokens")
        cost.set_ylim(bottom=0)
        cost.legend(fontsize="small")
        gain.barh(range(len(bars)), [x.promised for x in bars], alpha=0.4, label="expected")
        measured = [(at, x.measured[1]) for at, x in enumerate(bars) if x.measured is not None]
        gain.plot(
            [speed for _, speed in measured], [at for at, _ in measured], "o", label="measured"
        )
        gain.set_yticks(range(len(bars)), [x.candidate.name for x in bars], fontsize=6)
        gain.axvline(1, color="gray", linestyle="--")
        gain.set_xlabel("times plain decoding")
        gain.legend(fontsize="small", loc="lower right")
        for panel in (cost, gain):
            panel.grid(alpha=0.3)


_COVERAGE_SIZE = 6.0, 3.6
"""Inches: width and height."""


def plot_coverage(sizes: Sequence[int], covered: Mapping[str, Sequence[float]], name: str) -> None:
    """Write NAME.png and NAME.svg, or the one of them that NAME is.

    Args:
        covered: Name of a text -> the part that so many ids cover, 0 to 1.
    """
    with plotting.panels(name, _COVERAGE_SIZE) as [[panel]]:
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
