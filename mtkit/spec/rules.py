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
    one_each,
    ordered,
    pairs_of_ranks,
    role_id,
    size,
    token_id,
    token_ids,
    with_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Check = Callable[[Any, Any, TokenizerSpec], str]
    """(value of the field, its record, the whole) → what is wrong, or nothing."""


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

TEXT = Rule("text", Record, "", encodable)
RULES = (
    TEXT,
    Rule("vocabulary-holes", TokenizerSpec, "vocabulary", holes),
    Rule("vocabulary-types", Vocabulary, "types", partial(one_each, of="pieces", codes="B")),
    Rule("vocabulary-scores", Vocabulary, "scores", partial(one_each, of="pieces", codes="fd")),
    Rule("vocabulary-hidden", Vocabulary, "hidden", hidden_ids),
    Rule("added-token-id", AddedTokens, "tokens", added_ids),
    Rule("prefix-id", TokenizerSpec, "prefix_ids", token_ids),
    *(Rule("special-id", SpecialIds, role, role_id)
      for role in fields(SpecialIds) if role != "stop"),
    Rule("stop-id", SpecialIds, "stop", token_ids),
    Rule("truncation-size", Truncation, "max_length", size),
    Rule("truncation-stride", Truncation, "stride", size),
    Rule("padding-id", Padding, "pad_id", token_id),
    Rule("padding-segment", Padding, "pad_type_id", number),
    Rule("padding-length", Padding, "length", size),
    Rule("padding-multiple", Padding, "pad_to_multiple_of", size),
    *(Rule("unknown-id", model, "unk", in_vocabulary) for model in _WITH_UNK),
    Rule("unknown-word-id", models.WordPiece, "unk", token_id),
    Rule("merges", models.BPE, "merges", merges),
    Rule("dropout", models.BPE, "dropout", chance),
    Rule("loose-pairs", models.LooseBPE, "pairs", pairs_of_ranks),
    Rule("loose-ranks", models.LooseBPE, "ranks", ascending),
    Rule("lowest-score", models.ScoreBPE, "score_above", ordered),
    Rule("byte-symbols", models.ScoreBPE, "missing", byte_symbols),
    Rule("word-length", models.WordPiece, "max_chars", size),
    Rule("section-begin", models.SectionBPE, "begin", with_text),
    Rule("section-end", models.SectionBPE, "end", with_text),
    Rule("section-unknown-id", models.SectionBPE, "unknown", token_id),
    *(Rule("table-code-points", table, "code_points",
           partial(ascending, most=LAST_CODE_POINT, strictly=True)) for table in _TABLES),
    *(Rule("table-values", table, "values", partial(one_each, of="code_points"))
      for table in _TABLES),
    Rule("piece-length", pre_tokenizers.FixedLength, "length", size),
    Rule("slot-text", post_processors.Slot, "text", partial(number, most=1)),
    Rule("slot-id", post_processors.Slot, "ids", token_ids),
    Rule("slot-segment", post_processors.Slot, "type_id", number),
    *(Rule("surrounding-id", kind, name, named_token)
      for kind in _SURROUNDING for name in ("sep", "cls")),
    Rule("stripped-front", decoders.Strip, "start", size),
    Rule("stripped-back", decoders.Strip, "stop", size),
    Rule("bytewise-steps", decoders.Bytewise, "steps", bytewise),
)  # fmt: skip

_BY_CLASS: dict[type[Record], list[Rule]] = {}
for _rule in RULES[1:]:
    _BY_CLASS.setdefault(_rule.of, []).append(_rule)
