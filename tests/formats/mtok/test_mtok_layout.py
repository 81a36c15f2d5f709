"""The base of a .mtok byte by byte, what MNN's loader makes of it, the native parsers of tables."""

from __future__ import annotations

import base64
import contextlib
import struct
from array import array
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import FIXTURES, shared, shared_json_lines

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import load_engine
from mtkit.errors import FormatError
from mtkit.formats import mtok, recognize
from mtkit.formats.contract import WriteOptions
from mtkit.formats.mtok.model_reader import parse_merges, parse_vocab
from mtkit.pipeline import Pipeline
from mtkit.pipeline.byte_decoders import decode_single_token
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


BASE_FILES = (
    "bert_uncased",
    "gpt2",
    "phi3",
    "t5_small",
    "t_bert",
    "t_gemma",
    "t_gpt2",
    "t_llama2",
    "t_llama3",
    "t_qwen",
    "t_t5",
    "t_uni_bf",
)


@lru_cache(maxsize=2)
def spec_of(name: str) -> TokenizerSpec:
    return mtok.other_readings()["mnn"].read(Source.open(str(shared(f"mtok/{name}.mtok")))).spec


@pytest.mark.parametrize("name", BASE_FILES)
def test_decodes_as_upstream(name: str) -> None:
    spec = spec_of(name)
    pipeline = Pipeline(spec)
    rows = shared_json_lines(f"mtok/{name}.jsonl.gz")
    assert len(rows) == 819
    for row in rows:
        ids = row["ids_nopost"]
        assert pipeline.decode_bytes(ids) == base64.b64decode(row["decode_b64"]), row["text"]
        singles = [decode_single_token(spec, token_id) for token_id in ids]
        assert b"".join(singles) == base64.b64decode(row["stream_b64"]), row["text"]
        assert [len(piece) for piece in singles] == row["stream_lens"]


@pytest.mark.parametrize("name", BASE_FILES)
def test_encodes_as_upstream(name: str) -> None:
    pipeline = Pipeline(spec_of(name))
    for row in shared_json_lines(f"mtok/{name}.jsonl.gz"):
        assert pipeline.encode_ids(row["text"]) == row["ids"], row["text"]
        plain = pipeline.encode_ids(row["text"], add_special_tokens=False)
        assert plain == row["ids_nopost"], row["text"]


@pytest.mark.parametrize("name", BASE_FILES)
def test_the_engine_encodes_as_upstream(name: str) -> None:
    pytest.importorskip("mtkit._native")
    engine = load_engine(spec_of(name))
    for row in shared_json_lines(f"mtok/{name}.jsonl.gz"):
        assert engine.encode_ids(row["text"]) == row["ids"], row["text"]
        plain = engine.encode_ids(row["text"], add_special_tokens=False)
        assert plain == row["ids_nopost"], row["text"]
        decoded = engine.decode_bytes(row["ids_nopost"])
        assert decoded == base64.b64decode(row["decode_b64"]), row["text"]


BOUNDARIES = {72, 76, 78, 79, 81}
"""Lengths at which the sample of the cut files ends between two blocks."""


def edge_cases() -> list[dict]:
    return shared_json_lines("mtok/edge_cases.jsonl.gz")


def readable(case: dict) -> bool:
    if case["name"].startswith("cut_"):
        return int(case["name"].removeprefix("cut_")) in BOUNDARIES
    return case["rc"] == 0


def test_edge_cases_encode_and_decode_as_upstream() -> None:
    cases = [case for case in edge_cases() if readable(case)]
    assert len(cases) > 65
    for case in cases:
        source = Source(case["name"], base64.b64decode(case["file_b64"]))
        assert mtok.sniff(source)
        spec = mtok.other_readings()["mnn"].read(source).spec
        pipeline = Pipeline(spec)
        for text, (with_post, without) in zip(case["texts"], case["answers"]["enc"], strict=True):
            for tokenizer in (pipeline, load_engine(spec)):
                assert tokenizer.encode_ids(text) == with_post, (case["name"], text)
                plain = tokenizer.encode_ids(text, add_special_tokens=False)
                assert plain == without, (case["name"], text)
        for ids, expected in zip(case["ids"], case["answers"]["dec"], strict=False):
            assert pipeline.decode_bytes(ids) == base64.b64decode(expected), case["name"]
        for token_id, expected in enumerate(case["answers"]["dec1"]):
            found = decode_single_token(spec, token_id)
            assert found == base64.b64decode(expected), (case["name"], token_id)


