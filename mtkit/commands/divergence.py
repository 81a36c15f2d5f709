"""What ``mtkit perplexity --against`` shows of two models."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.arguments import finite_number
from mtkit.llm.divergence import Estimate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.llm.divergence import Divergence

_BAR = 30


def write_divergence(found: Divergence, model: str, base: str, *, as_json: bool) -> None:
    """Write a document, rows or a screen."""
    if as_json:
        head = {"schema": "mtkit.divergence/1", "model": model, "base": base}
        output.write_json({**head, **_document(found)})
    elif output.is_terminal():
        _show(found, model, base)
    else:
        output.write_rows(_rows(found))


def _document(found: Divergence) -> dict[str, object]:
    from mtkit.base.record import fields

    values: dict[str, object] = {}
    for name in fields(found):
        value = getattr(found, name)
        if isinstance(value, Estimate):
            value = {"value": finite_number(value.value), "error": finite_number(value.error)}
        values[name] = finite_number(value) if isinstance(value, float) else value
    values["quantiles"] = [
        {"part": part, "value": value} for part, value in found.quantiles.items()
    ]
    bins = (dict(zip(("from", "to", "count"), row, strict=True)) for row in found.histogram)
    return {**values, "histogram": list(bins)}


def _rows(found: Divergence) -> Iterator[tuple[object, ...]]:
    values: dict[str, object] = {
        "tokens": found.tokens, "windows": found.windows, "perplexity": found.perplexity,
        "base perplexity": found.base_perplexity, "perplexity ratio": found.ratio,
        "ln(perplexity ratio)": found.log_ratio, "perplexity difference": found.difference,
        "correlation": found.correlation, "divergence": found.divergence,
        "maximum divergence": found.maximum,
    }  # fmt: skip
    values |= {f"{100 * part:g}% divergence": value for part, value in found.quantiles.items()}
    values |= {
        "minimum divergence": found.minimum, "change in probability": found.change,
        "RMS change in probability": found.change_rms, "same top token": found.same_top,
    }  # fmt: skip
    for name, value in values.items():
        yield (name, value.value, value.error) if isinstance(value, Estimate) else (name, value)


def _show(found: Divergence, model: str, base: str) -> None:
    from mtkit.commands.terminal import Screen, count_part, join_parts, part

    def told(one: Estimate, form: str = ".6f", factor: int = 1, unit: str = "") -> list[object]:
        value, error = (format(factor * each, form) + unit for each in (one.value, one.error))
        return [part("head", value), f" ± {error}"]

    screen = Screen()
    sums = join_parts([count_part(found.tokens, "token"), count_part(found.windows, "window")])
    screen.line(part("name", model), " against ", part("name", base))
    screen.line(*sums, f" in {found.seconds:.1f} s")
    output.write("\n")
    screen.facts(
        [
            ("perplexity", told(found.perplexity, ".4f")),
            ("base perplexity", told(found.base_perplexity, ".4f")),
            ("ratio", told(found.ratio)),
            ("its logarithm", told(found.log_ratio)),
            ("correlation", [f"{found.correlation:.2%}"]),
            ("KL divergence", [*told(found.divergence), " nats per token"]),
            ("change in p", told(found.change, ".3f", 100, " %")),
            ("RMS change", told(found.change_rms, ".3f", 100, " %")),
            ("same top token", told(found.same_top, ".3f", 100, " %")),
        ]
    )
    screen.heading("divergence", "token by token, in nats")
    rows = [("maximum", f"{found.maximum:.6f}")]
    rows += [(f"{100 * one:g} %", f"{value:.6f}") for one, value in found.quantiles.items()]
    screen.table(("part>:dim", "at most>"), [*rows, ("minimum", f"{found.minimum:.6f}")], indent=2)
    screen.heading("histogram")
    most = max(tokens for *_, tokens in found.histogram)
    bars = (
        (
            f"{low:.3g}",
            f"{high:.3g}",
            output.format_number(tokens),
            "█" * round(_BAR * tokens / most),
        )
        for low, high, tokens in found.histogram
    )
    screen.table(("from>", "to>", "tokens>", "share:good"), bars, indent=2)
