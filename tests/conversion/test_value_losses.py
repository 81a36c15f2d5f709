"""What values lose in a conversion is counted, refused, or kept in a wider type."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

import hf_models
import numpy as np
import pytest
from support import Run, one_line

from mtkit.checks import check
from mtkit.conversion.folder_report import folder_side
from mtkit.conversion.folder_writer import convert_to_folder
from mtkit.conversion.model import convert_model
from mtkit.errors import LossError
from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.value_counts import ValueCounts
from mtkit.gguf.values import bits_as_floats, convert_data, decode_values
from mtkit.inspection.difference import difference_verdict, find_difference, side_of

IDS = ("ids", "ids-possible")
KINDS = {kind.name: kind for kind in TENSOR_TYPES.values()}
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
MATRIX = {
    "qwen3": ("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"),
    "gpt2": ("h.0.mlp.c_fc.weight", "blk.0.ffn_up.weight"),
    "llama-bpe-tied-rope3": ("model.embed_tokens.weight", "token_embd.weight"),
}


def stored(values: Any, dtype: str) -> bytes:
    """Return values as bytes of a type; BF16 is cut."""
    with np.errstate(over="ignore"):
        if dtype == "BF16":
            return bytes((values.astype("<f4").view("<u4") >> 16).astype("<u2"))
        return bytes(values.astype(DTYPES[dtype]))


def folder_with(name: str, folder: Path, dtype: str, places: dict[int, float]) -> Path:
    """Copy a folder, with some values of one of its matrices changed."""
    shutil.copytree(hf_models.folder(name), folder)
    for path in folder.glob("*.safetensors"):
        data = bytearray(path.read_bytes())
        (size,) = struct.unpack_from("<Q", data)
        for key, row in json.loads(data[8 : 8 + size]).items():
            if key.endswith(MATRIX[name][0]):
                assert row["dtype"] == dtype
                width = 2 if dtype == "BF16" else 4
                for place, value in places.items():
                    at = 8 + size + row["data_offsets"][0] + place * width
                    data[at : at + width] = stored(np.array([value], np.float64), dtype)
                path.write_bytes(data)
    return folder


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_those_of_numpy(seed: int) -> None:
    """Drawn values, types and lengths; what is written is the same with counts and without."""
    rng, random = np.random.default_rng(seed), Random(seed)
    dtype, name = random.choice([*DTYPES]), random.choice(["F32", "F16", "BF16", "Q8_0"])
    row, rows = random.choice([32, 64, 1056, 4096]), random.randint(1, 300)
    values = rng.normal(0, random.choice([1e-3, 1.0, 300.0]), (rows, row))
    odd = random.sample([np.nan, np.inf, -np.inf, 1e5, -7e4, 1e9, 3e38, 65519.0, 65520.0], 4)
    for value in odd * random.randint(0, 2):
        values[random.randrange(rows), random.randrange(row)] = value
    for _ in range(random.randint(0, 3)):
        values[random.randrange(rows)] = random.choice([0.0, 1e-9, 1e-12])
    raw = memoryview(stored(values, dtype))
    counts = ValueCounts(KINDS[name], row)
    out = b"".join(bytes(piece) for piece in convert_data(raw, dtype, KINDS[name], counts))
    assert out == b"".join(bytes(piece) for piece in convert_data(raw, dtype, KINDS[name]))
    bits = np.frombuffer(raw, DTYPES[dtype]).reshape(rows, row)
    source = bits_as_floats(bits, dtype) if dtype == "BF16" else bits.astype(np.float64)
    assert counts.nan == np.isnan(source).sum()
    assert counts.infinite == np.isinf(source).sum()
    beyond = {"F16": 65520, "Q8_0": 65520 * 127}.get(name, float(np.finfo(np.float32).max))
    large = np.abs(source[np.isfinite(source)])
    if name != "BF16":
        assert counts.overflow == (0 if dtype == name else (large >= beyond).sum())
    decoded = decode_values(np.frombuffer(out, np.uint8), name).reshape(rows, row)
    lost = (decoded == 0).all(1) & (source != 0).any(1)
    assert counts.rows == (lost.sum() if name in ("F16", "Q8_0") and dtype != "F16" else 0) or (
        dtype == "F64"  # rows that float32 cannot hold either
    )
    assert counts.is_clean == (not (counts.nan + counts.infinite + counts.overflow + counts.rows))


CASES = [
    ("qwen3", "BF16", {0: np.nan}, "auto", "1 value is not a number"),
    ("qwen3", "BF16", {5: np.nan, 99: np.nan}, "q8_0", "are not a number"),
    ("qwen3", "BF16", {3: -np.inf}, "f32", "1 value is infinite"),
    ("qwen3", "BF16", {0: 1e6, 700: -70000}, "f16", "2 values are too large for F16"),
    ("qwen3", "BF16", {0: 1e8}, "q8_0", "1 value is too large for Q8_0"),
    ("gpt2", "F32", {1: np.inf, 2: np.nan}, "auto", "NaN"),
    ("gpt2", "F32", {1: 1e5}, "f16", "1 value is too large for F16"),
    ("llama-bpe-tied-rope3", "BF16", {64 * 9: np.nan}, "auto", "1 value is not a number"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "places", "kind", "what"), CASES)
def test_values_that_are_lost_need_a_wish(
    tmp_path: Path, name: str, dtype: str, places: dict[int, float], kind: str, what: str
) -> None:
    folder = folder_with(name, tmp_path / "in", dtype, places)
    (tmp_path / "out").mkdir()
    new = tmp_path / "out/new.gguf"
    with pytest.raises(LossError, match=what) as caught:
        convert_model(folder, new, kind=kind, allow_loss=IDS)
    assert MATRIX[name][1] in caught.value.field
    assert caught.value.source == str(folder)
    assert not list((tmp_path / "out").iterdir())
    conversion = convert_model(folder, new, kind=kind, allow_loss=(*IDS, "values"))
    losses = [loss for loss in conversion.losses if loss.code == "values"]
    assert [(MATRIX[name][1] in loss.field, what in loss.effect) for loss in losses] == [
        (True,) * 2
    ]
    if kind != "q8_0":
        with pytest.raises(LossError):
            convert_to_folder(new, tmp_path / "back", allow_loss=IDS)
        assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("value", [65520.0, -1e5, 3e38])
def test_what_f16_does_not_hold_is_bf16(tmp_path: Path, value: float) -> None:
    """Nobody asked for F16: the tensor in question is BF16, the others are not."""
    folder = folder_with("gpt2", tmp_path / "in", "F32", {7: value})
    conversion = convert_model(folder, tmp_path / "new.gguf", allow_loss=IDS)
    assert not [loss for loss in conversion.losses if loss.code == "values"]
    assert conversion.model
    assert any("F32 weights become F16" in note for note in conversion.model.notes)
    assert any(MATRIX["gpt2"][1] in note for note in conversion.model.notes)
    file = open_gguf(str(tmp_path / "new.gguf"))
    kinds = {tensor.name for tensor in file.tensors if tensor.type.name == "BF16"}
    assert kinds == {MATRIX["gpt2"][1]}
    values = decode_values(np.frombuffer(file.tensor_data(MATRIX["gpt2"][1]), np.uint8), "BF16")
    assert np.isfinite(values).all()
    assert np.abs(values).max() == pytest.approx(abs(value), rel=2**-8)
    assert [path.name for path in tmp_path.iterdir()] in (["in", "new.gguf"], ["new.gguf", "in"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_folders_and_comparisons_say_what_is_no_number(
    mtkit: Run, tmp_path: Path, value: float
) -> None:
    folder = folder_with("qwen3", tmp_path / "in", "BF16", {8: value})
    for path in (folder, folder / "model.safetensors"):
        assert not [f for f in check(path).findings if f.rule.code.startswith("data-")]
        code = "data-nan" if np.isnan(value) else "data-infinite"
        (finding,) = [f for f in check(path, deep=True).findings if f.rule.code == code]
        assert MATRIX["qwen3"][0] in finding.field
    convert_model(folder, tmp_path / "new.gguf", allow_loss=(*IDS, "values"))
    here, there = folder_side(str(folder)), side_of(open_gguf(str(tmp_path / "new.gguf")))
    for pair in ((here, there), (there, there), (here, here)):
        assert find_difference(*pair).equal
        difference = find_difference(*pair, values=True)
        assert not difference.equal
        assert not difference.is_made
        assert [change.name for change in difference.special] == [MATRIX["qwen3"][1]]
        assert "NaN or infinite" in difference_verdict(difference)
    done = mtkit("diff", folder, "new.gguf", "--values")
    assert done.returncode == 1
    assert f"not finite\t{MATRIX['qwen3'][1]}\tin both: 1" in done.stdout.decode()
    said = one_line(mtkit("convert", folder, "other.gguf"), 4)
    assert "--allow-loss values" in said
