"""``mtkit perplexity``: how well a model predicts a text, alone or against another model."""

from __future__ import annotations

from mtkit.commands.arguments import finite_number
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model, read_texts
from mtkit.commands.options import Option
from mtkit.settings import TextSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llm.perplexity import Perplexity
    from mtkit.llm.runner import Runner

    Texts = Sequence[tuple[str, bytes]]


OPTIONS = {
    "names": Option("", "Text files; - or none: standard input.", "[FILE]..."),
    "against": Option("--against", "Compare with this model's predictions.", "BASE"),
    "stride": Option("--stride", "Use overlapping windows, N tokens apart.", "N"),
    "chunks": Option("--chunks", "Maximum number of windows; default: all.", "N", low=1),
}


def perplexity(
    names: list[str] | None = None,
    *,
    settings: TextSettings,
    prompt: str | None = None,
    files: list[str] | None = None,
    against: str | None = None,
    stride: int | None = None,
    chunks: int | None = None,
    as_json: bool = False,
    verbose: bool = False,
) -> None:
    """Compute a model's perplexity on texts: how well it predicts them.

    As in llama-perplexity, whole windows of --ctx tokens are evaluated and the second half of each
    counts. With --stride every token counts once, and texts may be shorter than a window. Piped
    output: perplexity, its standard error, loss in nats per token, tokens, windows; with several
    files, a row for each with its name, and the total.

    --against measures how far the model's predictions are from those of a base model, as
    llama-perplexity --kl-divergence does: rows of name, value, and standard error if there is one.

    \b
    Examples:
      mtkit perplexity book.txt -m model.gguf
      mtkit perplexity book.txt -m small.gguf --against model.gguf --ctx 128
      mtkit perplexity book.txt -m model.gguf --ctx 256 --stride 256 --json
    """
    from mtkit.base.record import replace
    from mtkit.errors import UsageError
    from mtkit.llama import log

    if names and files:
        raise UsageError("give the files as arguments or with --file")
    if against is not None and stride is not None:
        raise UsageError("--against compares whole windows and cannot be combined with --stride")
    if chunks is not None and stride is not None:
        raise UsageError("--chunks counts whole windows and cannot be combined with --stride")
    texts = read_texts(prompt, names or files, "mtkit perplexity FILE -m MODEL")
    log.is_shown = verbose
    settings = replace(settings, model=find_model(settings.model))
    if against is None:
        _perplexity(texts, settings, stride, chunks, as_json=as_json)
    else:
        _divergence(texts, settings, find_model(against), chunks, as_json=as_json)


command = Command(perplexity, OPTIONS, TextSettings)


def _open(settings: TextSettings) -> Runner:
    from mtkit.commands.terminal import Progress
    from mtkit.llm.runner import open_model
    from mtkit.llm.windows import WINDOW

    return open_model(settings, Progress("loading").show, n_ctx=WINDOW)


def _perplexity(
    texts: Texts,
    settings: TextSettings,
    stride: int | None,
    chunks: int | None,
    *,
    as_json: bool,
) -> None:
    from mtkit.commands import output
    from mtkit.commands.terminal import Progress
    from mtkit.errors import MtkitError
    from mtkit.llama import log
    from mtkit.llm.perplexity import combine, sliding_perplexity
    from mtkit.llm.perplexity import perplexity as of_windows
    from mtkit.llm.windows import open_windows, token_ids

    with _open(settings) as runner:
        model = runner.model
        context = runner.open_context() if stride is not None else None
        windows = open_windows(runner) if context is None else None
        log.is_shown = False
        made = []
        for name, text in texts:
            bar = Progress("perplexity", after=0).show
            try:
                if windows is not None:
                    ids = token_ids(model, text, runner.n_ctx, windows=chunks)
                    one = of_windows(windows, ids, progress=bar)
                else:
                    assert context is not None
                    assert stride is not None
                    ids = model.tokenize(text, add_special=False, parse_special=False)
                    one = sliding_perplexity(context, ids, stride, progress=bar)
            except MtkitError as error:
                raise error.located(name) from None
            made.append((name, one))
    total = combine([one for _, one in made])
    rows = made if len(made) == 1 else [*made, ("total", total)]
    if as_json:
        document = {"schema": "mtkit.perplexity/2", "model": settings.model, **_document(total)}
        if len(made) > 1:
            document["texts"] = [{"name": name, **_document(one)} for name, one in made]
        output.write_json(document)
    elif not output.is_terminal():
        numbers = ((o.perplexity, o.error, o.loss, o.tokens, o.windows) for _, o in rows)
        names_of = ([name] * (len(made) > 1) for name, _ in rows)
        output.write_rows((*row, *name) for row, name in zip(numbers, names_of, strict=True))
    else:
        _show(rows)


def _divergence(
    texts: Texts, settings: TextSettings, base: str, chunks: int | None, *, as_json: bool
) -> None:
    from mtkit.base.record import replace
    from mtkit.commands.divergence import write_divergence
    from mtkit.commands.terminal import Progress
    from mtkit.errors import MtkitError
    from mtkit.llama import log
    from mtkit.llm.divergence import check_same_vocabulary, divergence
    from mtkit.llm.windows import open_windows, token_ids

    with _open(settings) as runner:
        size = runner.n_ctx
        context = replace(settings.context, n_ctx=size)
        # What --lora adds is part of what is compared, not of the base.
        with _open(replace(settings, model=base, lora=(), context=context)) as other:
            check_same_vocabulary(runner, other)
            ids = []
            for name, text in texts:
                try:
                    ids.append(token_ids(runner.model, text, size, windows=chunks))
                except MtkitError as error:
                    raise error.located(name) from None
            pair = open_windows(runner), open_windows(other)
            log.is_shown = False
            found = divergence(*pair, ids, progress=Progress("divergence", after=0).show)
    write_divergence(found, str(settings.model), base, as_json=as_json)


def _document(made: Perplexity) -> dict[str, Any]:
    from mtkit.base.record import fields

    values = ((name, getattr(made, name)) for name in fields(made))
    return {
        name: finite_number(value) if isinstance(value, float) else value for name, value in values
    }


def _show(rows: Sequence[tuple[str, Perplexity]]) -> None:
    from mtkit.commands.terminal import Screen, count_part, join_parts, part

    screen = Screen()
    for name, made in rows:
        value = part("head", f"{made.perplexity:.4f}")
        loss = f"{made.loss:.5f} nats per token"
        sums = join_parts(
            [loss, count_part(made.tokens, "token"), count_part(made.windows, "window")]
        )
        title = part("name", f"{name}  " if len(rows) > 1 else "perplexity ")
        screen.line(title, value, f" ± {made.error:.4f}  ", *sums, f" in {made.seconds:.1f} s")
