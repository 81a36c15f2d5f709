"""Mutants: small files of every format, changed at the level where a reader looks at them.

Case ``number`` of a ``seed`` is always the same file. What a writer keeps true (lengths in front of
strings, tables of sections, checksums) is true in most mutants, so that they get past the outer
checks. One mutant in four is changed twice.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING

from small_files import sources

from mtkit.base.binary import Source
from mtkit.base.record import Record
from mutants import byte_level, gguf_level, json_level, mtok_level, shared_files, wire_level

if TYPE_CHECKING:
    from collections.abc import Callable

    Level = Callable[[Random, bytes], bytes]

LEVELS: dict[str, tuple[Level, ...]] = {
    "gguf": (gguf_level.mutate, gguf_level.mutate, byte_level.mutate),
    "spm": (wire_level.mutate, wire_level.mutate, byte_level.mutate),
    "mtok": (*(mtok_level.mutate,) * 5, mtok_level.flip),
    "hf": (*(json_level.mutate,) * 5, byte_level.mutate),
    "tekken": (json_level.mutate, json_level.mutate, byte_level.mutate),
}
"""Format -> how its files are changed; those of the others are lines or plain records."""
OTHERS: tuple[Level, ...] = (byte_level.mutate, byte_level.mutate_lines)


LONGEST = 40_000
"""Of a file to be changed, in bytes: longer ones are mostly tables of code points."""


class Mutant(Record):
    """A changed file; ``name`` is that of the whole one and what was done to it."""

    name: str
    source: Source


@cache
def wholes(*, shared: bool = False) -> dict[str, Source]:
    """Return name -> file: the own ones, some with the engine's tables or files beside them.

    Args:
        shared: Rather those of the shared folder.
    """
    if shared:
        return shared_files.files(LONGEST)
    small = {name: source for name, source in sources().items() if len(source.data) <= LONGEST}
    return {**small, **mtok_level.with_tables(), **json_level.with_files_beside()}


def mutant(seed: int, number: int, name: str | None = None, *, shared: bool = False) -> Mutant:
    """Draw a case; ``name`` chooses the whole file."""
    rng = Random(f"{seed} {number}")
    files = wholes(shared=shared)
    drawn = rng.choice(list(files))
    name = name or drawn
    whole = files[name]
    beside = dict(whole._siblings or {})
    changed = whole.name
    if beside and rng.random() < 0.5:
        changed = rng.choice(sorted(beside))
    data = bytes(beside.get(changed, whole.data))
    levels = LEVELS.get(name.partition(":")[0], OTHERS)
    if changed.endswith(".json"):
        levels = (json_level.mutate, json_level.mutate, byte_level.mutate)
    done = []
    for _ in range(1 + (rng.random() < 0.25)):
        level = rng.choice(levels)
        data = level(rng, data)
        done.append(f"{level.__module__.rpartition('.')[2]}.{level.__name__}")
    main = data if changed == whole.name else bytes(whole.data)
    if beside:
        beside[changed] = data
    made = Source(whole.name, main, siblings=beside)
    return Mutant(f"{name} {changed} {' '.join(done)}", made)
