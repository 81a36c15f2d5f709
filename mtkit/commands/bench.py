"""``mtkit bench``: how fast mtkit is with a tokenizer, beside other libraries."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.options import AS_JSON, DOWNLOAD, PLOT, application

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.bench.summary import Row

app = application()

_MOST = 1_000_000
_QUICK = 200_000
_LIMIT = 1 << 31
"""Of bytes of a text."""
_UNITS = {"": 1, "k": 1000, "m": 1_000_000, "g": 1_000_000_000}
_WIDE = 100
"""Columns from which on the spread of the ratios has room."""
_FOLDED = ("load", "load .mtok", "short", "decode", "5 KB", "whole fresh", "whole again",
           "documents fresh", "documents again", "lines fresh", "instructions whole fresh",
           "instructions whole again", "memory")  # fmt: skip
"""What is shown without --all."""


@app.command()
def bench(
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]...",
            help="Text files, or - for a pipe; default: texts that come with Python.",
        ),
    ] = None,
    tokenizers: Annotated[
        list[str] | None,
        typer.Option("-t", "--tokenizer", metavar="NAME", help="File, folder or ORG/NAME."),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            "--peers",
            metavar="A,B,...",
            help="Libraries to compare with; none: only mtkit.",
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", metavar="N", min=1, help="Number of rounds. [5]")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="BYTES",
            help="Read at most this much of each text, such as 200k. [1M]",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="3 rounds of 200 kB, with fewer scenarios.")
    ] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Also count instructions per byte (valgrind).")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every figure.")] = False,
    plot: PLOT = None,
    download: DOWNLOAD = False,
    as_json: AS_JSON = False,
) -> None:
    """Measure loading, encoding and decoding against other libraries on the same file.

    Without --peers, all installed libraries of tokenizers, transformers, gigatoken, snaptokens,
    nanotoken, tiktoken and sentencepiece are measured; a Python file given with --peers adds
    others. Each runs in its own process. Ids are compared first: a library whose ids are wrong gets
    no ratio. Rounds are interleaved; a ratio is mtkit's speed divided by the library's (for memory,
    the library's divided by mtkit's), as the median of the rounds. Times are CPU time. fresh: a
    text that the process has not seen; again: the same text a second time.

    Columns in a pipe: tokenizer, scenario, text, library, figure, unit, ratio, lowest, highest.

    \b
    Examples:
      mtkit bench -t tokenizer.json corpus.txt
      mtkit bench -t gpt2/ -t qwen3/ --peers tokenizers,gigatoken --quick
      mtkit bench -t tokenizer.json corpus.txt --json --plot speed > speed.json
    """
    from mtkit.base import plotting
    from mtkit.bench import plot as bench_plot
    from mtkit.bench.bench import Plan, run
    from mtkit.bench.inputs import texts_of
    from mtkit.bench.scenarios import QUICK, SCENARIOS
    from mtkit.bench.summary import differing
    from mtkit.commands import output
    from mtkit.commands.named import load_named
    from mtkit.commands.progress import Progress
    from mtkit.errors import UsageError

    if plot is not None:
        plotting.require()
    if "-" in (tokenizers or ()):
        hint = "save it as a file"
        raise UsageError("a pipe cannot be read by every library", field="-t -", hint=hint)
    names = None if peers is None else _names(peers)
    if plot is not None and names == []:
        raise UsageError("--plot draws ratios, and with --peers none there are none")
    most = _bytes(size) if size is not None else _QUICK if quick else _MOST
    plan = Plan(
        texts_of(texts or [], most),
        names,
        rounds or (3 if quick else 5),
        QUICK if quick else tuple(SCENARIOS),
        instructions,
    )
    loaded = [load_named(name, download=download) for name in (tokenizers or (None,))]
    document = run(loaded, plan, Progress("measuring").show)
    if plot is not None:
        bench_plot.write(document, plot)
    if as_json:
        output.write_json(document)
    elif output.is_terminal():
        _show(document, everything=everything)
    else:
        output.write_rows(_lines(document))
        _warn(document)
    _end(differing(document))


def _names(peers: str) -> list[str]:
    from mtkit.errors import UsageError

    names = [name.strip() for name in peers.split(",") if name.strip()]
    if not names:
        raise UsageError("names no library", field="--peers", hint="none: mtkit alone")
    if "none" in names and len(names) > 1:
        raise UsageError("none cannot be combined with others", field="--peers")
    return [] if names == ["none"] else names


def _bytes(size: str) -> int:
    import re
    from decimal import Decimal

    from mtkit.errors import UsageError

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)b?", size, re.ASCII | re.IGNORECASE)
    number = Decimal(found[1]) * _UNITS[found[2].lower()] if found else 0
    if not 1 <= number < _LIMIT:
        what = "is out of range" if found else "is not a size"
        raise UsageError(f"{size!r} {what}", field="--size", hint="such as 500000, 500k or 1M")
    return int(number)


def _end(differing: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Answer no where mtkit's own ids are not the reference's."""
    from mtkit.errors import AnswerNo

    if differing:
        name, wrong = differing[0]
        what = f"ids differ from the reference's: {_where(wrong)}"
        raise AnswerNo(what, source=name, hint="this is a fault of mtkit: please report it")


