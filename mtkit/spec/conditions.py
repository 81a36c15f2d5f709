"""What rules demand of the value of a field: each function says what holds, and returns what not.

They are called with the value, the record that has it, and the whole specification; where all is
well they return an empty text.
"""

from __future__ import annotations

from functools import partial

from mtkit.errors import counted
from mtkit.spec import decoders
from mtkit.spec.text import Text
from mtkit.spec.vocabulary import is_sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.base.packed import Numbers
    from mtkit.base.record import Record
    from mtkit.spec import AddedToken, TokenizerSpec, Vocabulary
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
    wanted, count = len(getattr(record, of)), len(value)
    wrong = _coded(value, codes) if codes else ""
    return wrong or ("" if count == wanted else f"has {counted(count, 'value')} for {wanted} {of}")


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
    return f"the highest id is {ids - 1}, but there are far fewer tokens" * is_sparse(ids, count)


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
    return "turns characters into byte tokens, which merging cannot produce" * wrong


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
