"""The extension of a .mtok brings back every specification; MNN's part stays MNN's."""

from __future__ import annotations

import struct
from functools import lru_cache
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import FIXTURES

from mtkit import engine
from mtkit.base.binary import Source
from mtkit.base.packed import Pieces
from mtkit.errors import FormatError, MtkitError, UnsupportedError
from mtkit.formats import mtok, recognize
from mtkit.formats.contract import Reading, WriteOptions, Written
from mtkit.formats.mtok.extension import append_extension, find_extension
from mtkit.formats.mtok.writer import spec_section
from mtkit.spec import TokenizerSpec, Vocabulary, models, replace

SOURCES = sorted(
    str(path.relative_to(FIXTURES))
    for pattern in ("*/tokenizer.json", "*/tokenizer.model", "*/vocab.gguf", "*/tokenizer.bin")
    for path in FIXTURES.glob(pattern)
)


def spec_of(name: str) -> TokenizerSpec:
    source = Source.open(str(FIXTURES / name))
    return recognize(source).read(source, {}).spec


@lru_cache(maxsize=4)
def written(name: str, *, extension: bool = True) -> Written:
    options = WriteOptions(extension=extension, values=(("tables", "no"),))
    return mtok.write(spec_of(name), options)


def file_of(name: str) -> bytes:
    return written(name).files[".mtok"]


@pytest.mark.parametrize("name", SOURCES)
def test_every_fixture_comes_back(name: str) -> None:
    assert len(SOURCES) > 10
    spec = spec_of(name)
    result = mtok.write(spec, WriteOptions())
    assert result.losses == ()
    source = Source("x.mtok", result.files[".mtok"])
    assert mtok.sniff(source)
    assert mtok.read(source, {}).spec == spec
    # Written again, the bytes are the same.
    assert mtok.write(mtok.read(source, {}).spec, WriteOptions()).files == result.files


def test_the_extension_is_small() -> None:
    base = written("bbpe-8k/tokenizer.json", extension=False).files[".mtok"]
    assert file_of("bbpe-8k/tokenizer.json").startswith(base)
    assert len(file_of("bbpe-8k/tokenizer.json")) < len(base) + 4096


def test_base_and_its_losses_can_be_asked_for() -> None:
    base = mtok.write(spec_of("wordpiece/tokenizer.json"), WriteOptions(extension=False))
    whole = written("wordpiece/tokenizer.json")
    mnn = mtok.other_readings()["mnn"]
    for made in (whole, base):
        assert mnn.length(Source("x", made.files[".mtok"])) == len(base.files[".mtok"])
    assert dict(whole.partial)["mnn"] == base.losses != ()


def test_tables_are_found_without_reading_the_specification() -> None:
    spec = spec_of("spm-bpe/tokenizer.json")
    data = mtok.write(spec, WriteOptions(values=(("tables", "yes"),))).files[".mtok"]
    tables = mtok.engine_tables(Source("x", data))
    assert {tag: bytes(table) for tag, table in tables.items()} == engine.tables(spec)
    for content in tables.values():
        assert content.obj is data
    assert data.index(bytes(tables["PROG"])) % 64 == 0
    assert mtok.read(Source("x", data), {}).spec == spec
    assert mtok.engine_tables(Source("x", data[:-1])) == {}


def test_tables_are_there_unless_they_are_left_out_or_cannot_be_made() -> None:
    spec = spec_of("spm-bpe/tokenizer.json")
    for model, made in ((spec.model, True), (replace(spec.model, dropout=0.5), False)):
        one = replace(spec, model=model)
        for choice in ("", "yes", "no"):
            options = WriteOptions(values=(("tables", choice),) if choice else ())
            if choice == "yes" and not made:
                with pytest.raises(UnsupportedError):
                    mtok.write(one, options)
                continue
            source = Source("x", mtok.write(one, options).files[".mtok"])
            assert bool(mtok.engine_tables(source)) == (made and choice != "no")
            assert mtok.read(source, {}).spec == one


def read_as_mnn(source: Source) -> Reading:
    return mtok.other_readings()["mnn"].read(source)