def _warn(document: Mapping[str, Any]) -> None:
    """Say in a pipe which libraries have no ratio."""
    from mtkit.commands import output

    for tokenizer in document["tokenizers"]:
        for line, is_good in _verdicts(tokenizer["libraries"], has_peers=True):
            if not is_good:
                output.warn(tokenizer["name"], ["".join(map(str, line))])


def _where(wrong: Mapping[str, Any]) -> str:
    ids, right = (" ".join(map(str, wrong[key])) or "nothing" for key in ("ids", "right"))
    return f"text {wrong['text']!r}, token {wrong['at']}: {ids} instead of {right}"


def _lines(document: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each library of each figure."""
    from mtkit.bench.summary import rows_of

    for tokenizer in document["tokenizers"]:
        for row in rows_of(tokenizer):
            for library in row.costs:
                ratio = row.ratios.get(library)
                numbers = (ratio.middle, ratio.low, ratio.high) if ratio else ()
                shown = (f"{number:.3f}" for number in numbers)
                yield (row.tokenizer, row.scenario, row.text, library, *row.shown(library), *shown)


def _show(document: Mapping[str, Any], *, everything: bool) -> None:
    from mtkit.bench.libraries import OWN
    from mtkit.bench.summary import rows_of
    from mtkit.commands.terminal import Screen, joined, part
    from mtkit.errors import counted

    screen = Screen()
    for tokenizer in document["tokenizers"]:
        states = tokenizer["libraries"]
        rows = [row for row in rows_of(tokenizer) if everything or row.scenario in _FOLDED]
        peers = [name for name in states if any(name in row.ratios for row in rows)]
        screen.line(part("name", tokenizer["name"]))
        for line, good in _verdicts(states, bool(peers)):
            if good is None:
                screen.line(part("dim", "! "), *line, hanging=2)
            else:
                screen.verdict(*line, good=good)
        spread = ("±>:dim",) if peers and screen.width >= _WIDE else ()
        columns = ("", "text", f"{OWN}>", *(f"{name}>" for name in peers), *spread)
        screen.table(columns, [_cells(row, peers)[: len(columns)] for row in rows], elastic=1)
        screen.line()
    machine, settings = document["machine"], document["settings"]
    rounds = counted(settings["rounds"], "round")
    remarks = [f"{OWN}'s speed divided by theirs: median of {rounds}", machine["cpu"]]
    remarks += [f"Python {machine['python']}", *["every figure: --all"] * (not everything)]
    screen.line(*joined([part("dim", remark) for remark in remarks]))


def _verdicts(
    states: Mapping[str, Any], has_peers: bool
) -> Iterator[tuple[list[object], bool | None]]:
    """Yield who gives the right ids, who is left out and why; None: what cannot read the file."""
    from mtkit.bench.libraries import OWN
    from mtkit.commands.terminal import joined, part

    exact = [
        f"{name} {state['version']}".strip()
        for name, state in states.items()
        if name != OWN and not state.get("wrong") and "error" not in state
    ]
    if exact:
        yield ["same ids:", *joined([[" ", name] for name in exact], ",")], True
    elif not has_peers:
        hint = "pip install tokenizers, or another library"
        yield ["mtkit alone: no other library that reads this file ", part("hint", hint)], True
    for name, state in states.items():
        for scenario, error in state.get("failed", {}).items():
            yield [f"{name}: {scenario}: {error}"], False
        if "error" in state:
            yield [f"{name}: not measured: {state['error']}"], None
        for wrong in state.get("wrong", ())[:1]:
            others = len(state["wrong"]) - 1
            more = f" (and {others} more texts)" if others else ""
            yield [f"{name}: no ratio where ids differ: {_where(wrong)}{more}"], False


def _cells(row: Row, peers: Sequence[str]) -> list[object]:
    from mtkit.bench.libraries import OWN
    from mtkit.commands.terminal import part

    figure, unit = row.shown(OWN)
    ratios = []
    for name in peers:
        ratio = row.ratios.get(name)
        role = "good" if ratio and ratio.low >= 1 else "warning" if ratio and ratio.high < 1 else ""
        ratios.append(part(role, f"{ratio.middle:.2f}" if ratio else "-"))
    spread = f"{row.spread:.0%}" if row.spread is not None else ""
    return [row.scenario, row.text, f"{figure} {unit}", *ratios, spread]
