"""``mtkit perplexity``: how well a model predicts a text."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.arguments import number
from mtkit.commands.named import model_named
from mtkit.commands.options import AS_JSON, FILES, PROMPT, application
from mtkit.commands.setting_options import command
from mtkit.commands.texts import texts_of
from mtkit.settings import ModelSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llm.perplexity import Perplexity

app = application()
_WINDOW = 512


@command(app, ModelSettings)
def perplexity(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Texts; - or none reads standard input."),
    ] = None,
    *,
    settings: ModelSettings,
    prompt: PROMPT = None,
    files: FILES = None,
    stride: Annotated[
        int | None, typer.Option("--stride", metavar="N", help="From window to window; none: half.")
    ] = None,
    as_json: AS_JSON = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="llama.cpp's log.")] = False,
) -> None:
    """Compute the perplexity of texts: e to the power of the mean loss.

    A window has as many tokens as the context, 512 where --ctx does not say. In a pipe: perplexity,
    its standard error, loss in nats a token, tokens, windows; of several files a row for each, with
    its name, and the total.

    \b
    Examples:
      mtkit perplexity book.txt -m model.gguf
      mtkit perplexity book.txt -m model.gguf --ctx 256 --stride 256 --json
    """
    from mtkit.base.record import replace
    from mtkit.commands import output
    from mtkit.commands.progress import Progress
    from mtkit.errors import MtkitError, UsageError
    from mtkit.llama import log
    from mtkit.llm.open_model import open_model
    from mtkit.llm.perplexity import perplexity as compute
    from mtkit.llm.perplexity import together

    if names and files:
        raise UsageError("give the files as arguments or with --file")
    given = texts_of(None, prompt, names or files, "mtkit perplexity FILE -m MODEL")
    texts = [
        (name, content if isinstance(content, bytes) else content.read()) for name, content in given
    ]
    log.is_shown = verbose
    path = model_named(settings.model)
    settings = replace(settings, model=path)
    with open_model(settings, Progress("loading").show, n_ctx=_WINDOW) as runner:
        context = runner.open_context()
        log.is_shown = False
        made = []
        for name, text in texts:
            ids = runner.model.tokenize(text, add_special=False, parse_special=False)
            bar = Progress("perplexity").show
            try:
                made.append((name, compute(context, ids, stride=stride, progress=bar)))
            except MtkitError as error:
                raise error.located(name) from None
    total = together([one for _, one in made])
    rows = made if len(made) == 1 else [*made, ("total", total)]
    if as_json:
        document = {"schema": "mtkit.perplexity/1", "model": path, **_document(total)}
        if len(made) > 1:
            document["texts"] = [{"name": name, **_document(one)} for name, one in made]
        output.write_json(document)
    elif not output.is_terminal():
        numbers = ((o.perplexity, o.error, o.loss, o.tokens, o.windows) for _, o in rows)
        names_of = ([name] * (len(made) > 1) for name, _ in rows)
        output.write_rows((*row, *name) for row, name in zip(numbers, names_of, strict=True))
    else:
        _show(rows)


def _document(made: Perplexity) -> dict[str, Any]:
    from mtkit.base.record import fields

    values = ((name, getattr(made, name)) for name in fields(made))
    return {name: number(value) if isinstance(value, float) else value for name, value in values}


def _show(rows: Sequence[tuple[str, Perplexity]]) -> None:
    from mtkit.commands.terminal import Screen, count, joined, part

    screen = Screen()
    for name, made in rows:
        value = part("head", f"{made.perplexity:.4f}")
        loss = f"{made.loss:.5f} nats a token"
        sums = joined([loss, count(made.tokens, "token"), count(made.windows, "window")])
        title = part("name", f"{name}  " if len(rows) > 1 else "perplexity ")
        screen.line(title, value, f" ± {made.error:.4f}  ", *sums, f" in {made.seconds:.1f} s")
