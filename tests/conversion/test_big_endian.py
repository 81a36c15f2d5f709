"""Big-endian files: the right values, or a refusal that says so."""

from __future__ import annotations

from pathlib import Path

import hf_models
import numpy as np
import pytest

from mtkit.checks import check
from mtkit.conversion.folder_writer import convert_to_folder
from mtkit.conversion.model import convert_model
from mtkit.errors import UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.byte_order import WORDS, in_other_order
from mtkit.gguf.file import GgufFile
from mtkit.gguf.shards import open_whole, shard_file_names, split_model
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.values import Rows
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.inspection.difference import find_difference
from mtkit.inspection.statistics import tensor_statistics
from mtkit.llama.importance import read_importance
from mtkit.llm.header import ModelHeader
from mtkit.llm.quantization import file_type, quantize

IDS = ("ids", "ids-possible")
TYPES = {kind.name: kind for kind in TENSOR_TYPES.values()}


def swapped(path: Path) -> Path:
    """Write a file in the other byte order, beside it."""
    new = path.with_name(f"big-{path.name}")
    new.write_bytes(b"".join(map(bytes, in_other_order(open_gguf(str(path))))))
    assert open_gguf(str(new)).byte_order == "big"
    return new


def of_type(path: Path, name: str) -> GgufFile:
    """Write a matrix of drawn bytes whose scales are small, and read it."""
    kind, rng = TYPES[name], np.random.default_rng(len(name))
    blocks = rng.integers(0, 256, (64, kind.block_bytes), np.uint8)
    for start, size, count in WORDS[name]:
        if size == 2 and name not in ("BF16", "I16"):
            blocks[:, start : start + 2 * count] = np.frombuffer(b"\x12\x24" * count, np.uint8)
        if name == "Q8_K" and size == 4:
            blocks[:, :4] = np.frombuffer(np.float32(0.3).tobytes(), np.uint8)
    if name in ("F32", "F64", "BF16"):
        values = rng.normal(size=64)
        plain = {"F32": "<f4", "F64": "<f8"}.get(name)
        raw = values.astype(plain or "<f4").tobytes()
        blocks = raw if plain else np.frombuffer(raw, "<u2")[1::2].tobytes()
    data = blocks if isinstance(blocks, bytes) else blocks.tobytes()
    write_gguf(str(path), [Key("general.architecture", "string", "llama")],
               [NewTensor("blk.0.ffn_up.weight", (kind.block * 8, 8), kind, data)])  # fmt: skip
    return open_gguf(str(path))


@pytest.mark.parametrize("name", sorted(WORDS))
def test_values_of_each_type(tmp_path: Path, name: str) -> None:
    little = of_type(tmp_path / "a.gguf", name)
    big = open_gguf(str(swapped(tmp_path / "a.gguf")))
    assert find_difference(little, big, values=True).equal
    assert find_difference(big, little, values=True).equal
    assert find_difference(big, big, values=True).equal
    numbers = []
    for file in (little, big):
        try:
            numbers.append(repr(tensor_statistics(file, file.tensors[0])))
        except UnsupportedError as error:
            assert name in error.what
            numbers.append(error.what)
    assert numbers[0] == numbers[1]
    assert check(big.name, deep=True).exit_code == 1  # llama.cpp does not load it here


@pytest.mark.parametrize(
    ("name", "kind"), [("qwen3", "bf16"), ("gpt2", "f16"), ("llama-spm", "q8_0"), ("qwen3", "f32")]
)
def test_the_folder_is_that_of_the_little_endian_file(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "model.gguf"
    convert_model(hf_models.folder(name), path, kind=kind, allow_loss=IDS)
    big = swapped(path)
    for source, folder in ((path, "little"), (big, "big")):
        convert_to_folder(source, tmp_path / folder, allow_loss=IDS)
    files = [sorted(p.name for p in (tmp_path / f).iterdir()) for f in ("little", "big")]
    assert files[0] == files[1]
    for file in files[0]:
        same = [(tmp_path / folder / file).read_bytes() for folder in ("little", "big")]
        assert same[0] == same[1], file
    assert not [p for p in tmp_path.iterdir() if p.name.startswith("tmp")]


def test_a_set_of_shards(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    convert_model(hf_models.folder("qwen3"), path, allow_loss=IDS)
    drafts = split_model(open_gguf(str(path)), max_tensors=9)
    (tmp_path / "big").mkdir()
    for name, draft in zip(shard_file_names("m.gguf", len(drafts)), drafts, strict=True):
        (tmp_path / name).write_bytes(b"".join(draft.chunks()))
        swapped(tmp_path / name).rename(tmp_path / "big" / name)
    first = str(tmp_path / "big" / shard_file_names("m.gguf", len(drafts))[0])
    assert find_difference(open_gguf(str(path)), open_whole(first), values=True).equal
    for source, folder in ((path, "one"), (first, "two")):
        convert_to_folder(source, tmp_path / folder, allow_loss=IDS)
    weights = [(tmp_path / f / "model.safetensors").read_bytes() for f in ("one", "two")]
    assert weights[0] == weights[1]


def test_what_cannot_be_right_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    convert_model(hf_models.folder("qwen3"), path, allow_loss=IDS)
    big = swapped(path)
    file = open_gguf(str(big))
    for work in (
        lambda: ModelHeader(str(big)),
        lambda: quantize(str(big), str(tmp_path / "new.gguf"), file_type("Q4_0")),
        lambda: Rows(file, file.names["token_embd.weight"]),
    ):
        with pytest.raises(UnsupportedError, match="is big-endian"):
            work()
    assert not (tmp_path / "new.gguf").exists()


def test_an_importance_matrix(tmp_path: Path) -> None:
    path = tmp_path / "matrix.gguf"
    sums = np.arange(8, dtype="<f4") + 1
    write_gguf(str(path), [Key("general.type", "string", "imatrix")], [
        NewTensor("a.weight.in_sum2", (8, 1), TYPES["F32"], sums.tobytes()),
        NewTensor("a.weight.counts", (1, 1), TYPES["F32"], np.float32(3).tobytes()),
    ])  # fmt: skip
    for file in (path, swapped(path)):
        ((total, count),) = read_importance(str(file)).entries.values()
        assert total.tolist() == [sums.tolist()]
        assert count.tolist() == [3]
