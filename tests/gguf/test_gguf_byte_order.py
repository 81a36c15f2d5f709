"""A file in the other byte order: what a machine of that order reads, and twice the same file."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import gguf_layout as lay
import numpy as np
import pytest
from gguf_layout import Layout
from hypothesis import given
from hypothesis import strategies as st
from support import VOCABULARIES, reference, shared

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf import GgufFile, open_gguf
from mtkit.gguf.byte_order import WORDS, in_other_order
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes

MODEL = os.path.join(os.path.dirname(mtkit.__file__), "data", "default-model.gguf")
NAMED = {kind.name: kind for kind in TENSOR_TYPES.values()}
REFUSED = {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"}


def read(data: bytes) -> GgufFile:
    return open_gguf(Source("made.gguf", data))


def swapped(data: bytes) -> bytes:
    return b"".join(in_other_order(read(data)))


def test_every_type_of_value_is_that_of_the_other_order() -> None:
    """Against files laid out by hand in both orders."""
    little, big = lay.sample(Layout(3)), lay.sample(Layout(3, ">"))
    start = read(little).data_offset
    for one, other in ((little, big), (big, little)):
        assert swapped(one)[:start] == other[:start]
        assert swapped(swapped(one)) == one


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw tensors of every type, of odd data, with whatever lies between and behind them."""
    names = draw(st.lists(st.sampled_from(sorted(WORDS)), min_size=1, max_size=6))
    tensors = []
    for number, name in enumerate(names):
        kind, rows = NAMED[name], draw(st.integers(1, 3))
        data = os.urandom(rows * kind.block_bytes)
        tensors.append(NewTensor(f"t{number}", (kind.block, rows), kind, data))
    text = draw(st.lists(st.text(max_size=5), max_size=4))
    return gguf_bytes([Key("a", "string[]", text)], tensors) + draw(st.binary(max_size=40))


@given(files())
def test_twice_is_the_file(data: bytes) -> None:
    other = swapped(data)
    assert len(other) == len(data)
    assert read(other).byte_order == "big"
    assert swapped(other) == data
    shapes = [
        (tensor.name, tensor.shape, tensor.type, tensor.offset) for tensor in read(data).tensors
    ]
    assert shapes == [(t.name, t.shape, t.type, t.offset) for t in read(other).tensors]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_vocabulary_reads_the_same(name: str) -> None:
    data = shared(f"gguf-vocab/ggml-vocab-{name}.gguf").read_bytes()
    if read(data).version != 3:
        with pytest.raises(UnsupportedError, match="little-endian only"):
            swapped(data)
        return
    other = swapped(data)
    assert swapped(other) == data
    before, after = read(data).metadata, read(other).metadata
    for key, value in before.items():
        same = after[key]
        assert value == same or list(value) == list(same), key


def test_all_types_are_swapped_or_refused() -> None:
    assert WORDS.keys() | REFUSED == set(NAMED)
    assert not WORDS.keys() & REFUSED
    for name, words in WORDS.items():
        ends = [start + size * count for start, size, count in words]
        starts = [*[start for start, _, _ in words][1:], NAMED[name].block_bytes]
        assert all(end <= start for end, start in zip(ends, starts, strict=False)), name


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_type_without_another_order_is_named(name: str) -> None:
    kind = NAMED[name]
    data = gguf_bytes([], [NewTensor("odd", (kind.block,), kind, bytes(kind.block_bytes))])
    with pytest.raises(UnsupportedError, match=f"'odd'.*{name}"):
        swapped(data)


# The blocks as C declares them, with the words that llama.cpp reads through memcpy.
BLOCKS = {
    "Q4_0": "d:e qs:16B", "Q4_1": "d:e m:e qs:16B", "Q5_0": "d:e qh:I qs:16B",
    "Q5_1": "d:e m:e qh:I qs:16B", "Q8_0": "d:e qs:32b", "Q8_1": "d:e s:e qs:32b",
    "Q2_K": "scales:16B qs:64B d:e dmin:e", "Q3_K": "hmask:32B qs:64B scales:12B d:e",
    "Q4_K": "d:e dmin:e scales:12B qs:128B", "Q5_K": "d:e dmin:e scales:12B qh:32B qs:128B",
    "Q6_K": "ql:128B qh:64B scales:16b d:e", "Q8_K": "d:f qs:256b bsums:16h",
    "IQ4_NL": "d:e qs:16B", "IQ4_XS": "d:e scales_h:H scales_l:4B qs:128B",
    "TQ1_0": "qs:48B qh:4B d:e", "TQ2_0": "qs:64B d:e", "MXFP4": "e:B qs:16B",
    "NVFP4": "d:4B qs:32B", "Q1_0": "d:e qs:16B", "Q2_0": "d:e qs:16B", "F32": "x:f", "F16": "x:e",
    "BF16": "x:H", "F64": "x:d", "I8": "x:b", "I16": "x:h", "I32": "x:i", "I64": "x:q",
}  # fmt: skip


