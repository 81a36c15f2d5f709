"""``check`` of a GGUF: every rule has a file that only it finds, and sound files break none."""

from __future__ import annotations

import json
import math
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf_layout as lay
import pytest
from forked import forked
from gguf_layout import Layout
from support import SHARED, VOCABULARIES, absent, posix, reference, shared

import mtkit
from mtkit.checks import check, loader
from mtkit.checks.checker import all_rules
from mtkit.checks.gguf_keys import KEYS, MERGES, PARTS
from mtkit.checks.loader import (
    ARCHITECTURE_RULES,
    CONTAINER_RULES,
    MODEL_RULES,
    OPENING_RULES,
    needed_types,
)
from mtkit.checks.tensors import DATA_RULES, UNFINISHED_RULES
from mtkit.gguf import open_gguf, value_counts
from mtkit.gguf.draft import Draft
from mtkit.gguf.shards import shard_file_names
from mtkit.gguf.shards import split_model as cut
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.unicode.utf8 import BYTE_LETTERS

V3 = Layout()
TOKENIZER = b"tokenizer.ggml."
TOKENS = [letter.encode() for letter in BYTE_LETTERS] + [b"he", b"<|end|>"]
END = len(TOKENS) - 1
Keys = dict[bytes, tuple[int, Any]]
BASE: Keys = {
    b"general.architecture": (lay.STRING, b"llama"),
    b"general.name": (lay.STRING, b"small"),
    b"llama.context_length": (lay.U32, 64),
    b"llama.embedding_length": (lay.U32, 8),
    b"llama.block_count": (lay.U32, 1),
    b"llama.attention.head_count": (lay.U32, 2),
    b"llama.feed_forward_length": (lay.U32, 16),
    TOKENIZER + b"model": (lay.STRING, b"gpt2"),
    TOKENIZER + b"pre": (lay.STRING, b"gpt-2"),
    TOKENIZER + b"tokens": (lay.ARRAY, (lay.STRING, TOKENS)),
    TOKENIZER + b"token_type": (lay.ARRAY, (lay.I32, [1] * (len(TOKENS) - 1) + [3])),
    TOKENIZER + b"merges": (lay.ARRAY, (lay.STRING, [b"h e"])),
    TOKENIZER + b"eos_token_id": (lay.U32, END),
    b"tokenizer.chat_template": (
        lay.STRING,
        b"{{ messages[0].content }}<|end|>{% if add_generation_prompt %}> {% endif %}",
    ),
}
TENSORS = [
    (b"token_embd.weight", (8, len(TOKENS)), 0),
    (b"output_norm.weight", (8,), 0),
    *((b"blk.0.%s_norm.weight" % name, (8,), 0) for name in (b"attn", b"ffn")),
    *((b"blk.0.attn_%s.weight" % name, (8, 8), 0) for name in (b"q", b"k", b"v", b"output")),
    *((b"blk.0.ffn_%s.weight" % name, (8, 16), 0) for name in (b"gate", b"up")),
    (b"blk.0.ffn_down.weight", (16, 8), 0),
]
Tensors = list[tuple[bytes, tuple[int, ...], int]]


def data_of(shape: tuple[int, ...]) -> bytes:
    size = 1
    for axis in shape:
        size *= axis
    return struct.pack(f"<{size}f", *[0.5] * size) + bytes(-4 * size % 32)


def model(
    changes: Keys | None = None,
    tensors: Tensors = TENSORS,
    *,
    drop: bytes = b"",
    layout: Layout = V3,
    order: tuple[int, ...] = (),
    data: bytes = b"",
) -> bytes:
    """Return a small model, some of whose keys, tensors or data are others."""
    keys = {**BASE, **(changes or {})}
    keys.pop(drop, None)
    rows, parts, at = [], [], 0
    for name, shape, kind in tensors:
        rows.append(layout.tensor(name, shape, kind, at))
        parts.append(data_of(shape))
        at += len(parts[-1])
    return layout.file(
        [layout.key(name, kind, value) for name, (kind, value) in keys.items()],
        [rows[place] for place in order] or rows,
        data or b"".join(parts),
    )


def with_token(number: int, text: bytes) -> Keys:
    tokens = [*TOKENS]
    tokens[number] = text
    return {TOKENIZER + b"tokens": (lay.ARRAY, (lay.STRING, tokens))}