def test_bytes_behind_the_base_do_not_change_what_mnn_reads() -> None:
    for name in ("bbpe-8k/tokenizer.json", "spm-unigram-id/vocab.gguf", "wordpiece/vocab.gguf"):
        base = mtok.write(spec_of(name), WriteOptions(extension=False)).files[".mtok"]
        both = mtok.write(spec_of(name), WriteOptions()).files[".mtok"]
        assert read_as_mnn(Source("x", both)) == read_as_mnn(Source("x", base))


def test_unknown_sections_are_skipped_unless_they_are_needed() -> None:
    spec = spec_of("spm-bpe/tokenizer.json")
    base = mtok.write(spec, WriteOptions(extension=False)).files[".mtok"]
    whole = find_extension(mtok.write(spec, WriteOptions()).files[".mtok"])
    assert whole is not None
    parts = [(tag, whole.flags[tag], bytes(data)) for tag, data in whole.sections.items()]
    assert (
        mtok.read(Source("x", append_extension(base, [*parts, ("ZZZZ", 0, b"?")])), {}).spec == spec
    )
    with pytest.raises(UnsupportedError, match="ZZZZ"):
        mtok.read(Source("x", append_extension(base, [*parts, ("ZZZZ", 1, b"?")])), {})


def test_the_length_that_changes_the_base_is_avoided() -> None:
    plain = append_extension(b"x" * 50, [("SPEC", 1, b"{}")])
    length = len(plain) - 50
    other = append_extension(b"x" * 50, [("SPEC", 1, b"{}")], forbidden_length=length)
    assert len(other) - 50 != length
    assert bytes(find_extension(other).sections["SPEC"]) == b"{}"


def test_every_cut_is_noticed() -> None:
    data = file_of("spm-unigram-id/tokenizer.json")
    extension = find_extension(data)
    assert extension is not None
    for size in range(extension.head + 4, len(data)):
        if size > extension.head + 200 and size < len(data) - 60 and size % 97:
            continue
        with pytest.raises(FormatError):
            mtok.read(Source("cut", data[:size]), {})


def test_a_changed_byte_is_noticed() -> None:
    data = file_of("spm-unigram-id/tokenizer.json")
    extension = find_extension(data)
    assert extension is not None
    places = [*range(0, extension.base_length, 4999), *range(extension.head, len(data), 7)]
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        if len(data) - 8 <= at:
            continue  # without its mark there is no extension: tested by the cuts
        with pytest.raises(MtkitError):
            mtok.read(Source("damaged", bytes(damaged)), {})


@pytest.mark.parametrize("value", [1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1])
def test_forged_numbers_are_refused(value: int) -> None:
    data = file_of("spm-unigram-id/tokenizer.json")
    extension = find_extension(data)
    assert extension is not None
    foot = len(data) - 40
    table = extension.head + 16
    fields = [(extension.head + 8, "<I"), (table + 8, "<Q"), (table + 16, "<Q")]
    fields += [(foot, "<Q"), (foot + 8, "<Q"), (foot + 24, "<Q")]
    for at, layout in fields:
        damaged = bytearray(data)
        struct.pack_into(layout, damaged, at, value & (0xFFFFFFFF if layout == "<I" else value))
        struct.pack_into("<I", damaged, foot + 20, crc32(damaged[extension.head : foot]))
        with pytest.raises(FormatError):
            mtok.read(Source("forged", bytes(damaged)), {})


def small_spec() -> TokenizerSpec:
    return TokenizerSpec(Vocabulary(Pieces.of([b"a", b"b"])), models.WordLevel(0))


@settings(max_examples=200)
@given(st.data())
def test_a_forged_specification_is_refused(data: st.DataObject) -> None:
    base = mtok.write(small_spec(), WriteOptions(extension=False)).files[".mtok"]
    from mtkit.formats.mtok.columns import Keeper
    from mtkit.formats.mtok.reader import read_base_columns

    content = bytearray(spec_section(small_spec(), Keeper(read_base_columns(base))))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + data.draw(st.integers(0, 4))] = data.draw(
        st.sampled_from([b"", b"9" * 30, b"null", b"[", b'"', b"-1", b"\xff", b"{}", b"1e999"])
    )
    source = Source("forged", append_extension(base, [("SPEC", 1, bytes(content))]))
    try:
        mtok.read(source, {})
    except MtkitError as error:
        assert "\n" not in str(error)
