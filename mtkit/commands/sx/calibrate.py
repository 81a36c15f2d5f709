"""``mtkit sx calibrate``: what verifying and drafting cost on this machine."""

from __future__ import annotations

from typing import Annotated

import typer


def calibrate(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The GGUF model to speed up.")],
    draft: Annotated[
        str | None, typer.Option("--draft", metavar="GGUF", help="Draft model.")
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
    as_json: bool = False,
) -> None:
    """Measure when drafting pays off on this machine.

    Columns: tokens per batch, milliseconds, times one token, and the acceptance rate at each
    position from which drafting one token fewer breaks even; none if it never does.

    \b
    Examples:
      mtkit sx calibrate model-bf16.gguf --draft small.gguf
      mtkit sx calibrate model.gguf --draft small.gguf --json
    """
    from mtkit.commands import output
    from mtkit.commands.named import model_named
    from mtkit.llm.open_model import open_model
    from mtkit.llm.speculative import calibration, exactness
    from mtkit.llm.speculative.known import Known
    from mtkit.llm.speculative.loaded_draft import check_can_cut
    from mtkit.llm.speculative.policy import break_even
    from mtkit.settings import ContextSettings, ModelSettings

    n_ctx, known = 64, Known()
    context = exactness.exact_context(ContextSettings(n_ctx=n_ctx, threads=threads))
    with open_model(ModelSettings(model_named(target), context), n_ctx=n_ctx) as runner:
        opened = runner.open_context()
        check_can_cut(runner)
        used = opened.settings.threads
        plain = calibration.measure(opened, calibration.SIZES, known)
    if draft is not None:
        with open_model(ModelSettings(model_named(draft), context), n_ctx=n_ctx) as small:
            opened = small.open_context()
            check_can_cut(small)
            calibration.measure_draft(opened, plain, known)
    step = 1000 * plain * known.draft(1) if draft is not None else None
    rows = [
        (size, 1000 * plain * cost, cost, break_even(known, size - 1))
        for size, cost in sorted(known.sizes.items())
    ]
    if as_json:
        output.write_json(
            {
                "schema": "mtkit.calibration/1",
                "threads": used,
                "draft_ms": step,
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
    if step is not None:
        screen.line(f"a drafted token takes {step:.2f} ms")
    screen.line(f"{used} threads")