def split(number: int, count: int) -> Keys:
    return {b"split.no": (lay.U16, number), b"split.count": (lay.U16, count),
            b"split.tensors.count": (lay.I32, len(TENSORS))}  # fmt: skip


def column(name: bytes, kind: int, values: list[Any]) -> Keys:
    return {TOKENIZER + name: (lay.ARRAY, (kind, values))}


def unigram(charsmap: bytes) -> bytes:
    scores = column(b"scores", lay.F32, [0.0] * len(TOKENS))
    model_name: Keys = {TOKENIZER + b"model": (lay.STRING, b"t5")}
    mapped = column(b"precompiled_charsmap", lay.U8, list(charsmap))
    return model({**model_name, **scores, **mapped})


COUNT = len(TOKENS)
FLOATS = data_of((8, COUNT))
OTHERS = b"".join(data_of(shape) for _, shape, _ in TENSORS[1:])
NAN, INFINITY = struct.pack("<f", float("nan")), struct.pack("<f", float("inf"))
BROKEN: list[tuple[str, Callable[[], bytes]]] = [
    ("loader-version", lambda: model(layout=Layout(1))),
    ("loader-byte-order", lambda: model({}, [], layout=Layout(3, ">"))),
    ("loader-nested-array",
     lambda: model({b"a.b": (lay.ARRAY, (lay.ARRAY, [(lay.U8, [1])]))})),
    ("loader-name-length", lambda: model({}, [(b"n" * 64, (8,), 0)])),
    ("loader-offsets", lambda: model(order=(1, 0, *range(2, len(TENSORS))))),
    ("loader-first-shard", lambda: model(split(1, 2))),
    ("loader-shards", lambda: model(split(0, 2))),
    ("gguf-name", lambda: model({b"general.name": (lay.U32, 1)})),
    ("loader-architecture", lambda: model({b"general.architecture": (lay.STRING, b"new")}, [])),
    ("loader-architecture",
     lambda: V3.file([], [V3.tensor(b"t", (8,), 0, 0)], bytes(31) + b"\x3f")),
    ("loader-sizes", lambda: model(drop=b"llama.context_length")),
    ("loader-key-type", lambda: model({b"llama.context_length": (lay.U64, 64)})),
    ("loader-key-type", lambda: model({b"llama.vocab_size": (lay.I32, COUNT)})),
    ("loader-key-type", lambda: model({b"llama.rope.scaling.type": (lay.U32, 1)})),
    ("loader-experts", lambda: model({b"llama.expert_count": (lay.U32, 4)})),
    ("loader-experts", lambda: model({b"llama.expert_count": (lay.U32, 4),
                                      b"llama.expert_used_count": (lay.U32, 5)})),
    ("loader-experts", lambda: model({b"llama.expert_count": (lay.U32, 4),
                                      b"llama.expert_used_count": (lay.U32, 0)})),
    ("loader-key-type", lambda: model({b"llama.expert_count": (lay.U32, 4),
                                       b"llama.expert_used_count": (lay.I32, 2)})),
    ("loader-rope-scaling", lambda: model({b"llama.rope.scaling.type": (lay.STRING, b"foo")})),
    ("loader-blocks", lambda: model({b"llama.block_count": (lay.U32, 2)})),
    ("loader-blocks", lambda: model({}, [*TENSORS, (b"blk.1.norm", (8,), 0)])),
    ("loader-blocks", lambda: model({b"llama.block_count": (lay.U32, 4_000_000_000)})),
    ("loader-heads", lambda: model({b"llama.attention.head_count": (lay.U32, 3)})),
    ("loader-heads", lambda: model({b"llama.attention.head_count": (lay.U32, 4),
                                    b"llama.attention.head_count_kv": (lay.U32, 3)})),
    ("loader-heads", lambda: model({b"llama.attention.head_count": (lay.U32, 0)})),
    ("loader-heads", lambda: model(drop=b"llama.attention.head_count")),
    ("loader-feed-forward", lambda: model(drop=b"llama.feed_forward_length")),
    ("loader-feed-forward", lambda: model({b"llama.feed_forward_length": (lay.U32, 5)})),
    ("loader-rotation", lambda: model({b"llama.attention.head_count": (lay.U32, 2),
                                       b"llama.rope.dimension_count": (lay.U32, 3)})),
    ("loader-embedding", lambda: model({}, TENSORS[1:])),
    ("loader-embedding", lambda: model({b"llama.embedding_length": (lay.U32, 10)})),
    ("loader-embedding",
     lambda: model({}, [(b"token_embd.weight", (8, COUNT - 1), 0), *TENSORS[1:]])),
    ("model-tensor-missing", lambda: model({}, [TENSORS[0], *TENSORS[2:]])),
    ("model-tensor-shape",
     lambda: model({b"llama.attention.head_count_kv": (lay.U32, 1)})),
    ("model-tensor-shape", lambda: model({}, [*TENSORS[:-1], (TENSORS[-1][0], (16, 9), 0)])),
    ("model-tensor-surplus", lambda: model({}, [*TENSORS, (b"blk.0.norm", (8,), 0)])),
    ("model-tensor-unknown", lambda: model({}, [*TENSORS, (b"blk.0.attn_q.scale", (1,), 0)])),
    ("model-tensor-type", lambda: model({}, [(*TENSORS[0][:2], 26), *TENSORS[1:]])),
    ("loader-per-layer",
     lambda: model({b"llama.attention.head_count_kv": (lay.ARRAY, (lay.U32, [2, 2]))})),
    ("loader-heads",
     lambda: model({b"llama.attention.head_count_kv": (lay.ARRAY, (lay.U32, [0]))})),
    ("gguf-tokenizer-model", lambda: model({TOKENIZER + b"model": (lay.STRING, b"replit")})),
    ("gguf-pre-tokenizer", lambda: model({TOKENIZER + b"pre": (lay.STRING, b"nobody")})),
    ("gguf-tokens", lambda: model({TOKENIZER + b"tokens": (lay.STRING, b"a")})),
    ("gguf-token-types", lambda: model(column(b"token_type", lay.I32, [1]))),
    ("gguf-charsmap", lambda: unigram(b"\x10\0\0\0" + b"\xff" * 16)),
    ("gguf-special-ids", lambda: model({TOKENIZER + b"eos_token_id": (lay.I32, END)})),
    ("gguf-added-ends", lambda: model({TOKENIZER + b"add_bos_token": (lay.U32, 1)})),
    ("gguf-chat-template", lambda: model({b"tokenizer.chat_template": (lay.U32, 1)})),
    ("gguf-vocabulary", lambda: model(drop=TOKENIZER + b"merges")),
    ("gguf-token-nul", lambda: model(with_token(COUNT - 2, b"he\0x"))),
    ("gguf-types-count", lambda: model(column(b"token_type", lay.I32, [1] * END + [3, 1]))),
    ("gguf-types-known",
     lambda: model(column(b"token_type", lay.I32, [77] + [1] * (END - 1) + [3]))),
    ("gguf-id-range", lambda: model({TOKENIZER + b"bos_token_id": (lay.U32, COUNT)})),
    ("gguf-id-unknown", lambda: model(column(b"token_type", lay.I32, [1] * END + [2]))),
    ("gguf-merge-form", lambda: model(column(b"merges", lay.STRING, [b"h e", b"hex"]))),
    ("gguf-pre-missing", lambda: model(drop=TOKENIZER + b"pre")),
    ("data-unfinished", lambda: model(data=FLOATS + OTHERS[:-256] + bytes(256))),
    ("data-nan", lambda: model(data=NAN + FLOATS[4:] + OTHERS)),
    ("data-infinite", lambda: model(data=INFINITY + FLOATS[4:] + OTHERS)),
    ("data-zero", lambda: model(data=FLOATS + bytes(32) + OTHERS[32:])),
]  # fmt: skip
SCORED = {
    "gguf-architecture",
    "gguf-token-text",
    "gguf-scores",
    "gguf-scores-count",
    "gguf-scores-type",
}
"""Rules that are tried on a vocabulary with scores."""


