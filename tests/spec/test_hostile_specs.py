"""Specifications that are valid and odd, and what once broke on them, by name."""

from __future__ import annotations

import io
import json
import sys

import pytest
from small_files import _mnn_text, _tekken, sources, spec

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.commands import output
from mtkit.conversion.tokenizer import memory_source
from mtkit.engine import Engine, load_engine
from mtkit.errors import FormatError, ResourceError, UnsupportedError, UsageError
from mtkit.formats import get_format, mnn_text, mtok, tekken
from mtkit.formats.contract import WriteOptions
from mtkit.formats.hf.numbers import read_float
from mtkit.formats.json_fields import parse_json
from mtkit.pipeline import Pipeline
from mtkit.pipeline.trace import trace
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    Padding,
    TokenizerSpec,
    Vocabulary,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    replace,
)
from mtkit.spec.text import Regex

pytestmark = pytest.mark.slow

WORDS = mnn_text.read(Source("tokenizer.txt", _mnn_text(2)), {}).spec
"""Its file has no [UNK], so an unknown word gets the id 100, which no token has."""


def test_an_unknown_word_whose_id_has_no_token_can_be_traced() -> None:
    assert WORDS.model == models.WordPiece(100, max_chars=None, gap="rest")
    for engine in (load_engine(WORDS), Pipeline(WORDS)):
        walked = trace(engine.pipeline, "zz")
        assert walked.ids == engine.encode_ids("zz")
        assert 100 in walked.ids
        json.dumps(walked.to_json())


def test_an_unknown_word_without_a_token_is_a_loss_of_a_tokenizer_json() -> None:
    plain = replace(WORDS, normalizer=None, decoder=decoders.WordPiece())
    written = get_format("hf").write(plain, WriteOptions())
    assert ("ids", "model.unk") in {(loss.code, loss.field) for loss in written.losses}
    back = get_format("hf").read(memory_source(written), {}).spec
    assert back.model.unk is None


@pytest.mark.parametrize("number", [-1, 1 << 30])
def test_ids_in_front_that_no_token_has_are_given(number: int) -> None:
    odd = replace(spec("bpe"), prefix_ids=(number,))
    engine = load_engine(odd)
    assert engine.encode_ids("a") == Pipeline(odd).encode_ids("a") == [number, 0]
    assert isinstance(engine, Engine) == (number >= 0)  # the core's numbers have no sign


def test_a_limit_beyond_32_bits_is_no_limit() -> None:
    pieces = Vocabulary(Pieces.of((b"a", b"##b")))
    for length in ((1 << 32) - 2, (1 << 32) + 5, (1 << 64) - 1):
        odd = TokenizerSpec(pieces, models.WordPiece(0, max_chars=length))
        assert load_engine(odd).encode_ids("abb") == [0, 1, 1]
        cut = TokenizerSpec(
            pieces, models.WordPiece(0), pre_tokenizer=pre_tokenizers.FixedLength(length)
        )
        assert load_engine(cut).encode_ids("abb") == [0, 1, 1]


@pytest.mark.parametrize("padding", [
    Padding(0, "a", length=1 << 40),
    Padding(0, "a", length=(1 << 64) - 1),
    Padding(0, "a", pad_to_multiple_of=1 << 60),
])  # fmt: skip
def test_padding_to_more_than_memory_holds_is_refused_by_name(padding: Padding) -> None:
    odd = replace(spec("bpe"), padding=padding)
    for engine in (load_engine(odd), Pipeline(odd)):
        with pytest.raises(ResourceError, match="padding"):
            engine.encode("a", padding="file")
        assert engine.encode_ids("a") == [0]


@pytest.mark.parametrize("component", [pre_tokenizers.Bert("99.0"), pre_tokenizers.Bert("\n")])
def test_unicode_of_a_version_that_there_is_not_is_unsupported(
    component: normalizers.Bert,
) -> None:
    odd = replace(spec("bpe"), normalizer=None, pre_tokenizer=component)
    for use in (lambda: load_engine(odd).encode_ids("a!"), lambda: Pipeline(odd).encode_ids("a!")):
        with pytest.raises(UnsupportedError, match="Unicode"):
            use()


def test_numbers_that_json_lacks_are_written_by_their_names() -> None:
    screen = sys.stdout
    sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        output.write_json({"scores": [float("nan"), {"a": (float("inf"), -float("inf"), 0.5)}]})
        line = sys.stdout.buffer.getvalue()
    finally:
        sys.stdout = screen
    assert line == b'{"scores": ["NaN", {"a": ["Infinity", "-Infinity", 0.5]}]}\n'


