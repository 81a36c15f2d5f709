"""A tensor of a fork's type: all but its values is read, written and compared as in any file."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mtkit import edit
from mtkit.checks import check
from mtkit.conversion.folder_writer import plan_folder
from mtkit.errors import FormatError, MtkitError, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.byte_order import in_other_order
from mtkit.gguf.shards import open_whole, shard_file_names, split_model
from mtkit.gguf.types import REMOVED_TENSOR_TYPES, TENSOR_TYPES, TensorType, fork_type
from mtkit.gguf.values import Rows
from mtkit.gguf.writer import Key, NewTensor, write_gguf
from mtkit.inspection.difference import find_difference
from mtkit.inspection.statistics import tensor_statistics
from mtkit.llm.header import ModelHeader
from mtkit.llm.quantization import file_type, quantize

NUMBERS = [36, 37, 38, 133, 137, 139, 153, 156, 158, 200, 230, 339, 399]
F32 = TENSOR_TYPES[0]


def kind_of(number: int) -> TensorType:
    kind = fork_type(number)
    assert kind is not None
    return kind


def write(path: Path, number: int, seed: int = 0) -> dict[str, bytes]:
    """Write a model with tensors of a fork's type between others, the last one included."""
    random = Random(number + seed)
    tensors, data = [], {}
    for layer in range(3):
        columns, rows = random.choice((64, 256)), random.randint(1, 5)
        size = columns * rows * random.choice((2, 4, 6)) // 8 + 4 * random.choice((0, rows, 8))
        for name, shape, kind, count in (
            (f"blk.{layer}.attn_norm.weight", (columns,), F32, 4 * columns),
            (f"blk.{layer}.attn_q.weight", (columns, rows), kind_of(number), size),
        ):
            data[name] = random.randbytes(count)
            tensors.append(NewTensor(name, shape, kind, data[name]))
    keys = [Key("general.architecture", "string", "llama"), Key("llama.block_count", "u32", 3)]
    write_gguf(str(path), keys, tensors)
    return data


@pytest.mark.parametrize("number", NUMBERS)
def test_the_bytes_stay(tmp_path: Path, number: int) -> None:
    path, new, joined = (tmp_path / name for name in ("a.gguf", "b.gguf", "c.gguf"))
    data = write(path, number)
    edit(path, new, keys={"general.name": "other"})
    drafts = split_model(open_gguf(str(path)), max_tensors=1)
    names = shard_file_names(str(tmp_path / "part.gguf"), len(drafts))
    for name, draft in zip(names, drafts, strict=True):
        Path(name).write_bytes(b"".join(draft.chunks()))
    edit(names[0], joined, keys={"general.name": "other"})
    for file in map(open_gguf, map(str, (path, new, joined))):
        for name, content in data.items():
            held = bytes(file.tensor_data(name))
            assert held[: len(content)] == content
            assert not held[len(content) :].strip(b"\0")
            assert len(held) < len(content) + file.alignment
    assert not find_difference(open_gguf(str(new)), open_gguf(str(joined))).tensors


@pytest.mark.parametrize("number", NUMBERS)
def test_the_type_is_named(tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.gguf"
    write(path, number)
    (finding,) = (f for f in check(str(path)).findings if f.rule.code == "tensor-type-fork")
    assert f"type {number}" in finding.what
    assert "2 more" in finding.what
    assert fork_type(number) in {tensor.type for tensor in open_gguf(str(path)).tensors}
    if number in REMOVED_TENSOR_TYPES:
        assert "bitnet.cpp" in finding.what
        assert REMOVED_TENSOR_TYPES[number] in finding.what


@pytest.mark.parametrize("number", NUMBERS)
def test_what_needs_the_values_refuses(tmp_path: Path, number: int) -> None:
    path = str(tmp_path / "a.gguf")
    write(Path(path), number)
    file = open_gguf(path)
    tensor = next(tensor for tensor in file.tensors if tensor.type.origin)
    refused = [
        lambda: tensor_statistics(file, tensor),
        lambda: list(in_other_order(file)),
        lambda: ModelHeader(path),
        lambda: quantize(path, f"{path}.new", file_type("Q4_0")),
        lambda: Rows(file, tensor),
        lambda: plan_folder(file),
    ]
    for work in refused:
        with pytest.raises(UnsupportedError, match=f"is of type {number}") as caught:
            work()
        assert caught.value.field == tensor.label


def test_too_few_bytes_are_refused(tmp_path: Path) -> None:
    """A type of less than a bit is none; and data that lies outside the file is not there."""
    for size in (0, 32, 992):
        path = tmp_path / f"{size}.gguf"
        write_gguf(str(path), (), [NewTensor("t", (256, 32), kind_of(139), bytes(size))])
        with pytest.raises(FormatError, match="less than a bit per element"):
            open_gguf(str(path))
    path = tmp_path / "cut.gguf"
    write(path, 139)
    whole = path.read_bytes()
    start = open_gguf(str(path)).data_offset
    for end in range(start - 40, len(whole), 97):
        path.write_bytes(whole[:end])
        with pytest.raises(MtkitError):
            open_gguf(str(path))


@pytest.mark.parametrize("number", [4, 5, 31, 33, 43, 99, 127, 512, 1000, 2**32 - 1])
def test_other_numbers_are_damage(number: int, tmp_path: Path) -> None:
    assert fork_type(number) is None
    path = tmp_path / "a.gguf"
    kind = TensorType(number, "", 1, 0, "none")
    write_gguf(str(path), (), [NewTensor("t", (32,), kind, bytes(32))])
    with pytest.raises(FormatError, match=rf"type {number}\b"):
        open_whole(str(path))


def test_numbers_are_no_types_of_ggml() -> None:
    assert not any(fork_type(number) for number in TENSOR_TYPES)
