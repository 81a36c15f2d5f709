"""Batches beside other libraries, by size, part, threads, and form of the answer.

``python -m benchmarks.batches FILE…`` prints a table for each tokenizer.json: MB/s by the clock, of
text that is new to the process and of the same text again, mtkit's as a multiple of each library.
Every measurement runs in a fresh process that has loaded the file and encoded one word; libraries
take turns. Their ids are compared before anything is measured.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import time
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Form = Callable[[Any, list[str], int], Any]

SIZES = {"200 kB": 200_000, "4 MB": 4_000_000, "40 MB": 40_000_000}
PARTS = 200, 4_000, 100_000
THREADS = 1, 2
AGAIN = 3
"""Calls with text seen before, of which the median counts."""
MOST_SLOW = 4_000_000
"""Bytes beyond which tokenizers, 20 to 80 times as slow, is not waited for."""
LONGEST = 60
"""Seconds of a process."""


def _flat(ids: Any, starts: Any) -> list[list[int]]:
    import numpy as np

    numbers = np.frombuffer(ids, np.int32) if isinstance(ids, bytes) else np.asarray(ids)
    ends = np.frombuffer(starts, np.int64) if isinstance(starts, bytes) else np.asarray(starts)
    return [numbers[a:b].tolist() for a, b in pairwise(ends)]


PLAIN: dict[str, Any] = {"add_special_tokens": False}
FORMS: dict[str, dict[str, Form]] = {
    "mtkit": {
        "lists": lambda t, texts, n: t.encode_batch_ids(texts, threads=n, **PLAIN),
        "flat": lambda t, texts, n: t.encode_batch_arrays(texts, threads=n, **PLAIN),
    },
    "gigatoken": {
        "lists": lambda t, texts, n: t.encode_batch_list(texts, parallel=n > 1),
        "flat": lambda t, texts, n: t.encode_batch(texts, parallel=n > 1),
    },
    "snaptokens": {
        "lists": lambda t, texts, _: [encoding.ids for encoding in t.encode_batch(texts)],
        "flat": lambda t, texts, _: t.encode_batch_flat(texts),
    },
    "tokenizers": {
        "lists": lambda t, texts, _: [
            encoding.ids for encoding in t.encode_batch_fast(texts, **PLAIN)
        ],
    },
}
"""Library -> form of the answer -> call; those without a number of threads read it from the
environment. Arrays of each text are cut out of a flat one by all of them."""


def parts_of(text: str, size: int, part: int) -> list[str]:
    """Return so many bytes of a text, again and again, in parts of so many characters."""
    while len(text) < size:
        text += text
    return [text[at : at + part] for at in range(0, size, part)]


def in_child(run: Callable[[], Any]) -> Any:
    """Return what a function returns in a forked process; its error as a string."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        import signal

        signal.alarm(LONGEST)
        try:
            answer = run()
        except BaseException as error:  # noqa: BLE001  Rust's panics are no Exception
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else f"took longer than {LONGEST} s, or died"


def tokenizer_of(library: str, file: str, threads: int) -> Any:
    """Return a tokenizer that was used once."""
    from benchmarks.peers.libraries import LIBRARIES

    many = "true" if threads > 1 else "false"
    os.environ |= {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": many}
    tokenizer = LIBRARIES[library].load(file)
    for form in FORMS[library].values():
        form(tokenizer, ["Hello"], 1)
    return tokenizer


def digest(library: str, form: str, file: str, texts: list[str]) -> str:
    """Return what the ids hash to, once they are lists."""
    from hashlib import sha256

    rows = FORMS[library][form](tokenizer_of(library, file, 2), texts, 2)
    if form == "flat":
        rows = _flat(*rows) if isinstance(rows, tuple) else rows.to_list()
    return sha256(json.dumps([[int(i) for i in ids] for ids in rows]).encode()).hexdigest()


def seconds(library: str, form: str, file: str, texts: list[str], threads: int) -> list[float]:
    """Return the seconds of a first call, and of further ones."""
    tokenizer, call = tokenizer_of(library, file, threads), FORMS[library][form]
    times = []
    for _ in range(1 + AGAIN):
        start = time.perf_counter()
        answer = call(tokenizer, texts, threads)
        times.append(time.perf_counter() - start)
        del answer
    return [times[0], median(times[1:])]


def exact(file: str, text: str) -> dict[str, list[str]]:
    """Return form -> libraries with the ids of tokenizers."""
    texts = parts_of(text, SIZES["200 kB"], PARTS[0])
    reference = in_child(lambda: digest("tokenizers", "lists", file, texts))
    same: dict[str, list[str]] = {}
    for library, form in ((name, form) for name, forms in FORMS.items() for form in forms):
        answer = in_child(lambda: digest(library, form, file, texts))  # noqa: B023  runs now
        if answer == reference:
            same.setdefault(form, []).append(library)
        else:
            print(f"{library}, {form}: not measured ({answer[:90]})", flush=True)
    return same


def measure(file: str, text: str, options: argparse.Namespace) -> None:
    """Print the table of a tokenizer."""
    same = exact(file, text)
    size_names = [name for name in SIZES if name in options.sizes]
    for form, size, part, threads in product(same, size_names, options.parts, THREADS):
        texts = parts_of(text, SIZES[size], part)
        count = sum(len(t.encode()) for t in texts)
        slow = {"tokenizers"} if count > MOST_SLOW * 1.1 or options.fast else set()
        libraries = [name for name in same[form] if name not in slow]
        rounds: list[dict[str, Any]] = [
            {
                name: in_child(lambda: seconds(name, form, file, texts, threads))  # noqa: B023
                for name in libraries
            }
            for _ in range(options.rounds)
        ]
        cells = []
        for turn in range(2):
            cost = {n: median(r[n][turn] for r in rounds) for n in libraries}
            own = cost.pop("mtkit")
            cells.append(f"{count / own / 1e6:.0f} MB/s")
            others = sorted(cost.items(), key=lambda item: item[1])
            cells.append(", ".join(f"{n} {c / own:.2f}" for n, c in others))
        print(f"| {form} | {size} | {part:,} | {threads} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--text", required=True, help="a .txt or .txt.xz")
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--parts", nargs="*", type=int, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fast", action="store_true", help="without tokenizers")
    options = parser.parse_args()
    path = Path(options.text)
    content = path.read_bytes()
    content = lzma.decompress(content) if path.suffix == ".xz" else content
    for name in options.files:
        print(f"\n{Path(name).parent.name}, load {os.getloadavg()[0]:.1f}", flush=True)
        print("| form | text | parts | threads | new | × | again | × |")
        print("|---" * 8 + "|")
        measure(name, content.decode(), options)
