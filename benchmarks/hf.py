"""mtkit.hf beside the tokenizer of transformers that it takes over, call by call.

``python -m benchmarks.hf FOLDER…`` prints a row for each call: CPU time of both, the least of
rounds in turn, and the ratio. Answers are compared first. Texts: 512 paragraphs of docs/.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 7
SECONDS = 0.1
"""Least time of one measurement."""
SHORT = "The quick brown fox jumps over the lazy dog, and then it sleeps."


def paragraphs() -> Iterator[str]:
    """Yield the paragraphs of the documentation."""
    for path in sorted((Path(__file__).parents[1] / "docs").glob("*.md")):
        yield from (text for text in path.read_text(encoding="utf-8").split("\n\n") if text.strip())


def calls(texts: list[str], ids: list[list[int]]) -> dict[str, Callable[[Any], Any]]:
    """Return what is called."""
    pairs = texts[:256], texts[256:]
    cut: dict[str, Any] = {"truncation": True, "max_length": 64}
    return {
        "one short text": lambda t: t(SHORT),
        "one short text, tensors": lambda t: t(SHORT, return_tensors="np"),
        "batch": lambda t: t(texts),
        "batch, padding": lambda t: t(texts, padding=True),
        "batch, padding, tensors": lambda t: t(texts, padding=True, return_tensors="np"),
        "batch, truncation, padding, tensors": lambda t: t(
            texts, **cut, padding="max_length", return_tensors="np"
        ),
        "batch, truncation": lambda t: t(texts, **cut),
        "batch, offsets": lambda t: t(texts, return_offsets_mapping=True),
        "batch, offsets, padding, tensors": lambda t: t(
            texts, return_offsets_mapping=True, padding=True, return_tensors="np"
        ),
        "pairs": lambda t: t(*pairs),
        "pairs, truncation, padding, tensors": lambda t: t(
            *pairs, **cut, padding=True, return_tensors="np"
        ),
        "decode, 20 ids": lambda t: t.decode(ids[0][:20]),
        "batch_decode": lambda t: t.batch_decode(ids),
    }


def is_same(left: Any, right: Any) -> bool:
    """Compare two answers."""
    if not hasattr(left, "keys"):
        return bool(left == right)
    return left.keys() == right.keys() and all(
        np.array_equal(left[k], right[k]) if hasattr(left[k], "shape") else left[k] == right[k]
        for k in left
    )


def seconds(call: Callable[[], object], times: int) -> float:
    """Return the CPU time of one call."""
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def measure(folder: str) -> Iterator[str]:
    """Yield the rows of a tokenizer's folder."""
    from transformers import AutoTokenizer

    import mtkit.hf

    both = AutoTokenizer.from_pretrained(folder), mtkit.hf.from_pretrained(folder)
    for tokenizer in both:
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.convert_ids_to_tokens(0)
    texts = list(islice(paragraphs(), 512))
    for name, call in calls(texts, both[0](texts)["input_ids"]).items():
        if not is_same(*map(call, both)):
            raise SystemExit(f"{folder}: {name}: answers differ")
        runs = [
            (partial(call, t), max(1, int(SECONDS / seconds(partial(call, t), 1)))) for t in both
        ]
        rounds = [[seconds(*run) for run in runs] for _ in range(ROUNDS)]
        slow, fast = (min(column) for column in zip(*rounds, strict=True))
        unit, factor = ("µs", 1e6) if slow < 1e-3 else ("ms", 1e3)
        own, theirs = (f"{float(f'{value * factor:.3g}'):,g} {unit}" for value in (fast, slow))
        yield f"{name} | {own} | {theirs} | {slow / fast:.1f}"


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        for row in measure(folder):
            print(f"| {Path(folder).name} | {row} |", flush=True)