def found(path: Path, data: bytes, *, deep: bool = True) -> list[str]:
    """Return the codes of what is found in a file."""
    path.write_bytes(data)
    report = check(str(path), deep=deep)
    return [finding.rule.code for finding in report.findings]


def test_a_sound_model_breaks_no_rule(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model())
    report = check(str(path), deep=True)
    assert (report.findings, report.skipped, report.exit_code) == ((), (), 0)


@pytest.mark.parametrize(("code", "made"), BROKEN)
def test_a_broken_rule_is_found_and_no_other(
    tmp_path: Path, code: str, made: Callable[[], bytes]
) -> None:
    name = "model-00001-of-00002.gguf" if code == "loader-shards" else "model.gguf"
    if code == "loader-first-shard":
        name = "model-00002-of-00002.gguf"
        (tmp_path / "model-00001-of-00002.gguf").write_bytes(model(split(0, 2), []))
    assert set(found(tmp_path / name, made())) == {code}


@pytest.mark.parametrize(
    ("keys", "tensors", "code"), [(11, 3, "key-limit"), (3, 11, "tensor-limit")]
)
def test_nothing_is_made_up_behind_what_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: int, tensors: int, code: str
) -> None:
    """Where there are too many keys, the next one is no tensor."""
    monkeypatch.setattr("mtkit.gguf.rules.MAX_ENTRIES", 10)
    path = tmp_path / "many.gguf"
    made = [NewTensor(f"t{n}", (8,), TENSOR_TYPES[0], bytes(32)) for n in range(tensors)]
    path.write_bytes(gguf_bytes([Key(f"k{n}", "u8", 1) for n in range(keys)], made))
    assert found(path, path.read_bytes()) == [code]


