"""Safetensors files whose header is changed, its length mended in most of them; shown both ways."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from file_uses import clear
from mutants import byte_level, json_level

from mtkit.base.binary import Source
from mtkit.checkpoints import safetensors
from mtkit.commands.inspect import checkpoint as inspect_safetensors

if TYPE_CHECKING:
    from random import Random
    from typing import Any

EXTRA = (0, 1, 7, 8, 1 << 20, 1 << 31, 1 << 62, (1 << 64) - 8, (1 << 64) - 1)


@cache
def _documents() -> tuple[dict[str, Any], ...]:
    weights = {
        "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "c": {"dtype": "I8", "shape": [0, 5], "data_offsets": [32, 32]},
        "d": {"dtype": "F8_E4M3", "shape": [], "data_offsets": [32, 33]},
    }
    return weights, {"__metadata__": {"format": "pt", "a": ""}, **weights}, {"__metadata__": {}}


def mutant(rng: Random) -> tuple[str, Source]:
    """Change the header or the bytes of a file."""
    document = rng.choice(_documents())
    header = json.dumps(document).encode() + b" " * rng.randrange(3)
    done = []
    for _ in range(1 + (rng.random() < 0.25)):
        change = rng.choice((json_level.mutate, json_level.mutate, byte_level.mutate))
        header = change(rng, header)
        done.append(change.__module__.rpartition(".")[2])
    length = len(header) if rng.random() < 0.9 else rng.choice(EXTRA)
    ends = [entry["data_offsets"][1] for name, entry in document.items() if name[0] != "_"]
    size = max(ends, default=0) + rng.choice((0, 0, 0, 0, 1, -1))
    data = length.to_bytes(8, "little") + header + bytes(max(size, 0))
    if rng.random() < 0.1:
        data = byte_level.mutate(rng, data)
        done.append("bytes")
    return " ".join(done), Source("a.safetensors", data)


def use(source: Source, rng: Random) -> str:
    """Tell what it is, read its header and show it."""
    header = None
    safetensors.sniff(source)
    with clear():
        header = safetensors.read(source)
    if header is None:
        return "refused"
    assert header.parameters >= 0
    assert sum(one.n_bytes for one in header.weights) == len(source.data) - header.n_bytes
    with clear():
        inspect_safetensors.show_safetensors(
            source, as_json=rng.random() < 0.5, in_full=rng.random() < 0.5
        )
    return "read"
