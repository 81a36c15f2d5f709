"""Specifications that break a rule are found and refused, whatever they are used for."""

from __future__ import annotations

import io
import json
import random
import sys
from typing import Any

import pytest
from small_files import _mnn_text, _tekken, sources, spec

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.commands import output
from mtkit.conversion.tokenizer import memory_source
from mtkit.engine import Engine, load_engine
from mtkit.errors import FormatError, ResourceError, UnsupportedError, UsageError
from mtkit.formats import get_format, mnn_text, mtok, tekken
from mtkit.formats.contract import Reading, WriteOptions
from mtkit.formats.hf.numbers import read_float
from mtkit.formats.json_fields import parse_json
from mtkit.pipeline import Pipeline
from mtkit.pipeline.trace import trace
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    Padding,
    TokenizerSpec,
    Truncation,
    Vocabulary,
    decoders,
    models,
    normalizers,
    post_processors,
    pre_tokenizers,
    replace,
)
from mtkit.spec.rules import MOST_IDS, RULES, U64, findings
from mtkit.spec.text import Regex
from mtkit.spec.vocabulary import Spelling

WHOLE = spec("bpe")
SIZE = len(WHOLE.vocabulary)
NONE = Pieces.of(())
PLAIN = models.Merges(Numbers.of("I", ()), NONE)


def u32(*values: int) -> Numbers:
    return Numbers.of("I", values)


def vocabulary(**changes: Any) -> TokenizerSpec:
    return replace(WHOLE, vocabulary=replace(WHOLE.vocabulary, **changes))


def model(component: models.Model) -> TokenizerSpec:
    return replace(WHOLE, model=component)


def role(name: str, token_id: int) -> TokenizerSpec:
    return replace(WHOLE, special_ids=replace(WHOLE.special_ids, **{name: token_id}))


def slot(**changes: Any) -> TokenizerSpec:
    slots = (post_processors.Slot(**changes),)
    return replace(WHOLE, post_processor=post_processors.Template(slots))


def section(**changes: int) -> TokenizerSpec:
    words = pre_tokenizers.Whitespace()
    ids = {"begin": 0, "end": 1, "unknown": 2, **changes}
    return model(models.SectionBPE(models.BPE(PLAIN), words, **ids))


def added(token_id: int) -> AddedTokens:
    return AddedTokens((AddedToken(token_id, b"x"),))


