"""Golden files of llama.cpp's answers: reading them and holding mtkit to them."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support import SHARED, absent, shared

from mtkit.base.binary import Source
from mtkit.engine import load_engine
from mtkit.formats import gguf
from mtkit.formats.gguf import roles as gguf_roles
from mtkit.pipeline import Pipeline
from mtkit.pipeline.byte_decoders import bytes_by_role
from mtkit.pipeline.models import build
from mtkit.spec import replace
from mtkit.spec.decoders import Pieces
from mtkit.spec.post_processors import Template

if TYPE_CHECKING:
    from pathlib import Path

    from mtkit.spec import TokenizerSpec

FOLDER = SHARED / "gguf-vocab" / "golden"
FLAGS = {
    "ids": (False, False), "add": (True, False), "parse": (False, True), "add_parse": (True, True),
}  # fmt: skip


def golden_files(folder: str = "") -> list[Path]:
    """Golden files of a folder, in order."""
    if not FOLDER.is_dir():
        absent("the golden files of llama.cpp are not here", "MTKIT_REQUIRE_SHARED")
    return sorted((FOLDER / folder).glob("*.jsonl.gz"))


def read_golden(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and rows of a golden file."""
    header, *rows = map(
        json.loads, gzip.decompress(path.read_bytes()).decode().rstrip("\n").split("\n")
    )
    return header, rows


def inputs() -> list[str]:
    """The texts that golden rows count."""
    found: list[str] = json.loads((FOLDER / "inputs.json").read_bytes())["inputs"]
    return found


def load(name: str, overrides: dict[str, Any]) -> TokenizerSpec:
    """Read a shared vocabulary file."""
    source = Source.open(str(shared(f"gguf-vocab/ggml-vocab-{name}.gguf")))
    return gguf.read(source, overrides).spec


_encoders: list[tuple[TokenizerSpec, Any]] = []


def encoder_of_words(spec: TokenizerSpec) -> Any:
    """Build a model's encoder, or return the one of an equal model, which encodes a word once.

    The 55 names of pre-tokenizers cut the same texts of one vocabulary into mostly the same words.
    """
    for known, encoder in _encoders:
        if (known.model, known.vocabulary) == (spec.model, spec.vocabulary):
            return encoder
    encoder = SimpleNamespace(encode=cache(build(spec).encode))
    _encoders.append((spec, encoder))
    return encoder


def mismatches(
    spec: TokenizerSpec, rows: list[dict[str, Any]], engine: Any = None, *, decode: bool = True
) -> list[str]:
    """Compare every row; returns what differs, in words."""
    engine = engine or Pipeline(spec)
    texts, wrong = inputs(), []
    for row in rows:
        if "raw" in row:
            wrong += _raw(engine, row["raw"])
            continue
        text = texts[row["i"]]
        for key, (add, parse) in FLAGS.items():
            if key not in row:
                continue
            found = engine.encode_ids(text, add_special_tokens=add, parse_special=parse)
            if found != row[key]:
                wrong.append(f"{key} of {row['i']} {text!r}: {found}, want {row[key]}")
        if decode:
            wrong += _decoded(spec, row, text)
    return wrong


def engine_mismatches(spec: TokenizerSpec, rows: list[dict[str, Any]]) -> list[str]:
    """Compare every row with the native engine, where there is a core."""
    pytest.importorskip("mtkit._native")
    engine = load_engine(spec)
    assert engine.name == "native"
    return mismatches(spec, rows, engine, decode=False)


def _raw(engine: Any, row: dict[str, Any]) -> list[str]:
    from mtkit.errors import MtkitError

    try:
        found = engine.encode_ids(
            bytes.fromhex(row["hex"]), add_special_tokens=False, parse_special=False
        )
    except MtkitError:
        found = None
    return [] if found == row["ids"] else [f"raw {row['hex']}: {found}, want {row['ids']}"]


def _decoded(spec: TokenizerSpec, row: dict[str, Any], text: str) -> list[str]:
    ways = {
        "text": ("ids", True, False),
        "text_special": ("add_parse", False, False),
        "text_removed": ("add_parse", True, True),
    }
    wrong = []
    for key, (ids, skip, remove) in ways.items():
        if key not in row:  # files about splitting alone say nothing of the way back
            continue
        found = _decode(spec, row[ids], skip, remove)
        want = row[key]
        if want is True:
            want = text.encode()
        else:
            want = bytes.fromhex(want["hex"]) if isinstance(want, dict) else want.encode()
        if found != want:
            wrong.append(f"{key} of {row['i']} {text!r}: {found!r}, want {want!r}")
    return wrong


def _decode(spec: TokenizerSpec, ids: list[int], skip: bool, remove: bool) -> bytes:
    """Decode; what the post-processor puts at the ends may be taken off.

    Behind a first token taken off no space is dropped.
    """
    assert isinstance(spec.decoder, Pieces)
    if remove and isinstance(spec.post_processor, Template):
        slots = spec.post_processor.single
        place = next((at for at, slot in enumerate(slots) if slot.text is not None), len(slots))
        first = [token for slot in slots[:place] for token in slot.ids]
        last = [token for slot in slots[place:] for token in slot.ids]
        if ids and ids[0] in first[:1]:
            ids = ids[1:]
            spec = replace(spec, decoder=replace(spec.decoder, drop_first_space=False))
        if ids and ids[-1] in last[-1:]:
            ids = ids[:-1]
    return Pipeline(spec).decode_bytes(ids, skip_special_tokens=skip)


def pieces_digest(spec: TokenizerSpec) -> str:
    """Checksum over all pieces, special ones shown."""
    digest = hashlib.sha256()
    added = {token.id: token for token in spec.added_tokens.tokens}
    for piece in (bytes_by_role(spec, added, token_id) for token_id in range(spec.vocab_size)):
        digest.update(struct.pack("<I", len(piece)) + piece)
    return digest.hexdigest()


def attributes_digest(spec: TokenizerSpec) -> str:
    """Checksum over all attributes."""
    found = gguf_roles.attributes(spec)
    return hashlib.sha256(struct.pack(f"<{len(found)}I", *found)).hexdigest()
