"""End llama.cpp at its load, first batch and tenth call in every command; tests/support/deaths.py.

python -m tools.deaths [--only TEXT] [--seed 1 --cases 40]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path
from random import Random

from mtkit.base.binary import package_file

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))


def main() -> int:
    """Run the matrix, or as many cases of it as wanted; 1 where one ends otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, help="as many of the matrix, drawn; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only cases with this in them")
    asked = parser.parse_args()
    deaths = importlib.import_module("deaths")
    cases = [case for case in deaths.cases() if asked.only in f"{case.name} {case.death}"]
    if asked.cases:
        cases = Random(asked.seed).sample(cases, min(asked.cases, len(cases)))
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "work")
        deaths.inputs(folder, Path(package_file("default-model.gguf")))
        base = deaths.environment(Path(name))
        for case in cases:
            if wrong := case.run(folder, base):
                failed += 1
                trial = "" if case.trial else ", no trial"
                sys.stdout.write(f"{case.name}: {case.death}{trial}: {'; '.join(wrong)}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{len(cases)} deaths, {failed} with another end\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
