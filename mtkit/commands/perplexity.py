"""``mtkit perplexity``: how well a model predicts a text."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.generate import options as option
from mtkit.commands.options import AS_JSON, application, model_named

app = application()


@app.command()
def perplexity(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text; - reads a pipe.")],
    model: option.MODEL = None,
    ctx: Annotated[
        int | None,
        typer.Option("-c", "--ctx", metavar="N", help="Tokens of a window; none: 512."),
    ] = None,
    stride: Annotated[
        int | None, typer.Option("--stride", metavar="N", help="From window to window; none: half.")
    ] = None,
    batch: option.BATCH = 512,
    kv_type: option.KV_TYPE = "f16",
    flash_attention: option.FLASH = "on",
    threads: option.THREADS = None,
    wait: option.WAIT = "auto",
    gpu_layers: option.GPU_LAYERS = 0,
    as_json: AS_JSON = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="llama.cpp's log.")] = False,
) -> None:
    """Compute the perplexity of a text: e to the power of the mean loss.

    In a pipe: perplexity, its standard error, loss in nats a token, tokens, windows.

    \b
    Examples:
      mtkit perplexity book.txt -m model.gguf
      mtkit perplexity book.txt -m model.gguf --ctx 256 --stride 256 --json
    """
    from mtkit.commands import output
    from mtkit.commands.progress import Progress
    from mtkit.llama import log
    from mtkit.llm.perplexity import perplexity as compute

    text = option.read_bytes(file)
    log.is_shown = verbose
    path = model_named(model)
    with option.opened(
        path,
        n_ctx=ctx,
        most_ctx=512,
        batch=batch,
        kv_type=kv_type,
        flash_attention=flash_attention,
        threads=threads,
        wait=wait,
        gpu_layers=gpu_layers,
    ) as runner:
        log.is_shown = False
        assert runner.context is not None
        ids = runner.model.tokenize(text, add_special=False, parse_special=False)
        bar = Progress("perplexity")
        made = compute(runner.context, ids, stride=stride, progress=bar.show)
        bar.end()
    if as_json:
        output.write_json(
            {
                "schema": "mtkit.perplexity/1",
                "model": path,
                "perplexity": option.number(made.perplexity),
                "error": option.number(made.error),
                "loss": option.number(made.loss),
                "tokens": made.tokens,
                "windows": made.windows,
                "n_ctx": made.n_ctx,
                "stride": made.stride,
                "seconds": made.seconds,
            }
        )
    elif output.is_terminal():
        output.write(
            f"perplexity {made.perplexity:.4f} ± {made.error:.4f}  "
            f"({made.loss:.5f} nats a token, {output.grouped(made.tokens)} tokens, "
            f"{made.windows} windows, {made.seconds:.1f} s)\n"
        )
    else:
        output.write_rows([(made.perplexity, made.error, made.loss, made.tokens, made.windows)])
