"""What is true of every specification, wherever it was read from: one rule a row.

Annotations say of which type a field is; rules say which of its values mean something, and what
fields have to do with each other. Whoever reads a specification checks it here, once
(``formats.contract.Reading``), so that pipeline, engine and writers need not ask. What only turns
out by compiling a component (a pattern, a character map) is not here.

First come the conditions: each function says what holds for the value of a field, and returns what
does not. They are called with the value, the record that has it, and the whole specification; where
all is well they return an empty text.
"""

from __future__ import annotations

from functools import partial

from mtkit.base import rules
from mtkit.base.record import Record, fields
from mtkit.base.rules import BrokenRule, Finding
from mtkit.errors import format_count
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
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mtkit.base.packed import Numbers
    from mtkit.spec.models import BPE, LooseBPE, Merges, ScoreBPE
    from mtkit.spec.vocabulary import Spelling


NO_ID = -1
"""Stands for a token that does not exist, where a reference goes on with it."""
MOST_IDS = 1 << 31
"""Ids are given as 32-bit integers with a sign."""
U32 = (1 << 32) - 1
U64 = (1 << 64) - 1
LAST_CODE_POINT = 0x10FFFF
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


def encodable(value: str, *_: object) -> str:
    """A text has bytes; those that are not valid UTF-8 are surrogate escapes in it."""
    if value.isascii():
        return ""
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "holds a lone surrogate"
    return ""


def number(value: int, *_: object, least: int = 0, most: int = U32) -> str:
    """A whole number lies between two others."""
    is_right = least <= value <= most
    return "" if is_right else f"is {value}, not in the range {least} to {most}"


size = partial(number, most=U64)
role_id = partial(number, most=MOST_IDS - 1)
token_id = partial(number, least=NO_ID, most=MOST_IDS - 1)


def token_ids(value: Iterable[int], *_: object) -> str:
    """Each of several numbers is an id."""
    return next(filter(None, map(token_id, value)), "")


def added_ids(value: tuple[AddedToken, ...], *_: object) -> str:
    """Added tokens have ids."""
    return token_ids(token.id for token in value)


def named_token(value: tuple[str, int], *_: object) -> str:
    """A token that is given with its text has an id."""
    return token_id(value[1])


def one_character(value: str, *_: object) -> str:
    """A text is a single character."""
    return "" if len(value) == 1 else f"has {len(value)} characters, not one"


def one_each(value: Any, record: Record, _: object, *, of: str, codes: str = "") -> str:
    """A column has one entry for each of another field."""
    needed, count = len(getattr(record, of)), len(value)
    wrong = _coded(value, codes) if codes else ""
    return wrong or (
        "" if count == needed else f"has {format_count(count, 'value')} for {needed} {of}"
    )


def hidden_ids(value: tuple[int, ...], record: Vocabulary, _: object) -> str:
    """Hidden ids are some of the vocabulary, ascending."""
    count = len(record.pieces)
    if value and not 0 <= min(value) <= max(value) < count:
        return f"names ids outside the {count} of the vocabulary"
    return "" if all(map(int.__lt__, value, value[1:])) else "is not ascending"


def other_spellings(value: tuple[Spelling, ...], record: Vocabulary, _: object) -> str:
    """Further pieces are of ids that there are, and no piece says so twice."""
    if not all(0 <= other.id < len(record.pieces) for other in value):
        return f"names ids outside the {len(record.pieces)} of the vocabulary"
    pieces = {other.piece for other in value}
    distinct = len(pieces) == len(value) and pieces.isdisjoint(record.pieces.ids if pieces else ())
    return "" if distinct else "has a piece twice"


def holes(value: Vocabulary, _: object, spec: TokenizerSpec) -> str:
    """Ids are not far more than tokens."""
    ids, count = spec.vocab_size, len(value) + len(spec.added_tokens.tokens)
    return (
        f"the highest id is {ids - 1}, but there are far fewer tokens"
        if is_sparse(ids, count)
        else ""
    )


def merges(value: Merges, record: BPE, spec: TokenizerSpec) -> str:
    """Merges join tokens; what is not a token takes part only where such characters do."""
    count = len(value.pairs)
    parts = len(spec.vocabulary) + (len(value.unlisted) if record.missing == "after" else 0)
    if count % 2:
        return f"has {count} numbers, which do not make pairs"
    wrong = _coded(value.pairs, "I")
    return wrong or ("" if value.pairs.below(parts) else f"has an id outside the {parts} tokens")


