"""``mtkit perplexity``: how well a model predicts a text, alone or against another model."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.arguments import finite_number
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model, read_texts
from mtkit.commands.options import Option
from mtkit.settings import TextSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtkit.llm.divergence import Divergence, Estimate
    from mtkit.llm.perplexity import Perplexity
    from mtkit.llm.runner import Runner

    Texts = Sequence[tuple[str, bytes]]


OPTIONS = {
    "against": Option("--against", "Compare with this model's predictions.", "BASE"),
    "stride": Option("--stride", "Use overlapping windows, N tokens apart.", "N"),
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
        results = []
        for name, text in texts:
            bar = Progress("perplexity", after=0).show
            try:
                if windows is not None:
                    ids = token_ids(model, text, runner.n_ctx, windows=chunks)
                    result = of_windows(windows, ids, progress=bar)
                else:
                    assert context is not None
                    assert stride is not None
                    ids = model.tokenize(text, add_special=False, parse_special=False)
                    result = sliding_perplexity(context, ids, stride, progress=bar)
            except MtkitError as error:
                raise error.located(name) from None
            results.append((name, result))
    total = combine([result for _, result in results])
    rows = results if len(results) == 1 else [*results, ("total", total)]
    if as_json:
        document = {"schema": "mtkit.perplexity/2", "model": settings.model, **_document(total)}
        if len(results) > 1:
            document["texts"] = [{"name": name, **_document(result)} for name, result in results]
        output.write_json(document)
    elif not output.is_terminal():
        numbers = ((o.perplexity, o.error, o.loss, o.tokens, o.windows) for _, o in rows)
        names_of = ([name] * (len(results) > 1) for name, _ in rows)
        output.write_rows((*row, *name) for row, name in zip(numbers, names_of, strict=True))
    else:
        _show(rows)


def _divergence(
    texts: Texts, settings: TextSettings, base: str, chunks: int | None, *, as_json: bool
) -> None:
    from mtkit.base.record import replace
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
            measured = divergence(*pair, ids, progress=Progress("divergence", after=0).show)
    _write_divergence(measured, str(settings.model), base, as_json=as_json)


def _document(result: Perplexity) -> dict[str, Any]:
    from mtkit.base.record import fields

    values = ((name, getattr(result, name)) for name in fields(result))
    return {
        name: finite_number(value) if isinstance(value, float) else value for name, value in values
    }


def _show(rows: Sequence[tuple[str, Perplexity]]) -> None:
    from mtkit.commands.terminal import Screen, count_part, join_parts, part

    screen = Screen()
    for name, result in rows:
        value = part("head", f"{result.perplexity:.4f}")
        loss = f"{result.loss:.5f} nats per token"
        sums = join_parts(
            [loss, count_part(result.tokens, "token"), count_part(result.windows, "window")]
        )
        title = part("name", f"{name}  " if len(rows) > 1 else "perplexity ")
        screen.line(title, value, f" ± {result.error:.4f}  ", *sums, f" in {result.seconds:.1f} s")


_BAR = 30


def _write_divergence(divergence: Divergence, model: str, base: str, *, as_json: bool) -> None:
    """Write a document, rows or a screen."""
    if as_json:
        head = {"schema": "mtkit.divergence/1", "model": model, "base": base}
        output.write_json({**head, **_divergence_document(divergence)})
    elif output.is_terminal():
        _show_divergence(divergence, model, base)
    else:
        output.write_rows(_divergence_rows(divergence))


def _divergence_document(divergence: Divergence) -> dict[str, object]:
    from mtkit.base.record import fields
    from mtkit.llm.divergence import Estimate

    values: dict[str, object] = {}
    for name in fields(divergence):
        value = getattr(divergence, name)
        if isinstance(value, Estimate):
            value = {"value": finite_number(value.value), "error": finite_number(value.error)}
        values[name] = finite_number(value) if isinstance(value, float) else value
    values["quantiles"] = [
        {"part": part, "value": value} for part, value in divergence.quantiles.items()
    ]
    bins = (dict(zip(("from", "to", "count"), row, strict=True)) for row in divergence.histogram)
    return {**values, "histogram": list(bins)}


def _divergence_rows(divergence: Divergence) -> Iterator[tuple[object, ...]]:
    from mtkit.llm.divergence import Estimate

    values: dict[str, object] = {
        "tokens": divergence.tokens, "windows": divergence.windows,
        "perplexity": divergence.perplexity, "base perplexity": divergence.base_perplexity,
        "perplexity ratio": divergence.ratio, "ln(perplexity ratio)": divergence.log_ratio,
        "perplexity difference": divergence.difference,
        "correlation": divergence.correlation, "divergence": divergence.divergence,
        "maximum divergence": divergence.maximum,
    }  # fmt: skip
    values |= {f"{100 * part:g}% divergence": value for part, value in divergence.quantiles.items()}
    values |= {
        "minimum divergence": divergence.minimum, "change in probability": divergence.change,
        "RMS change in probability": divergence.change_rms, "same top token": divergence.same_top,
    }  # fmt: skip
    for name, value in values.items():
        yield (name, value.value, value.error) if isinstance(value, Estimate) else (name, value)


def _show_divergence(divergence: Divergence, model: str, base: str) -> None:
    from mtkit.commands.terminal import Screen, count_part, join_parts, part

    def estimate_parts(
        estimate: Estimate, form: str = ".6f", factor: int = 1, unit: str = ""
    ) -> list[object]:
        value, error = (
            format(factor * each, form) + unit for each in (estimate.value, estimate.error)
        )
        return [part("head", value), f" ± {error}"]

    screen = Screen()
    sums = join_parts(
        [count_part(divergence.tokens, "token"), count_part(divergence.windows, "window")]
    )
    screen.line(part("name", model), " against ", part("name", base))
    screen.line(*sums, f" in {divergence.seconds:.1f} s")
    output.write("\n")
    screen.facts(
        [
            ("perplexity", estimate_parts(divergence.perplexity, ".4f")),
            ("base perplexity", estimate_parts(divergence.base_perplexity, ".4f")),
            ("ratio", estimate_parts(divergence.ratio)),
            ("its logarithm", estimate_parts(divergence.log_ratio)),
            ("correlation", [f"{divergence.correlation:.2%}"]),
            ("KL divergence", [*estimate_parts(divergence.divergence), " nats per token"]),
            ("change in p", estimate_parts(divergence.change, ".3f", 100, " %")),
            ("RMS change", estimate_parts(divergence.change_rms, ".3f", 100, " %")),
            ("same top token", estimate_parts(divergence.same_top, ".3f", 100, " %")),
        ]
    )
    screen.heading("divergence", "token by token, in nats")
    rows = [("maximum", f"{divergence.maximum:.6f}")]
    rows += [
        (f"{100 * quantile:g} %", f"{value:.6f}")
        for quantile, value in divergence.quantiles.items()
    ]
    screen.table(
        ("part>:dim", "at most>"), [*rows, ("minimum", f"{divergence.minimum:.6f}")], indent=2
    )
    screen.heading("histogram")
    most = max(tokens for *_, tokens in divergence.histogram)
    bars = (
        (
            f"{low:.3g}",
            f"{high:.3g}",
            output.format_number(tokens),
            "█" * round(_BAR * tokens / most),
        )
        for low, high, tokens in divergence.histogram
    )
    screen.table(("from>", "to>", "tokens>", "share:good"), bars, indent=2)
