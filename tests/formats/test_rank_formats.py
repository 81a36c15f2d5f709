"""tiktoken, tekken and RWKV files: random ranks as tiktoken has them, published ones, damage."""

from __future__ import annotations

import base64
import json
import random
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from rank_cases import NASTY, PATTERNS, random_ranks
from support import FIXTURES, golden_inputs, reference, shared_tokenizer

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import get_format
from mtkit.formats.contract import WriteOptions
from mtkit.formats.tiktoken import ENCODINGS, encodings_of_ranks, parse_ranks
from mtkit.pipeline import Pipeline
from mtkit.spec import models, pre_tokenizers, replace
from mtkit.unicode.utf8 import bytes_of_letters


@pytest.mark.parametrize("seed", range(24))
def test_random_ranks_live(seed: int, tmp_path: Path) -> None:
    tiktoken = reference("tiktoken")
    ranks = random_ranks(seed)
    pattern = PATTERNS[seed % len(PATTERNS)]
    special = {"<|a|>": 500, "<|end|>": 501}
    theirs = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    path = tmp_path / "x.tiktoken"
    lines = (base64.b64encode(piece) + b" %d\n" % rank for piece, rank in ranks.items())
    path.write_bytes(b"".join(lines))
    form = (None, "NFC", "NFD", "NFKC", "NFKD")[seed % 5]
    beside = {"pattern": pattern, "special_tokens": special}
    if form is not None:
        beside["normalizer"] = form
    (tmp_path / "pattern.json").write_text(json.dumps(beside))
    ours = mtkit.load(path)
    pipeline = Pipeline(ours.spec)
    rng = random.Random(seed)
    alphabet = "ab e\n1é中😀\u0301\u0323\u212bﬁ\u1100\u1161'<|>"
    texts = NASTY + ["".join(rng.choices(alphabet, k=rng.randrange(60))) for _ in range(300)]
    for raw in [*texts, "a<|a|>b<|end|>", "<|a|", "<|a|>\u0338"]:
        text = unicodedata.normalize(form, raw) if form else raw
        assert ours.encode_ids(raw) == theirs.encode_ordinary(text), raw
        assert pipeline.encode_ids(raw) == theirs.encode_ordinary(text), raw
        ids = theirs.encode(text, allowed_special="all")
        assert ours.encode_ids(raw, parse_special=True) == ids
        assert ours.decode(ids, skip_special_tokens=False) == theirs.decode(ids)
    again = get_format("tiktoken").write(ours.spec, WriteOptions())
    assert not again.losses
    main = next(iter(again.files))
    assert (
        get_format("tiktoken").read(Source(main, again.files[main], siblings=again.files), {}).spec
        == ours.spec
    )


@pytest.mark.parametrize(
    "beside",
    [
        b"{}", b"[]", b'{"pattern": 1}', b'{"pattern": "a", "normalizer": "NFX"}',
        b'{"pattern": "a", "normalizer": null}', b'{"pattern": "\\ud800"}',
        b'{"pattern": "a", "special_tokens": {"\\ud800": 1}}',
        b'{"pattern": "a", "special_tokens": {"x": -1}}',
    ],
)  # fmt: skip
def test_a_damaged_pattern_json_is_named(beside: bytes) -> None:
    _, ranks, _ = small_files()["tiktoken"]
    source = Source("x.tiktoken", ranks, siblings={"pattern.json": beside})
    with pytest.raises(FormatError, match=r"pattern\.json"):
        get_format("tiktoken").read(source, {})


