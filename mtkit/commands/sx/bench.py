"""``mtkit sx bench``: what drafts are worth on this machine, with these models and prompts."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.settings import DraftSettings, GenerateSettings
    from mtkit.speculative.bench import Bench

_PLACES = 4
"""Positions in a draft whose acceptance the table shows."""


OPTIONS = {
    "files": Option("", "Prompts: lines of text (\\n: line break) or JSON.", "FILE..."),
    "draft": Option(
        "--draft",
        "Draft model, for group B.",
        "GGUF",
        "-md --model-draft --spec-draft-model -hfd -hfrd --hf-repo-draft",
    ),
    "vocabulary": Option("--sx-static-vocab", "Ids for groups C, D, D+ and E.", "FILE"),
    "groups": Option("--groups", "Run only these groups, and A.", "A,B,..."),
    "acceptance": Option("--acceptance", "Simulated acceptance rates: B@P and C@P.", "P,..."),
    "temperatures": Option("--temp", "Temperatures; 0 is greedy.", "T,..."),
    "count": Option("-c --count", "Maximum number of prompts per file.", "N", "--prompts", low=1),
    "tokens": Option(
        "-n --n-predict", "Maximum number of tokens per text.", "N", "--predict --tokens", low=1
    ),
    "draft_max": Option(
        "--draft-max",
        "Maximum number of tokens to draft at once.",
        "N",
        "--draft-n --spec-draft-n-max",
        low=1,
        high=62,
    ),
    "threshold": Option("--sx-threshold", "Minimum cosine similarity of a neighbor, for D.", "X"),
    "no_draft_auto": Option("--no-draft-auto", "Always draft the maximum number of tokens."),
    "no_exact": Option("--no-exact", "Use a configuration that need not be exact."),
    "threads": Option("--threads", "Number of threads.", "N", low=1),
}


def bench(
    target: str,
    files: list[str],
    *,
    draft: str | None = None,
    vocabulary: str | None = None,
    groups: str | None = None,
    acceptance: str = "",
    temperatures: str = "0,0.8",
    count: int | None = None,
    tokens: int = 64,
    draft_max: int = 8,
    threshold: str = "0.85",
    no_draft_auto: bool = False,
    no_exact: bool = False,
    threads: int = 1,
    plot: str | None = None,
    as_json: bool = False,
) -> None:
    """Compare drafting variants on the same prompts.

    A is the target alone, lookup is prompt lookup, B a draft model, C one with a static vocabulary,
    D ShenXing; D+ also learns from the prompt and the text, E learns from them without a search.
    B@0.7 costs as much as B and is right at that rate, @0.7 costs nothing. A2 and A4 are A in the
    configuration that such weights need for exact results.

    Columns: temperature, file, group, tokens per second, times A (of all, median), texts equal to
    A's (with random sampling, the log-likelihood per token), tokens outside the static vocabulary,
    tokens per round, accepted, accepted by position. One thread is measured in CPU time, several in
    wall-clock time.

    \b
    Examples:
      mtkit sx bench model.gguf en.jsonl zh.jsonl --draft small.gguf --sx-static-vocab vocab.txt
      mtkit sx bench model.gguf en.jsonl --acceptance 0.6,0.8 --temp 0 --plot costs --json
    """
    from mtkit.base import plotting
    from mtkit.base.files import temporary_folder
    from mtkit.commands.inputs import find_model
    from mtkit.settings import ContextSettings, DraftSettings, GenerateSettings

    if plot is not None:
        plotting.require()
    rates = _numbers(acceptance, "--acceptance", 0, 1)
    levels = _numbers(temperatures, "--temp", 0, 10)
    path = find_model(target)
    with temporary_folder() as folder:
        drafting = DraftSettings(
            draft=None if draft is None else find_model(draft), draft_max=draft_max,
            draft_auto=not no_draft_auto, exact=not no_exact, sx_static_vocab=vocabulary,
        )  # fmt: skip
        if vocabulary is not None:
            drafting = _with_search(drafting, path, folder, threshold)
        settings = GenerateSettings(
            path, ContextSettings(threads=threads), drafting=drafting, n_predict=tokens
        )
        _run(settings, files, groups, count, levels, rates, plot, as_json=as_json)


command = Command(bench, OPTIONS)


def _numbers(text: str, option: str, low: float, high: float) -> list[float]:
    from mtkit.errors import UsageError

    try:
        numbers = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UsageError(
            f"{text!r} is not a list of numbers separated by commas", field=option
        ) from None
    for number in numbers:
        if not low <= number <= high:
            what = f"is {number:g}, not in the range {low} to {high}"
            raise UsageError(what, field=option)
    return numbers


def _with_search(
    drafting: DraftSettings, target: str, folder: str, threshold: str
) -> DraftSettings:
    """Write the table that group D searches."""
    import os

    from mtkit.base.record import replace
    from mtkit.errors import UsageError
    from mtkit.gguf import open_gguf
    from mtkit.gguf.values import EMBEDDING, Rows
    from mtkit.speculative import semantic_index

    if drafting.draft is None:
        raise UsageError("does nothing without --draft", field="--sx-static-vocab")
    drafting = replace(drafting, sx_threshold=_numbers(threshold, "--sx-threshold", -1, 1)[0])
    file = open_gguf(target)
    semantic_index.write(Rows(file, file.names[EMBEDDING]), target, folder)
    names = semantic_index.EMBEDDINGS, semantic_index.SCALES
    rows, scales = (os.path.join(folder, name) for name in names)
    return replace(drafting, sx_quant_embd=rows, sx_scales=scales)


def _run(
    settings: GenerateSettings,
    files: list[str],
    groups: str | None,
    count: int | None,
    temperatures: list[float],
    rates: list[float],
    plot: str | None,
    *,
    as_json: bool,
) -> None:
    from mtkit.base.record import replace
    from mtkit.commands import output
    from mtkit.commands.terminal import Progress
    from mtkit.errors import UsageError
    from mtkit.llm import frequencies
    from mtkit.llm.runner import open_model
    from mtkit.speculative import plots, setup
    from mtkit.speculative.bench import LOOKUP, PLAIN, Bench, groups_of, summarize

    drafting = settings.drafting
    table = groups_of(drafting)
    if groups is not None:
        names = [PLAIN, *groups.split(",")]
        unknown = next((name for name in names if name not in table), None)
        if unknown is not None:
            raise UsageError(
                f"there is no group {unknown!r}", field="--groups",
                hint=f"with these options there are {', '.join(table)}",
            )  # fmt: skip
        table = {name: group for name, group in table.items() if name in names}
    prompts = list(_prompts(files, count))
    lookup = groups_of(drafting)[LOOKUP]
    assert lookup is not None
    prepared = setup.prepare_settings(replace(settings, drafting=lookup))
    n_predict = settings.n_predict
    with open_model(prepared, Progress("loading").show) as runner:
        texts = [(source, n, runner.model.tokenize(text)) for source, n, text in prompts]
        longest = max(len(ids) for _, _, ids in texts) + n_predict
        n_ctx = min(longest, max(runner.model.n_ctx_train, n_predict + 2))
        texts = [(source, n, ids[-(n_ctx - n_predict) :]) for source, n, ids in texts if ids]
        runner.open_context(n_ctx + 2)
        measurement = Bench(runner, prepared, table, rates)
        progress, runs = Progress("writing"), []
        for at, temperature in enumerate(temperatures):
            for run in measurement.runs(texts, temperature, n_predict):
                runs.append(run)
                part = (run.prompt + 1) / max(len(prompts), 1)
                progress.show(min((at + part) / len(temperatures), 0.999))
        progress.show(1)
    order = list(dict.fromkeys(run.group for run in runs))
    runs.sort(key=lambda run: order.index(run.group))  # they took turns at being the first
    static = None
    if drafting.sx_static_vocab is not None:
        static = frozenset(frequencies.read_vocabulary(drafting.sx_static_vocab, 1 << 30))
    rows = summarize(runs, measurement.wide or None, static)
    if plot is not None:
        plots.plot_bench(runs, plot)
    if as_json:
        output.write_json(_document(settings, measurement, rows, runs))
    else:
        _show(rows)


def _prompts(files: list[str], count: int | None) -> Any:
    import os
    from itertools import islice

    from mtkit.commands.arguments import read_prompts
    from mtkit.errors import UsageError

    for path in files:
        name = os.path.splitext(os.path.basename(path))[0]
        texts = list(islice(read_prompts(path), count))
        if not texts:
            raise UsageError("has no prompts", source=path)
        for number, text in enumerate(texts):
            yield name, number, text


def _document(
    settings: GenerateSettings, measurement: Bench, rows: list[dict[str, Any]], runs: Sequence[Any]
) -> dict[str, object]:
    from mtkit.speculative.policy import break_even

    drafting, plain = settings.drafting, measurement.plain
    return {
        "schema": "mtkit.sx-bench/1",
        "model": settings.model,
        "draft": drafting.draft,
        "static_vocabulary": drafting.sx_static_vocab,
        "draft_max": drafting.draft_max,
        "draft_auto": drafting.draft_auto,
        "exact": drafting.exact,
        "threads": settings.context.threads,
        "calibration": [
            {
                "tokens": size, "ms": 1000 * plain * cost, "ratio": cost,
                "break_even": break_even(measurement.known, size - 1),
            }
            for size, cost in sorted(measurement.known.sizes.items())
        ],
        "results": rows,
        "runs": [
            {
                "source": run.source, "prompt": run.prompt, "group": run.group,
                "temperature": run.temperature, "tokens": len(run.ids), "seconds": run.seconds,
                "wall_seconds": run.wall_seconds,
            }
            for run in runs
        ],
    }  # fmt: skip


def _show(rows: list[dict[str, Any]]) -> None:
    from mtkit.commands import output

    shown = [_cells(row) for row in rows]
    if not output.is_terminal():
        output.write_rows(shown)
        return
    from mtkit.commands.terminal import Screen

    screen = Screen()
    headings = ("group", "tokens/s>", "times A>", "median>", "as A>", "outside>", "per round>",
                "accepted>", "by place")  # fmt: skip
    for title in dict.fromkeys(cells[:2] for cells in shown):
        screen.heading(title[1], f"temperature {title[0]}")
        screen.table(headings, [cells[2:] for cells in shown if cells[:2] == title])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    seen = row.get("drafting")
    as_plain = (
        f"{row['log_likelihood']:.3f}"
        if "log_likelihood" in row
        else f"{row['identical']}/{row['prompts']}"
    )
    return (
        f"{row['temperature']:g}",
        row["source"],
        row["group"],
        f"{row['tokens_per_second']:.1f}",
        f"{row['speed']:.2f}",
        f"{row['median_speed']:.2f}",
        as_plain,
        f"{row['outside']:.1%}" if "outside" in row else "",
        f"{seen['tokens_per_round']:.2f}" if seen else "",
        f"{seen['acceptance']:.0%}" if seen else "",
        " ".join(f"{p:.0%}" for p in seen["acceptance_by_place"][:_PLACES]) if seen else "",
    )
