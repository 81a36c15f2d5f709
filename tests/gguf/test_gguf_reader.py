"""A GGUF of any version and byte order is read as laid out; a damaged one gives FormatError."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf_layout as lay
import pytest
from gguf_layout import Layout
from hypothesis import given
from hypothesis import strategies as st
from support import SHARED, absent, measured, reference, shared

from mtkit.base.binary import Source
from mtkit.commands.inspect import gguf as inspect_gguf
from mtkit.errors import FormatError
from mtkit.gguf import GgufArray, GgufFile, arrays, open_gguf, types
from mtkit.gguf.arrays import LENGTH_STRUCTS, ArrayReader
from mtkit.gguf.rules import MAX_ENTRIES, MAX_STRINGS
from mtkit.inspection.document import gguf_document
from mtkit.inspection.gguf import inspect_gguf as inspect

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


NEWER = {41, 42}  # of llama.cpp; gguf 0.19 may lack them
OLD_LAYOUT = {9}  # Q8_1: the library has two f32 a block, ggml two f16


def test_value_types() -> None:
    library = reference("gguf")
    names = {"u": "UINT", "i": "INT", "f": "FLOAT"}
    for kind in library.GGUFValueType:
        own = types.VALUE_TYPES[kind.value].name
        long = names[own[0]] + own[1:] if own[1:].isdecimal() else own.upper()
        assert kind.name == long
    assert len(types.VALUE_TYPES) == len(library.GGUFValueType)


def test_tensor_types() -> None:
    library = reference("gguf")
    known = {kind.value: kind for kind in library.GGMLQuantizationType}
    assert set(types.TENSOR_TYPES) - set(known) <= NEWER
    assert set(known) <= set(types.TENSOR_TYPES)
    for number, kind in known.items():
        own = types.TENSOR_TYPES[number]
        assert own.name == kind.name
        if number not in OLD_LAYOUT:
            assert (own.block, own.block_bytes) == library.GGML_QUANT_SIZES[kind]
    assert not set(types.REMOVED_TENSOR_TYPES) & set(types.TENSOR_TYPES)


def test_file_types() -> None:
    library = reference("gguf")
    for kind in library.LlamaFileType:
        if kind.value != types.GUESSED_FILE_TYPE:
            name = kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
            assert types.FILE_TYPES[kind.value].replace(", some F16", "_SOME_F16") == name


@pytest.fixture(scope="module")
def native() -> ModuleType:
    return pytest.importorskip("mtkit._native", reason="the native core is not built")


def result(data: bytes, count: int, *, wide: bool, big: bool, pure: bool) -> object:
    """End, positions and packed strings, or the message."""
    reader = ArrayReader(memoryview(data), LENGTH_STRUCTS[wide, big], big_endian=big, offset=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "FEWEST_NATIVE", 0)
        if pure:
            patch.setattr(arrays, "native_core", lambda _: None)
        try:
            marks = arrays.walk_strings(reader, "key", count)
            end = reader.offset
            pieces = arrays.pack_strings(reader, 3, end, count)
        except FormatError as error:
            return str(error)
    return end, list(marks), list(pieces)


@given(
    st.lists(st.binary(max_size=3), max_size=600),
    st.booleans(),
    st.booleans(),
    st.none() | st.tuples(st.floats(0, 1), st.sampled_from([0, 1, 2, 127, 128, 255])),
    st.integers(0, 12),
)
def test_native_is_python(
    native: ModuleType,
    texts: list[bytes],
    wide: bool,
    big: bool,
    damage: tuple[float, int] | None,
    cut: int,
) -> None:
    length = LENGTH_STRUCTS[wide, big]
    data = bytearray(b"abc" + b"".join(length.pack(len(text)) + text for text in texts) + b"tail")
    if damage:
        data[3 + int(damage[0] * (len(data) - 4))] = damage[1]
    raw = bytes(data[: max(3, len(data) - cut)])
    found = result(raw, len(texts), wide=wide, big=big, pure=True)
    assert result(raw, len(texts), wide=wide, big=big, pure=False) == found
    if not damage and cut <= 4:
        assert found == (len(data) - 4, marks_of(texts, length.size), texts)


def marks_of(texts: list[bytes], width: int) -> list[int]:
    starts = [3 + sum(len(text) + width for text in texts[:i]) for i in range(0, len(texts), 256)]
    return starts if texts else []


def test_lengths_beyond_the_file(native: ModuleType) -> None:
    for forged in (2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**64 - 8):
        data = b"abc" + LENGTH_STRUCTS[True, False].pack(forged) + b"x" * 20
        shown = result(data, 1, wide=True, big=False, pure=True)
        assert shown == result(data, 1, wide=True, big=False, pure=False)
        assert str(shown).startswith("key[0] at offset 11: needs ")


# Kinds of file whose oddity is in the container, not in the tokenizer.
CONTAINER = {"header", "count", "string length", "key", "string", "value type", "array", "bool",
             "float", "integer", "truncation", "alignment", "tensor name", "tensor shape",
             "tensor type", "tensor offset", "padding", "shards", "valid"}  # fmt: skip
MADE_FILES = 207
SECTIONS = ("summary", "metadata", "tensors", "layers", "places")


def cases() -> list[dict[str, Any]]:
    path = SHARED / "gguf-vocab" / "bad_expectations.json"
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = shared("gguf-vocab/make_bad_gguf.py")
    out = tmp_path_factory.mktemp("bad")
    subprocess.run([sys.executable, script, out], check=True, capture_output=True)
    return out


@pytest.mark.slow
def test_all_files_are_made(folder: Path) -> None:
    assert len(list(folder.glob("*.gguf"))) == len(cases()) == MADE_FILES


@pytest.mark.slow
def test_expectations_are_here() -> None:
    if not cases():
        absent("bad_expectations.json is not here", "MTKIT_REQUIRE_SHARED")


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_verdict(folder: Path, case: dict[str, Any]) -> None:
    path = folder / f"{case['name']}.gguf"
    begin = time.process_time()
    if case["want"] == "reject":
        with pytest.raises(FormatError) as caught:
            inspect(str(path))
        message = str(caught.value)
        assert message.startswith(str(folder))
        assert message.isprintable()
        assert len(message) < len(str(path)) + 250
    else:
        report = inspect(str(path))
        json.dumps(gguf_document(report), allow_nan=False)
        view = inspect_gguf.GgufView(report, None, None)
        assert list(inspect_gguf._pipe_rows(view, SECTIONS))
        if case["class"] in CONTAINER:
            assert bool(report.findings) == (case["want"] == "lenient" or is_later_shard(case))
    assert time.process_time() - begin < 1


def is_later_shard(case: dict[str, Any]) -> bool:
    """Seen from a later file, a wrong set is a warning, whatever the expectation calls it."""
    return case["name"] in {
        "s_no_1_first", "s_tensors_wrong-00002-of-00002", "s_dup-00002-of-00002",
    }  # fmt: skip


SAMPLE = (
    "h_empty", "h_magic_html", "h_n_kv_2e40", "k_bad_utf8", "k_nul_shadow", "v_str_controls",
    "v_str_1mib", "v_float_special", "a_nested_64", "a_nested_100000", "a_len_wrap",
    "a_empty_strings", "d_bytes_wrap", "o_wrap", "x_trunc_data", "m_name_type", "k_token_bad_utf8",
    "s_dup-00001-of-00002", "s_count2_alone-00001-of-00002", "z_base",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_command(folder: Path, name: str) -> None:
    want = {case["name"]: case["want"] for case in cases()}[name]
    command = (sys.executable, "-m", "mtkit", "inspect", folder / f"{name}.gguf")
    code, seconds, peak, stdout, stderr = measured(*command)
    assert code == (3 if want == "reject" else 0)
    errors = stderr.decode()
    if want == "reject":
        assert not stdout
        assert errors.startswith("mtkit: ")
        assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert all(char.isprintable() or char in "\n\t" for char in errors + stdout.decode())
    assert seconds < 1
    assert peak < 100e6
