"""What is true of every specification, wherever it was read from: one rule a row.

Annotations say of which type a field is; rules say which of its values mean something, and what
fields have to do with each other. Whoever reads a specification checks it here, once
(``formats.contract.Reading``), so that pipeline, engine and writers need not ask. What only turns
out by compiling a component (a pattern, a character map) is not here.
"""

from __future__ import annotations

from functools import partial

from mtkit.base.record import Record, fields
from mtkit.errors import FormatError
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    Padding,
    SpecialIds,
    TokenizerSpec,
    Truncation,
    Vocabulary,
    decoders,
    models,
    normalizers,
    post_processors,
    pre_tokenizers,
)
from mtkit.spec.text import Text
from mtkit.spec.vocabulary import is_sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from mtkit.base.packed import Numbers

    Check = Callable[[Any, Any, TokenizerSpec], str]
    """(value of the field, its record, the whole) → what is wrong, or nothing."""

NO_ID = -1
"""Stands for a token that does not exist, where a reference goes on with it."""
MOST_IDS = 1 << 31
"""Ids are given as 32-bit integers with a sign."""
U32 = (1 << 32) - 1
U64 = (1 << 64) - 1
LAST_CODE_POINT = 0x10FFFF


class Rule(Record):
    """Something that holds for a field of every record of a class.

    Attributes:
        code: Its name, for good.
        of: Class of the records.
        field: Name of the field; empty: the rule is about each text, whatever its field.
        check: Returns what is wrong, or an empty text.
    """

    code: str
    of: type[Record]
    field: str
    check: Check


class Finding(Record):
    """A rule that is broken.

    Attributes:
        code: Code of the rule.
        field: Path of the field, dotted.
        what: What is wrong.
    """

    code: str
    field: str
    what: str


def check(spec: TokenizerSpec) -> None:
    """Hold a specification to all rules.

    Raises:
        FormatError: One is broken.
    """
    for finding in findings(spec):
        raise FormatError(finding.what, field=finding.field)


def findings(spec: TokenizerSpec) -> Iterator[Finding]:
    """Yield every rule that a specification breaks, with the place."""
    for path, record in _records(spec, ""):
        for rule in _BY_CLASS.get(type(record), ()):
            value = getattr(record, rule.field)
            what = "" if value is None else rule.check(value, record, spec)
            if what:
                yield Finding(rule.code, f"{path}{rule.field}", what)
        for name, text in _texts(record):
            what = TEXT.check(text, record, spec)
            if what:
                yield Finding(TEXT.code, f"{path}{name}", what)


def _records(record: Record, path: str) -> Iterator[tuple[str, Record]]:
    """Yield a record and all inside it; of added tokens, which can be many, only the list."""
    yield path, record
    for name in fields(record):
        value = getattr(record, name)
        if isinstance(value, Record):
            yield from _records(value, f"{path}{name}.")
        elif isinstance(value, tuple) and value and type(value[0]) is not AddedToken:
            for at, item in enumerate(value):
                if isinstance(item, Record):
                    yield from _records(item, f"{path}{name}[{at}].")


def _texts(record: Record) -> Iterator[tuple[str, str]]:
    """Yield each text that a record has in its fields, also inside JSON values."""
    for name in fields(record):
        value = getattr(record, name)
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, tuple) and value and not isinstance(value[0], (int, Record)):
            for text in _inside(value):
                yield name, text


