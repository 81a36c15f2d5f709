"""An inspected file says what the gguf library and llama.cpp say of it; errors between two tensors
are those of the whole arrays.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import FIXTURES, VOCABULARIES, measured, reference, shared

from mtkit.gguf import GgufArray, open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_chunks, write_gguf
from mtkit.inspection import difference
from mtkit.inspection.document import gguf_document
from mtkit.inspection.gguf import inspect_gguf

TINY = (
    "llama-f32", "llama-bpe-f32", "qwen2-f32", "qwen3-f32", "minicpm-f32", "gemma-f32",
    "gemma2-f32", "gemma3-f32", "t5-f32", "mamba-f32", "llama-f16", "llama-bf16", "llama-q8_0",
    "llama-q4_0", "llama-draft-f32", "recite-f32",
)  # fmt: skip
# The library takes a millisecond for 50 strings, so it reads only files that it can in seconds;
# MTKIT_FULL=1 has it read all of them (three minutes).
SMALL = ("llama-spm", "bert-bge", "plamo2-synth")
WHOLE = VOCABULARIES if os.environ.get("MTKIT_FULL") else SMALL


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reference("gguf")
    script = shared("scripts/tiny_models.py")
    out = tmp_path_factory.mktemp("tiny")
    subprocess.run([sys.executable, script, out], check=True, capture_output=True)
    assert sorted(path.stem for path in out.iterdir()) == sorted(TINY)
    return out


def same_as_library(path: Path) -> None:
    """Compare the JSON document with what ``gguf.GGUFReader`` reads."""
    library = reference("gguf")
    reader = library.GGUFReader(path)
    document = json.loads(json.dumps(gguf_document(inspect_gguf(str(path)))))
    fields = {key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert document["version"] == reader.fields["GGUF.version"].contents()
    assert document["metadata_count"] == reader.fields["GGUF.kv_count"].contents()
    assert document["byte_order"] == "little"
    assert document["alignment"] == reader.alignment
    assert document["data_offset"] == reader.data_offset
    assert list(document["metadata"]) == list(fields)
    for key, field in fields.items():
        entry = document["metadata"][key]
        assert entry["type"] == type_name(library, field.types), key
        value = field.contents()
        assert entry["value"] == value, key
        if field.types[0] is library.GGUFValueType.ARRAY:
            assert entry["count"] == len(value)
    assert len(document["tensors"]) == len(reader.tensors)
    for row, tensor in zip(document["tensors"], reader.tensors, strict=True):
        assert row["name"] == tensor.name
        assert row["shape"] == tensor.shape.tolist()
        assert row["type"] == tensor.tensor_type.name
        assert row["type_number"] == tensor.tensor_type.value
        assert document["data_offset"] + row["offset"] == tensor.data_offset
        assert row["bytes"] == tensor.n_bytes
        assert row["parameters"] == tensor.n_elements


def type_name(library: Any, kinds: list[Any]) -> str:
    if kinds[0] is library.GGUFValueType.ARRAY:
        return f"{type_name(library, kinds[1:])}[]"
    long = kinds[0].name
    for begin, short in (("UINT", "u"), ("INT", "i"), ("FLOAT", "f")):
        if long.startswith(begin):
            return short + long[len(begin) :]
    return str(long.lower())


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_are_as_the_library_reads_them(tiny: Path, name: str) -> None:
    same_as_library(tiny / f"{name}.gguf")


@pytest.mark.parametrize("name", WHOLE)
def test_vocabularies_are_as_the_library_reads_them(name: str) -> None:
    same_as_library(shared(f"gguf-vocab/ggml-vocab-{name}.gguf"))


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*/vocab.gguf")), ids=lambda p: p.parent.name)
def test_own_vocabularies_are_as_the_library_reads_them(path: Path) -> None:
    same_as_library(path)


@pytest.mark.parametrize("name", TINY)
def test_parameters_are_llama_cpps(tiny: Path, name: str) -> None:
    llama = reference("llama_cpp")
    path = tiny / f"{name}.gguf"
    llama.llama_backend_init()
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, None)
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    assert model
    try:
        report = inspect_gguf(str(path))
        assert report.parameters == llama.llama_model_n_params(model)
        assert report.weights == llama.llama_model_size(model)
        known = {item.name: item.value for item in report.hyperparameters}
        for own, function in (
            ("n_layer", llama.llama_model_n_layer),
            ("n_embd", llama.llama_model_n_embd),
            ("n_ctx_train", llama.llama_model_n_ctx_train),
            ("n_head", llama.llama_model_n_head),
        ):
            assert known[own] == function(model), own
        if "mamba" not in name:
            assert known["n_head_kv"] == llama.llama_model_n_head_kv(model)
        vocabulary = llama.llama_model_get_vocab(model)
        assert report.vocabulary is not None
        assert report.vocabulary.tokens == llama.llama_vocab_n_tokens(vocabulary)
    finally:
        llama.llama_model_free(model)
        llama.llama_log_set(llama.llama_log_callback(), None)


@pytest.mark.parametrize("name", ["0", "1.2", ".", "weight", "5.weight"])
def test_a_tensor_whose_name_is_a_number_has_a_purpose(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.gguf"
    write_gguf(str(path), [], [NewTensor(name, (1,), TENSOR_TYPES[0], bytes(4))])
    assert inspect_gguf(str(path)).places == (("other", 4),)


def test_summary_of_a_model(tiny: Path) -> None:
    report = inspect_gguf(str(tiny / "llama-q4_0.gguf"))
    assert (report.name, report.architecture, report.file_type) == ("tiny-llama", "llama", "Q4_0")
    assert [mix.type for mix in report.mix] == ["Q4_0", "F32"]
    assert sum(mix.parameters for mix in report.mix) == report.parameters
    assert math.isclose(report.bits_per_weight, 8 * report.weights / report.parameters)
    assert [(group.name, group.kind) for group in report.layers] == [
        ("input", "input"), ("blk.0", "repeating"), ("blk.1", "repeating"), ("output", "output"),
    ]  # fmt: skip
    grouped = itertools.chain.from_iterable(group.tensors for group in report.layers)
    assert sorted(t.name for t in grouped) == sorted(t.name for t in report.file.tensors)
    assert sum(n_bytes for _, n_bytes in report.places) == report.weights
    # 2 layers, 2 key/value heads, 64 + 64 values of 2 bytes
    assert report.cache_per_token == 2 * 2 * 128 * 2
    assert report.vocabulary is not None
    assert dict(report.vocabulary.types) == {
        "normal": 763, "unknown": 1, "control": 4, "byte": 256,
    }  # fmt: skip
    assert [(s.role, s.token_id, s.text) for s in report.vocabulary.special_ids][1:3] == [
        ("bos", 1, "<s>"), ("eos", 2, "</s>"),
    ]  # fmt: skip


def test_derived_hyperparameters(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    keys = [Key("general.architecture", "string", "x"), Key("x.embedding_length", "u32", 64),
            Key("x.attention.head_count", "u32", 4),
            Key("x.attention.head_count_kv", "i32[]", [2, 0, 1])]  # fmt: skip
    write_gguf(str(path), [*keys, Key("x.block_count", "u32", 2**32 - 1)])
    assert inspect_gguf(str(path)).cache_per_token is None
    write_gguf(str(path), [*keys, Key("x.block_count", "u32", 3)], force=True)
    report = inspect_gguf(str(path))
    known = {item.name: (item.value, item.key) for item in report.hyperparameters}
    assert known["n_embd_head_k"] == (16, "")
    assert known["n_head_kv"] == ([2, 0, 1], "x.attention.head_count_kv")
    assert report.cache_per_token == 3 * 32 * 2


def test_bytes_and_special_floats_survive_json(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    bad = b"caf\xe9".decode("utf-8", "surrogateescape")
    keys = [
        Key("a.bad", "string", bad),
        Key("a.list", "string[]", ["ok", bad, "caf\\xe9"]),
        Key("a.floats", "f32[]", [math.nan, math.inf, -math.inf, -0.0, 1e-45]),
        Key("a.nan", "f64", math.nan),
        Key("b\\xff", "u8", 1),
        Key(b"b\xff".decode("utf-8", "surrogateescape"), "u8", 2),
    ]
    write_gguf(str(path), keys)
    text = json.dumps(gguf_document(inspect_gguf(str(path))), allow_nan=False)
    metadata = json.loads(text)["metadata"]
    assert metadata["a.bad"] == {"type": "string", "value": "caf\\xe9", "bytes": "636166e9"}
    assert metadata["a.list"] == {
        "type": "string[]", "count": 3, "value": ["ok", "caf\\xe9", "caf\\xe9"],
        "bytes": {"1": "636166e9"},
    }  # fmt: skip
    floats = metadata["a.floats"]["value"]
    assert floats[:3] == ["NaN", "Infinity", "-Infinity"]
    assert math.copysign(1, floats[3]) == -1
    assert floats[4] == 2**-149
    assert metadata["a.nan"]["value"] == "NaN"
    assert metadata["b\\xff"] == {"type": "u8", "value": 1}
    assert metadata["b\\xff'"] == {"type": "u8", "value": 2, "key_bytes": "62ff"}


def test_a_set_of_shards_is_counted_together(tmp_path: Path) -> None:
    f32 = TENSOR_TYPES[0]
    for number in range(3):
        keys = [Key("split.no", "u16", number), Key("split.count", "u16", 3),
                Key("split.tensors.count", "i32", 3)]  # fmt: skip
        tensors = [NewTensor(f"blk.{number}.x", (8,), f32, bytes(32))]
        write_gguf(str(tmp_path / f"m-{number + 1:05d}-of-00003.gguf"), keys, tensors)
    for number in range(3):
        report = inspect_gguf(str(tmp_path / f"m-{number + 1:05d}-of-00003.gguf"))
        assert report.shards is not None
        assert (report.shards.number, report.shards.count) == (number, 3)
        assert report.parameters == 24
        assert len(report.file.tensors) == 1
        assert not report.findings
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    report = inspect_gguf(str(tmp_path / "m-00001-of-00003.gguf"))
    assert report.parameters == 8
    assert report.shards is not None
    assert [shard.file is None for shard in report.shards.shards] == [False, True, False]


def test_largest_vocabulary_within_budget() -> None:
    path = shared("gguf-vocab/ggml-vocab-gemma-4.gguf")
    runs = [measured(sys.executable, "-m", "mtkit", "inspect", path) for _ in range(3)]
    assert {run[0] for run in runs} == {0}
    assert min(run[1] for run in runs) < 0.25
    assert max(run[2] for run in runs) < 80e6


def test_four_gigabytes_cost_no_more(tmp_path: Path) -> None:
    path = tmp_path / "big.gguf"
    vocabulary = open_gguf(shared("gguf-vocab/ggml-vocab-llama-spm.gguf"))
    metadata = vocabulary.metadata
    keys = [Key(key, metadata.type_name(key), value) for key, value in metadata.items()]
    sparse_model(path, keys, n_bytes=4 << 30)
    assert path.stat().st_size > 4 << 30
    code, seconds, peak, stdout, stderr = measured(sys.executable, "-m", "mtkit", "inspect", path)
    assert (code, stderr) == (0, b"")
    assert f"model\tparameters\t{1 << 30}\n".encode() in stdout
    assert seconds < 0.25
    assert peak < 80e6


def sparse_model(path: Path, keys: list[Key], n_bytes: int) -> None:
    """Write a file whose tensor data is a hole: the header with tensors of size 0, then widened."""
    empty = [NewTensor("blk.0.w", (0, 4), TENSOR_TYPES[0], b"")]
    head = b"".join(bytes(chunk) for chunk in gguf_chunks(keys, empty))
    axis = (0).to_bytes(8, "little") + (4).to_bytes(8, "little")
    assert head.count(b"blk.0.w" + (2).to_bytes(4, "little") + axis) == 1
    wide = (n_bytes // 16).to_bytes(8, "little") + (4).to_bytes(8, "little")
    path.write_bytes(head.replace(axis, wide))
    os.truncate(path, len(head) + n_bytes)


def test_values_of_an_unexpected_type_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    keys = [Key("general.architecture", "u32", 3), Key("tokenizer.ggml.model", "bool", True),
            Key("tokenizer.ggml.tokens", "i32[]", [1]), Key("general.name", "string[]", ["x"]),
            Key("tokenizer.ggml.token_type", "u8[]", [1]), Key("general.file_type", "f32", 1.0),
            Key("tokenizer.ggml.bos_token_id", "string", "x")]  # fmt: skip
    write_gguf(str(path), keys)
    report = inspect_gguf(str(path))
    assert (report.architecture, report.name, report.file_type) == ("", "", "")
    assert report.vocabulary is not None
    assert report.vocabulary.tokens == 0
    assert report.vocabulary.types == report.vocabulary.special_ids == ()
    assert isinstance(report.file.metadata["general.name"], GgufArray)


class Given:
    """A tensor that comes in pieces of given sizes."""

    name, type, n_bytes = "t", "F32", 0

    def __init__(self, array: Any, sizes: list[int]) -> None:
        self.shape = tuple(reversed(array.shape))
        self._flat, self._sizes = array.reshape(-1), sizes

    def data_as(self, kind: str) -> None:
        raise AssertionError(kind)

    def values(self) -> Iterator[Any]:
        at = 0
        while at < len(self._flat):
            size = self._sizes[at % len(self._sizes)]
            yield self._flat[at : at + size]
            at += size


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 25), SIZES, SIZES, st.integers(0, 99))
def test_errors_are_those_of_the_whole(
    rows: int, width: int, step: int, mine: list[int], theirs: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    before = rng.normal(size=(rows, width), loc=0.5).astype(np.float32)
    after = (before + rng.normal(size=before.shape, scale=0.1)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difference, "STEP", step)
        found = difference.measure_errors(Given(before, mine), Given(after, theirs))
    assert found is not None
    x, y = before.astype(np.float64), after.astype(np.float64)
    apart = ((x - y) ** 2).mean(1)
    assert found.count == rows * width
    assert found.largest == pytest.approx(np.abs(x - y).max())
    assert found.rmse == pytest.approx(np.sqrt(((x - y) ** 2).mean()))
    assert found.deviation == pytest.approx(x.std(), abs=1e-7)
    assert found.worst_row == apart.argmax()
    assert found.worst_rmse == pytest.approx(np.sqrt(apart.max()))
    wanted = float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))
    assert found.cosine == pytest.approx(wanted)
    assert found.relative == difference.quotient(found.rmse, found.deviation)


def test_equal_tensors_have_no_error() -> None:
    array = np.ones((3, 4), np.float32)
    found = difference.measure_errors(Given(array, [5]), Given(array, [7]))
    assert found is not None
    assert (found.rmse, found.relative, found.worst_row, found.largest) == (0, 0, -1, 0)
    constant = difference.measure_errors(Given(array, [5]), Given(array + 1, [7]))
    assert constant is not None
    assert constant.relative == float("inf")
