"""The long comparison with ``tokenizers``: generated tokenizers and texts, a million by default.

Each case compares with the library everything that the engine gives for a text (ids, offsets, type
ids, masks, pairs, truncation, padding, decoding), every ``--pipeline-every``th case also what the
pipeline gives. A mismatch is printed on one line; its ``--seed`` and
``--only`` make it again. Exit status 1 if anything differs.

    python -m tools.fuzz_exact --cases 1000000 --seed 1
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))


def main() -> int:
    """Compare and print; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pipeline-every", type=int, default=5)
    parser.add_argument("--only", type=int, help="number of one tokenizer")
    asked = parser.parse_args()
    # The library prints each of its panics, and its trainers would take all cores.
    os.environ |= {"RUST_BACKTRACE": "0", "TOKENIZERS_PARALLELISM": "false"}
    screen = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.stderr = screen

    cases = importlib.import_module("exact_cases")
    counts = cases.Counts()
    if asked.only is not None:
        numbers = range(asked.only, asked.only + 1)
    else:
        numbers = range(-(-asked.cases // cases.TEXTS))
    shown, began = 0, time.monotonic()
    for done, number in enumerate(numbers, 1):
        try:
            cases.Drawn(asked.seed, number, counts).run(pipeline_every=asked.pipeline_every)
        except Exception as error:  # noqa: BLE001  a tokenizer that cannot be read is a mismatch
            counts.mismatches.append(f"--seed {asked.seed} --only {number}: {error!r}")
        for line in counts.mismatches[shown:]:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        shown = len(counts.mismatches)
        if done % 200 == 0 or done == len(numbers):
            seconds = time.monotonic() - began
            screen.write(f"\r{done} of {len(numbers)} tokenizers, {seconds:.0f} s, {shown} differ ")
            screen.flush()
    screen.write("\n")
    for name, count in sorted(counts.counted.items()):
        sys.stdout.write(f"{count:9} {name}\n")
    sys.stdout.write(f"{shown:9} mismatches\n")
    return int(shown > 0)


if __name__ == "__main__":
    sys.exit(main())
