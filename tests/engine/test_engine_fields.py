"""Each field of each component, changed: the compiler makes other tables or refuses it.

What the tables need not say is listed with what reads it instead; a field that is forgotten in
``mtkit/engine`` shows here as one that changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    Padding,
    SpecialIds,
    TokenizerSpec,
    Truncation,
    Vocabulary,
    codec,
    decoders,
    fields,
    models,
    normalizers,
    replace,
)
from mtkit.spec import post_processors as post
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.text import Regex, Text
from mtkit.spec.vocabulary import Spelling

pytest.importorskip("mtkit._native")
from mtkit.engine import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.base.record import Record

LETTERS = [b"<unk>", b"a", b"b", b"ab", "é".encode(), "▁".encode(), "▁a".encode(), b"<s>", b"</s>"]
BYTES = [b"<0x%02X>" % byte for byte in range(256)]
PIECES = LETTERS + BYTES
TYPES = [2, 1, 1, 4, 1, 1, 1, 3, 3, *[6] * 256]
VOCABULARY = Vocabulary(
    Pieces.of(PIECES),
    Numbers.of("B", TYPES),
    Numbers.of("f", [-float(at) for at in range(len(PIECES))]),
)
MERGES = models.Merges(Numbers.of("I", [1, 2]), Pieces.of([b"zz"]))
TABLE = Numbers.of("I", [65, 66]), Pieces.of([b"a", b"bc"])
PATTERN = Regex(r"[a-c]+$| ?(?i:k\p{Lu})|²{1,2}+|\w\d|x*")

BASES: dict[str, list[Record]] = {
    "Normalizer": [
        normalizers.UnicodeForm("NFC"), normalizers.Bert(), normalizers.Bert(strip_accents=False),
        normalizers.Lowercase(), normalizers.Strip(), normalizers.StripAccents(),
        normalizers.Prepend("▁"), normalizers.Replace(Text("a"), "b"), normalizers.Precompiled(b""),
        normalizers.Nmt(), normalizers.ByteLevel(), normalizers.Spaces(),
        normalizers.CodePointTable(*TABLE), normalizers.BertTable(True, True, True, True, *TABLE),
        normalizers.Sequence((normalizers.Nmt(), normalizers.Prepend("b"))),
    ],
    "PreTokenizer": [
        pre.ByteLevel(), pre.Metaspace(), pre.MarkSpaces(), pre.Bert(), pre.Split(PATTERN),
        pre.Punctuation(), pre.Digits(), pre.Whitespace(), pre.WhitespaceSplit(),
        pre.CharDelimiterSplit("a"), pre.UnicodeScripts(), pre.FixedLength(2), pre.DigitGroups(),
        pre.Sequence((pre.Digits(), pre.FixedLength(3))),
    ],
    "PostProcessor": [
        post.Template(
            (post.Slot(None, (7,), 0, "<s>"), post.Slot(0)),
            (post.Slot(0), post.Slot(1, type_id=1)),
        ),
        post.Template((post.Slot(0), post.Slot(None, (7,)), post.Slot(0))),
        post.Bert(("</s>", 8), ("<s>", 7)),
        post.Roberta(("</s>", 8), ("<s>", 7)),
        post.ByteLevel(),
        post.Sequence((post.ByteLevel(), post.Bert(("</s>", 8), ("<s>", 7)))),
    ],
    "Decoder": [
        decoders.ByteLevel(), decoders.Metaspace(), decoders.WordPiece(), decoders.ByteFallback(),
        decoders.Fuse(), decoders.Replace(Text("a"), "b"), decoders.Strip("a", 1, 1),
        decoders.BPE(), decoders.CTC(),
        decoders.Bytewise((decoders.FirstMark(), decoders.Strip("a", 0, 0))),
        decoders.Pieces(), decoders.Subwords(denormalizer=normalizers.Spaces()),
        decoders.AfterBos(), decoders.FirstMark(),
        decoders.Sequence((decoders.Fuse(), decoders.Strip("a", 1, 1))),
    ],
    "Model": [
        models.BPE(MERGES),
        models.LooseBPE(Numbers.of("I", [1, 2, 3, 1]), Numbers.of("I", [0, 1])),
        models.RankBPE(), models.ScoreBPE(), models.Unigram(), models.LatticeUnigram(0),
        models.Characters(), models.Words(), models.WordPiece(0), models.WordLevel(), models.Trie(),
        models.ShortestPath(),
        models.SectionBPE(models.BPE(MERGES), pre.Digits(), 7, 8, 0),
    ],
    "Pattern": [Text("a"), PATTERN],
}  # fmt: skip
"""At least one of each member; others where one does not show a field."""

ELSEWHERE = {
    "PreTokenizer ByteLevel.trim_offsets": "only a post-processor trims",
    "Decoder Metaspace.split": "decoding joins",
    "Decoder Bytewise.single": "mtkit/tokenizer/spelling.py asks the pipeline for single tokens",
    "PostProcessor Template.pair": "pairs are put together by pipeline/post_processors.py",
    "PostProcessor Roberta.trim_offsets": "pipeline/post_processors.py trims",
    "PostProcessor Roberta.add_prefix_space": "so it does here",
    "PostProcessor ByteLevel.trim_offsets": "and here",
    "PostProcessor ByteLevel.add_prefix_space": "and here",
    "PostProcessor ByteLevel.use_regex": "no post-processor looks at it",
}
"""Fields that no table shows, and why the answers need none."""


def spec_with(union: str, component: Any) -> TokenizerSpec:
    """Return a tokenizer that has a component."""
    stages = {
        "Normalizer": "normalizer", "PreTokenizer": "pre_tokenizer",
        "PostProcessor": "post_processor", "Decoder": "decoder", "Model": "model",
    }  # fmt: skip
    base = TokenizerSpec(
        VOCABULARY,
        models.WordLevel(unk=0),
        added_tokens=AddedTokens((AddedToken(7, b"<s>", special=True),)),
        special_ids=SpecialIds(unk=0, bos=7, eos=8),
    )
    if union == "Pattern":
        return replace(base, pre_tokenizer=pre.Split(component))
    if isinstance(component, decoders.FirstMark):
        component = decoders.Bytewise((component,))
    return replace(base, **{stages[union]: component})


def others(kind: codec.FieldType, value: Any) -> Iterator[Any]:
    """Yield other values of a field; records in it are changed field by field."""
    if kind.optional and value is not None:
        yield None
    if value is None:
        value = {"bool": False, "int": 0, "float": -1.0, "str": "a"}.get(kind.name)
        if value is None:
            return
        yield value
    if kind.choices:
        yield from kind.choices - {value}
    elif kind.name == "bool":
        yield not value
    elif kind.name in {"int", "float"}:
        yield value + 1
    elif kind.name == "str":
        yield from ("", value + "b", "15.1")
    elif kind.name == "bytes":
        yield value + b"a"
    elif isinstance(value, Numbers):
        yield Numbers.of(value.code, [*value[:-1], value[-1] + 1])
        yield Numbers.of(value.code, [*value][::-1])
    elif isinstance(value, Pieces):
        yield Pieces.of([*list(value)[:-1], value[len(value) - 1] + b"q"])
    elif kind.item or kind.items:
        if kind.item and kind.item.name == "int":
            yield from ((*value, 0), (*value, 1))
        yield from (value[:at] + value[at + 1 :] for at in range(len(value)) if kind.item)
        for at, part in enumerate(value):
            for other in others(kind.item or kind.items[at], part):
                yield (*value[:at], other, *value[at + 1 :])
    elif kind.classes:
        for name in fields(type(value)):
            yield from changed(value, name)


def changed(record: Record, name: str) -> Iterator[Record]:
    """Yield a record with another value in one field."""
    kind = codec.field_types(type(record))[name]
    for other in others(kind, getattr(record, name)):
        yield replace(record, **{name: other})


def compiled(spec: TokenizerSpec) -> object:
    try:
        return tables(spec)
    except (UnsupportedError, FormatError) as error:
        return str(error)


MEMBERS = [(union, cls) for union in codec.UNIONS for cls in codec.union_members(union)]


@pytest.mark.parametrize(
    ("union", "cls"), MEMBERS, ids=lambda part: getattr(part, "__name__", part)
)
def test_every_field_of_a_component_changes_the_tables(union: str, cls: type[Record]) -> None:
    bases = [base for base in BASES[union] if isinstance(base, cls)]
    assert bases, "no case has it"
    hidden = set()
    for name in fields(cls):
        seen = False
        for base in bases:
            before = compiled(spec_with(union, base))
            assert isinstance(before, dict), before
            changes = [spec_with(union, other) for other in changed(base, name)]
            seen = seen or any(compiled(spec) != before for spec in changes)
        hidden |= set() if seen else {f"{union} {cls.__name__}.{name}"}
    assert hidden == {key for key in ELSEWHERE if key.split(".")[0] == f"{union} {cls.__name__}"}


AROUND = {
    "truncation": Truncation(2), "padding": Padding(1, "a"),
    "chat_templates": (ChatTemplate("default", "x"),), "extras": (("name", 1),), "name": "other",
}  # fmt: skip
"""What is not of the text's way to ids and back; the first two are applied by the pipeline."""


