"""A safetensors header is read as its own library reads it, and damage is one error."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from support import Run, one_line, reference

from mtkit.base.binary import Source
from mtkit.checkpoints import safetensors
from mtkit.checkpoints.safetensors import read, sniff
from mtkit.checks import check
from mtkit.errors import FormatError

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


RULES = {
    "safetensors-length": WRONG["too long"],
    "safetensors-json": WRONG["not an object"],
    "safetensors-name-twice": packed(
        b'{"a":null,"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', bytes(4)
    ),
    "safetensors-metadata": WRONG["metadata"],
    "safetensors-entry": WRONG["bool"],
    "safetensors-type": packed(changed("a", dtype="F8_INVENTED")),
    "safetensors-size": WRONG["size"],
    "safetensors-overlap": packed(changed("b", data_offsets=[20, 28]), bytes(28)),
    "safetensors-hole": WRONG["hole"],
    "safetensors-end": WRONG["longer"],
    "safetensors-alignment": packed(json.dumps(GOOD).encode() + b" " * 3),
}  # fmt: skip


@pytest.mark.parametrize("code", RULES)
def test_a_broken_rule_is_found_by_check(tmp_path: Path, code: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(RULES[code])
    report = check(str(path))
    found = {one.rule.code for one in report.findings} - {"safetensors-alignment"}
    assert found == {code} - {"safetensors-alignment"}
    assert report.exit_code == {"safetensors-type": 1, "safetensors-alignment": 0}.get(code, 3)
    if code == "safetensors-alignment":
        assert report.findings[0].rule.code == code


def test_every_rule_is_tried() -> None:
    assert {rule.code for rule in safetensors.RULES} == RULES.keys()


def test_a_check_goes_on_behind_damage(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(packed({**changed("a", shape=[9]), "x": 3}))
    codes = [one.rule.code for one in check(str(path)).findings if one.is_error]
    assert codes == ["safetensors-size", "safetensors-entry"]


# -- several files and their index

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def model(path: Path, **document: object) -> Path:
    """Two files, three tensors and their index."""
    a, b = GOOD["a"], {**GOOD["b"], "data_offsets": [0, 8]}
    (path / FIRST).write_bytes(packed({"a": a}, bytes(24)))
    (path / SECOND).write_bytes(packed({"b": b, "c": {**b, "data_offsets": [8, 16]}}, bytes(16)))
    index = {
        "metadata": {"total_size": 40},
        "weight_map": {"a": FIRST, "b": SECOND, "c": SECOND},
        **document,
    }
    made = path / "model.safetensors.index.json"
    made.write_text(json.dumps(index))
    return made


def test_an_index_is_the_table_of_all_files(mtkit: Run, tmp_path: Path) -> None:
    path = model(tmp_path)
    assert not [one for one in check(str(path)).findings if one.rule.severity != "note"]
    document = json.loads(mtkit("inspect", path, "--json").stdout)
    found = {one["name"]: (one["shape"], one["file"]) for one in document["tensors"]}
    assert found == {"a": ([2, 3], FIRST), "b": ([4], SECOND), "c": ([4], SECOND)}
    assert (document["parameters"], document["missing"]) == (14, [])


def test_a_missing_file_is_named(mtkit: Run, tmp_path: Path) -> None:
    path = model(tmp_path)
    (tmp_path / SECOND).unlink()
    assert [one.rule.code for one in check(str(path)).findings if one.is_error] == ["index-file"]
    done = mtkit("inspect", path)
    rows = done.stdout.decode().splitlines()
    assert f"missing\t{SECOND}\t2" in rows
    assert any(row.startswith("tensor\tc\t\t") for row in rows)
    assert done.returncode == 0


MAPS: dict[str, dict[str, object]] = {
    "index-json": {"weight_map": [1]},
    "index-path": {"weight_map": {"a": FIRST, "b": SECOND, "c": SECOND, "d": "../x"}},
    "index-tensor": {"weight_map": {"a": FIRST, "b": SECOND, "c": SECOND, "d": SECOND}},
    "index-unlisted": {"weight_map": {"a": FIRST, "b": SECOND}},
    "index-total": {"metadata": {"total_size": 41}},
    "index-file": {"weight_map": {"a": FIRST, "b": SECOND, "c": SECOND, "d": "other.safetensors"}},
}


@pytest.mark.parametrize("code", MAPS)
def test_an_index_breaks_one_rule(tmp_path: Path, code: str) -> None:
    found = check(str(model(tmp_path, **MAPS[code]))).findings
    assert {one.rule.code for one in found} - {"safetensors-alignment"} == {code}


def test_every_rule_of_an_index_is_tried() -> None:
    assert {rule.code for rule in safetensors.INDEX_RULES} == MAPS.keys()


def test_damage_of_an_index_gives_a_value_or_an_error(tmp_path: Path) -> None:
    path = model(tmp_path)
    rng, whole = random.Random(6), path.read_bytes()
    for _ in range(500):
        data = bytearray(whole[: rng.randrange(len(whole) + 1)])
        for _ in range(rng.randrange(3)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        source = Source(str(path), bytes(data), folder=str(tmp_path))
        try:
            safetensors.read_index(source, strict=False)
        except FormatError as error:
            assert str(error).isprintable()
