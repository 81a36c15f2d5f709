"""Statistics of a tensor are numpy's of what ggml's own package makes of it, piece by piece."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from screens import check_screens
from support import Run, one_line, reference

from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.inspection import statistics as module
from mtkit.inspection.statistics import BINS, tensor_statistics

TYPES = {tensor_type.name: tensor_type for tensor_type in TENSOR_TYPES.values()}
F32 = TYPES["F32"]
QUANTIZED = ("Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS", "BF16", "F16", "F32")


def write(path: Path, *tensors: NewTensor) -> Path:
    write_gguf(str(path), [Key("general.architecture", "string", "llama")], tensors)
    return path


def floats(name: str, *values: float) -> NewTensor:
    return NewTensor(name, (len(values),), F32, struct.pack(f"<{len(values)}f", *values))


@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize("piece", [256, 4096])
def test_statistics_are_numpys_of_the_dequantized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, piece: int
) -> None:
    numpy: Any = pytest.importorskip("numpy")
    quants: Any = reference("gguf.quants")
    kind: Any = reference("gguf").GGMLQuantizationType[name]
    monkeypatch.setattr(module, "_PIECE", piece)
    rng = numpy.random.default_rng(len(name))
    values = rng.normal(0.25, 2, (12, 256)).astype(numpy.float32)
    try:
        data = quants.quantize(values, kind)
    except NotImplementedError:  # ggml's package only reads it: blocks of small scales, any bits
        size = 12 * TYPES[name].block_bytes * 256 // TYPES[name].block
        data = rng.integers(1, 60, size, dtype=numpy.uint8)
        data = data.reshape(12, -1)
    wanted = quants.dequantize(data, kind).astype(numpy.float64).reshape(-1)
    tensor = NewTensor("t", (256, 12), TYPES[name], data.tobytes())
    file = open_gguf(str(write(tmp_path / "t.gguf", tensor)))
    found = tensor_statistics(file, file.tensors[0])
    assert (found.count, found.finite, found.nan) == (3072, 3072, 0)
    assert found.zeros == int((wanted == 0).sum())
    assert (found.least, found.greatest) == (wanted.min(), wanted.max())
    assert found.mean == pytest.approx(wanted.mean(), rel=1e-9, abs=1e-12)
    assert found.deviation == pytest.approx(wanted.std(), rel=1e-9)
    counts, edges = numpy.histogram(wanted, BINS)
    assert [row[0] for row in found.histogram] == pytest.approx(edges[:-1].tolist())
    assert sum(row[2] for row in found.histogram) == 3072
    assert [row[2] for row in found.histogram] == counts.tolist()


def test_what_is_not_finite_is_counted_apart(mtkit: Run, tmp_path: Path) -> None:
    nan, inf = float("nan"), float("inf")
    path = write(tmp_path / "t.gguf", floats("a", nan, inf, -inf, 0.0, -0.0, 2.0), floats("b", nan))
    document = json.loads(mtkit("inspect", path, "--tensor", "a", "--json").stdout)
    assert document["schema"] == "mtkit.inspect-tensor/1"
    wanted = {"count": 6, "finite": 3, "zeros": 2, "nan": 1, "infinite": 2, "least": 0.0,
              "greatest": 2.0}  # fmt: skip
    assert {key: document[key] for key in wanted} == wanted
    alone = json.loads(mtkit("inspect", path, "--tensor", "b", "--json").stdout)
    assert (alone["mean"], alone["histogram"], alone["nan"]) == (None, [], 1)
    for name in "ab":
        check_screens("inspect", path, "--tensor", name)
    rows = [
        row.split("\t")
        for row in mtkit("inspect", path, "--tensor", "a").stdout.decode().splitlines()
    ]
    assert rows[0][:3] == ["tensor", "a", "6"]
    assert len([row for row in rows if row[0] == "histogram"]) == BINS


def test_extremes_do_not_overflow(mtkit: Run, tmp_path: Path) -> None:
    big = struct.pack("<2d", 1.7e308, -1.7e308)
    path = write(
        tmp_path / "t.gguf", NewTensor("a", (2,), TYPES["F64"], big), floats("b", 3.0, 3.0)
    )
    file = open_gguf(str(path))
    assert tensor_statistics(file, file.names["a"]).histogram == ((1.7e308 * -1, 1.7e308, 2),)
    done = mtkit("inspect", path, "--tensor", "a", "--json")
    assert json.loads(done.stdout)["deviation"] == "Infinity"
    assert done.stderr == b""
    same = tensor_statistics(file, file.names["b"])
    assert (same.deviation, same.histogram) == (0.0, ((3.0, 3.0, 2),))


def test_a_wrong_name_gets_the_nearest_and_a_wrong_type_a_refusal(
    mtkit: Run, tmp_path: Path
) -> None:
    block = TYPES["Q8_K"]
    odd = NewTensor("odd", (256,), block, bytes(block.block_bytes))
    path = write(tmp_path / "t.gguf", floats("blk.0.attn_q.weight", 1.0), odd)
    assert "is it blk.0.attn_q.weight?" in one_line(
        mtkit("inspect", path, "--tensor", "blk.0.atn_q.weight"), 2
    )
    assert "is it blk.0.attn_q.weight?" in one_line(mtkit("inspect", path, "--tensor", "attn_q"), 2)
    assert "--tensors lists" in one_line(mtkit("inspect", path, "--tensor", "ZZZZ"), 2)
    assert "cannot be dequantized" in one_line(mtkit("inspect", path, "--tensor", "odd"), 4)
