"""tiktoken's rank files: one ``base64 rank`` a line.

The file holds neither the split pattern nor the special tokens. They come from ``pattern.json``
beside it (``{"pattern": …, "special_tokens": {…}}``), from the name of a published encoding, or
from recognising the ranks of one; otherwise reading asks, it never guesses.

Source: openai/tiktoken, tiktoken/load.py, tiktoken_ext/openai_public.py (patterns, special
tokens and SHA-256 of the published files).
"""

from __future__ import annotations

from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.formats.contract import Reading, Written
from mtkit.formats.rank_spec import HIGHEST_RANK, rank_spec, ranks_of
from mtkit.formats.remainder import with_remainder
from mtkit.spec import SpecialIds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.base.binary import Source
    from mtkit.formats.contract import WriteOptions
    from mtkit.spec import TokenizerSpec

NAME = "tiktoken"
TITLE = "tiktoken ranks"

_R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_END = "<|endoftext|>"
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_HARMONY = {
    "<|startoftext|>": 199998,
    _END: 199999,
    **{f"<|reserved_{token_id}|>": token_id for token_id in range(200000, 201088)},
}
for _id, _name in {
    200002: "return",
    200003: "constrain",
    200005: "channel",
    200006: "start",
    200007: "end",
    200008: "message",
    200012: "call",
}.items():
    del _HARMONY[f"<|reserved_{_id}|>"]
    _HARMONY[f"<|{_name}|>"] = _id
_HARMONY["<|endofprompt|>"] = _HARMONY.pop("<|reserved_200018|>")

ENCODINGS: dict[str, tuple[str, dict[str, int]]] = {
    "r50k_base": (_R50K, {_END: 50256}),
    "p50k_base": (_R50K, {_END: 50256}),
    "p50k_edit": (_R50K, {_END: 50256, _FIM[0]: 50281, _FIM[1]: 50282, _FIM[2]: 50283}),
    "cl100k_base": (
        _CL100K,
        {
            _END: 100257,
            _FIM[0]: 100258,
            _FIM[1]: 100259,
            _FIM[2]: 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": (_O200K, {_END: 199999, "<|endofprompt|>": 200018}),
    "o200k_harmony": (_O200K, _HARMONY),
}
"""Name of a published encoding -> split pattern and special tokens."""

_PUBLISHED = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": "r50k_base",
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": "p50k_base",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": "o200k_base",
}


def sniff(source: Source) -> bool:
    """Tell by a first line of base64, a blank and a number."""
    import re

    head = bytes(source.data[:400])
    return re.match(rb"[A-Za-z0-9+/]+={0,2} \d{1,9}\r?\n", head) is not None


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a rank file; ``overrides["encoding"]`` names a published encoding.

    Raises:
        FormatError: The file is damaged.
        UnsupportedError: Nothing says which pattern and special tokens belong to it.
        UsageError: The named encoding is not known.
    """
    ranks = parse_ranks(bytes(source.data))
    pattern, special, said = _pattern(source, overrides.get("encoding"))
    both = set(special.values()) & set(ranks.values())
    if both:
        raise FormatError(f"id {min(both)} is a rank and a special token", field="special_tokens")
    end = special.get(_END)
    spec = rank_spec(ranks, pattern, special, SpecialIds(eos=end))
    return Reading(spec, said)


def parse_ranks(data: bytes) -> dict[bytes, int]:
    """Read the lines of a rank file.

    Raises:
        FormatError: A line is not base64, a blank and a rank, or stands twice.
    """
    import binascii
    import re

    form = re.compile(rb"([A-Za-z0-9+/]+={0,2})[ \t]+(\d{1,9})\s*")
    ranks: dict[bytes, int] = {}
    at = 0
    for line in data.split(b"\n"):
        if line.strip():
            entry = form.fullmatch(line)
            if entry is None or len(entry[1]) % 4:
                what = f"is {line[:60]!r}, not base64 and a rank"
                raise FormatError(what, field="line", offset=at)
            piece, rank = binascii.a2b_base64(entry[1]), int(entry[2])
            if piece in ranks or rank > HIGHEST_RANK:
                what = f"{line[:60]!r} stands twice or is too high"
                raise FormatError(what, field="line", offset=at)
            ranks[piece] = rank
        at += len(line) + 1
    lacking = next((byte for byte in range(256) if bytes([byte]) not in ranks), None)
    if lacking is not None:
        raise FormatError(
            f"lack the byte 0x{lacking:02x}", field="ranks", hint="the file is probably cut"
        )
    return ranks


def _pattern(source: Source, encoding: object) -> tuple[str, dict[str, int], tuple[str, ...]]:
    if encoding is not None:
        if encoding not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise UsageError(f"{encoding!r} is no published encoding", hint=f"known: {known}")
        pattern, special = ENCODINGS[str(encoding)]
        return pattern, special, (f"split pattern and special tokens of {encoding}, as asked",)
    beside = source.beside("pattern.json")
    if beside is not None:
        pattern, special = _read_pattern(beside)
        return pattern, special, ("split pattern and special tokens from pattern.json beside it",)
    import hashlib

    name = _PUBLISHED.get(hashlib.sha256(source.data).hexdigest())
    if name is None:
        raise UnsupportedError(
            "the file does not say its split pattern and special tokens",
            source=source.name,
            hint=f"--encoding {'|'.join(ENCODINGS)}, or put a pattern.json beside it",
        )
    pattern, special = ENCODINGS[name]
    return pattern, special, (f"split pattern and special tokens of {name}, known by its ranks",)


def _read_pattern(data: bytes) -> tuple[str, dict[str, int]]:
    from mtkit.formats.json_fields import parse

    table = parse(data, "pattern.json")
    pattern = table.get("pattern") if isinstance(table, dict) else None
    special = table.get("special_tokens", {}) if isinstance(table, dict) else None
    if not isinstance(pattern, str) or not isinstance(special, dict):
        raise FormatError("lacks pattern or special_tokens", field="pattern.json")
    for text, token_id in special.items():
        if type(token_id) is not int or not 0 <= token_id < HIGHEST_RANK or not text:
            raise FormatError(f"{text!r} has no id", field="pattern.json special_tokens")
    return pattern, special


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a byte-level specification as ranks with a pattern.json beside.

    Raises:
        UnsupportedError: It is no byte-level BPE that ranks can express.
    """
    import binascii
    import json

    ranks, pattern, losses = ranks_of(spec, TITLE)
    lines = [
        binascii.b2a_base64(piece, newline=False) + f" {rank}\n".encode()
        for piece, rank in sorted(ranks.items(), key=lambda item: item[1])
    ]
    tokens = spec.added_tokens.tokens
    special = {token.content.decode("utf-8", "replace"): token.id for token in tokens}
    back = rank_spec(ranks, pattern, special, SpecialIds(eos=special.get(_END)))
    table = {"pattern": pattern, "special_tokens": special}
    beside = json.dumps(table, ensure_ascii=False, indent=1).encode("utf-8")
    return Written(
        {".tiktoken": b"".join(lines), "pattern.json": beside}, with_remainder(spec, back, losses)
    )
