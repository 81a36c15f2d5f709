"""``mtkit perplexity``: how well a model predicts a text."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.arguments import number, read_bytes
from mtkit.commands.options import AS_JSON, application, model_named
from mtkit.commands.setting_options import command
from mtkit.settings import ModelSettings

app = application()
_WINDOW = 512


@command(app, ModelSettings)
def perplexity(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text; - reads a pipe.")],
    *,
    settings: ModelSettings,
    stride: Annotated[
        int | None, typer.Option("--stride", metavar="N", help="From window to window; none: half.")
    ] = None,
    as_json: AS_JSON = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="llama.cpp's log.")] = False,
) -> None:
    """Compute the perplexity of a text: e to the power of the mean loss.

    A window has as many tokens as the context, 512 where --ctx does not say. In a pipe: perplexity,
    its standard error, loss in nats a token, tokens, windows.

    \b
    Examples:
      mtkit perplexity book.txt -m model.gguf
      mtkit perplexity book.txt -m model.gguf --ctx 256 --stride 256 --json
    """
    from mtkit.base.record import replace
    from mtkit.commands import output
    from mtkit.commands.progress import Progress
    from mtkit.llama import log
    from mtkit.llm.open_model import open_model
    from mtkit.llm.perplexity import perplexity as compute

    text = read_bytes(file)
    log.is_shown = verbose
    path = model_named(settings.model)
    settings = replace(settings, model=path)
    with open_model(settings, Progress("loading").show, n_ctx=_WINDOW) as runner:
        context = runner.open_context()
        log.is_shown = False
        ids = runner.model.tokenize(text, add_special=False, parse_special=False)
        made = compute(context, ids, stride=stride, progress=Progress("perplexity").show)
    if as_json:
        output.write_json(
            {
                "schema": "mtkit.perplexity/1",
                "model": path,
                "perplexity": number(made.perplexity),
                "error": number(made.error),
                "loss": number(made.loss),
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
