"""Small tokenizer files of the shared folder, for mutants of what others wrote."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
from typing import TYPE_CHECKING

from support import SHARED

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.errors import MtkitError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPENERS = {".xz": lzma.open, ".gz": gzip.open}
PLACES = ("tokenizers/tokenizers/*/tok*", "mtok/*.mtok*", "mtok/kind*.txt")
EDGE_CASES = "mtok/edge_cases.jsonl.gz"


def files(longest: int) -> dict[str, Source]:
    """Return name -> file; the part of the name before a colon is the format."""
    found = {}
    for name, data in _contents(longest):
        source = Source(name.rpartition("/")[2], data)
        try:
            kind = formats.recognize(source).NAME
            formats.get_format(kind).read(source, {})
        except MtkitError:
            continue  # what lies beside a tokenizer, or is cut on purpose
        found[f"{kind}:{name}"] = source
    return found


def _contents(longest: int) -> Iterator[tuple[str, bytes]]:
    for place in PLACES:
        for path in sorted(SHARED.glob(place)):
            with OPENERS.get(path.suffix, open)(path, "rb") as file:
                data = file.read(longest + 1)
            if len(data) <= longest:
                yield _name(path), data
    if (SHARED / EDGE_CASES).exists():
        with gzip.open(SHARED / EDGE_CASES, "rt") as lines:
            cases = [json.loads(line) for line in lines]
        for case in cases:
            yield f"edge/{case['name']}.mtok", base64.b64decode(case["file_b64"])


def _name(path: Path) -> str:
    stem = path.name.removesuffix(path.suffix) if path.suffix in OPENERS else path.name
    return f"{path.parent.name}/{stem}"