def test_a_special_token_with_a_lone_surrogate_is_no_text() -> None:
    data = _tekken().replace(b'"<s>"', b'"<\\ud800>"')
    with pytest.raises(FormatError, match="lone surrogate"):
        tekken.read(Source("tekken.json", data), {})


def test_pieces_of_a_rank_bpe_that_are_not_utf8_are_written() -> None:
    pieces = Vocabulary(Pieces.of((b"a", b"\xff", b"a\xff")))
    letters = pre_tokenizers.ByteLevel(use_regex=False)
    odd = TokenizerSpec(pieces, models.RankBPE(), pre_tokenizer=letters)
    written = mtok.write(odd, WriteOptions())
    assert mtok.read(memory_source(written), {}).spec == odd


def test_an_added_token_without_an_id_is_not_for_the_base_of_a_mtok() -> None:
    odd = replace(spec("bpe"), added_tokens=AddedTokens((AddedToken(-1, b"<x>"),)))
    with pytest.raises(UnsupportedError, match="32 bits"):
        mtok.write(odd, WriteOptions())


def test_an_added_token_behind_the_pieces_has_no_subword() -> None:
    pieces = Vocabulary(Pieces.of((b"a", b"b")))
    token = AddedTokens((AddedToken(2, b"<x>"),))
    odd = TokenizerSpec(pieces, models.Unigram(0), decoder=decoders.Subwords(), added_tokens=token)
    for engine in (load_engine(odd), Pipeline(odd)):
        assert engine.encode_ids("<x>") == [2]
        stream = engine.decode_stream()
        assert stream.push(1) == "b"
        with pytest.raises(UsageError, match="0 to 1"):
            stream.push(2)
        for decode in (engine.decode, engine.decode_bytes):
            with pytest.raises(UsageError, match="0 to 1"):
                decode([2])


def test_nothing_is_denormalized_to_nothing() -> None:
    pieces = Vocabulary(Pieces.of((b"a",)))
    spaces = normalizers.Spaces(prefix="word")
    odd = TokenizerSpec(pieces, models.Unigram(0), decoder=decoders.Subwords(denormalizer=spaces))
    for engine in (load_engine(odd), Pipeline(odd)):
        assert engine.decode([]) == ""
        assert engine.decode([0]) == "\u2581a"


def test_a_part_of_merges_that_is_no_token_is_never_given() -> None:
    merges = models.Merges(Numbers.of("I", (0, 3)), Pieces.of((b"b",)))
    pieces = Vocabulary(Pieces.of((b"a", b"c", b"ab")))
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for before in (letters, None):
        odd = TokenizerSpec(pieces, models.BPE(merges, missing="after"), pre_tokenizer=before)
        engine = load_engine(odd)
        assert isinstance(engine, Engine)
        for text in ("b", "ab", "bab", "cb"):
            assert engine.encode_ids(text) == Pipeline(odd).encode_ids(text)
        assert engine.encode_ids("bcab") == [1, 2]


def test_merges_of_which_none_makes_a_token_are_none_of_a_tokenizer_json() -> None:
    pieces = Vocabulary(Pieces.of((b"a", b"b")))
    odd = TokenizerSpec(pieces, models.LooseBPE(Numbers.of("I", (0, 7)), Numbers.of("I", (0,))))
    written = get_format("hf").write(odd, WriteOptions())
    back = get_format("hf").read(memory_source(written), {}).spec
    assert len(back.model.merges) == 0


def test_an_id_far_behind_the_others_is_not_for_the_base_of_a_mtok() -> None:
    first = AddedTokens((AddedToken((1 << 31) - 1, b"<x>"),))
    odd = replace(spec("bpe"), added_tokens=AddedTokens(first=first))
    with pytest.raises(UnsupportedError, match="far fewer tokens"):
        mtok.write(odd, WriteOptions())


def test_a_split_pattern_that_ends_inside_an_escape_is_written_as_it_stands() -> None:
    odd = replace(
        spec("bpe"),
        pre_tokenizer=pre_tokenizers.Split(Regex(r"a\p{L", anchors="text"), "isolated"),
    )
    written = get_format("hf").write(odd, WriteOptions())
    assert b"a\\\\p{L" in written.files["tokenizer.json"]
    with pytest.raises(UnsupportedError, match="without"):
        load_engine(odd).encode_ids("a")


@pytest.mark.parametrize("ids", [(20, 9), (9, 20), (-1,), (1 << 30,)])
def test_added_tokens_looked_for_first_join_a_json_vocabulary_or_are_refused(
    ids: tuple[int, ...],
) -> None:
    first = AddedTokens(tuple(AddedToken(i, b"<%d>" % i) for i in ids))
    odd = replace(spec("bpe"), added_tokens=AddedTokens(first=first))
    if min(ids) < 0 or max(ids) > 1 << 20:
        with pytest.raises(UnsupportedError, match="ids of the added tokens"):
            get_format("hf").write(odd, WriteOptions())
        return
    written = get_format("hf").write(odd, WriteOptions())
    back = get_format("hf").read(memory_source(written), {}).spec
    assert {token.id for token in back.added_tokens.tokens} == {*ids}


