"""What the core reads of long files is what the readable code reads, errors and places included."""

from __future__ import annotations

import base64
import json
import random
import struct
from types import ModuleType
from typing import Any

import pytest
from support import FIXTURES, SHARED, absent, shared_tokenizer

from mtkit.base.binary import Source
from mtkit.base.packed import Pieces
from mtkit.errors import MtkitError
from mtkit.formats import get_format, hf, spm, tiktoken
from mtkit.formats.contract import Reading
from mtkit.formats.gguf.vocabulary import parse_merges
from mtkit.formats.spm.message import encode_field, parse_fields

native = pytest.importorskip("mtkit._native")
READERS = ("read_json_model", "read_spm_pieces", "read_rank_lines")
PATTERN = json.dumps({"pattern": r"\w+|\s+|.", "special_tokens": {"<x>": 300}}).encode()
ODD = [
    b'"', b"\\", b"\\u0041", b"\\ud83d\\ude00", b"\\ud800", b"\\udc00x", b"\\n", b"\\x", b"\x01",
    b"\n", b",", b":", b"1.0", b"-0", b"-1", b"01", b"1e3", b"4294967295", b"99999999999999999999",
    b"0.5", b"[", b"]", b"{", b"}", b" ", b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"NaN", b"null",
    b"#version", b'"a": 1,', b'"a b",', b'["a", "b"],', b"=", b"YQ== 5\n", b"\r", b"\x00",
    b"\x0a\x05", b"\x18\x01",
]  # fmt: skip


def outcome(module: ModuleType, data: bytes) -> Reading | tuple[str, str]:
    source = Source("x", data, siblings={"pattern.json": PATTERN})
    try:
        reading: Reading = module.read(source, {})
    except MtkitError as error:
        return type(error).__name__, str(error)
    return reading


def readable(monkeypatch: pytest.MonkeyPatch, module: ModuleType, data: bytes) -> object:
    with monkeypatch.context() as patched:
        for name in READERS:
            patched.setattr(native, name, lambda _: None)
        return outcome(module, data)


def small_json(kind: str, *, as_pairs: bool = False) -> bytes:
    """Return a small tokenizer.json of a model; the vocabulary of BPE has a hole."""
    tokens = ["a", "b", "c", "ab", "abc", "\u00e9", 'q"', "\\", "\U0001f600"]
    model: dict[str, Any] = {"type": kind, "vocab": {t: i + (i > 6) for i, t in enumerate(tokens)}}
    if kind == "BPE":
        merges = [["a", "b"], ["ab", "c"]]
        model["merges"] = merges if as_pairs else [" ".join(pair) for pair in merges]
    elif kind == "Unigram":
        scores = (0, -1.5, -2, -3.25, -13.542981147766113, -0.1)
        model |= {"unk_id": 0, "vocab": [list(pair) for pair in zip(tokens, scores, strict=False)]}
    else:
        model["unk_token"] = "a"
        if kind == "WordPiece":
            model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 9}
    added = {"id": 9, "content": "abc", "special": True, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False}  # fmt: skip
    return json.dumps({"version": "1.0", "added_tokens": [added], "model": model}).encode()


def small_ranks() -> bytes:
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"abc", b"\x00\xff"]
    return b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens))


FILES: dict[str, tuple[ModuleType, bytes]] = {
    "bpe": (hf, small_json("BPE")),
    "bpe-pairs": (hf, small_json("BPE", as_pairs=True)),
    "unigram": (hf, small_json("Unigram")),
    "wordpiece": (hf, small_json("WordPiece")),
    "wordlevel": (hf, small_json("WordLevel")),
    "ranks": (tiktoken, small_ranks()),
}


def spm_small() -> bytes:
    """Return a SentencePiece model: the first pieces of a real one, and its other fields."""
    whole = (FIXTURES / "spm-unigram" / "tokenizer.model").read_bytes()
    fields = list(parse_fields(whole, "model"))
    pieces = [part.raw for part in fields if part.number == 1]
    others = [part.raw for part in fields if part.number != 1]
    return b"".join([*pieces[:40], *others])


FILES["spm"] = (spm, spm_small())