def test_all_files_of_a_set_are_read(tmp_path: Path) -> None:
    """A set is named by its first file, which may hold no tensor at all."""
    whole = open_gguf(Path(mtkit.__file__).parent / "data" / "default-model.gguf")
    parts = cut(whole, max_tensors=20, first_without_tensors=True)
    paths = shard_file_names(str(tmp_path / "m.gguf"), len(parts))
    for path, part in zip(paths, parts, strict=True):
        Path(path).write_bytes(b"".join(part.chunks()))
    assert check(paths[0], deep=True).findings == ()
    assert [part for part, _ in check(paths[0]).skipped if "data" in part]
    last = open_gguf(paths[-1])
    tensor = next(one for one in last.tensors if one.type.name == "Q4_0")
    data = bytearray(Path(paths[-1]).read_bytes())
    at = last.data_offset + tensor.offset
    data[at : at + 2] = b"\xff\x7f"
    Path(paths[-1]).write_bytes(data + bytes(32))
    found_here = check(paths[0], deep=True).findings
    assert {(one.rule.code, one.source) for one in found_here} == {
        ("data-nan", paths[-1]), ("trailing-bytes", paths[-1]),
    }  # fmt: skip


def test_keys_of_scored_vocabularies(tmp_path: Path) -> None:
    spm = {
        TOKENIZER + b"model": (lay.STRING, b"llama"),
        TOKENIZER + b"tokens": (lay.ARRAY, (lay.STRING, SPM)),
        TOKENIZER + b"token_type": (lay.ARRAY, (lay.I32, [2, 3, 3] + [6] * 256 + [1])),
        TOKENIZER + b"scores": (lay.ARRAY, (lay.F32, [0.0] * len(SPM))),
        TOKENIZER + b"eos_token_id": (lay.U32, 2),
        b"tokenizer.chat_template": (
            lay.STRING,
            b"{{ messages[0].content }}{% if add_generation_prompt %}> {% endif %}",
        ),
    }  # fmt: skip
    path = tmp_path / "spm.gguf"

    def codes(changes: Keys) -> list[str]:
        return found(path, model({**spm, **changes}, []))

    assert codes({}) == []
    scores = TOKENIZER + b"scores"
    assert codes({scores: (lay.ARRAY, (lay.F32, [0.0]))}) == ["gguf-scores"]
    assert codes({scores: (lay.ARRAY, (lay.F32, [0.0] * 999))}) == ["gguf-scores-count"]
    assert codes({scores: (lay.ARRAY, (lay.I32, [0] * len(SPM)))}) == ["gguf-scores-type"]
    tokens = TOKENIZER + b"tokens"
    assert codes({tokens: (lay.ARRAY, (lay.STRING, [*SPM[:-1], b"\xff"]))}) == ["gguf-token-text"]
    assert codes({b"general.architecture": (lay.U32, 1)}) == ["gguf-architecture"]


SPM = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256)), b"\xe2\x96\x81"]


WITHOUT = {key: value for key, value in BASE.items() if not key.startswith(b"tokenizer.")}


