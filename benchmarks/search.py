"""The search of ShenXing beside one reading of its table from memory, in one process.

python benchmarks/search.py --rows 151936 --columns 1024
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

from mtkit.base.native import native
from mtkit.speculative.semantic_index import nearest_rows, row_lengths

COLD = 64 << 20
"""Bytes that are written between two searches: more than the caches hold."""


def main() -> None:
    """Measure, interleaved; print milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=151_936)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    random = np.random.default_rng(1)
    rows = random.integers(-127, 128, (given.rows, given.columns), np.int8)
    lengths = row_lengths(rows)
    words = rows.reshape(-1).view(np.uint64)
    other = np.zeros(COLD, np.int8)
    search, reading = [], []
    for turn in range(given.turns):
        row = int(random.integers(given.rows))
        arguments = rows, lengths, rows[row], lengths[row], row, 50, np.float32(0.05)
        other += 1
        start = time.process_time()
        found = native.nearest_rows(*arguments)
        search.append(time.process_time() - start)
        other += 1
        start = time.process_time()
        np.bitwise_or.reduce(words)
        reading.append(time.process_time() - start)
        if turn == 0:
            assert found == nearest_rows(*arguments)
    print(f"search   {1000 * median(search):7.2f} ms  (least {1000 * min(search):.2f})")
    print(f"reading  {1000 * median(reading):7.2f} ms  (least {1000 * min(reading):.2f})")
    print(f"ratio    {median(search) / median(reading):7.2f}")


if __name__ == "__main__":
    main()
