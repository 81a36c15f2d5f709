"""Changes inside a .mtok with an extension: its specification, its sections, its base.

The container is written anew around them, so tables and checksums are true.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from small_files import sources

from mtkit import formats
from mtkit.errors import MtkitError
from mtkit.formats import mtok
from mtkit.formats.contract import WriteOptions
from mtkit.formats.mtok.extension import append_extension, find_extension
from mtkit.spec import replace
from mutants import byte_level, drawn, json_level

if TYPE_CHECKING:
    from random import Random

    from mtkit.base.binary import Source

SPEC = "SPEC"
TABLES = ("gguf:bert", "hf:unigram", "hf:wordpiece", "wordpiece")
"""Tokenizers whose normalizer is a table of many code points to MNN."""


@cache
def with_tables() -> dict[str, Source]:
    """Return .mtok files of all small tokenizers, some with the engine's tables."""
    from mtkit.base.binary import Source

    found = {}
    for number, (name, source) in enumerate(sources().items()):
        if name.startswith("mtok"):
            continue
        spec = formats.get_format(name.partition(":")[0]).read(source, {}).spec
        if name in TABLES:
            spec = replace(spec, normalizer=None)  # its code points would be most of the file
        values = (("tables", "yes" if number % 4 == 0 else "no"),)
        try:
            data = mtok.write(spec, WriteOptions(values=values)).files[".mtok"]
        except MtkitError:
            continue  # what its base cannot hold at all
        found[f"mtok:of {name}"] = Source("a.mtok", data)
    return found


def mutate(rng: Random, data: bytes) -> bytes:
    """Change one part of the file, most often its specification."""
    try:
        extension = find_extension(data)
    except MtkitError:
        extension = None
    if extension is None or not extension.sections:
        return byte_level.mutate(rng, data)
    base = data[: extension.base_length]
    sections = {tag: bytes(content) for tag, content in extension.sections.items()}
    flags = dict(extension.flags)
    match rng.randrange(10):
        case 0:
            base = byte_level.mutate(rng, base) or b"4"
        case 1 | 2:
            tag = rng.choice(sorted(sections))
            sections[tag] = byte_level.mutate(rng, sections[tag])
        case 3:
            tag = rng.choice(sorted(sections))
            if rng.random() < 0.5:
                del sections[tag]
            else:
                flags[tag] ^= rng.choice((1, 2))
        case _ if SPEC in sections:
            sections[SPEC] = _changed_spec(rng, sections[SPEC])
    return append_extension(base, [(tag, flags[tag], content) for tag, content in sections.items()])


def flip(rng: Random, data: bytes) -> bytes:
    """Change bytes anywhere, without mending what they break."""
    return byte_level.mutate(rng, data)


def _changed_spec(rng: Random, content: bytes) -> bytes:
    """Change the JSON, or put a drawn component or value in the place of a field."""
    try:
        spec: Any = json.loads(content.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return byte_level.mutate(rng, content)
    if rng.random() < 0.4 or not isinstance(spec, dict):
        return json_level.dumps(rng, json_level.mutated(rng, spec))
    return json_level.dumps(rng, drawn.replaced(rng, spec))