def bare(kind: bytes, tensors: Tensors) -> bytes:
    """Return a file without a tokenizer that says of which kind it is."""
    keys = {**WITHOUT, b"general.type": (lay.STRING, kind)}
    return V3.file(
        [V3.key(name, *value) for name, value in keys.items()],
        [V3.tensor(name, shape, code, 0) for name, shape, code in tensors],
        b"".join(data_of(shape) for _, shape, _ in tensors),
    )


def test_other_kinds_of_files_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    for kind in (b"adapter", b"imatrix", b"mmproj"):
        assert found(path, bare(kind, [(b"blk.0.attn_q.weight.lora_a", (8,), 0)])) == []
        assert check(str(path)).skipped[0] == ("tokenizer", "there is none")
    alone = found(path, bare(b"model", [TENSORS[0]]))
    assert set(alone) == {"loader-tokenizer", "model-tensor-missing"}
    assert found(path, bare(b"model", [])) == ["loader-empty"]


@pytest.mark.parametrize("name", [b"flux", b"sd3", b"wan", b"", b"LLAMA"])
def test_architectures_of_other_programs(tmp_path: Path, name: bytes) -> None:
    """A model that makes images has none of llama.cpp's tensors, but has to say what it is."""
    keys = [V3.key(b"general.architecture", lay.STRING, name)]
    rows = [V3.tensor(b"double_blocks.0.img_attn.qkv.weight", (64, 4), 0, 0)]
    path = tmp_path / "file.gguf"
    assert found(path, V3.file(keys, rows, bytes(1023) + b"\x3f")) == ["loader-architecture"]
    (finding,) = check(str(path)).findings
    assert repr(name.decode()) in finding.what or (not name and "is empty" in finding.what)


@pytest.mark.parametrize("deep", [False, True])
def test_a_wrong_template_hides_nothing(deep: bool, tmp_path: Path) -> None:
    wrong: Keys = {b"tokenizer.chat_template": (lay.U32, 1)}
    path = tmp_path / "model.gguf"
    codes = found(path, model(wrong, drop=TOKENIZER + b"merges"), deep=deep)
    assert sorted(codes) == ["gguf-chat-template", "gguf-vocabulary"]
    path.write_bytes(model(wrong))
    (finding,) = check(str(path), deep=deep).findings
    assert finding.rule.code == "gguf-chat-template"
    why = dict(check(str(path), deep=deep).skipped)["merges, chat templates, a test run"]
    assert why == "not all of its keys could be read"


