"""The base of a .mtok byte by byte: files laid out by hand, every cut, forged counts, damage."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import FIXTURES

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.formats import mtok, recognize
from mtkit.formats.contract import WriteOptions
from mtkit.pipeline import Pipeline
from mtkit.spec import AddedToken, AddedTokens, SpecialIds, TokenizerSpec, Vocabulary
from mtkit.spec import decoders as de
from mtkit.spec import models as mo
from mtkit.spec import normalizers as no
from mtkit.spec import post_processors as po
from mtkit.spec import pre_tokenizers as pr
from mtkit.spec.text import Text
from mtkit.tokenizer.comparison import probe_texts


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<H", len(data)) + data


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


BPE = b"".join(
    [
        b"430 4\n1 1 1\n4 4 3\n",
        b"\x04" + u32(2) + b"\x02" + text("c") + b"\x03" + text("z") + text("b"),
        b"\x04" + text(r"\s+") + b"\x00\x01",
        b"\x00" + u32(5) + b"\x00\x00" + u32(1),
        text("<e>") + u32(4) + text("a") + u32(0) + text("ab") + u32(2),
        text("b") + u32(1) + text("c") + u32(3),
        u32(0, 1, 0),
        b"\x04",
        u32(1) + u32(4) + b"\x01\x00\x00" + text("<e>"),
        u32(2) + b"{}" + text("<e>") + b"\x01" + text("c"),
        b"\x02\x00" + b"\x00" + b"\x01" + u32(4),
    ]
)
WORD_PIECE = b"".join(
    [
        b"430 4\n0 0 0\n\n",
        b"\x07\x01\x01\x01\x01" + u32(1) + u32(0xE9) + text("e\u0301"),
        b"\x05",
        b"\x01" + u32(3) + text("[U]") + text("##") + u32(10),
        text("##b") + u32(1) + text("[U]") + u32(0) + text("e") + u32(2),
        b"\x03" + text("##") + b"\x00",
        u32(0),
    ]
)
UNIGRAM = b"".join(
    [
        b"430 4\n0 0 0\n\n",
        b"\x06" + u32(1) + u32(0x7A) + text("a"),
        b"\x06" + u32(2) + b"\x00" + b"\x03" + text("\u2581") + b"\x01",
        b"\x02" + u32(3) + u32(0) + b"\x00",
        text("<u>") + u32(0) + struct.pack("<d", -9.5),
        text("a") + u32(1) + struct.pack("<d", -1.25),
        text("\u2581") + u32(2) + struct.pack("<d", -2.0),
        b"\x07" + u32(2) + b"\x02" + text("\u2581") + b"\x01" + b"\x04",
        u32(0),
    ]
)
FILES = {"bpe": BPE, "word_piece": WORD_PIECE, "unigram": UNIGRAM}


def read(data: bytes) -> TokenizerSpec:
    return mtok.read(Source("x.mtok", data), {}).spec


@pytest.mark.parametrize(
    ("name", "value", "ids"),
    [
        ("bpe", "a zb", [3, 3, 0, 1, 1, 4]),
        ("bpe", "ab<e>", [3, 3, 2, 4, 4]),
        ("word_piece", "\u00e9b E", [2, 1, 2]),
        ("word_piece", "q", [0]),
        ("unigram", "z a", [2, 1, 2, 1]),
        ("unigram", "qq", [2, 0]),
    ],
)
def test_files_laid_out_by_hand(name: str, value: str, ids: list[int]) -> None:
    assert Pipeline(read(FILES[name])).encode_ids(value) == ids


def test_every_field_of_a_file_laid_out_by_hand() -> None:
    spec = read(BPE)
    assert spec.prefix_ids == (3,)
    assert spec.special_ids == SpecialIds(bos=3, eos=4, stop=(4,))
    assert spec.clean_up_spaces == "contractions"
    assert [template.text for template in spec.chat_templates] == ["{}"]
    assert spec.added_tokens.tokens == (AddedToken(4, b"<e>", special=True),)
    assert read(UNIGRAM).vocabulary.scores == Numbers.of("f", [-9.5, -1.25, -2.0])


def test_the_writer_lays_out_the_same_bytes() -> None:
    spec = TokenizerSpec(
        Vocabulary(Pieces.of([b"a", b"b", b"ab", b"c"])),
        mo.BPE(mo.Merges(Numbers.of("I", [0, 1]), Pieces.of(()))),
        normalizer=no.Sequence((no.Prepend("c", empty=True), no.Replace(Text("z"), "b"))),
        pre_tokenizer=pr.WhitespaceSplit(),
        decoder=de.Fuse(),
        post_processor=po.Template((po.Slot(ids=(3,)), po.Slot(text=0), po.Slot(ids=(4,)))),
        added_tokens=AddedTokens((AddedToken(4, b"<e>", special=True),), strip="ascii"),
        special_ids=SpecialIds(bos=3, eos=4, stop=(4,)),
        clean_up_spaces="contractions",
        chat_templates=read(BPE).chat_templates,
        invalid_utf8="keep",
    )
    written = mtok.write(spec, WriteOptions(extension=False))
    assert written.files[".mtok"] == BPE
    assert {loss.code for loss in written.losses} <= {"ids-possible"}


@pytest.mark.parametrize("name", FILES)
def test_every_cut_is_refused_but_between_blocks(name: str) -> None:
    data = FILES[name]
    loaded = []
    for size in range(len(data)):
        with contextlib.suppress(FormatError):
            read(data[:size])
            loaded.append(len(data) - size)
    # Behind the added tokens, the template, EOS, flags and BOS: sizes of the blocks from the end.
    assert loaded == ([23, 17, 12, 11, 8] if name == "bpe" else [])


@pytest.mark.parametrize("value", [1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("name", FILES)
def test_forged_counts_are_refused_or_mean_nothing(name: str, value: int) -> None:
    data = FILES[name]
    start = data.index(b"\n", data.index(b"\n", 6) + 1)
    for at in range(start, len(data) - 4):
        damaged = bytearray(data)
        struct.pack_into("<I", damaged, at, value)
        with contextlib.suppress(FormatError):
            assert len(read(bytes(damaged)).vocabulary) < 10


@settings(max_examples=300)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_damage_is_one_clear_error_or_a_tokenizer(name: str, data: st.DataObject) -> None:
    content = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        spec = mtok.other_readings()["mnn"].read(Source("damaged", bytes(content))).spec
    except FormatError as error:
        assert "\n" not in str(error)
    else:
        assert len(spec.vocabulary) <= len(content)


@pytest.mark.parametrize("depth", [63, 100, 20000])
def test_nesting_is_bounded(depth: int) -> None:
    nested = b"\x04" + u32(1)
    data = b"430 4\n0 0 0\n\n" + nested * depth + b"\x00" + WORD_PIECE[28:]
    with pytest.raises(FormatError):
        read(data)


@pytest.mark.parametrize(
    "name",
    [
        "bbpe-8k/tokenizer.json",
        "bbpe-8k/vocab.gguf",
        "spm-bpe/tokenizer.json",
        "spm-bpe/tokenizer.model",
        "spm-bpe/vocab.gguf",
    ],
)
def test_mnn_reads_the_same_ids_from_the_base(name: str) -> None:
    source = Source.open(str(FIXTURES / name))
    file = Source(
        "x", mtok.write(recognize(source).read(source, {}).spec, WriteOptions()).files[".mtok"]
    )
    ours, theirs = (
        Pipeline(mtok.read(file, {}).spec),
        Pipeline(mtok.other_readings()["mnn"].read(file).spec),
    )
    texts = list(probe_texts())
    assert len(texts) > 20
    different = [value for value in texts if ours.encode_ids(value) != theirs.encode_ids(value)]
    assert [value for value in different if "<" not in value] == []