def _inside(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _inside(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _inside(item)


# What a check asks


def _text(value: str, *_: object) -> str:
    """Check that a text has bytes; those that are not valid UTF-8 are surrogate escapes in it."""
    if value.isascii():
        return ""
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "holds a lone surrogate"
    return ""


def _number(value: int, *_: object, least: int = 0, most: int = U32) -> str:
    return "" if least <= value <= most else f"is {value}, not {least} to {most}"


_role = partial(_number, most=MOST_IDS - 1)
_id = partial(_number, least=NO_ID, most=MOST_IDS - 1)


def _ids(value: Iterable[int], *_: object) -> str:
    return next(filter(None, map(_id, value)), "")


def _token(value: tuple[str, int], *_: object) -> str:
    return _id(value[1])


def _coded(value: Numbers, codes: str) -> str:
    return "" if value.code in codes else f"is an array of {value.code!r}, not of {codes!r}"


def _one_each(value: Any, record: Record, _: object, *, of: str, codes: str = "") -> str:
    """Check that a column has one entry for each of another field."""
    wanted, count = getattr(record, of), len(value)
    if codes and _coded(value, codes):
        return _coded(value, codes)
    return "" if count == len(wanted) else f"has {count} entries for {len(wanted)} {of}"


def _hidden(value: tuple[int, ...], record: Vocabulary, _: object) -> str:
    size = len(record.pieces)
    if value and not 0 <= min(value) <= max(value) < size:
        return f"names ids outside the {size} of the vocabulary"
    return "" if all(map(int.__lt__, value, value[1:])) else "is not ascending"


def _holes(value: Vocabulary, _: object, spec: TokenizerSpec) -> str:
    size, count = spec.vocab_size, len(value) + len(spec.added_tokens.tokens)
    return f"the highest id is {size - 1}, there are far fewer tokens" * is_sparse(size, count)


def _added(value: tuple[AddedToken, ...], *_: object) -> str:
    return _ids(token.id for token in value)


def _merges(value: models.Merges, record: models.BPE, spec: TokenizerSpec) -> str:
    """Check merges; what is not a token takes part only where characters that are none do."""
    parts = len(spec.vocabulary) + (len(value.unlisted) if record.missing == "after" else 0)
    if _coded(value.pairs, "I") or len(value.pairs) % 2:
        return _coded(value.pairs, "I") or f"has {len(value.pairs)} numbers, which are no pairs"
    return "" if value.pairs.below(parts) else f"joins what is none of {parts} parts"


def _loose_pairs(value: Numbers, record: models.LooseBPE, _: object) -> str:
    wanted = 2 * len(record.ranks)
    return _coded(value, "I") or (
        "" if len(value) == wanted else f"has {len(value)} numbers, not two for each rank"
    )


def _ascending(value: Numbers, *_: object, most: int = U32, strictly: bool = False) -> str:
    if _coded(value, "I"):
        return _coded(value, "I")
    numbers = value.view.tolist()
    if numbers != sorted(set(numbers) if strictly else numbers):
        return "is not ascending"
    last = numbers[-1] if numbers else 0
    return "" if last <= most else f"holds {last:#x}, at most {most:#x}"


def _chance(value: float, *_: object) -> str:
    return "" if 0 <= value <= 1 else f"is {value}, not a number from 0 to 1"


def _ordered(value: float, *_: object) -> str:
    return "" if value == value else "is not a number"  # noqa: PLR0124  NaN is not equal to itself


def _byte_symbols(value: str, record: models.ScoreBPE, _: object) -> str:
    """Check that the text of a byte token can be a symbol where characters begin as such."""
    wrong = value == "before" and record.mergeable != "any"
    return "makes symbols of byte tokens, which merging may not make" * wrong


def _in_vocabulary(value: int, _: object, spec: TokenizerSpec) -> str:
    size = len(spec.vocabulary)
    return "" if 0 <= value < size else f"is {value}, the vocabulary has {size} ids"


def _with_text(value: int, record: object, spec: TokenizerSpec) -> str:
    wrong = _in_vocabulary(value, record, spec)
    return wrong or ("" if spec.vocabulary.pieces[value] else f"is {value}, a token without text")


def _bytewise(value: Iterable[Record], *_: object) -> str:
    """Check that each step has a meaning for bytes."""
    for step in value:
        if isinstance(step, decoders.Sequence):
            wrong = _bytewise(step.steps)
            if wrong:
                return wrong
        elif not isinstance(step, _BYTEWISE):
            return f"{type(step).__name__} does not work on bytes"
        elif isinstance(step, decoders.Replace) and not isinstance(step.pattern, Text):
            return "only a literal text is replaced in bytes"
    return ""


_BYTEWISE = (
    decoders.ByteLevel,
    decoders.ByteFallback,
    decoders.Metaspace,
    decoders.WordPiece,
    decoders.FirstMark,
    decoders.Fuse,
    decoders.Replace,
    decoders.Strip,
)
_WITH_UNK = (
    models.BPE,
    models.ScoreBPE,
    models.Unigram,
    models.LatticeUnigram,
    models.Characters,
    models.Words,
    models.WordLevel,
    models.Trie,
)
_TABLES = (normalizers.CodePointTable, normalizers.BertTable)
_SURROUNDING = (post_processors.Bert, post_processors.Roberta)
_any_size = partial(_number, most=U64)

TEXT = Rule("text", Record, "", _text)
RULES = (
    TEXT,
    Rule("vocabulary-holes", TokenizerSpec, "vocabulary", _holes),
    Rule("vocabulary-types", Vocabulary, "types", partial(_one_each, of="pieces", codes="B")),
    Rule("vocabulary-scores", Vocabulary, "scores", partial(_one_each, of="pieces", codes="fd")),
    Rule("vocabulary-hidden", Vocabulary, "hidden", _hidden),
    Rule("added-token-id", AddedTokens, "tokens", _added),
    Rule("prefix-id", TokenizerSpec, "prefix_ids", _ids),
    *(Rule("special-id", SpecialIds, role, _role) for role in fields(SpecialIds) if role != "stop"),
    Rule("stop-id", SpecialIds, "stop", _ids),
    Rule("truncation-size", Truncation, "max_length", _any_size),
    Rule("truncation-stride", Truncation, "stride", _any_size),
    Rule("padding-id", Padding, "pad_id", _id),
    Rule("padding-segment", Padding, "pad_type_id", _number),
    Rule("padding-length", Padding, "length", _any_size),
    Rule("padding-multiple", Padding, "pad_to_multiple_of", _any_size),
    *(Rule("unknown-id", model, "unk", _in_vocabulary) for model in _WITH_UNK),
    Rule("unknown-word-id", models.WordPiece, "unk", _id),
    Rule("merges", models.BPE, "merges", _merges),
    Rule("dropout", models.BPE, "dropout", _chance),
    Rule("loose-pairs", models.LooseBPE, "pairs", _loose_pairs),
    Rule("loose-ranks", models.LooseBPE, "ranks", _ascending),
    Rule("lowest-score", models.ScoreBPE, "score_above", _ordered),
    Rule("byte-symbols", models.ScoreBPE, "missing", _byte_symbols),
    Rule("word-length", models.WordPiece, "max_chars", _any_size),
    Rule("section-begin", models.SectionBPE, "begin", _with_text),
    Rule("section-end", models.SectionBPE, "end", _with_text),
    Rule("section-unknown-id", models.SectionBPE, "unknown", _id),
    *(
        Rule("table-code-points", table, "code_points",
             partial(_ascending, most=LAST_CODE_POINT, strictly=True))
        for table in _TABLES
    ),
    *(Rule("table-values", table, "values", partial(_one_each, of="code_points"))
      for table in _TABLES),
    Rule("piece-length", pre_tokenizers.FixedLength, "length", _any_size),
    Rule("slot-text", post_processors.Slot, "text", partial(_number, most=1)),
    Rule("slot-id", post_processors.Slot, "ids", _ids),
    Rule("slot-segment", post_processors.Slot, "type_id", _number),
    *(Rule("surrounding-id", kind, name, _token)
      for kind in _SURROUNDING for name in ("sep", "cls")),
    Rule("stripped-front", decoders.Strip, "start", _any_size),
    Rule("stripped-back", decoders.Strip, "stop", _any_size),
    Rule("bytewise-steps", decoders.Bytewise, "steps", _bytewise),
)  # fmt: skip

_BY_CLASS: dict[type[Record], list[Rule]] = {}
for _rule in RULES[1:]:
    _BY_CLASS.setdefault(_rule.of, []).append(_rule)