def block(name: str, order: str) -> np.dtype:
    """Return a block as a record; ``I`` and its like come with the count in front."""
    fields = []
    for field in BLOCKS[name].split():
        label, code = field.split(":")
        count = int(code[:-1] or 1)
        fields.append((label, order + code[-1], (count,)))
    return np.dtype(fields)


@pytest.mark.parametrize("name", sorted(WORDS))
def test_fields_of_a_block_keep_their_values(name: str) -> None:
    kind = NAMED[name]
    assert block(name, "<").itemsize == kind.block_bytes
    rng = np.random.default_rng(len(name))
    data = rng.integers(0, 256, 5 * kind.block_bytes, np.uint8).tobytes()
    other = read(swapped(gguf_bytes([], [NewTensor("t", (5 * kind.block,), kind, data)])))
    before = np.frombuffer(data, block(name, "<"))
    after = np.frombuffer(other.tensor_data(other.tensors[0]), block(name, ">"))
    for field in before.dtype.names or ():
        one, two = before[field], after[field].astype(before[field].dtype)
        assert np.array_equal(one, two, equal_nan=one.dtype.kind == "f"), field


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K", "Q6_K", "MXFP4", "NVFP4"])
def test_blocks_are_swapped_as_the_gguf_package_does(name: str) -> None:
    reference("gguf")
    from types import SimpleNamespace

    from gguf import GGMLQuantizationType
    from gguf.scripts.gguf_convert_endian import byteswap_tensors

    kind = NAMED[name]
    data = np.frombuffer(os.urandom(4 * kind.block_bytes), np.uint8)
    theirs = SimpleNamespace(data=data.copy())
    for at in range(0, len(data), kind.block_bytes):
        byteswap_tensors[GGMLQuantizationType[name]](theirs, at)
    made = gguf_bytes([], [NewTensor("t", (4 * kind.block,), kind, data.tobytes())])
    other = read(swapped(made))
    assert bytes(other.tensor_data(other.tensors[0])) == theirs.data.tobytes()


def test_the_gguf_package_reads_the_other_order(tmp_path: Path) -> None:
    gguf = reference("gguf")
    path = tmp_path / "big.gguf"
    path.write_bytes(b"".join(in_other_order(open_gguf(MODEL))))
    big, little = gguf.GGUFReader(path), gguf.GGUFReader(MODEL)
    assert big.endianess.name == "BIG"
    assert list(big.fields) == list(little.fields)
    for name in list(little.fields)[3:]:
        assert big.fields[name].contents() == little.fields[name].contents(), name
    for one, other in zip(big.tensors, little.tensors, strict=True):
        assert (one.name, list(one.shape)) == (other.name, list(other.shape))
        if other.tensor_type.name in ("F32", "F16"):
            assert np.array_equal(one.data, other.data)


@pytest.mark.parametrize("layout", [Layout(1), Layout(2)])
def test_versions_of_one_order_are_refused(layout: Layout) -> None:
    with pytest.raises(UnsupportedError, match="little-endian only"):
        swapped(lay.sample(layout))


def test_tensors_that_share_bytes_are_refused() -> None:
    layout = Layout()
    tensors = [layout.tensor(b"a", (8,), 0, 0), layout.tensor(b"b", (8,), 0, 0)]
    with pytest.raises(FormatError, match=r"'b'.*shares bytes"):
        swapped(layout.file([], tensors, bytes(32)))


def test_memory_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "big.gguf"
    kind = NAMED["Q4_K"]
    rows = (64 << 20) // kind.block_bytes
    data = memoryview(bytes(rows * kind.block_bytes))
    path.write_bytes(gguf_bytes([], [NewTensor("t", (256, rows), kind, data)]))
    del data
    file = open_gguf(path)
    tracemalloc.start()
    assert sum(memoryview(piece).nbytes for piece in in_other_order(file)) == len(file.data)
    assert tracemalloc.get_traced_memory()[1] < 24 << 20
    tracemalloc.stop()
