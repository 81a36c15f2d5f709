"""How the engine's time grows with the length of one text, for each model: never quadratic.

Encodes texts of 16, 32, 64 and 128 KB of hard kinds with a fresh engine and prints CPU time and the
growth from one length to the next; exits 1 where a doubling costs more than 2.5 times.

    python -m benchmarks.growth TOKENIZER ...
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise

from mtkit import formats
from mtkit.binary import Source
from mtkit.engine import Engine, load_engine

SIZES = tuple(1 << power for power in range(14, 18))
LIMIT = 2.5
KINDS = {
    "one letter": "a",
    "blanks": " ",
    "digits": "1234567890",
    "one Han": "\u6f22",
    "Han": "".join(map(chr, range(0x4E00, 0x5600))),
    "marks": "a\u0301\u0323",
    "only marks": "\u0323\u0301",
    "newlines": "\n",
    "apostrophes": "'",
    "marked spaces": "\u2581",
    "words": "The quick brown fox jumps over the lazy dog, 3 times. ",
    "punctuation": "!?#$%&*()",
    "tag begins": "<|",
    "mixed": "aA1 \u00e9\u6f22\ud55c.\n\t_-",
}


def seconds(engine: Engine, text: str) -> float:
    """CPU time of one encoding."""
    start = time.process_time()
    engine.encode_ids(text)
    return time.process_time() - start


def main(paths: list[str]) -> int:
    """Measure and print; 1 where something grows too fast."""
    worst = 0.0
    for path in paths:
        spec = formats.read(Source.open(path))[1].spec
        for kind, unit in KINDS.items():
            texts = [(unit * (size // len(unit.encode()) + 1))[:size] for size in SIZES]
            best = [9.0] * len(SIZES)
            for _ in range(9):
                engine = load_engine(spec)
                if not isinstance(engine, Engine):
                    print(f"{path}: the core does not run it", file=sys.stderr)
                    return 1
                for at, text in enumerate(texts):
                    best[at] = min(best[at], seconds(engine, text))
            # Below a millisecond the clock and caches decide.
            growth = [b / max(a, 1e-3) for a, b in pairwise(best)]
            worst = max(worst, *growth)
            times = "  ".join(f"{t * 1e3:8.2f}" for t in best)
            print(f"{path:40.40}  {kind:14}  {times} ms  worst x{max(growth):.2f}")
    print(f"worst growth for a doubling: {worst:.2f} (limit {LIMIT})")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
