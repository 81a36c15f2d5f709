"""How time grows with the length of one text, for each kind of model: never quadratic.

Encodes texts of hard kinds of 16, 32, 64 and 128 KB with an engine that is fresh each time, so that
its caches are cold, and texts of 4, 8 and 16 KB with the pipeline; prints CPU time, the best of
some rounds, and the growth from one length to the next. Exits 1 where a doubling costs more than
2.5 times. Without an argument the models are small ones made here, one of each kind.

    python -m benchmarks.growth [--rounds 5] [--engine] [--pipeline] [TOKENIZER ...]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.growth_models import small_models
from mtkit import formats
from mtkit.base.binary import Source
from mtkit.engine import Engine, tables
from mtkit.errors import MtkitError, UnsupportedError
from mtkit.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.spec import TokenizerSpec

ENGINE_SIZES = tuple(1 << power for power in range(14, 18))
PIPELINE_SIZES = tuple(1 << power for power in range(12, 15))
LIMIT = 2.5
ALLOCATOR = 24 << 20
SMALL = {"engine": 1e-3, "pipeline": 5e-3}
"""Seconds below which the clock and the processor's caches decide."""
_RANDOM = random.Random(1)
KINDS = {
    "one letter": "a",
    "blanks": " ",
    "digits": "1234567890",
    "one digit": "7",
    "one Han": "\u6f22",
    "Han": "".join(map(chr, range(0x4E00, 0x5600))),
    "marks": "a\u0301\u0323",
    "only marks": "\u0323\u0301",
    "one mark": "\u0301",
    "newlines": "\n",
    "apostrophes": "'",
    "marked spaces": "\u2581",
    "words": "The quick brown fox jumps over the lazy dog, 3 times. ",
    "punctuation": "!?#$%&*()",
    "tag begins": "<|",
    "two letters": "ab",
    "Hangul parts": "\u1100\u1161\u11a8",
    "mixed": "aA1 \u00e9\u6f22\ud55c.\n\t_-",
    "random bytes": _RANDOM.randbytes(1 << 17).decode("latin-1"),
    "random letters": "".join(_RANDOM.choices("abcdefgh", k=1 << 17)),
}


def text_of(kind: str, size: int) -> str:
    """Return a text of about so many bytes."""
    unit = KINDS[kind]
    width = len(unit.encode()) / len(unit)
    return (unit * (size // len(unit) + 1))[: int(size / width)]


def seconds(encode: Callable[[str], object], text: str) -> float:
    """CPU time of one encoding; of one that is refused, too."""
    start = time.process_time()
    with suppress(MtkitError):
        encode(text)
    return time.process_time() - start


def growths(
    fresh: Callable[[], Engine | Pipeline], kind: str, sizes: tuple[int, ...], rounds: int
) -> list[float]:
    """Return the best time for each size."""
    best = [float("inf")] * len(sizes)
    for _ in range(rounds):
        for at, size in enumerate(sizes):
            best[at] = min(best[at], seconds(fresh().encode_ids, text_of(kind, size)))
    return best


def makers(spec: TokenizerSpec) -> dict[str, Callable[[], Engine | Pipeline]]:
    """Return what makes a fresh engine, where the core has one, and a pipeline."""
    pipeline = Pipeline(spec)
    pipeline.encode_ids("a")
    found: dict[str, Callable[[], Engine | Pipeline]] = {"pipeline": lambda: pipeline}
    try:
        sections = tables(spec)
    except UnsupportedError:
        return found
    return {"engine": lambda: Engine(sections, lambda: spec), **found}


def measure(name: str, spec: TokenizerSpec, wanted: set[str], rounds: int) -> float:
    """Print a table for one tokenizer; return the worst growth."""
    worst = 0.0
    for which, fresh in makers(spec).items():
        if which not in wanted:
            continue
        sizes = ENGINE_SIZES if which == "engine" else PIPELINE_SIZES
        for kind in KINDS:
            best = growths(fresh, kind, sizes, rounds)
            growth = max(b / max(a, SMALL[which]) for a, b in pairwise(best))
            if growth > LIMIT:  # once more, with patience: the machine may have been busy
                best = growths(fresh, kind, sizes, 4 * rounds)
                growth = max(b / max(a, SMALL[which]) for a, b in pairwise(best))
            worst = max(worst, growth)
            times = "  ".join(f"{t * 1e3:8.2f}" for t in best)
            flag = "  TOO MUCH" if growth > LIMIT else ""
            sys.stdout.write(f"{name:24.24} {which:8} {kind:14}  {times} ms  x{growth:.2f}{flag}\n")
            sys.stdout.flush()
    return worst


def main() -> int:
    """Measure and print; 1 where something grows too fast."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", metavar="TOKENIZER")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", action="store_true", help="the engine alone")
    parser.add_argument("--pipeline", action="store_true", help="the pipeline alone")
    asked = parser.parse_args()
    # The C library gives large blocks back to the system until it has seen one of that size freed;
    # taking the pages anew each time would be measured as growth.
    block = bytearray(ALLOCATOR)
    del block
    wanted = {name for name in ("engine", "pipeline") if getattr(asked, name)}
    named = [(path, formats.read(Source.open(path))[1].spec) for path in asked.paths]
    worst = [
        measure(name, spec, wanted or {"engine", "pipeline"}, asked.rounds)
        for name, spec in named or small_models()
    ]
    sys.stdout.write(f"worst growth for a doubling: {max(worst):.2f} (limit {LIMIT})\n")
    return int(max(worst) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
