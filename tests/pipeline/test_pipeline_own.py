"""Components that no library call reaches alone do what their reference's description says.

Expected values are worked out by hand from it. Whole tokenizers with these components are held
against their references in the tests of the formats that have them.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pipeline_cases as cases
import pytest
from pipeline_cases import POST_PROCESSORS
from support import reference

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.formats import spm
from mtkit.pipeline import Pipeline
from mtkit.pipeline.aligned_text import AlignedText
from mtkit.pipeline.normalizers import compile_normalizer
from mtkit.pipeline.pre_tokenizers import compile_pre_tokenizer
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    Vocabulary,
    decoders,
    models,
    normalizers,
    post_processors,
    pre_tokenizers,
)
from mtkit.spec.text import Text

if TYPE_CHECKING:
    from types import ModuleType

TABLE = (Numbers.of("I", (0xC9, 0xE9)), Pieces.of((b"E", b"e")))
NORMALIZERS = [
    (normalizers.Spaces(), "  Hello   wide  world ", "\u2581Hello\u2581wide\u2581world"),
    (normalizers.Spaces(add_dummy_prefix=False), " a b", "a\u2581b"),
    (
        normalizers.Spaces(remove_extra_whitespaces=False),
        " a  b ",
        "\u2581\u2581a\u2581\u2581b\u2581",
    ),
    (normalizers.Spaces(escape_whitespaces=False), "a  b", " a b"),
    (normalizers.Spaces(suffix=True), " a b ", "a\u2581b\u2581"),
    (normalizers.Spaces(), "  ", ""),
    (normalizers.Spaces(), "ab<x> <xy", "\u2581ab<x>\u2581<xy"),
    (normalizers.Spaces(prefix="word"), " a  b ", "\u2581a\u2581b"),
    (normalizers.Spaces(prefix="word", add_dummy_prefix=False), "a b", "\u2581a\u2581b"),
    (
        normalizers.Spaces(prefix="word", remove_extra_whitespaces=False),
        " a  b",
        "\u2581\u2581a\u2581\u2581b",
    ),
    (normalizers.CodePointTable(*TABLE), "É\x01é\u200d\t\ufeff", "E e \t "),
    (normalizers.CodePointTable(*TABLE, blank_controls=False), "É\x01\u200d", "E\x01\u200d"),
    (
        normalizers.BertTable(True, True, True, True, *TABLE),
        "Éà\u0300\t中\0\u200b",
        "eà  中 \u200b",
    ),
    (normalizers.BertTable(False, False, False, True, *TABLE), "É\u0130", "éi"),
    (normalizers.Lowercase("simple"), "\u0130A", "ia"),
    (normalizers.Strip(white_space="spaces"), "\x85 a\u2003", "\x85 a"),
    (normalizers.Prepend("_", empty=True), "", "_"),
    (normalizers.Prepend("_"), "", ""),
    (normalizers.Bert(per_character=True), "Éx\u0903\t中\u200d각", "ex  中 \u1100"),
]
PRE_TOKENIZERS = [
    (pre_tokenizers.MarkSpaces(), "a  b", ["\u2581a\u2581\u2581b"]),
    (pre_tokenizers.MarkSpaces(), " a", ["\u2581a"]),
    (pre_tokenizers.MarkSpaces("_", prefix=False), "a b", ["a_b"]),
    (pre_tokenizers.DigitGroups(), "abc1234", ["abc1", "234"]),
    (pre_tokenizers.DigitGroups(), "x12 y", ["x12", " y"]),
    (pre_tokenizers.DigitGroups(), "123456 7", ["123", "456", " 7"]),
    (pre_tokenizers.DigitGroups(), "ab", ["ab"]),
    (pre_tokenizers.Split(Text("-"), "glued_to_previous"), "a--b-", ["a--", "b-"]),
]
WORDS = [b"<s>", b"\xe2\x96\x81a", b"b", b" c", b"<0xC3>", b"<0xA9>", b"\xe2\x96\x81", b"\xc4\xa0d"]
DECODERS = [
    (decoders.Bytewise((decoders.Metaspace(),)), [0, 1, 2, 1], b"ab a"),
    (decoders.Bytewise((decoders.ByteFallback(), decoders.Fuse())), [4, 5, 2], b"\xc3\xa9b"),
    (decoders.Bytewise((decoders.FirstMark(),)), [1, 1], b" a a"),
    (decoders.Pieces("marks"), [1, 2, 4], b" ab\xc3"),
    (decoders.Pieces("marks", drop_first_space=True), [1, 1], b"a a"),
    (decoders.Pieces("byte_alphabet"), [7, 1], b" d[UNK_BYTE_0xe29681\xe2\x96\x81a]a"),
    (decoders.Subwords(), [1, 2, 4, 5, 4], "ab\u00e9\ufffd".encode()),
    (decoders.AfterBos(), [0, 3, 3], b"c c"),
]


@pytest.mark.parametrize(("component", "text", "expected"), NORMALIZERS)
def test_normalizer(component: Any, text: str, expected: str) -> None:
    aligned = AlignedText.of(text)
    compile_normalizer(component, (b"<x>",))(aligned)
    assert aligned.text == expected
    assert len(aligned.spans) == len(expected)


@pytest.mark.parametrize(("component", "text", "expected"), PRE_TOKENIZERS)
def test_pre_tokenizer(component: Any, text: str, expected: list[str]) -> None:
    assert [
        part.text for part in compile_pre_tokenizer(component)(AlignedText.of(text))
    ] == expected


@pytest.mark.parametrize(("component", "ids", "expected"), DECODERS)
def test_decoder(component: Any, ids: list[int], expected: bytes) -> None:
    types = [3, 1, 1, 1, 6, 6, 1, 1]
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(WORDS), Numbers.of("B", types)),
        models.WordLevel(),
        decoder=component,
        added_tokens=AddedTokens((AddedToken(0, b"<s>", special=True),)),
        special_ids=SpecialIds(bos=0),
    )
    assert Pipeline(spec).decode_bytes(ids) == expected


def test_spaces_have_the_offsets_of_sentencepiece() -> None:
    import io

    sentencepiece = reference("sentencepiece")
    rng = random.Random("spaces")
    for rule, extra in (("nmt_nfkc", True), ("nfkc", False), ("identity", True)):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the cat sat on the mat", "a b c d e f g h"] * 5),
            model_writer=model,
            vocab_size=60,
            model_type="bpe",
            hard_vocab_limit=False,
            normalization_rule_name=rule,
            remove_extra_whitespaces=extra,
            user_defined_symbols=["ab", "[MASK]"],
            minloglevel=2,
        )
        theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        ours = Pipeline(spm.read(Source("m.model", model.getvalue()), {}).spec)
        for _ in range(150):
            text = cases.text(rng).replace("\0", "")
            expected = pieces_of(theirs, text)
            found = ours.encode(text)
            assert list(zip(found.ids, found.offsets, strict=True)) == expected, text


def pieces_of(processor: Any, text: str) -> list[tuple[int, tuple[int, int]]]:
    """Return ids and places in characters; newer versions give the places in bytes."""
    try:
        found = processor.encode(text, return_type="proto").pieces
        data = text.encode()
        return [
            (piece.id, (len(data[: piece.begin].decode()), len(data[: piece.end].decode())))
            for piece in found
        ]
    except TypeError:
        found = processor.encode(text, out_type="immutable_proto").pieces
        return [(piece.id, (piece.begin, piece.end)) for piece in found]


def members(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Record)
        and value.__module__ == module.__name__
    }


def test_every_union_member_has_a_case() -> None:
    def names(rows: list[Any]) -> set[str]:
        found = {type(row[0]).__name__ for row in rows}
        steps = {type(step).__name__ for row in rows for step in getattr(row[0], "steps", ())}
        return found | steps

    assert members(normalizers) == names(NORMALIZERS) | set(cases.NORMALIZERS)
    assert members(pre_tokenizers) == names(PRE_TOKENIZERS) | set(cases.PRE_TOKENIZERS)
    assert members(decoders) == names(DECODERS) | set(cases.DECODERS)
    assert members(post_processors) == set(POST_PROCESSORS) | {"Slot"}
