"""``mtkit diff``: what differs between two files or model folders, and what a conversion cost."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_folders import TYPES, values, write_folder
from screens import check_screens
from support import Run, one_line, reference

import mtkit as package
from mtkit.base.binary import Source
from mtkit.checkpoints import model_folder
from mtkit.checkpoints.folder_files import MODEL_CONFIG, WEIGHTS
from mtkit.conversion.folder_report import folder_side
from mtkit.conversion.model import convert_model
from mtkit.gguf import GgufFile, open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.values import decode_values, encode_values
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.inspection.difference import find_difference

MODEL = os.path.join(os.path.dirname(package.__file__), "data", "default-model.gguf")
BY_NAME = {one.name: one for one in TENSOR_TYPES.values()}
F32 = BY_NAME["F32"]


def read(keys: list[Key], tensors: list[NewTensor] | None = None) -> GgufFile:
    return open_gguf(Source("made.gguf", gguf_bytes(keys, tensors or [])))


VALUES = st.one_of(
    st.tuples(st.just("u32"), st.integers(0, 3)),
    st.tuples(st.just("string"), st.sampled_from(["", "a", "b"])),
    st.tuples(st.just("f32"), st.sampled_from([0.0, -0.0, 1.0, float("nan")])),
    st.tuples(st.just("i32[]"), st.lists(st.integers(-1, 1), max_size=4)),
    st.tuples(st.just("string[]"), st.lists(st.sampled_from(["a", "bc"]), max_size=4)),
)
FILES = st.dictionaries(st.sampled_from("abcd"), VALUES)


@given(FILES, FILES)
def test_every_key_that_differs_and_no_other(
    one: dict[str, tuple[str, object]], other: dict[str, tuple[str, object]]
) -> None:
    files = [
        read([Key(name, kind, value) for name, (kind, value) in made.items()])
        for made in (one, other)
    ]
    found = {change.key: change for change in find_difference(*files).keys}
    wanted = {name for name in {*one, *other} if repr(one.get(name)) != repr(other.get(name))}
    assert found.keys() == wanted
    for name, change in found.items():
        kind = "removed" if name not in other else "added" if name not in one else "changed"
        assert change.change == kind
        if change.elements:
            before, after = one[name][1], other[name][1]
            assert isinstance(before, list)
            assert isinstance(after, list)
            apart = sum(a != b for a, b in zip(before, after, strict=False))
            assert change.different == apart + abs(len(before) - len(after))
    assert find_difference(files[0], files[0]).equal


def test_errors_are_those_of_the_numbers() -> None:
    numpy = reference("numpy")
    rng = numpy.random.default_rng(5)
    before = rng.normal(size=512).astype("<f4")
    after = before + rng.normal(size=512, scale=0.01).astype("<f4")
    quants, types = reference("gguf.quants"), reference("gguf").GGMLQuantizationType
    packed = quants.quantize(after, types.Q8_0)
    files = (
        read([], [NewTensor("t", (512,), F32, before.tobytes())]),
        read([], [NewTensor("t", (512,), BY_NAME["Q8_0"], packed.tobytes())]),
    )
    done = find_difference(*files, values=True)
    assert done.is_quantization
    errors = done.tensors[0].errors
    assert errors is not None
    apart = quants.dequantize(packed, types.Q8_0).astype("f8") - before.astype("f8")
    assert errors.largest == pytest.approx(numpy.abs(apart).max())
    assert errors.rmse == pytest.approx(numpy.sqrt((apart**2).mean()))
    assert 0.999 < errors.cosine < 1
    assert find_difference(*files).tensors[0].errors is None


def test_one_byte_is_enough() -> None:
    data = bytearray(1 << 23)
    one = read([], [NewTensor("t", (1 << 21,), F32, bytes(data))])
    data[(1 << 22) + 17] = 1
    other = read([], [NewTensor("t", (1 << 21,), F32, bytes(data))])
    (change,) = find_difference(one, other).tensors
    assert (change.name, change.change) == ("t", "changed")
    assert not find_difference(one, other).is_quantization


def edited(folder: Path) -> Path:
    draft = Draft.of(open_gguf(MODEL))
    draft.set(Key("general.name", "string", "renamed"))
    draft.set(Key("tokenizer.chat_template", "string", "{{ a }}\n{{ b }}"))
    draft.unset("general.license")
    path = folder / "edited.gguf"
    path.write_bytes(b"".join(draft.chunks()))
    return path


def test_screens(tmp_path: Path) -> None:
    shown = check_screens("diff", MODEL, edited(tmp_path), code=1)
    assert "only the metadata differs" in shown[80].words
    assert "+{{ a }}" in shown[80].words
    assert "tokenizer.chat_template" in shown[80].words
    assert "15 characters" in shown[80].words
    tensors = [NewTensor(f"t{n}", (2,), F32, struct.pack("<2f", n, n)) for n in range(60)]
    for name, found in (("a.gguf", tensors), ("b.gguf", tensors[::-1])):
        (tmp_path / name).write_bytes(gguf_bytes([], found))
    same = check_screens("diff", tmp_path / "a.gguf", tmp_path / "b.gguf")
    assert "no difference" in same[80].words


def test_long_values_are_wrapped_and_escaped_once(tmp_path: Path, mtkit: Run) -> None:
    for name, text in (("a", "x" * 150), ("b", "y" * 150 + "\n\\n")):
        (tmp_path / name).write_bytes(gguf_bytes([Key("general.name", "string", text)], []))
    done = mtkit("diff", str(tmp_path / "a"), str(tmp_path / "b"))
    assert done.stdout.decode().split("\t")[-1] == "y" * 150 + "\\n\\n\n"
    shown = check_screens("diff", tmp_path / "a", tmp_path / "b", code=1)
    assert shown[80].words.count("x") >= 150
    assert shown[80].words.count("y") >= 150
    assert "…" not in shown[80].words


Q, K = "model.layers.1.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "q8_0"])
@pytest.mark.parametrize(
    ("architecture", "weights"), [("LlamaForCausalLM", "BF16"), ("MixtralForCausalLM", "F32")]
)
def test_a_converted_file_is_equal(
    tmp_path: Path, architecture: str, weights: str, kind: str
) -> None:
    path = write_folder(tmp_path / "model", architecture, kind=weights)
    target = tmp_path / "made.gguf"
    convert_model(path, target, kind=kind)
    done = find_difference(folder_side(str(path)), open_gguf(str(target)), values=True)
    assert (done.equal, done.is_made, done.same_names) == (True, True, True)
    assert {one.key for one in done.naming} <= {"general.file_type"}
    assert {one.change for one in done.measured} <= {"same"}
    back = find_difference(open_gguf(str(target)), folder_side(str(path)))
    assert back.is_made


@pytest.mark.slow
def test_the_error_is_that_of_each_tensor(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model")
    target = tmp_path / "made.gguf"
    convert_model(path, target, kind="q8_0")
    done = find_difference(folder_side(str(path)), open_gguf(str(target)), values=True)
    found = {one.name: one.errors for one in done.measured}
    for name, source in (("blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"),
                         ("blk.1.attn_q.weight", Q)):  # fmt: skip
        shape = model_folder.read(str(path)).tensors[source].weight.shape
        bf16 = TYPES["BF16"]
        before = decode_values(encode_values(values(source, shape), bf16), "BF16").astype("f8")
        after = decode_values(encode_values(before.astype("f4"), TYPES["Q8_0"]), "Q8_0").astype(
            "f8"
        )
        apart = ((before - after) ** 2).reshape(shape)
        errors = found[name]
        assert errors is not None
        assert errors.rmse == pytest.approx(np.sqrt(apart.mean()))
        assert errors.deviation == pytest.approx(before.std())
        assert errors.worst_rmse == pytest.approx(np.sqrt(apart.mean(1).max()))
        if name == "blk.1.ffn_down.weight":  # rows of queries stand in another order in a GGUF
            assert errors.worst_row == apart.mean(1).argmax()
    rows = [
        row.split("\t")
        for row in mtkit("diff", path, target, "--values").stdout.decode().split("\n")
    ]
    (total,) = [row for row in rows if row[0] == "total"]
    sums = done.sums
    assert sums is not None
    assert total[1:4] == [str(sums.elements), *map(str, sums.n_bytes)]
    assert sums.elements == 1098048
    squares = sum(one.rmse**2 * one.count for one in found.values() if one)
    assert sums.rmse == pytest.approx((squares / sums.elements) ** 0.5)
    document = json.loads(mtkit("diff", path, target, "--values", "--json").stdout)
    assert (document["equal"], document["is_conversion"]) == (True, True)
    assert len(document["converted"]) == len(found)
    assert document["sums"]["foreign"] == 0


def changed(path: Path, name: str, array: Any) -> None:
    """Write other values into a tensor of a folder of BF16."""
    found = model_folder.read(str(path)).tensors[name]
    data = encode_values(np.asarray(array, "<f4"), TYPES["BF16"]).tobytes()
    assert len(data) == len(found.data)
    whole = (path / WEIGHTS).read_bytes()
    head = 8 + int.from_bytes(whole[:8], "little")
    at = head + found.weight.offset
    (path / WEIGHTS).write_bytes(whole[:at] + data + whole[at + len(data) :])


@pytest.mark.slow
def test_other_weights_are_found(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model")
    target = tmp_path / "made.gguf"
    convert_model(path, target, kind="q8_0")
    shape = (64, 64)
    changed(path, Q, values("others", shape))
    done = find_difference(folder_side(str(path)), open_gguf(str(target)), values=True)
    assert [(one.name, one.change) for one in done.tensors] == [("blk.1.attn_q.weight", "changed")]
    assert [one.name for one in done.foreign] == ["blk.1.attn_q.weight"]
    (errors,) = [one.errors for one in done.foreign]
    assert errors is not None
    assert errors.relative == pytest.approx(2**0.5, rel=0.1)  # of what has nothing in common
    shown = check_screens("diff", path, target, "--values", code=1)
    assert "1 of 21 tensors are not made of the other's weights" in shown[80].words
    assert mtkit("diff", path, target).stdout.startswith(b"naming\tgeneral.file_type\tchanged\t")


@pytest.mark.slow
def test_one_row_is_enough(tmp_path: Path) -> None:
    """The worst row is the one that was changed, counted in the order of a GGUF."""
    path = write_folder(tmp_path / "model")
    target = tmp_path / "made.gguf"
    convert_model(path, target, kind="bf16")
    array = values(K, (32, 64)).copy()
    array[17] += 1
    changed(path, K, array)
    done = find_difference(folder_side(str(path)), open_gguf(str(target)), values=True)
    (one,) = done.tensors
    assert one.errors is not None
    # Row 17 of a head of 16 is row 1 of the second head, in the first half: pairs come together.
    assert (one.name, one.errors.worst_row) == ("blk.0.attn_k.weight", 16 + 2)


@pytest.mark.slow
def test_keys_count_and_names_do_not(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model")
    target = tmp_path / "made.gguf"
    convert_model(path, target)
    draft = Draft.of(open_gguf(str(target)))
    draft.set(Key("general.name", "string", "another"))
    draft.set(Key("general.license", "string", "mit"))
    renamed = tmp_path / "renamed.gguf"
    renamed.write_bytes(b"".join(draft.chunks()))
    done = mtkit("diff", path, renamed)
    assert done.returncode == 0
    rows = [row.split("\t") for row in done.stdout.decode().splitlines()]
    assert {tuple(row[:3]) for row in rows} == {
        ("naming", "general.name", "changed"), ("naming", "general.license", "added")
    }  # fmt: skip
    draft.set(Key("llama.rope.freq_base", "f32", 5.0))
    draft.tensors.pop("output.weight")
    other = tmp_path / "other.gguf"
    other.write_bytes(b"".join(draft.chunks()))
    done = mtkit("diff", path, other, "--values")
    assert done.returncode == 1
    rows = [row.split("\t") for row in done.stdout.decode().splitlines()]
    assert ["metadata", "llama.rope.freq_base", "changed", "10000.0", "5.0"] in rows
    assert ["tensor", "output.weight", "removed", "BF16 64 × 8000", ""] in rows
    shown = check_screens("diff", path, other, "--values", code=1)[80]
    assert "tensors differ" in shown.words


@pytest.mark.slow
def test_two_folders(mtkit: Run, tmp_path: Path) -> None:
    one, other = (write_folder(tmp_path / name, files=n) for name, n in (("a", 1), ("b", 2)))
    same = mtkit("diff", one, other)
    assert (same.returncode, same.stdout) == (0, b"naming\tgeneral.name\tchanged\tA\tB\n")
    third = write_folder(tmp_path / "c", config={"rope_theta": 500000.0}, kind="F16")
    rows = [row.split("\t") for row in mtkit("diff", one, third).stdout.decode().splitlines()]
    assert ["metadata", "llama.rope.freq_base", "changed", "10000.0", "500000.0"] in rows
    assert ["tensor", "output.weight", "changed", "BF16 64 × 8000", "F16 64 × 8000"] in rows


@pytest.mark.slow
def test_what_cannot_be_compared_is_one_error(mtkit: Run, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "model")
    target = tmp_path / "made.gguf"
    convert_model(path, target)
    config = json.loads((path / MODEL_CONFIG).read_text())
    (path / MODEL_CONFIG).write_text(json.dumps({**config, "architectures": ["NoSuchLM"]}))
    assert "does not convert" in one_line(mtkit("diff", path, target), 4)
    shutil.rmtree(path)
    assert mtkit("diff", path, target).returncode == 2


@pytest.mark.slow
def test_files_of_which_nothing_can_be_measured(mtkit: Run, tmp_path: Path) -> None:
    one, other = (tmp_path / f"{name}.gguf" for name in "ab")
    convert_model(write_folder(tmp_path / "a"), one)
    draft = Draft.of(open_gguf(str(one)))
    draft.tensors.clear()
    other.write_bytes(b"".join(draft.chunks()))
    done = mtkit("diff", one, other, "--values")
    assert done.stdout.splitlines()[-1].startswith(b"total\t0\t")
    shown = check_screens("diff", one, other, "--values", code=1)
    assert "no tensor could be measured" in shown[80].words