TABLE = normalizers.CodePointTable
BERT_TABLE = normalizers.BertTable
FLAGS = (True, True, True, True)
BROKEN: list[tuple[str, str, TokenizerSpec]] = [
    ("text", "join", replace(WHOLE, join="\ud800")),
    ("text", "chat_templates[1].text",
     replace(WHOLE, chat_templates=(ChatTemplate("a", "b"), ChatTemplate("c", "\udfff")))),
    ("text", "extras", replace(WHOLE, extras=(("x", {"y": [1, {"\ud9ab": None}]}),))),
    ("text", "post_processor.sep",
     replace(WHOLE, post_processor=post_processors.Bert(("\udc00", 1), ("a", 1)))),
    ("vocabulary-holes", "vocabulary", replace(WHOLE, added_tokens=added(1 << 30))),
    ("vocabulary-types", "vocabulary.types", vocabulary(types=Numbers("B", bytes(SIZE + 1)))),
    ("vocabulary-types", "vocabulary.types", vocabulary(types=Numbers("b", bytes(SIZE)))),
    ("vocabulary-scores", "vocabulary.scores", vocabulary(scores=Numbers("f", bytes(4)))),
    ("vocabulary-scores", "vocabulary.scores", vocabulary(scores=Numbers("I", bytes(4 * SIZE)))),
    ("vocabulary-hidden", "vocabulary.hidden", vocabulary(hidden=(1, SIZE))),
    ("vocabulary-hidden", "vocabulary.hidden", vocabulary(hidden=(2, 2))),
    ("vocabulary-also", "vocabulary.also", vocabulary(also=(Spelling(b"new", SIZE),))),
    ("vocabulary-also", "vocabulary.also", vocabulary(also=(Spelling(b"new", 0),) * 2)),
    ("added-token-id", "added_tokens.tokens", replace(WHOLE, added_tokens=added(-2))),
    ("added-token-id", "added_tokens.first.tokens",
     replace(WHOLE, added_tokens=AddedTokens(first=added(MOST_IDS)))),
    ("prefix-id", "prefix_ids", replace(WHOLE, prefix_ids=(0, MOST_IDS))),
    ("special-id", "special_ids.bos", role("bos", -1)),
    ("special-id", "special_ids.fim_sep", role("fim_sep", MOST_IDS)),
    ("stop-id", "special_ids.stop", replace(
        WHOLE, special_ids=replace(WHOLE.special_ids, stop=(0, MOST_IDS)))),
    ("truncation-size", "truncation.max_length", replace(WHOLE, truncation=Truncation(-1))),
    ("truncation-stride", "truncation.stride", replace(WHOLE, truncation=Truncation(3, -1))),
    ("padding-id", "padding.pad_id", replace(WHOLE, padding=Padding(-2, "a"))),
    ("padding-segment", "padding.pad_type_id", replace(WHOLE, padding=Padding(0, "a", 1 << 32))),
    ("padding-length", "padding.length", replace(WHOLE, padding=Padding(0, "a", length=-1))),
    ("padding-multiple", "padding.pad_to_multiple_of",
     replace(WHOLE, padding=Padding(0, "a", pad_to_multiple_of=U64 + 1))),
    ("unknown-id", "model.unk", model(models.WordLevel(-1))),
    ("unknown-id", "model.unk", model(models.LatticeUnigram(SIZE))),
    ("unknown-word-id", "model.unk", model(models.WordPiece(-2))),
    ("unknown-id", "model.bpe.unk", model(models.SectionBPE(
        models.BPE(PLAIN, MOST_IDS), pre_tokenizers.Whitespace(), 0, 1, 2))),
    ("merges", "model.merges", model(models.BPE(models.Merges(u32(0, 1, 2), NONE)))),
    ("merges", "model.merges", model(models.BPE(models.Merges(u32(0, SIZE), NONE)))),
    ("merges", "model.merges", model(models.BPE(models.Merges(Numbers.of("i", (0, 1)), NONE)))),
    ("merges", "model.merges", model(models.BPE(
        models.Merges(u32(0, SIZE + 1), Pieces.of((b"x",))), missing="after"))),
    ("merges", "model.merges", model(models.BPE(  # who looks at ids cannot join what has none
        models.Merges(u32(0, SIZE), Pieces.of((b"x",))), missing="before"))),
    ("dropout", "model.dropout", model(models.BPE(PLAIN, dropout=float("nan")))),
    ("loose-pairs", "model.pairs", model(models.LooseBPE(u32(0, 1, 1), u32(0)))),
    ("loose-ranks", "model.ranks", model(models.LooseBPE(u32(0, 1, 1, 0), u32(2, 1)))),
    ("lowest-score", "model.score_above", model(models.ScoreBPE(score_above=float("nan")))),
    ("byte-symbols", "model.missing", model(models.ScoreBPE(missing="before"))),
    ("word-length", "model.max_chars", model(models.WordPiece(0, max_chars=-1))),
    ("section-begin", "model.begin", section(begin=SIZE)),
    ("section-end", "model.end", section(end=-1)),
    ("section-unknown-id", "model.unknown", section(unknown=MOST_IDS)),
    ("table-code-points", "normalizer.code_points", replace(
        WHOLE, normalizer=TABLE(u32(5, 5), Pieces.of((b"a", b"b"))))),
    ("table-code-points", "normalizer.code_points", replace(
        WHOLE, normalizer=TABLE(u32(0x110000), Pieces.of((b"a",))))),
    ("table-code-points", "normalizer.steps[1].code_points", replace(
        WHOLE, normalizer=normalizers.Sequence((normalizers.Nmt(), BERT_TABLE(
            *FLAGS, Numbers.of("f", (1,)), Pieces.of((b"a",))))))),
    ("table-values", "normalizer.values", replace(
        WHOLE, normalizer=BERT_TABLE(*FLAGS, u32(1, 2), Pieces.of((b"a",))))),
    ("metaspace-replacement", "pre_tokenizer.replacement",
     replace(WHOLE, pre_tokenizer=pre_tokenizers.Metaspace(""))),
    ("metaspace-replacement", "pre_tokenizer.replacement",
     replace(WHOLE, pre_tokenizer=pre_tokenizers.Metaspace("ab"))),
    ("delimiter", "pre_tokenizer.delimiter",
     replace(WHOLE, pre_tokenizer=pre_tokenizers.CharDelimiterSplit("ab"))),
    ("piece-length", "pre_tokenizer.length",
     replace(WHOLE, pre_tokenizer=pre_tokenizers.FixedLength(-1))),
    ("slot-text", "post_processor.single[0].text", slot(text=2)),
    ("slot-id", "post_processor.single[0].ids", slot(ids=(0, -2))),
    ("slot-segment", "post_processor.single[0].type_id", slot(type_id=-1)),
    ("surrounding-id", "post_processor.cls",
     replace(WHOLE, post_processor=post_processors.Roberta(("a", 0), ("b", MOST_IDS)))),
    ("stripped-front", "decoder.start", replace(WHOLE, decoder=decoders.Strip("a", -1))),
    ("stripped-back", "decoder.stop", replace(WHOLE, decoder=decoders.Strip("a", 0, -1))),
    ("bytewise-steps", "decoder.steps",
     replace(WHOLE, decoder=decoders.Bytewise((decoders.Sequence((decoders.CTC(),)),)))),
    ("bytewise-steps", "decoder.steps",
     replace(WHOLE, decoder=decoders.Bytewise((decoders.Replace(Regex("a"), "b"),)))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "field", "broken"), BROKEN)
def test_a_broken_rule_is_found_at_its_place(code: str, field: str, broken: TokenizerSpec) -> None:
    assert [(found.rule.code, found.field) for found in findings(broken)] == [(code, field)]
    with pytest.raises(FormatError) as caught:
        Reading(broken)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_every_rule_is_broken_here() -> None:
    assert {code for code, _, _ in BROKEN} == {rule.code for rule in RULES}


@pytest.mark.parametrize("name", sources())
def test_what_is_read_breaks_none(name: str) -> None:
    read = formats.get_format(name.partition(":")[0]).read(sources()[name], {}).spec
    assert list(findings(read)) == []


def test_below_is_what_the_highest_number_says() -> None:
    rng = random.Random(4)
    for _ in range(300):
        count = rng.choice((0, 1, 2, 5, 1023, 1024, 1025, 3000))
        most = rng.choice((1, 2, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1))
        values = [rng.randrange(most) for _ in range(count)]
        highest = max(values, default=-1)
        for limit in {0, 1, highest, highest + 1, 1 << 31} - {-1}:
            if limit <= 1 << 31:
                assert u32(*values).below(limit) == (highest < limit), (highest, limit)


# Specifications that are valid and odd, and what once broke on them, by name.


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
