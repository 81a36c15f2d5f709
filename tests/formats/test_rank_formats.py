"""tiktoken, tekken and RWKV files: random ranks as tiktoken has them, writing, damage."""

from __future__ import annotations

import base64
import json
import random
import unicodedata
from typing import TYPE_CHECKING

import pytest
from rank_cases import NASTY, PATTERNS, random_ranks
from support import FIXTURES, reference, shared_tokenizer

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import get_format
from mtkit.formats.contract import WriteOptions
from mtkit.pipeline import Pipeline
from mtkit.spec import models, pre_tokenizers, replace

if TYPE_CHECKING:
    from pathlib import Path


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
    with pytest.raises(UnsupportedError, match="--encoding"):
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