def test_every_field_of_a_tokenizer_changes_the_tables() -> None:
    added = AddedToken(7, b"<s>", single_word=True, lstrip=True, special=True)
    tokens = AddedTokens((added, AddedToken(1, b"x")), first=AddedTokens((AddedToken(2, b"y"),)))
    base = replace(
        spec_with("Model", models.ScoreBPE()),
        normalizer=normalizers.Lowercase(),
        pre_tokenizer=pre.Digits(),
        post_processor=post.Bert(("</s>", 8), ("<s>", 7)),
        decoder=decoders.AfterBos(),
        added_tokens=tokens,
        invalid_utf8="replace",
    )
    plain = replace(base, decoder=None)
    assert isinstance(compiled(base), dict)
    assert isinstance(compiled(plain), dict)
    hidden = set()
    for name in fields(TokenizerSpec):
        others = [(spec, other) for spec in (base, plain) for other in changed(spec, name)]
        if name in AROUND:
            others.append((base, replace(base, **{name: AROUND[name]})))
        assert others, name
        hidden |= {name} - {name for spec, other in others if compiled(other) != compiled(spec)}
    assert hidden == set(AROUND)
    for record, union in ((base.vocabulary, "vocabulary"), (tokens, "added_tokens"), (added, None)):
        for name in fields(type(record)):
            spelled = [replace(record, also=(Spelling(b"q", 1),))] if name == "also" else []
            for other in (*changed(record, name), *spelled):
                if union is None:
                    parts = {"added_tokens": replace(tokens, tokens=(other, tokens.tokens[1]))}
                else:
                    parts = {union: other}
                if compiled(replace(plain, **parts)) != compiled(plain):
                    break
            else:
                pytest.fail(f"{type(record).__name__}.{name} changes nothing")
