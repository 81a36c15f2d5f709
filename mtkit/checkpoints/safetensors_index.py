"""The index of a model in several safetensors files: which tensor is in which of them.

``model.safetensors.index.json``: an object with ``weight_map`` (tensor -> file beside it) and
``metadata``, whose ``total_size`` is the number of bytes of all tensors. The names of files come
from whoever made it: one that leads out of the folder is refused.
Source: huggingface/transformers 5, modeling_utils.py (``save_pretrained``), utils/hub.py
(``get_checkpoint_shard_files``).
"""

from __future__ import annotations

import os
from collections import Counter

from mtkit.base.binary import Source
from mtkit.base.escape import is_utf8, quoted, shown
from mtkit.base.record import Record, replace
from mtkit.base.rules import BrokenRule, Finding, Findings, Rule
from mtkit.checkpoints import safetensors
from mtkit.errors import UsageError, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.checkpoints.safetensors import Header

SUFFIX = ".safetensors.index.json"
TRANSFORMERS = "transformers"
INDEX = Rule("index-json", "error", TRANSFORMERS, "weight_map")
PATH = Rule("index-path", "error", TRANSFORMERS, "weight_map")
FILE = Rule("index-file", "error", TRANSFORMERS, "weight_map", advice="download the folder again")
TENSOR = Rule("index-tensor", "error", TRANSFORMERS, "weight_map")
UNLISTED = Rule("index-unlisted", "warning", TRANSFORMERS, "weight_map")
TOTAL = Rule("index-total", "note", TRANSFORMERS, "metadata.total_size")
RULES = (INDEX, PATH, FILE, TENSOR, UNLISTED, TOTAL)
_MOST_BYTES = 1 << 28


class Index(Record):
    """A model in several files.

    Attributes:
        weight_map: Tensor -> the file that should have it, both in the index's order.
        files: File -> its header; None: it is missing or damaged.
        n_bytes: File -> its size; 0 where it is missing.
        metadata: What the writer said, ``total_size`` among it.
        findings: Rules that are broken.
    """

    weight_map: Mapping[str, str]
    files: Mapping[str, Header | None]
    n_bytes: Mapping[str, int]
    metadata: Mapping[str, object]
    findings: tuple[Finding, ...]


def sniff(source: Source) -> bool:
    """Tell by the name that its writers give it, and by an object in the file."""
    return source.name.endswith(SUFFIX) and bytes(source.data[:64]).lstrip()[:1] == b"{"


def read(source: Source, *, strict: bool = True) -> Index:
    """Read an index and the headers of the files beside it.

    A file that is missing is kept as ``FILE`` by a strict reading, too.

    Raises:
        BrokenRule: The index, or a file that is there, is damaged.
    """
    document = _document(source)
    weight_map, metadata = document["weight_map"], document.get("metadata") or {}
    found = Findings(strict=strict)
    files: dict[str, Header | None] = {}
    sizes: dict[str, int] = {}
    missing: list[Finding] = []
    counts = Counter(weight_map.values())
    for name in counts:
        files[name], sizes[name] = None, 0
        if name != os.path.basename(name) or name in ("", ".", "..") or not _can_be_file(name):
            found.add(Finding(PATH, PATH.field, f"{quoted(name)} is not a file next to the index"))
            continue
        path = os.path.join(os.path.dirname(source.name), name)
        try:
            # a pipe of that name would be waited for
            shard = Source.open(path) if os.path.isfile(path) else None
        except UsageError:
            shard = None
        if shard is None:
            what = f"{shown(name)} is missing, and {counted(counts[name], 'tensor')} with it"
            missing.append(Finding(FILE, FILE.field, what))
            continue
        sizes[name] = len(shard.data)
        try:
            header = safetensors.read(shard, strict=strict)
        except BrokenRule as error:
            found.add(replace(error.finding, source=path))
            continue
        files[name] = header
        for finding in header.findings:
            found.add(replace(finding, source=path))
    _compare(weight_map, files, metadata, found)
    return Index(weight_map, files, sizes, metadata, (*missing, *found.found))


def _can_be_file(name: str) -> bool:
    return is_utf8(name) and "\0" not in name


def _document(source: Source) -> dict[str, Any]:
    import json

    try:
        document = json.loads(bytes(source.data)) if len(source.data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and isinstance(document.get("metadata") or {}, dict):
        weight_map = document.get("weight_map")
        if isinstance(weight_map, dict) and all(type(v) is str for v in weight_map.values()):
            return document
    what = "is not a JSON object with a weight_map of names of files"
    raise BrokenRule(Finding(INDEX, "index", what, 0))


def _compare(
    weight_map: Mapping[str, str],
    files: Mapping[str, Header | None],
    metadata: Mapping[str, object],
    found: Findings,
) -> None:
    """Hold the index to what is in the files."""
    total = 0
    inside = {}
    for name, header in files.items():
        inside[name] = {weight.name for weight in header.weights} if header else None
        for weight in header.weights if header else ():
            total += weight.n_bytes
            if weight_map.get(weight.name) != name:
                elsewhere = weight_map.get(weight.name)
                said = f"seeks in {shown(elsewhere)}" if elsewhere else "does not list"
                what = f"{shown(name)} has {quoted(weight.name)}, which the index {said}"
                found.add(Finding(UNLISTED, UNLISTED.field, what))
    for tensor, name in weight_map.items():
        there = inside[name]
        if there is not None and tensor not in there:
            found.add(Finding(TENSOR, TENSOR.field, f"{shown(name)} has no {quoted(tensor)}"))
    size = metadata.get("total_size", total)
    if size != total and None not in inside.values():
        what = f"is {shown(str(size))}, but the tensors have {total} bytes"
        found.add(Finding(TOTAL, TOTAL.field, what))
