"""``mtkit sx calibrate``: what verifying and drafting cost on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.options import AS_JSON  # noqa: TC001  typer reads it


def calibrate(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The GGUF model to speed up.")],
    draft: Annotated[
        str | None, typer.Option("--draft", metavar="GGUF", help="A model that drafts.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("-t", "--threads", metavar="N", help="Threads; none: measured.")
    ] = None,
    as_json: AS_JSON = False,
) -> None:
    """Measure how long batches take, and from which acceptance on drafting pays.

    Columns: tokens in a batch, milliseconds, times one token, and the acceptance at every place
    that drafting one token less than that breaks even at.

    \b
    Examples:
      mtkit sx calibrate model.gguf
      mtkit sx calibrate model.gguf --draft small.gguf --json
    """
    from mtkit.commands import output
    from mtkit.commands.options import model_named
    from mtkit.llm.open_model import open_model
    from mtkit.llm.speculative import calibration, exactness
    from mtkit.settings import ContextSettings, ModelSettings

    n_ctx = 64
    context = exactness.exact_context(ContextSettings(n_ctx=n_ctx, threads=threads))
    step = 0.0
    if draft is not None:
        with open_model(ModelSettings(model_named(draft), context), n_ctx=n_ctx) as small:
            step = calibration.step_seconds(small.open_context())
    with open_model(ModelSettings(model_named(target), context), n_ctx=n_ctx) as runner:
        opened = runner.open_context()
        used = opened.settings.threads
        seconds = calibration.measure(opened, max(calibration.SIZES))
    costs = calibration.Costs(seconds, step)
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
            }
        )
        return
    shown = [
        (str(size), f"{ms:.2f}", f"{ratio:.2f}", "" if even is None else f"{even:.2f}")
        for size, ms, ratio, even in rows
    ]
    if not output.is_terminal():
        output.write_rows(shown)
        return
    from mtkit.commands.terminal import Screen

    screen = Screen()
    screen.table(("tokens>", "ms>", "times one>", "pays above>"), shown)
    if draft is not None:
        screen.line(f"a drafted token takes {1000 * step:.2f} ms")
    screen.line(f"{used} threads")