def pairs_of_ranks(value: Numbers, record: LooseBPE, _: object) -> str:
    """There are two numbers for each rank."""
    count, ranks = len(value), len(record.ranks)
    wrong = _coded(value, "I")
    return wrong or ("" if count == 2 * ranks else f"has {count} numbers for {ranks} ranks")


def ascending(value: Numbers, *_: object, most: int = U32, strictly: bool = False) -> str:
    """Numbers ascend up to a highest."""
    wrong = _coded(value, "I")
    if wrong:
        return wrong
    numbers = value.view.tolist()
    if numbers != sorted(set(numbers) if strictly else numbers):
        return "is not ascending"
    last = numbers[-1] if numbers else 0
    return "" if last <= most else f"has {last:#x}, but at most {most:#x} is possible"


def chance(value: float, *_: object) -> str:
    """A chance lies between never and always."""
    return "" if 0 <= value <= 1 else f"is {value}, not in the range 0 to 1"


def ordered(value: float, *_: object) -> str:
    """A score can be compared."""
    return "" if value == value else "is not a number"  # noqa: PLR0124  NaN is not equal to itself


def byte_symbols(value: str, record: ScoreBPE, _: object) -> str:
    """The text of a byte token can be a symbol where characters begin as such."""
    wrong = value == "before" and record.mergeable != "any"
    return "turns characters into byte tokens, which merging cannot produce" if wrong else ""


def in_vocabulary(value: int, _: object, spec: TokenizerSpec) -> str:
    """An id is one of the vocabulary."""
    count = len(spec.vocabulary)
    return "" if 0 <= value < count else f"is {value}, but the vocabulary has {count} ids"


def with_text(value: int, record: object, spec: TokenizerSpec) -> str:
    """An id is that of a piece with a text."""
    wrong = in_vocabulary(value, record, spec)
    return wrong or ("" if spec.vocabulary.pieces[value] else f"is {value}, a token without text")


def bytewise(value: Iterable[Record], *_: object) -> str:
    """Each step has a meaning for bytes."""
    for step in value:
        if isinstance(step, decoders.Sequence):
            wrong = bytewise(step.steps)
            if wrong:
                return wrong
        elif not isinstance(step, _BYTEWISE):
            return f"{type(step).__name__} does not work on bytes"
        elif isinstance(step, decoders.Replace) and not isinstance(step.pattern, Text):
            return "only a literal text is replaced in bytes"
    return ""


def _coded(value: Numbers, codes: str) -> str:
    return "" if value.code in codes else f"is an array of {value.code!r}, not of {codes!r}"


IDS = "int32 ids"
ENGINE = "mtkit's tokenizer engine"
TOKENIZERS = "tokenizers"
UNICODE = "Unicode"
_SOURCE = "Convert the file again from its source."


class Rule(rules.Rule):
    """Something that holds for a field of every record of a class; its check takes whole = spec.

    Attributes:
        of: Class of the records; ``Record``: the rule is about each text, whatever its field.
    """

    of: type[Record] = Record


def _rules(of: type[Record], *rows: tuple[str, str, str, str, rules.Check]) -> list[Rule]:
    """Make the rules of a class; all of them are errors."""
    return [
        Rule(code, "error", source, field, explanation, check, "", of)
        for code, field, source, explanation, check in rows
    ]


def check(spec: TokenizerSpec) -> None:
    """Hold a specification to all rules.

    Raises:
        FormatError: One is broken.
    """
    for finding in findings(spec):
        raise BrokenRule(finding)


def findings(spec: TokenizerSpec) -> Iterator[Finding]:
    """Yield every rule that a specification breaks, with the place."""
    for path, record in _records(spec, "", set()):
        for rule in _BY_CLASS.get(type(record), ()):
            value = getattr(record, rule.field)
            what = "" if value is None else rule.check(value, record, spec)
            if what:
                yield Finding(rule, f"{path}{rule.field}", what)
        for name, text in _texts(record):
            what = TEXT.check(text, record, spec)
            if what:
                yield Finding(TEXT, f"{path}{name}", what)