def test_without_a_pattern_it_asks(tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    ranks = random_ranks(1)
    path.write_bytes(b"".join(base64.b64encode(p) + b" %d\n" % r for p, r in ranks.items()))
    with pytest.raises(UnsupportedError, match="encoding= in overrides"):
        mtkit.load(path)
    assert mtkit.load(path, overrides={"encoding": "cl100k_base"}).encode_ids("a")


@pytest.mark.parametrize("seed", range(4))
def test_a_merge_list_with_every_cut_is_ranks_again(seed: int, tmp_path: Path) -> None:
    """As Llama 3's tokenizer.json has it: made of ranks, it merges what they merge."""
    path = tmp_path / "x.tiktoken"
    lines = (
        base64.b64encode(piece) + b" %d\n" % rank
        for piece, rank in sorted(random_ranks(seed).items(), key=lambda item: item[1])
    )
    path.write_bytes(b"".join(lines))
    beside = {"pattern": PATTERNS[0], "special_tokens": {"<|a|>": 500}}
    (tmp_path / "pattern.json").write_text(json.dumps(beside))
    mtkit.convert(path, tmp_path / "tokenizer.json", to="hf")
    listed = mtkit.load(tmp_path / "tokenizer.json")
    assert isinstance(listed.spec.model, models.BPE)
    assert listed.spec.model.ignore_merges
    again = get_format("tiktoken").write(listed.spec, WriteOptions())
    assert "ids" not in {loss.code for loss in again.losses}
    assert any(loss.field == "model.merges" for loss in again.losses)
    assert again.files[".tiktoken"] == path.read_bytes()


@pytest.mark.parametrize("name", ["cl100k_base", "rwkv-world", "tekken-240718"])
def test_write_undoes_read(name: str) -> None:
    folder = shared_tokenizer(name)
    file = next(p for p in sorted(folder.iterdir()) if p.name not in ("pattern.json",))
    source = Source.open(str(file))
    module = mtkit.load(file).format_name
    spec = get_format(module).read(source, {}).spec
    written = get_format(module).write(spec, WriteOptions())
    assert not written.losses
    main = next(iter(written.files))
    back = get_format(module).read(Source(main, written.files[main], siblings=written.files), {})
    assert back.spec == spec
    if module != "tekken":  # whose file holds pieces beyond the vocabulary
        assert written.files[main] == file.read_bytes()


def test_a_tokenizer_that_splits_nothing_is_refused() -> None:
    spec = mtkit.load(FIXTURES / "bbpe-8k" / "tokenizer.json").spec
    for nothing in (None, pre_tokenizers.Sequence(())):
        bare = replace(spec, pre_tokenizer=nothing)
        for kind in ("tiktoken", "tekken"):
            with pytest.raises(UnsupportedError, match="byte-level"):
                get_format(kind).write(bare, WriteOptions())


def small_files() -> dict[str, tuple[str, bytes, dict[str, bytes]]]:
    ranks = random_ranks(3)
    lines = b"".join(base64.b64encode(p) + b" %d\n" % r for p, r in ranks.items())
    pattern = json.dumps({"pattern": r"\S+|\s+", "special_tokens": {"<s>": 700}}).encode()
    entries = [
        {"rank": rank, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
        for rank, piece in enumerate(sorted(ranks, key=lambda piece: (len(piece), piece)))
    ]
    config = {"pattern": r"\S+|\s+", "default_vocab_size": 402, "default_num_special_tokens": 2}
    tekken = json.dumps({"config": config, "vocab": entries}).encode()
    rwkv = "".join(f"{i + 1} {bytes([i])!r} 1\n" for i in range(256)).encode()
    return {
        "tiktoken": ("x.tiktoken", lines, {"pattern.json": pattern}),
        "tekken": ("tekken.json", tekken, {}),
        "rwkv": ("rwkv.txt", rwkv, {}),
    }


@pytest.mark.parametrize("kind", ["tiktoken", "tekken", "rwkv"])
def test_damage_gives_one_kind_of_error(kind: str) -> None:
    name, data, beside = small_files()[kind]
    module = get_format(kind)
    module.read(Source(name, data, siblings=beside), {})
    rng = random.Random(7)
    broken = 0
    for _ in range(300):
        cut = data[: rng.randrange(len(data))]
        at = rng.randrange(len(data))
        changed = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        for damaged in (cut, changed):
            try:
                module.read(Source(name, damaged, siblings=beside), {})
            except (FormatError, UnsupportedError):
                broken += 1
    assert broken > 250
    for forged in (2**31, 2**32 - 1, 2**63, 2**64 - 1):
        text = str(forged).encode()
        if kind == "tiktoken":
            damaged = b"AA== " + text + b"\n" + data
        elif kind == "rwkv":
            damaged = text + b" 'x' 1\n" + data
        else:
            damaged = data.replace(b'"default_vocab_size": 402', b'"default_vocab_size": ' + text)
        with pytest.raises(FormatError):
            module.read(Source(name, damaged, siblings=beside), {})


SOURCES = {
    "r50k_base": ("gpt2", 50256),
    "whisper": ("whisper-tiny", 50257),
    "qwen": ("qwen3", 151643),
}
"""First name of a published file -> the tokenizer that has its ranks, and how many there are."""


@cache
def ranks(name: str) -> dict[bytes, int]:
    """Read the ranks out of a tokenizer.json, whose vocabulary spells them as letters."""
    source, count = SOURCES[name]
    table = json.loads((shared_tokenizer(source) / "tokenizer.json").read_bytes())
    found = {bytes_of_letters(text): rank for text, rank in table["model"]["vocab"].items()}
    return {piece: rank for piece, rank in found.items() if piece is not None and rank < count}


@cache
def special(source: str) -> dict[str, int]:
    table = json.loads((shared_tokenizer(source) / "tokenizer.json").read_bytes())
    return {token["content"]: token["id"] for token in table["added_tokens"]}


def spelled(table: dict[bytes, int]) -> bytes:
    rows = sorted(table.items(), key=lambda row: row[1])
    return b"".join((base64.b64encode(piece) or b"=") + b" %d\n" % rank for piece, rank in rows)


def encodings() -> list[tuple[str, str]]:
    return [("r50k_base", "whisper_en"), ("whisper", "whisper"), ("whisper", "whisper_v3"),
            ("qwen", "qwen")]  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_a_published_file_is_known_by_its_ranks(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tiktoken"
    path.write_bytes(spelled(ranks(name)))
    assert encodings_of_ranks(path.read_bytes())[0] == name
    ours = mtkit.load(path)
    assert f"of {name}, known by its ranks" in ours.assumptions[0]
    for other in encodings_of_ranks(path.read_bytes())[1:]:
        assert other in ours.assumptions[0]
    done = mtkit.convert(path, tmp_path / "again.tiktoken", to="tiktoken")
    assert not done.losses
    assert (tmp_path / "again.tiktoken").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("file", "name"), encodings())
def test_ids_are_those_of_tiktoken(file: str, name: str, tmp_path: Path) -> None:
    tiktoken = reference("tiktoken")
    path = tmp_path / "x.tiktoken"
    path.write_bytes(spelled(ranks(file)))
    encoding = ENCODINGS[name]()
    theirs = tiktoken.Encoding(
        name,
        pat_str=encoding.pattern,
        mergeable_ranks=ranks(file),
        special_tokens=encoding.special,
        explicit_n_vocab=len(ranks(file)) + len(encoding.special),
    )
    ours = mtkit.load(path, overrides={"encoding": name})
    rng = random.Random(5)
    parts = [*"e\u0301\u0323\u1100\u1161\u212b\u0338>|<"]
    parts += ["<|im_start|>", "<|endoftext|>", "<|0.00|>"]
    drawn = ["".join(rng.choices(parts, k=rng.randrange(12))) for _ in range(500)]
    for text in [*golden_inputs(), *drawn]:
        given = unicodedata.normalize(encoding.form, text) if encoding.form else text
        assert ours.encode_ids(text) == theirs.encode_ordinary(given), text
        ids = theirs.encode(given, allowed_special="all")
        assert ours.encode_ids(text, parse_special=True) == ids, text
    every = list(range(ours.vocab_size))
    assert ours.decode(every, skip_special_tokens=False) == theirs.decode(every)


def test_whisper_has_the_special_tokens_of_its_model() -> None:
    known = special("whisper-tiny")
    ours = {**ENCODINGS["whisper"]().special}
    ours["<|nocaptions|>"] = ours.pop("<|nospeech|>")  # as transformers calls it
    assert known.items() <= ours.items()
    times = {f"<|{step * 0.02:.2f}|>" for step in range(1501)}
    assert ours.keys() - known.keys() <= times
    assert len(ours) == 51865 - 50257
    v3 = ENCODINGS["whisper_v3"]().special
    assert (v3["<|su|>"], v3["<|yue|>"], v3["<|translate|>"]) == (50357, 50358, 50359)
    assert max(v3.values()) == 51865


def test_qwen_has_the_special_tokens_of_its_successors() -> None:
    known, ours = special("qwen3"), ENCODINGS["qwen"]().special
    for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        assert ours[text] == known[text]
    assert (min(ours.values()), max(ours.values())) == (151643, 151850)


def test_multilingual_tiktoken_ends_in_a_token_of_no_bytes(tmp_path: Path) -> None:
    """Whisper's file: the line ``= 50256`` is a token that only decodes, to nothing."""
    path = tmp_path / "multilingual.tiktoken"
    path.write_bytes(spelled(ranks("whisper")))
    assert path.read_bytes().endswith(b"\n= 50256\n")
    ours = mtkit.load(path)
    assert ours.decode([64, 50256, 65]) == "ab"
    assert ours.encode_ids("") == []


BYTES = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))


