"""Every rule of a specification: what breaks it is refused by name, and what is read does not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from small_files import sources, spec

from mtkit import formats
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.formats.contract import Reading
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    Padding,
    Truncation,
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

if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec

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
