"""A safetensors header is read as its own library reads it, and damage is one error."""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING, Any

import pytest
from support import one_line, reference

from mtkit.base.binary import Source
from mtkit.checkpoints.safetensors import read, sniff
from mtkit.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

GOOD: dict[str, Any] = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    "empty": {"dtype": "F32", "shape": [0], "data_offsets": [24, 24]},
}


def packed(header: object, data: bytes = bytes(32)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def opened(data: bytes) -> Any:
    return read(Source("m.safetensors", data))


def test_a_header_is_that_of_the_library(mtkit: Run, tmp_path: Path) -> None:
    numpy_files: Any = reference("safetensors.numpy")
    numpy: Any = pytest.importorskip("numpy")
    tensors = {"x": numpy.ones((3, 5), numpy.float16), "y": numpy.arange(7, dtype=numpy.int64)}
    path = tmp_path / "m.safetensors"
    numpy_files.save_file(tensors, path, metadata={"format": "np"})
    document = json.loads(mtkit("inspect", path, "--json").stdout)
    found = {one["name"]: (one["shape"], one["type"], one["bytes"]) for one in document["tensors"]}
    assert found == {"x": ([3, 5], "F16", 30), "y": ([7], "I64", 56)}
    assert (document["metadata"], document["parameters"]) == ({"format": "np"}, 22)
    rows = mtkit("inspect", path).stdout.decode().splitlines()
    assert "type\tF16\t1\t15\t30" in rows


def changed(name: str, **fields: Any) -> dict[str, Any]:
    return {**GOOD, name: {**GOOD[name], **fields}}


WRONG = {
    "overlap": packed(changed("b", data_offsets=[20, 28])),
    "hole": packed(changed("b", data_offsets=[25, 33]), bytes(33)),
    "size": packed(changed("a", shape=[2, 4])),
    "backwards": packed(changed("a", data_offsets=[24, 0])),
    "negative": packed(changed("a", shape=[-2, -3])),
    "bool": packed(changed("a", shape=[True, 6])),
    "three offsets": packed(changed("a", data_offsets=[0, 24, 24])),
    "cut": packed(GOOD, bytes(31)),
    "longer": packed(GOOD, bytes(33)),
    "twice": packed(b'{"a":1,"a":2}', b""),
    "not an object": packed(b"[]", b""),
    "deep": packed(b'{"a":' * 100_000, b""),
    "metadata": packed({"__metadata__": {"a": 1}}, b""),
    "too long": struct.pack("<Q", 1 << 40) + b"{}",
    "beyond": struct.pack("<Q", 99) + b"{}",
    "wide": packed(changed("a", shape=[1 << 63, 1 << 63])),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_library_refuses_is_one_error(mtkit: Run, tmp_path: Path, name: str) -> None:
    library: Any = reference("safetensors")
    with pytest.raises(library.SafetensorError):
        library.deserialize(WRONG[name])
    with pytest.raises(FormatError):
        opened(WRONG[name])
    path = tmp_path / "m.safetensors"
    path.write_bytes(WRONG[name])
    one_line(mtkit("inspect", path), 3)


def test_damage_gives_a_value_or_an_error() -> None:
    assert len(opened(packed(GOOD)).weights) == 3
    rng, whole = random.Random(5), packed(GOOD)
    for _ in range(3000):
        data = bytearray(whole[: rng.randrange(len(whole) + 1)])
        for _ in range(rng.randrange(3)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        sniff(Source("m", bytes(data)))
        try:
            opened(bytes(data))
        except FormatError as error:
            assert str(error).isprintable()