def test_without_deep_the_tokens_are_looked_at_and_what_is_not_is_said(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(model())
    skipped = [part for part, _ in check(str(path)).skipped]
    assert skipped == ["merges, chat templates, a test run", "tensor data"]
    for changes, code in (
        (with_token(1, TOKENS[0]), "token-twice"),
        (with_token(COUNT - 2, b"he\0x"), "gguf-token-nul"),
        (with_token(COUNT - 2, b"h\xff"), "gguf-token-text"),
        (column(b"token_type", lay.I32, [6] + [1] * (END - 1) + [3]), "byte-token-form"),
        (column(b"token_type", lay.I32, [1 << 8] + [1] * (END - 1) + [3]), "gguf-types-known"),
    ):
        assert found(path, model(changes), deep=False) == [code]
    assert found(path, model(drop=TOKENIZER + b"merges"), deep=False) == ["gguf-vocabulary"]
    changed = {b"tokenizer.chat_template": (lay.STRING, b"{% if %}")}
    assert found(path, model(changed), deep=False) == []
    assert found(path, model(changed)) == ["template-syntax"]


@pytest.mark.parametrize("seed", range(40))
def test_tokens_are_asked_at_once_as_one_by_one(tmp_path: Path, seed: int) -> None:
    """NUL, invalid UTF-8 and equal texts, in long and short tokens, some cut in a character."""
    rng = random.Random(seed)
    alphabet = "a\u00e9\u2581\U0001f600".encode()
    tokens = []
    for number in range(rng.choice((300, 5000))):
        text = "".join(rng.choices("ab\u00e9\u2581\U0001f600", k=rng.choice((1, 3, 200)))).encode()
        tokens.append(b"%d:" % number + text)
    for _ in range(seed % 4):
        place = rng.randrange(1, len(tokens))
        whole = tokens[place - 1] + alphabet[-4:] + tokens[place]
        cut = len(tokens[place - 1]) + rng.randrange(5)
        tokens[place - 1 : place + 1] = [whole[:cut], whole[cut:]]
        if rng.random() < 0.5:
            tokens[rng.randrange(len(tokens))] = tokens[rng.randrange(len(tokens))]
            tokens[rng.randrange(len(tokens))] += b"\0x"
    changes = {
        **column(b"tokens", lay.STRING, tokens),
        **column(b"token_type", lay.I32, [1] * len(tokens)),
    }
    path = tmp_path / "model.gguf"
    path.write_bytes(model({**changes, TOKENIZER + b"eos_token_id": (lay.U32, 0)}, TENSORS[1:]))
    report = check(str(path))
    said = {
        code: [f.what.split(" ")[1] for f in report.findings if f.rule.code == code]
        for code in ("gguf-token-nul", "gguf-token-text", "token-twice")
    }
    seen = [token.split(b"\0")[0] for token in tokens]
    assert said == {
        "gguf-token-nul": [str(at) for at, token in enumerate(tokens) if b"\0" in token],
        "gguf-token-text": [f"{at}," for at, token in enumerate(tokens) if not decodes(token)],
        "token-twice": [str(at) for at, token in enumerate(seen) if token in seen[:at]],
    }


def decodes(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_every_rule_about_a_gguf_is_tried() -> None:
    rows = (
        *CONTAINER_RULES,
        *OPENING_RULES,
        *ARCHITECTURE_RULES,
        *MODEL_RULES,
        *KEYS,
        *MERGES,
        *PARTS.values(),
        *DATA_RULES,
        *UNFINISHED_RULES,
        *loader.TENSOR_RULES,
    )
    bare_files = {"loader-tokenizer", "loader-empty"}
    assert {row.code for row in rows} == {code for code, _ in BROKEN} | SCORED | bare_files
    assert {row.code for row in (*CONTAINER_RULES, *MODEL_RULES, *KEYS, *MERGES)} <= {
        row.code for row in all_rules()
    }


@pytest.mark.parametrize("name", sorted(value_counts.FLOATS))
def test_scales_are_looked_for_where_they_are(name: str) -> None:
    """A block whose scales alone are NaN is dequantized to NaN by ggml's own package."""
    quants = pytest.importorskip("gguf.quants")
    numpy = pytest.importorskip("numpy")
    types = pytest.importorskip("gguf").GGMLQuantizationType
    known = next(t for t in TENSOR_TYPES.values() if t.name == name)
    kind, places = value_counts.FLOATS[name]
    if known.block == 1 or not hasattr(types, name) or kind == "e8m0":
        assert places == (0,)
        return
    if types[name] not in quants._type_traits:
        return  # ggml's package cannot dequantize it
    block = bytearray(known.block_bytes)
    before = quants.dequantize(numpy.frombuffer(bytes(block), numpy.uint8), types[name])
    for place in places:
        size = value_counts.WIDTHS[kind]
        block[place : place + size] = b"\xff\x7f" if size == 2 else NAN
    after = quants.dequantize(numpy.frombuffer(bytes(block), numpy.uint8), types[name])
    assert numpy.isfinite(before).all()
    assert numpy.isnan(after).all()


EDITS: list[Callable[[Draft], object]] = [
    lambda draft: draft.rename_tensor("token_embd.weight", "other"),
    lambda draft: draft.set(Key("llama.attention.head_count", "u32", 7)),
    lambda draft: draft.set(Key("llama.attention.head_count", "u32", 0)),
    lambda draft: draft.set(Key("llama.attention.head_count_kv", "u32", 3)),
    lambda draft: draft.set(Key("llama.feed_forward_length", "u32", 5)),
    lambda draft: draft.set(Key("llama.block_count", "u32", 4_000_000_000)),
    lambda draft: draft.set(Key("llama.block_count", "u32", 5)),
    lambda draft: draft.set(Key("llama.embedding_length", "u32", 128)),
    lambda draft: draft.set(Key("llama.rope.dimension_count", "u32", 63)),
    lambda draft: draft.unset("llama.context_length"),
    lambda draft: draft.tensors.pop("blk.1.attn_k.weight"),
    lambda draft: draft.tensors.pop("output_norm.weight"),
    lambda draft: draft.rename_tensor("blk.0.ffn_norm.weight", "blk.0.ffn_normal.weight"),
    lambda draft: draft.set(Key("llama.attention.head_count_kv", "u32", 1)),
    lambda draft: draft.set(Key("llama.attention.value_length", "u32", 16)),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_llama_cpp_refuses_what_is_found(tmp_path: Path, number: int) -> None:
    reference("llama_cpp")
    model = Path(mtkit.__file__).parent / "data" / "default-model.gguf"
    draft = Draft.of(open_gguf(model))
    path = tmp_path / "edited.gguf"
    path.write_bytes(b"".join(draft.chunks()))
    argv = [sys.executable, "-m", "mtkit", "generate", "Once", "-n", "1", "-q", "-m", str(path)]
    if not number:  # without an edit it is loaded
        assert check(str(path)).exit_code == 0
        assert subprocess.run(argv, capture_output=True, check=False).returncode == 0
    EDITS[number](draft)
    path.write_bytes(b"".join(draft.chunks()))
    assert check(str(path)).exit_code == 1
    assert subprocess.run(argv, capture_output=True, check=False).returncode in (3, 4)


def test_llama_cpp_takes_one_type_of_each_hyperparameter(tmp_path: Path) -> None:
    """Each key as another type: llama.cpp refuses what is found."""
    reference("llama_cpp")
    source = open_gguf(Path(mtkit.__file__).parent / "data" / "default-model.gguf")
    values = {"u32": ("i32", 1), "f32": ("f64", 1.0), "string": ("u32", 1), "bool": ("u8", 1)}
    paths = []
    wrong = [Key(key, *values[kind]) for key, kind in needed_types("llama").items()]
    layers = int(source.metadata["llama.block_count"])
    for kind, value in (("string", "1"), ("f32", 1.0), ("bool", True)):
        wrong.append(Key("llama.attention.head_count", f"{kind}[]", [value] * layers))
    for number, key in enumerate(wrong):
        draft = Draft.of(source)
        draft.set(key)
        paths.append(str(tmp_path / f"{number}.gguf"))
        Path(paths[-1]).write_bytes(b"".join(draft.chunks()))
        (finding,) = check(paths[-1]).findings
        assert (finding.rule.code, finding.field) == ("loader-key-type", key.name)
    script = (
        "import sys\nfrom mtkit.llama import Model\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        Model(path).close()\n"
        "    except Exception as error:\n        print('type' in str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, check=True)
    assert done.stdout.split() == [b"True"] * len(paths)


def cases() -> list[dict[str, Any]]:
    path = SHARED / "gguf-vocab" / "bad_expectations.json"
    if not path.exists():
        return []
    made: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = shared("gguf-vocab/make_bad_gguf.py")
    out = tmp_path_factory.mktemp("bad")
    subprocess.run([sys.executable, script, out], check=True, capture_output=True)
    return out


def test_expectations_are_here() -> None:
    if not cases():
        absent("bad_expectations.json is not here", "MTKIT_REQUIRE_SHARED")


def limited(path: Path) -> list[tuple[int, list[str]]]:
    """Check a file, and then deeply, with 4 GB more of memory and two more seconds: exit codes."""
    resource = posix("resource")
    taken = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (4 << 30),) * 2)
    used = math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + 2, used + 2))
    reports = [check(str(path), deep=deep) for deep in (False, True)]
    return [(report.exit_code, [*map(str, report.findings)]) for report in reports]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_what_llama_cpp_refuses_is_found_and_valid_oddities_pass(
    folder: Path, case: dict[str, Any]
) -> None:
    ((code, _), (deep_code, findings)), _ = forked(lambda: limited(folder / f"{case['name']}.gguf"))
    if case["llama_refuses"]:
        assert code in (1, 3)
        assert deep_code in (1, 3)
    elif case["valid_oddity"]:
        assert deep_code == 0, findings
    if case["want"] == "reject":
        assert deep_code == 3
    for finding in findings:
        assert finding.isprintable()


@pytest.mark.parametrize("name", VOCABULARIES)
def test_llama_cpps_own_vocabularies_are_sound(name: str) -> None:
    report = check(str(shared(f"gguf-vocab/ggml-vocab-{name}.gguf")), deep=True)
    assert report.exit_code == 0, report.findings