def _records(record: Record, path: str, seen: set[int]) -> Iterator[tuple[str, Record]]:
    """Yield a record and all inside it; of added tokens, which can be many, only the list.

    What a tuple repeats (a slot of a template, for one) comes once: ``seen`` has the addresses.
    """
    yield path, record
    for name in fields(record):
        value = getattr(record, name)
        if isinstance(value, Record):
            yield from _records(value, f"{path}{name}.", seen)
        elif isinstance(value, tuple) and value and type(value[0]) is not AddedToken:
            for at, item in enumerate(value):
                if isinstance(item, Record) and id(item) not in seen:
                    seen.add(id(item))
                    yield from _records(item, f"{path}{name}[{at}].", seen)


def _texts(record: Record) -> Iterator[tuple[str, str]]:
    """Yield each text that a record has in its fields, also inside JSON values."""
    for name in fields(record):
        value = getattr(record, name)
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, tuple) and value and not isinstance(value[0], (int, Record)):
            for text in _texts_inside(value):
                yield name, text


def _texts_inside(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts_inside(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts_inside(item)


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
TEXT = Rule("text", "error", UNICODE, "",
            f"A text in the tokenizer cannot be encoded as UTF-8. {_SOURCE}",
            encodable)  # fmt: skip
RULES = (
    TEXT,
    *_rules(
        TokenizerSpec,
        ("vocabulary-holes", "vocabulary", ENGINE,
         f"The ids of the vocabulary have gaps that are too wide. {_SOURCE}", holes),
        ("prefix-id", "prefix_ids", IDS,
         f"An id that is added before every text is not a valid token id. {_SOURCE}", token_ids),
    ),
    *_rules(
        Vocabulary,
        ("vocabulary-types", "types", ENGINE,
         f"The number of token types is not the number of tokens. {_SOURCE}",
         partial(one_each, of="pieces", codes="B")),
        ("vocabulary-scores", "scores", ENGINE,
         f"The number of scores is not the number of tokens. {_SOURCE}",
         partial(one_each, of="pieces", codes="fd")),
        ("vocabulary-hidden", "hidden", ENGINE,
         ("The field hidden, a list of ids that encoding never uses, is not ascending or has an "
          f"id outside the vocabulary. {_SOURCE}"), hidden_ids),
        ("vocabulary-also", "also", ENGINE,
         ("The field also, a list of second spellings of tokens, has the same spelling twice or "
          f"an id outside the vocabulary. {_SOURCE}"), other_spellings),
    ),
    *_rules(
        AddedTokens,
        ("added-token-id", "tokens", IDS,
         f"The id of an added token is negative or does not fit in an int32. {_SOURCE}",
         added_ids),
    ),
    *_rules(
        SpecialIds,
        *(("special-id", role, IDS,
           f"The id of a special token is negative or does not fit in an int32. {_SOURCE}",
           role_id)
          for role in fields(SpecialIds) if role != "stop"),
        ("stop-id", "stop", IDS, f"A stop token is not a valid token id. {_SOURCE}", token_ids),
    ),
    *_rules(
        Truncation,
        ("truncation-size", "max_length", TOKENIZERS,
         "The length to truncate to is negative or too large.", size),
        ("truncation-stride", "stride", TOKENIZERS,
         "The stride of truncation is negative or too large.", size),
    ),
    *_rules(
        Padding,
        ("padding-id", "pad_id", IDS, "The padding token is not a valid token id.", token_id),
        ("padding-segment", "pad_type_id", TOKENIZERS,
         "The type id of padding is negative or too large.", number),
        ("padding-length", "length", TOKENIZERS,
         "The length to pad to is negative or too large.", size),
        ("padding-multiple", "pad_to_multiple_of", TOKENIZERS,
         "The multiple to pad to is negative or too large.", size),
    ),
    *(rule for model in _WITH_UNK
      for rule in _rules(
          model,
          ("unknown-id", "unk", ENGINE,
           f"The unknown token is not in the vocabulary. {_SOURCE}", in_vocabulary),
      )),
    *_rules(
        models.WordPiece,
        ("unknown-word-id", "unk", IDS,
         f"The id of the unknown token is negative or does not fit in an int32. {_SOURCE}",
         token_id),
        ("word-length", "max_chars", TOKENIZERS,
         "The maximum word length is negative or too large.", size),
    ),
    *_rules(
        models.BPE,
        ("merges", "merges", ENGINE,
         f"A merge uses a token that is not in the vocabulary. {_SOURCE}", merges),
        ("dropout", "dropout", TOKENIZERS, "The dropout is not between 0 and 1.", chance),
    ),
    *_rules(
        models.LooseBPE,
        ("loose-pairs", "pairs", ENGINE,
         f"The list of pairs does not have exactly two ids for each rank. {_SOURCE}",
         pairs_of_ranks),
        ("loose-ranks", "ranks", ENGINE,
         f"The ranks of the merges are not ascending. {_SOURCE}", ascending),
    ),
    *_rules(
        models.ScoreBPE,
        ("lowest-score", "score_above", ENGINE,
         "The lowest score is not a number (NaN), so it cannot be compared.", ordered),
        ("byte-symbols", "missing", ENGINE,
         ("Characters outside the vocabulary are to become byte tokens before merging (missing: "
          f"before), although merging cannot produce byte tokens (mergeable: listed). {_SOURCE}"),
         byte_symbols),
    ),
    *_rules(
        models.SectionBPE,
        ("section-begin", "begin", ENGINE,
         f"The token that opens a section, as in hybriddna vocabularies, has no text. {_SOURCE}",
         with_text),
        ("section-end", "end", ENGINE,
         f"The token that closes a section, as in hybriddna vocabularies, has no text. {_SOURCE}",
         with_text),
        ("section-unknown-id", "unknown", IDS,
         f"The id of a section's unknown token is not a valid token id. {_SOURCE}", token_id),
    ),
    *(rule for table in (normalizers.CodePointTable, normalizers.BertTable)
      for rule in _rules(
          table,
          ("table-code-points", "code_points", UNICODE,
           f"A character table is not ascending or goes beyond U+10FFFF. {_SOURCE}",
           partial(ascending, most=LAST_CODE_POINT, strictly=True)),
          ("table-values", "values", ENGINE,
           f"A character table does not have a value for every character. {_SOURCE}",
           partial(one_each, of="code_points")),
      )),
    *_rules(
        pre_tokenizers.Metaspace,
        ("metaspace-replacement", "replacement", TOKENIZERS,
         "The replacement of a Metaspace is not a single character.", one_character),
    ),
    *_rules(
        pre_tokenizers.CharDelimiterSplit,
        ("delimiter", "delimiter", TOKENIZERS,
         "The delimiter of a CharDelimiterSplit is not a single character.", one_character),
    ),
    *_rules(
        pre_tokenizers.FixedLength,
        ("piece-length", "length", TOKENIZERS,
         "The length of a FixedLength is negative or too large.", size),
    ),
    *_rules(
        post_processors.Slot,
        ("slot-text", "text", TOKENIZERS,
         "A post-processor template uses a sequence other than A and B.", partial(number, most=1)),
        ("slot-id", "ids", IDS,
         f"A post-processor template adds something that is not a valid token id. {_SOURCE}",
         token_ids),
        ("slot-segment", "type_id", TOKENIZERS,
         "A type id in a post-processor template is negative or too large.", number),
    ),
    *(rule for kind in (post_processors.Bert, post_processors.Roberta)
      for rule in _rules(
          kind,
          *(("surrounding-id", field, IDS,
             f"The post-processor adds something that is not a valid token id. {_SOURCE}",
             named_token)
            for field in ("sep", "cls")),
      )),
    *_rules(
        decoders.Strip,
        ("stripped-front", "start", TOKENIZERS,
         "The number of characters to strip at the start is negative or too large.", size),
        ("stripped-back", "stop", TOKENIZERS,
         "The number of characters to strip at the end is negative or too large.", size),
    ),
    *_rules(
        decoders.Bytewise,
        ("bytewise-steps", "steps", ENGINE,
         f"A byte decoder contains steps that do not work on bytes. {_SOURCE}", bytewise),
    ),
)  # fmt: skip

_BY_CLASS: dict[type[Record], list[Rule]] = {}
for _rule in RULES[1:]:
    _BY_CLASS.setdefault(_rule.of, []).append(_rule)
