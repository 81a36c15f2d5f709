"""End each command that writes files at random moments, by four signals; see tests/support/kills.

python -m tools.kills --kills 200 --seed 1 [--only split]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from mtkit.base.binary import package_file

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))


def main() -> int:
    """Run, and print what stood there after the kills; 1 where something else did."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="name of one command")
    asked = parser.parse_args()
    kills = importlib.import_module("kills")
    model = Path(package_file("default-model.gguf"))
    wrong = 0
    for work in (*kills.WORKS, *kills.FAST_WORKS, *kills.MORE_WORKS):
        if asked.only not in (None, work.name):
            continue
        rng, counts = Random(f"{asked.seed} {work.name}"), Counter[str]()
        with tempfile.TemporaryDirectory() as folder:
            trials = kills.Trials(work, model, Path(folder, "work"))
            for _ in range(asked.kills):
                try:
                    counts[trials.run(rng, kills.SIGNALS)] += 1
                except AssertionError as error:
                    wrong += 1
                    sys.stdout.write(f"{work.name}: {str(error)[:300]}\n")
        said = ", ".join(f"{state} {count}" for state, count in sorted(counts.items()))
        sys.stdout.write(f"{work.name}: {trials.seconds * 1000:.0f} ms; {said}\n")
        sys.stdout.flush()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
