"""Damaged pictures and sounds: no crash, no hang, no excessive memory.

    python -m tools.media_mutants FOLDER MODEL [COUNT [SEED]]

FOLDER holds seeds (PNG, JPEG, GIF, BMP, WAV, MP3, FLAC); MODEL has a projector beside it. Each of
COUNT mutants is read and tokenized as a server does it. A child does that, so that a crash is one
line with the number of the mutant; the longest time and the most memory are printed at the end.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

PART = 250
_SECONDS = 25.0
"""Seconds of one mutant: the decoder is ended after 20."""
_WORDS = (
    b"\0" * 4,
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\0\0\0\1",
    b"\1\0\0\0",
    b"\xff\xff\xff\x7f",
)


def mutant(seeds: list[bytes], number: int, seed: int) -> bytes:
    """Return a mutant: bits, bytes, words, cuts, repeats and joints of the seeds."""
    draw = random.Random(seed << 32 | number)
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        at = draw.randrange(min(len(data), draw.choice((64, 1 << 20))))
        kind = draw.randrange(6)
        if kind == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at] = draw.randrange(256)
        elif kind == 2:
            data[at : at + 4] = draw.choice(_WORDS)
        elif kind == 3 and len(data) > 32:
            del data[at : at + draw.randrange(1, 64)]
        elif kind == 4:
            data[at:at] = data[at : at + draw.randrange(1, 256)] * draw.choice((1, 2, 100))
        else:
            data[at:] = draw.choice(seeds)[at:] or data[at:]
        data = data or bytearray(1)
    return bytes(data)


def read_part(folder: str, model: str, first: int, count: int, seed: int) -> None:
    """Read some of the mutants; prints how each ended."""
    import resource

    from mtkit.errors import MtkitError
    from mtkit.llm.runner import open_model
    from mtkit.settings import AnswerSettings

    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    seeds = [path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()]
    with open_model(AnswerSettings(model)) as runner:
        projector = runner.open_media().projector
        for number in range(first, first + count):
            data, start = mutant(seeds, number, seed), time.perf_counter()
            try:
                parts = projector.parts(data)
                end = "read"
                for part in parts if number % 16 == 0 else ():
                    if not isinstance(part, list):
                        projector.encode(part)
            except MtkitError as error:
                end = f"{type(error).__name__}: {error.what[:60]}"
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            print(number, f"{time.perf_counter() - start:.3f}", memory, end, flush=True)


def main(folder: str, model: str, count: str = "5000", seed: str = "1") -> int:
    """Read all mutants in children; returns how many were fatal or took too long."""
    failures, done, ends = 0, 0, dict[str, int]()
    slowest, memory = 0.0, 0
    while done < int(count):
        size = min(PART, int(count) - done)
        call = f"read_part({folder!r}, {model!r}, {done}, {size}, {seed})"
        child = subprocess.run(
            [sys.executable, "-c", f"from tools.media_mutants import read_part; {call}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        rows = [line.split(" ", 3) for line in child.stdout.splitlines()]
        for number, seconds, most, end in rows:
            slowest, memory = max(slowest, float(seconds)), max(memory, int(most))
            name = end.partition(":")[0] if end != "read" else end
            ends[name] = ends.get(name, 0) + 1
            if float(seconds) > _SECONDS:
                failures += 1
                print(f"mutant {number} took {seconds} s")
        done += max(len(rows), 0)
        if child.returncode or len(rows) < size:
            failures += 1
            print(f"mutant {done} ended the process ({child.returncode}): {child.stderr[-300:]}")
            done += 1
    print(f"{done} mutants, {failures} failures, {ends}; slowest {slowest:.2f} s, {memory} MB")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