def test_what_upstream_refuses_or_crashes_on_is_one_clear_error() -> None:
    cases = [case for case in edge_cases() if not readable(case)]
    assert len(cases) > 80
    for case in cases:
        with pytest.raises(FormatError) as caught:
            mtok.other_readings()["mnn"].read(
                Source(case["name"], base64.b64decode(case["file_b64"]))
            )
        assert "\n" not in str(caught.value)


tokens = st.lists(st.binary(max_size=3) | st.sampled_from([b"a", b"ab", b"b"]), max_size=8)


def entries(pieces: list[bytes], ids: list[int], *, with_score: bool) -> bytes:
    out = b""
    for piece, token_id in zip(pieces, ids, strict=True):
        out += len(piece).to_bytes(2, "little") + piece + struct.pack("<I", token_id)
        out += struct.pack("<d", -0.5 * token_id) if with_score else b""
    return out


def outcome(parse: object, *arguments: object) -> object:
    try:
        return parse(*arguments)
    except FormatError as error:
        return error.what, error.field, error.offset


@pytest.fixture(scope="module")
def native() -> Any:
    return pytest.importorskip("mtkit._native")


unhurried = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
"""A busy machine is no failure."""


@unhurried
@given(tokens, st.booleans(), st.booleans(), st.data())
def test_vocabularies(
    native: Any, pieces: list[bytes], with_score: bool, is_sorted: bool, data: st.DataObject
) -> None:
    ids = data.draw(st.permutations(range(len(pieces))))
    content = entries(sorted(pieces) if is_sorted else pieces, ids, with_score=with_score)
    if data.draw(st.booleans()) and content:
        at = data.draw(st.integers(0, len(content) - 1))
        content = content[:at] + data.draw(st.binary(max_size=2)) + content[at + 1 :]
    count = len(pieces) + data.draw(st.integers(0, 1))
    arguments = (memoryview(content), 0, count, with_score)
    assert outcome(native.parse_mtok_vocab, *arguments) == outcome(parse_vocab, *arguments)


@unhurried
@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 2, st.integers(0, 5) | st.just(10**9)), max_size=8),
    st.booleans(),
    st.integers(0, 2),
)
def test_merges(native: Any, rows: list[tuple[int, int, int]], is_sorted: bool, more: int) -> None:
    rows = sorted(rows) if is_sorted else rows
    content = b"".join(struct.pack("<III", *row) for row in rows)
    pieces = [b"a", b"b", b"ab", b"aba"]
    ends = array("I", [1, 2, 4, 7]).tobytes()
    hidden = array("I", [3]).tobytes()
    where = memoryview(content), 0, len(rows) + more
    arguments = (*where, memoryview(b"".join(pieces)), memoryview(ends), hidden)
    assert outcome(native.parse_mtok_merges, *arguments) == outcome(parse_merges, *arguments)


@pytest.mark.parametrize("count", [1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1])
def test_forged_counts_allocate_nothing(native: Any, count: int) -> None:
    content = memoryview(b"\0" * 64)
    for parse in (native.parse_mtok_vocab, parse_vocab):
        with pytest.raises(FormatError, match="ends in entry 0"):
            parse(content, 0, count, False)
    empty = memoryview(b"")
    for parse in (native.parse_mtok_merges, parse_merges):
        with pytest.raises(FormatError, match="ends in entry 0"):
            parse(content, 0, count, empty, empty, b"")


def test_what_bisection_does_not_find_is_hidden() -> None:
    content = entries([b"b", b"a", b"c"], [0, 1, 2], with_score=False)
    blob, _, _, hidden, end = parse_vocab(memoryview(content), 0, 3, False)
    assert (blob, end) == (b"bac", len(content))
    assert list(array("I", hidden)) == [0, 1]
