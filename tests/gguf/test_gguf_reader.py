"""A GGUF of any version and byte order is read as laid out; a damaged one gives FormatError."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any

import gguf_layout as lay
import pytest
from gguf_layout import Layout
from hypothesis import given
from hypothesis import strategies as st

from mtkit.base.binary import Source
from mtkit.errors import FormatError
from mtkit.gguf import GgufArray, GgufFile, open_gguf
from mtkit.gguf.rules import MAX_ENTRIES, MAX_STRINGS

if TYPE_CHECKING:
    from pathlib import Path

LAYOUTS = [Layout(1), Layout(2), Layout(3), Layout(3, ">")]
IDS = ["v1", "v2", "v3", "v3-big-endian"]


def read(data: bytes) -> GgufFile:
    return open_gguf(Source("test.gguf", data))


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def expected(kind: int, value: Any) -> Any:
    if kind == lay.STRING:
        return text(value)
    if kind == lay.ARRAY:
        return [expected(value[0], item) for item in value[1]]
    return bool(value) if kind == lay.BOOL else value


def plain(value: Any) -> Any:
    return [plain(item) for item in value] if isinstance(value, GgufArray) else value


@pytest.mark.parametrize("layout", LAYOUTS, ids=IDS)
def test_every_type_is_read(layout: Layout) -> None:
    file = read(lay.sample(layout))
    assert file.version == layout.version
    assert file.byte_order == ("big" if layout.order == ">" else "little")
    assert list(file.metadata) == [text(key) for key in (*lay.SCALARS, *lay.ARRAYS)]
    for key, (kind, value) in lay.SCALARS.items():
        found = file.metadata[text(key)]
        assert found == expected(kind, value)
        assert type(found) is type(expected(kind, value))
        number = file.metadata.entries[text(key)].type.number
        assert number == kind
    for key, (kind, values) in lay.ARRAYS.items():
        found = file.metadata[text(key)]
        assert found.element.number == kind
        assert plain(found) == expected(lay.ARRAY, (kind, values))
        assert [plain(found[i]) for i in range(len(found))] == plain(found)
        if kind == lay.STRING:
            assert list(found.pieces()) == list(found.raws()) == values
    assert file.data_offset % 32 == 0
    first, second = file.tensors
    assert (first.name, first.shape, first.type.name) == ("t.f32", (3, 2), "F32")
    assert (first.offset, first.n_elements, first.n_bytes) == (0, 6, 24)
    assert (second.shape, second.type.name, second.offset, second.n_bytes) == (
        (32,),
        "Q8_0",
        32,
        34,
    )
    assert bytes(file.tensor_data(first)) == bytes(range(24))
    assert bytes(file.tensor_data(second)) == bytes(range(32, 64)) + bytes(2)
    assert [finding.field for finding in file.findings] == ["a.bad"]
    assert file.trailing_bytes == 0


def test_numbers_are_a_view_of_a_little_endian_file() -> None:
    data = lay.sample(Layout(3))
    numbers = read(data).metadata["b.u32"].numbers()
    assert numbers.data.obj is data


def test_indices_behave_as_in_a_list() -> None:
    array = read(lay.sample(Layout(3))).metadata["b.strings"]
    values = [text(raw) for raw in lay.ARRAYS[b"b.strings"][1]]
    assert array[-1] == values[-1]
    assert array[250:520:7] == values[250:520:7]
    for index in (600, -601):
        with pytest.raises(IndexError):
            array[index]


@pytest.mark.parametrize("layout", LAYOUTS, ids=IDS)
def test_every_cut_is_an_error(layout: Layout) -> None:
    data = lay.small(layout)
    assert read(data).findings == ()
    for size in range(len(data)):
        with pytest.raises(FormatError) as caught:
            read(data[:size])
        assert caught.value.field
        assert caught.value.offset is not None
        assert caught.value.offset <= size
        assert "\n" not in str(caught.value)


def test_a_cut_that_leaves_a_valid_file_is_read() -> None:
    layout = Layout(3)
    keys = [layout.key(b"a.b", lay.U8, 1)]
    data = layout.file(keys)
    assert read(data + bytes(31)).trailing_bytes > 0  # 31 zero bytes are more than the padding
    assert read(data + bytes(-len(data) % 32)).trailing_bytes == 0
    assert read(data).trailing_bytes == 0


FORGED = [2**31, 2**32 - 1, 2**63, 2**64 - 1]


def count_positions(layout: Layout, data: bytes) -> list[int]:
    """Offsets of the counts and lengths of ``small``: fields of the width of a count."""
    wide = struct.calcsize(layout.wide)
    places = [8, 8 + wide]
    for text_of in (b"general.architecture", b"llama", b"tokenizer.ggml.tokens", b"<unk>",
                    b"tokenizer.ggml.scores", b"x.nested", b"x.last"):  # fmt: skip
        places.append(data.index(text_of) - wide)
    for key in (b"tokenizer.ggml.tokens", b"tokenizer.ggml.scores", b"x.nested"):
        places.append(data.index(key) + len(key) + 8)  # behind value type and element type
    nested = data.index(b"x.nested") + len(b"x.nested") + 8 + wide
    places.append(nested + 4)
    return places


@pytest.mark.parametrize(
    ("layout", "forged"),
    [
        pytest.param(layout, forged, id=f"{name}-{forged:x}")
        for layout, name in zip(LAYOUTS, IDS, strict=True)
        for forged in FORGED
        if forged < 2**32 or layout.version > 1
    ],
)
def test_forged_counts_are_errors(layout: Layout, forged: int) -> None:
    data = lay.small(layout)
    begin = time.process_time()
    for at in count_positions(layout, data):
        field = layout.pack(layout.wide, forged)
        with pytest.raises(FormatError):
            read(data[:at] + field + data[at + len(field) :])
    assert time.process_time() - begin < 1


def test_forged_element_counts_of_strings() -> None:
    """Lengths whose sum passes the end, or wraps 64 bits, in the middle of an array."""
    layout = Layout(3)
    for forged in FORGED:
        body = layout.string(b"ok") * 300 + layout.pack("Q", forged) + b"x" + layout.string(b"") * 9
        raw = layout.string(b"k") + layout.pack("IIQ", lay.ARRAY, lay.STRING, 310) + body
        with pytest.raises(FormatError) as caught:
            read(layout.file([raw]))
        assert caught.value.field == "k[300]"


@given(st.data())
def test_damaged_bytes_give_a_file_or_a_format_error(data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from(LAYOUTS))
    raw = bytearray(lay.sample(layout) if data.draw(st.booleans()) else lay.small(layout))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, raw[at] ^ 1]))
    try:
        file = read(bytes(raw))
    except FormatError:
        return
    for value in file.metadata.values():
        plain(value)
    for tensor in file.tensors:
        assert len(file.tensor_data(tensor)) == tensor.n_bytes


def test_standard_input_and_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(lay.small(Layout(3)))
    file = open_gguf(path)
    assert file.name == str(path)
    path.write_bytes(b"")
    with pytest.raises(FormatError, match=r"a\.gguf: magic at offset 0: the file is empty"):
        open_gguf(path)


def test_limits_are_named() -> None:
    layout = Layout(3)
    head = b"GGUF" + layout.pack("IQQ", 3, 0, MAX_ENTRIES + 1)
    with pytest.raises(FormatError, match=r"metadata_kv_count at offset 16: is 262145, but the l"):
        read(head + bytes(14 * (MAX_ENTRIES + 2)))
    strings = layout.string(b"k") + layout.pack("IIQ", lay.ARRAY, lay.STRING, MAX_STRINGS + 1)
    data = layout.file([strings]) + bytes(8 * (MAX_STRINGS + 1))
    begin = time.process_time()
    with pytest.raises(FormatError, match=r"k at offset 49: has 16777217 strings, but the limit"):
        read(data)
    assert time.process_time() - begin < 1
