"""``mtkit sx calibrate``: what verifying and drafting cost on this machine."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mtkit.commands.options import AS_JSON  # noqa: TC001  typer reads it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.settings import ModelSettings


def calibrate(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The GGUF model to speed up.")],
    draft: Annotated[
        str | None, typer.Option("--draft", metavar="GGUF", help="Draft model.")
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option(
            "--other",
            metavar="GGUF",
            help="The model with other weights, run without drafts. Repeatable.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "-t",
            "--threads",
            metavar="N",
            help="Number of threads; default: the fastest, measured.",
        ),
    ] = None,
    as_json: AS_JSON = False,
) -> None:
    """Measure when drafting pays off on this machine.

    Columns: tokens per batch, milliseconds, times one token, and the acceptance rate at each
    position from which drafting one token fewer breaks even. With --other, a row for each model:
    its name, milliseconds per token, times one token of TARGET, and the acceptance rate above which
    drafting for TARGET is faster than running the model plainly; none if it never is.

    \b
    Examples:
      mtkit sx calibrate model-bf16.gguf --draft small.gguf --other model-q8_0.gguf
      mtkit sx calibrate model.gguf --draft small.gguf --json
    """
    from mtkit.commands import output
    from mtkit.commands.named import model_named
    from mtkit.llm.open_model import open_model
    from mtkit.llm.speculative import calibration, exactness
    from mtkit.llm.speculative.costs import Costs
    from mtkit.llm.speculative.loaded_draft import check_can_cut
    from mtkit.settings import ContextSettings, ModelSettings

    n_ctx = 64
    context = exactness.exact_context(ContextSettings(n_ctx=n_ctx, threads=threads))
    step = 0.0
    if draft is not None:
        with open_model(ModelSettings(model_named(draft), context), n_ctx=n_ctx) as small:
            opened = small.open_context()
            check_can_cut(small)
            step = calibration.step_seconds(opened)
    with open_model(ModelSettings(model_named(target), context), n_ctx=n_ctx) as runner:
        opened = runner.open_context()
        check_can_cut(runner)
        used = opened.settings.threads
        seconds = calibration.combined(calibration.measure(opened, max(calibration.SIZES)))
    others = {
        path: _plain_seconds(ModelSettings(path, context), n_ctx)
        for path in map(model_named, other or ())
    }
    costs = Costs(seconds, step)
    against = []
    for path, spent in others.items():
        found = (costs.break_even(size - 1, spent) for size in seconds)
        least = min((even for even in found if even is not None), default=None)
        against.append((path, 1000 * spent, spent / seconds[1], least))
    rows = [
        (size, 1000 * spent, spent / seconds[1], costs.break_even(size - 1))
        for size, spent in seconds.items()
    ]
    if as_json:
        output.write_json(
            {
                "schema": "mtkit.calibration/1",
                "threads": used,
                "draft_ms": 1000 * step if draft is not None else None,
                "batches": [
                    {"tokens": size, "ms": ms, "ratio": ratio, "break_even": even}
                    for size, ms, ratio, even in rows
                ],
                "others": [
                    {"path": path, "ms": ms, "ratio": ratio, "break_even": even}
                    for path, ms, ratio, even in against
                ],
            }
        )
        return
    shown, others_shown = (
        [
            (str(name), f"{ms:.2f}", f"{ratio:.2f}", "" if even is None else f"{even:.2f}")
            for name, ms, ratio, even in part
        ]
        for part in (rows, against)
    )
    if not output.is_terminal():
        output.write_rows([*shown, *others_shown])
        return
    from mtkit.commands.terminal import Screen

    screen = Screen()
    screen.table(("tokens>", "ms>", "times one>", "pays above>"), shown)
    if draft is not None:
        screen.line(f"a drafted token takes {1000 * step:.2f} ms")
    for path, ms, _, even in against:
        says = ""
        if even is None:
            says = ": faster than any drafting here"
        elif ms < 1000 * seconds[1]:
            says = f": faster than drafting here below an acceptance of {even:.2f}"
        screen.line(f"{os.path.basename(path)} takes {ms:.2f} ms a token{says}")
    screen.line(f"{used} threads")


def _plain_seconds(settings: ModelSettings, n_ctx: int) -> float:
    """Return the seconds of a token of a model that decodes plainly."""
    from mtkit.llm.open_model import open_model
    from mtkit.llm.speculative import calibration

    with open_model(settings, n_ctx=n_ctx) as runner:
        return calibration.combined(calibration.measure(runner.open_context(), 1))[1]