@pytest.mark.parametrize("name", FILES)
def test_an_ordinary_file_is_read_by_the_core(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, data = FILES[name]
    assert any(getattr(native, reader)(data) is not None for reader in READERS)
    found = outcome(module, data)
    assert not isinstance(found, tuple)
    assert found == readable(monkeypatch, module, data)


@pytest.mark.parametrize("name", FILES)
def test_changed_files_are_read_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, data = FILES[name]
    rng = random.Random(name)
    kept = refused = 0
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            at = rng.randrange(len(changed))
            end = at + rng.choice((0, 0, 1, 1, 2, 5))
            changed[at:end] = rng.choice((rng.choice(ODD), b"", changed[at - 9 : at]))
        found = outcome(module, bytes(changed))
        assert found == readable(monkeypatch, module, bytes(changed)), bytes(changed)
        kept += not isinstance(found, tuple)
        refused += isinstance(found, tuple)
    assert refused > 20
    assert kept > 5


def test_pieces_of_all_shapes_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long ones and short ones, with and without score and type, more than room was made for."""
    rng = random.Random(7)
    others = [part.raw for part in parse_fields(FILES["spm"][1], "model") if part.number != 1]
    by_core = 0
    for _ in range(60):
        parts = [encode_field(1, encode_field(1, b"<unk>") + b"\x15\0\0\0\0\x18\2")]
        for number in range(rng.choice((3, 40, 300))):
            size = rng.choice((1, 1, 1, 2, 3, 9, 15, 16, 17, *range(112, 132), 300))
            text = b"%d" % number + rng.randbytes(size).replace(b"\0", b"o")
            score = b"\x15" + struct.pack("<f", rng.choice((0.0, -1.0, -7.25)))
            kind = rng.choice((b"\x18\1", b"\x18\4", b"\x18\5", b"\x18\3"))
            shape = rng.choice((score, score, score, score + kind, kind, b""))
            parts.append(encode_field(1, encode_field(1, text) + shape))
            if rng.random() < 0.01:
                parts.append(rng.choice(others))
        data = b"".join([*parts, *others])
        by_core += native.read_spm_pieces(data) is not None
        assert outcome(spm, data) == readable(monkeypatch, spm, data)
    assert by_core == 60


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"a": 0', b'"a": 0, "a": 0'),
        (b'"b": 1', b'"b": 0'),
        (b'"b": 1', b'"b": 1.0'),
        (b'"b": 1', b'"b": 4000'),
        (b'"c": 2', b'"\\u0063": 2'),
        (b'"c": 2', b'"\\ud800": 2'),
        (b'"a b"', b'"a b", "a b"'),
        (b'"a b"', b'"#version: 1", "a b"'),
        (b'"a b"', b'"a x"'),
        (b'"a b"', b'"a b c"'),
        (b'"a b"', b'["a", "b"]'),
        (b'"merges"', b'"continuing_subword_prefix": "b", "merges"'),
        (b'"model"', b'"model": {}, "model"'),
        (b'"model"', b'"mod\\u0065l"'),
        (b'"vocab"', b'"merges": ["a b"], "vocab"'),
        (b"}}", b"}} x"),
        (b'"version"', b'\xef\xbb\xbf"version"'),
    ],
)
def test_oddities_of_json(old: bytes, new: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = small_json("BPE")
    assert old in data
    changed = data.replace(old, new, 1)
    assert outcome(hf, changed) == readable(monkeypatch, hf, changed)


@pytest.mark.parametrize(
    "name", ["gpt2", "qwen3", "llama-2", "bert-base-uncased", "t5-small", "xlnet-base-cased"]
)
def test_published_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not SHARED.is_dir():
        absent("no shared folder", "MTKIT_REQUIRE_SHARED")
    taken = 0
    for path in sorted(shared_tokenizer(name).glob("tokenizer.*")):
        if path.suffix not in (".json", ".model"):
            continue
        module: Any = get_format("hf" if path.suffix == ".json" else "spm")
        data = path.read_bytes()
        taken += any(getattr(native, reader)(data) is not None for reader in READERS[:2])
        assert outcome(module, data) == readable(monkeypatch, module, data)
    assert taken


def test_pieces_are_found_without_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [b"", b"a", b"ab", b"a", b"\xff" * 300, b"b"]
    wanted = [b"a", b"", b"\xff" * 300, b"nothing", b"bb"]
    for core in (True, False):
        if not core:
            monkeypatch.setenv("MTKIT_PURE", "1")
            monkeypatch.delitem(__import__("sys").modules, "mtkit.base.native", raising=False)
        packed = Pieces.of(pieces)
        assert packed.places(wanted) == [0, 1, 3, 4]
        assert packed.find(b"a") == 1
        assert packed.find(b"x") is None
        assert not packed.are_distinct()
        assert Pieces.of([b"a", b"", b"b"]).are_distinct()
        assert packed._ids is None


def test_equal_pieces_are_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    data = FILES["spm"][1]
    pieces = [part.raw for part in parse_fields(data, "model") if part.number == 1]
    twice = pieces[7] + data
    assert native.read_spm_pieces(twice) is not None
    found = outcome(spm, twice)
    assert found == readable(monkeypatch, spm, twice)
    assert isinstance(found, tuple)
    assert "pieces[8]: is the same as pieces[0]" in found[1]


@pytest.mark.parametrize("pieces", [[b"", b"a", b"ab", b"a", b"b"], [b"b", b"", b"a", b"ab"]])
def test_an_index_finds_what_a_search_does(pieces: list[bytes]) -> None:
    indexed, searched = Pieces.of(pieces), Pieces.of(pieces)
    assert indexed.indexed().distinct == (len(set(pieces)) == len(pieces))
    wanted = [b"a", b"", b"nothing", b"b", b"a"]
    assert indexed.places(wanted) == searched.places(wanted)
    assert list(map(indexed.find, wanted)) == list(map(searched.find, wanted))


def test_merge_lines_are_read_alike() -> None:
    rng = random.Random(4)
    both = {True: 0, False: 0}
    for _ in range(300):
        parts = [b"a", b"b", b"ab", b"a", b"bb", b"", b"abb", b" "][: rng.randrange(1, 9)]
        strange = [b"x", b"a b", b"\0b", b"a"] if rng.random() < 0.5 else parts
        pieces = Pieces.of(parts)
        drawn = [
            rng.choice(rng.choice((parts, strange))) + b" " + rng.choice(parts)
            for _ in range(rng.randrange(6))
        ]
        lines = Pieces.of([*drawn, *rng.choices((b"", b" ", b"ab", b" a b"), k=rng.randrange(2))])
        merges, is_whole = parse_merges(lines, pieces)
        found = native.read_merge_lines(lines.blob, lines.ends.data, pieces.blob, pieces.ends.data)
        unlisted = merges.unlisted
        assert found == (
            merges.pairs.data, bytes(unlisted.blob), unlisted.ends.data, is_whole
        ), list(lines)  # fmt: skip
        both[is_whole] += 1
    assert min(both.values()) > 30
