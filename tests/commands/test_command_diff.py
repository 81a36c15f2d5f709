"""``mtkit diff``: what differs between two GGUF files, and nothing where nothing does."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from screens import check_screens
from support import reference

import mtkit as package
from mtkit.base.binary import Source
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.inspection.difference import find_difference

if TYPE_CHECKING:
    from pathlib import Path

    from mtkit.gguf import GgufFile

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
    tensors = [NewTensor(f"t{n}", (2,), F32, struct.pack("<2f", n, n)) for n in range(60)]
    for name, found in (("a.gguf", tensors), ("b.gguf", tensors[::-1])):
        (tmp_path / name).write_bytes(gguf_bytes([], found))
    same = check_screens("diff", tmp_path / "a.gguf", tmp_path / "b.gguf")
    assert "no difference" in same[80].words