def test_scores_without_bounds_come_back() -> None:
    scores = Numbers.of("f", (float("inf"), 0.0, -float("inf")))
    odd = TokenizerSpec(
        Vocabulary(Pieces.of((b"a", b"b", b"ab")), None, scores),
        models.ScoreBPE(0),
        decoder=decoders.Fuse(),
    )
    assert mtok.read(memory_source(mtok.write(odd, WriteOptions())), {}).spec == odd


def test_of_equal_pieces_unigram_takes_the_one_that_the_library_takes() -> None:
    pieces = Vocabulary(Pieces.of((b"<unk>", b"a", b"b", b"a")), scores=Numbers.of("f", (0,) * 4))
    wanted = {"any": 3, "listed": 1, "used": 1}
    for candidates, token_id in wanted.items():
        odd = TokenizerSpec(pieces, models.Unigram(0, candidates=candidates))
        assert load_engine(odd).encode_ids("a") == Pipeline(odd).encode_ids("a") == [token_id]


@pytest.mark.parametrize("model", [
    models.ScoreBPE(0), models.ScoreBPE(0, mergeable="any"), models.Unigram(0),
    models.Unigram(0, candidates="listed"), models.Characters(0), models.Words(0),
])  # fmt: skip
def test_hidden_ids_are_never_given(model: models.Model) -> None:
    scores = Numbers.of("f", (0, -1, -1, 0))
    pieces = Vocabulary(Pieces.of((b"<unk>", b"a", b"b", b"ab")), scores=scores, hidden=(3,))
    odd = TokenizerSpec(pieces, model)
    for engine in (load_engine(odd), Pipeline(odd)):
        assert 3 not in engine.encode_ids("ab")


@pytest.mark.parametrize("kept", [
    {"trainer_spec": "zz"}, {"fields": 7}, {"no_score": [[0, 1 << 60]]}, {"no_score": [[1]]},
    {"plain_type": [["a", "b"]]}, {"piece_fields": [[0]]}, {"piece_fields": [[0, "x"]]},
    {"self_test_data": ["00"]},
])  # fmt: skip
def test_messages_kept_of_a_model_are_checked(kept: dict[str, object]) -> None:
    read = get_format("spm").read(sources()["spm"], {}).spec
    with pytest.raises(UnsupportedError, match="extras"):
        get_format("spm").write(replace(read, extras=(("spm", kept),)), WriteOptions())


def test_a_message_is_short_however_long_the_value_is() -> None:
    for what, field in (("is " + "x" * 9999, "a"), ("is wrong", "y" * 9999)):
        assert len(str(FormatError(what, field=field, offset=1, hint="do this"))) < 400


def test_a_number_that_does_not_end_is_named() -> None:
    with pytest.raises(FormatError, match="the number 1e999 is out of range"):
        parse_json(b'{"a": 1e999e}', parse_float=read_float)


def test_a_part_of_a_letter_is_found_byte_by_byte() -> None:
    """The letter of byte 0x9C is c4 be; llama.cpp looks up the bytes of one that is not a token."""
    merges = models.Merges(Numbers.of("I", ()), Pieces.of(()))
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    odd = TokenizerSpec(
        Vocabulary(Pieces.of((b"a", b"\xc4"))),
        models.BPE(merges, missing="after", without_unk="left_out"),
        pre_tokenizer=letters,
        invalid_utf8="keep",
    )
    for engine in (load_engine(odd), Pipeline(odd)):
        assert engine.encode_ids(b"a\x9c") == Pipeline(odd).encode_ids(b"a\x9c")
    assert 1 in Pipeline(odd).encode_ids(b"a\x9c")


def test_a_split_pattern_that_is_refused_is_shown_on_one_line() -> None:
    odd = replace(spec("bpe"), pre_tokenizer=pre_tokenizers.Split(Regex("\\p\n"), "removed"))
    with pytest.raises(UnsupportedError) as caught:
        Pipeline(odd).encode_ids("a")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("text", "what"), [('"abc', "string"), ('"a\nb"', "control character")])
def test_broken_json_is_described_before_its_place(text: str, what: str) -> None:
    with pytest.raises(FormatError, match=rf"is not valid JSON: [A-Z]\w+ {what} \(line 1, "):
        parse_json(text.encode(), "x")
