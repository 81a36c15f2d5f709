"""What is true of every specification, wherever it was read from: one rule a row.

Annotations say of which type a field is; rules say which of its values mean something, and what
fields have to do with each other. Whoever reads a specification checks it here, once
(``formats.contract.Reading``), so that pipeline, engine and writers need not ask. What only turns
out by compiling a component (a pattern, a character map) is not here.
"""

from __future__ import annotations

from functools import partial

from mtkit.base import rules
from mtkit.base.record import Record, fields
from mtkit.base.rules import BrokenRule, Finding
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
from mtkit.spec.conditions import (
    LAST_CODE_POINT,
    added_ids,
    ascending,
    byte_symbols,
    bytewise,
    chance,
    encodable,
    hidden_ids,
    holes,
    in_vocabulary,
    merges,
    named_token,
    number,
    one_character,
    one_each,
    ordered,
    other_spellings,
    pairs_of_ranks,
    role_id,
    size,
    token_id,
    token_ids,
    with_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

IDS = "int32 ids"
ENGINE = "mtkit's tokenizer engine"
TOKENIZERS = "tokenizers"
UNICODE = "Unicode"


class Rule(rules.Rule):
    """Something that holds for a field of every record of a class; its check takes whole = spec.

    Attributes:
        of: Class of the records; ``Record``: the rule is about each text, whatever its field.
    """

    of: type[Record] = Record


def _rules(of: type[Record], *rows: tuple[str, str, str, rules.Check]) -> list[Rule]:
    """Make the rules of a class from (code, field, source, check); all of them are errors."""
    return [
        Rule(code, "error", source, field, check, "", of) for code, field, source, check in rows
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
TEXT = Rule("text", "error", UNICODE, "", encodable)
RULES = (
    TEXT,
    *_rules(
        TokenizerSpec,
        ("vocabulary-holes", "vocabulary", ENGINE, holes),
        ("prefix-id", "prefix_ids", IDS, token_ids),
    ),
    *_rules(
        Vocabulary,
        ("vocabulary-types", "types", ENGINE, partial(one_each, of="pieces", codes="B")),
        ("vocabulary-scores", "scores", ENGINE, partial(one_each, of="pieces", codes="fd")),
        ("vocabulary-hidden", "hidden", ENGINE, hidden_ids),
        ("vocabulary-also", "also", ENGINE, other_spellings),
    ),
    *_rules(AddedTokens, ("added-token-id", "tokens", IDS, added_ids)),
    *_rules(
        SpecialIds,
        *(("special-id", role, IDS, role_id) for role in fields(SpecialIds) if role != "stop"),
        ("stop-id", "stop", IDS, token_ids),
    ),
    *_rules(
        Truncation,
        ("truncation-size", "max_length", TOKENIZERS, size),
        ("truncation-stride", "stride", TOKENIZERS, size),
    ),
    *_rules(
        Padding,
        ("padding-id", "pad_id", IDS, token_id),
        ("padding-segment", "pad_type_id", TOKENIZERS, number),
        ("padding-length", "length", TOKENIZERS, size),
        ("padding-multiple", "pad_to_multiple_of", TOKENIZERS, size),
    ),
    *(rule for model in _WITH_UNK
      for rule in _rules(model, ("unknown-id", "unk", ENGINE, in_vocabulary))),
    *_rules(
        models.WordPiece,
        ("unknown-word-id", "unk", IDS, token_id),
        ("word-length", "max_chars", TOKENIZERS, size),
    ),
    *_rules(
        models.BPE,
        ("merges", "merges", ENGINE, merges),
        ("dropout", "dropout", TOKENIZERS, chance),
    ),
    *_rules(
        models.LooseBPE,
        ("loose-pairs", "pairs", ENGINE, pairs_of_ranks),
        ("loose-ranks", "ranks", ENGINE, ascending),
    ),
    *_rules(
        models.ScoreBPE,
        ("lowest-score", "score_above", ENGINE, ordered),
        ("byte-symbols", "missing", ENGINE, byte_symbols),
    ),
    *_rules(
        models.SectionBPE,
        ("section-begin", "begin", ENGINE, with_text),
        ("section-end", "end", ENGINE, with_text),
        ("section-unknown-id", "unknown", IDS, token_id),
    ),
    *(rule for table in (normalizers.CodePointTable, normalizers.BertTable)
      for rule in _rules(
          table,
          ("table-code-points", "code_points", UNICODE,
           partial(ascending, most=LAST_CODE_POINT, strictly=True)),
          ("table-values", "values", ENGINE, partial(one_each, of="code_points")),
      )),
    *_rules(pre_tokenizers.Metaspace,
            ("metaspace-replacement", "replacement", TOKENIZERS, one_character)),
    *_rules(pre_tokenizers.CharDelimiterSplit,
            ("delimiter", "delimiter", TOKENIZERS, one_character)),
    *_rules(pre_tokenizers.FixedLength, ("piece-length", "length", TOKENIZERS, size)),
    *_rules(
        post_processors.Slot,
        ("slot-text", "text", TOKENIZERS, partial(number, most=1)),
        ("slot-id", "ids", IDS, token_ids),
        ("slot-segment", "type_id", TOKENIZERS, number),
    ),
    *(rule for kind in (post_processors.Bert, post_processors.Roberta)
      for rule in _rules(kind, ("surrounding-id", "sep", IDS, named_token),
                         ("surrounding-id", "cls", IDS, named_token))),
    *_rules(
        decoders.Strip,
        ("stripped-front", "start", TOKENIZERS, size),
        ("stripped-back", "stop", TOKENIZERS, size),
    ),
    *_rules(decoders.Bytewise, ("bytewise-steps", "steps", ENGINE, bytewise)),
)  # fmt: skip

_BY_CLASS: dict[type[Record], list[Rule]] = {}
for _rule in RULES[1:]:
    _BY_CLASS.setdefault(_rule.of, []).append(_rule)