def test_lines_are_read_as_tiktoken_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")  # it keeps what it read by path
    load = reference("tiktoken.load").load_tiktoken_bpe
    rng = random.Random(11)
    texts = [b"=", b"==", b"YWI=", b"YWI", b"Y W", b"Y*WI=", b"YWI=YWI=", b"A", b"QQ=="]
    texts += [b"\xff", b"", b"\xc3\xa9", b"YWJj", b"=YWJj"]
    numbers = [b"300", b"+301", b"3_02", b"-1", b"x", b"", b"303.0", b"0300", b"\xb2"]
    blanks = [b" ", b"\t", b"  ", b"\x0b", b"\x0c", b"\xa0", b""]
    ends = [b"\n", b"\r", b"\r\n", b"\n\n", b" \n", b"\x0b", b"\x85", b"\x1e", b""]
    path = tmp_path / "x.tiktoken"
    taken = 0
    for _ in range(3000):
        line = rng.choice(texts) + rng.choice(blanks) + rng.choice(numbers) + rng.choice(ends)
        data = BYTES + line + rng.choice([b"", b"YWJjZA== 400", b"\n"])
        path.write_bytes(data)
        try:
            theirs = load(str(path))
        except ValueError:
            theirs = None
        if theirs is None or min(theirs.values()) < 0:  # which its engine then refuses
            with pytest.raises(FormatError):
                parse_ranks(data)
        else:
            assert parse_ranks(data) == theirs, data[len(BYTES) :]
            taken += 1
    assert 300 < taken < 2700
