"""Measure loading, encoding and decoding beside other libraries: ``python -m benchmarks.peers``.

    python -m benchmarks.peers [-t NAME ...] [--peers A,B,...] [--quick] [--json] [TEXT ...]

Without --peers, all that are installed of tokenizers, transformers, gigatoken, snaptokens,
nanotoken, tiktoken and sentencepiece are measured; a Python file given with --peers adds others.
Each runs in a process of its own. Ids are compared first: a library whose ids are wrong gets no
ratio. Rounds are interleaved; a ratio is mtkit's speed divided by the library's (for memory, the
library's divided by mtkit's), as the median of the rounds. Times are CPU time. fresh: a text that
the process has not seen; again: the same text a second time.

Columns: tokenizer, scenario, text, library, figure, unit, ratio, lowest, highest.
"""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.peers import plot
from benchmarks.peers.bench import Plan, run
from benchmarks.peers.libraries import OWN
from benchmarks.peers.scenarios import QUICK, SCENARIOS
from benchmarks.peers.summary import differing, rows_of
from mtkit.base import plotting
from mtkit.commands.inputs import load_tokenizer
from mtkit.commands.options import parse_bytes
from mtkit.commands.terminal import Progress
from mtkit.errors import MtkitError, UsageError
from mtkit.tokenizer.speed import texts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

QUICK_ROUNDS, ROUNDS = 3, 5
QUICK_SIZE, SIZE = "200k", "1M"


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    found = argparse.ArgumentParser(description=__doc__, formatter_class=raw, allow_abbrev=False)
    found.add_argument("texts", nargs="*", metavar="TEXT", help="default: texts of Python")
    found.add_argument("-t", action="append", dest="tokenizers", metavar="NAME")
    found.add_argument("--peers", metavar="A,B,...", help="libraries; none: only mtkit")
    found.add_argument("--rounds", type=int, metavar="N", help=f"[{ROUNDS}]")
    found.add_argument("--size", metavar="BYTES", help=f"of each text at most [{SIZE}]")
    found.add_argument("--quick", action="store_true", help="fewer rounds, scenarios, bytes")
    found.add_argument("--instructions", action="store_true", help="count them, too (valgrind)")
    found.add_argument("--plot", metavar="NAME", help="write NAME.png and NAME.svg")
    found.add_argument("--json", action="store_true", help="print one JSON document")
    return found


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Measure what is asked for; returns the document.

    Raises:
        MtkitError: Something cannot be measured.
    """
    if "-" in (asked.tokenizers or ()):
        raise UsageError("a pipe cannot be read by every library", field="-t -")
    names = None if asked.peers is None else peers_of(asked.peers)
    if asked.plot is not None:
        plotting.require()
        if names == []:
            raise UsageError("--plot draws ratios, and with --peers none there are none")
    size = asked.size or (QUICK_SIZE if asked.quick else SIZE)
    plan = Plan(
        texts_of(asked.texts, parse_bytes(size, "--size")),
        names,
        asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS),
        QUICK if asked.quick else tuple(SCENARIOS),
        asked.instructions,
    )
    loaded = [load_tokenizer(name) for name in asked.tokenizers or (None,)]
    document = run(loaded, plan, Progress("measuring").show)
    if asked.plot is not None:
        plot.write(document, asked.plot)
    return document


def peers_of(text: str) -> list[str]:
    """Return the names in ``--peers``.

    Raises:
        UsageError: There are none, or "none" is not alone.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("names no library", field="--peers", hint="none: mtkit alone")
    if "none" in names and len(names) > 1:
        raise UsageError("none cannot be combined with others", field="--peers")
    return [] if names == ["none"] else names


def lines(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each library of each figure."""
    for tokenizer in document["tokenizers"]:
        for row in rows_of(tokenizer):
            for library in row.costs:
                ratio = row.ratios.get(library)
                numbers = (ratio.middle, ratio.low, ratio.high) if ratio else ()
                shown = (f"{number:.3f}" for number in numbers)
                yield (row.tokenizer, row.scenario, row.text, library, *row.shown(library), *shown)


def verdicts(states: Mapping[str, Any]) -> Iterator[str]:
    """Yield who gives the right ids, who is left out and why."""
    for name, state in states.items():
        label = f"{name} {state['version']}".strip()
        for scenario, error in state.get("failed", {}).items():
            yield f"{label}: {scenario}: {error}"
        if "error" in state:
            yield f"{label}: not measured: {state['error']}"
        elif state["wrong"]:
            others = len(state["wrong"]) - 1
            more = f" (and {others} more texts)" if others else ""
            yield f"{label}: no ratio where ids differ: {where(state['wrong'][0])}{more}"
        elif name != OWN:
            yield f"{label}: same ids in every text"


def where(wrong: Mapping[str, Any]) -> str:
    """Say where ids differ."""
    ids, right = (" ".join(map(str, wrong[key])) or "nothing" for key in ("ids", "right"))
    return f"text {wrong['text']!r}, token {wrong['at']}: {ids} instead of {right}"


def main() -> int:
    """Measure and print; 1 where mtkit's own ids are not the reference's."""
    asked = parser().parse_args()
    try:
        document = measure(asked)
    except MtkitError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if asked.json:
        print(json.dumps(document))
    else:
        for line in lines(document):
            print(*line, sep="\t")
        for tokenizer in document["tokenizers"]:
            for said in verdicts(tokenizer["libraries"]):
                print(f"{tokenizer['name']}: {said}", file=sys.stderr)
    for name, wrong in differing(document)[:1]:
        print(f"{name}: ids differ from the reference's: {where(wrong)}", file=sys.stderr)
    return int(bool(differing(document)))


if __name__ == "__main__":
    sys.exit(main())
