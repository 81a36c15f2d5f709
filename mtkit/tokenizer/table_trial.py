"""Whether the engine's tables in a file do what it says, tried on the built-in texts.

Tables are used as they lie in the file. Whoever made it may have written others with it than those
that mtkit makes of its specification, and everything that asks for tokens with their spellings,
for a trace or for a conversion goes by the specification.
"""

from __future__ import annotations

from mtkit.errors import MtkitError
from mtkit.tokenizer import probes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.tokenizer.tokenizer import Tokenizer


def contradiction(tabled: Tokenizer, specified: Tokenizer) -> str:
    """Return what tables do otherwise than the specification, with the first text; else nothing.

    Args:
        tabled: The tokenizer by its tables.
        specified: The one that is compiled from its specification.
    """
    for text in (*probes.texts(), *probes.special_texts(specified.spec)):
        pairs = zip(_answers(tabled, text), _answers(specified, text), strict=True)
        if any(left != right for left, right in pairs):
            return f"give other ids than its specification, first of {text!r}"
    return ""


def _answers(tokenizer: Tokenizer, text: str) -> Iterator[object]:
    """Yield the ids of a text in every way, with their places, and what they decode to."""
    ids: list[int] = []
    for special in (True, False):
        for parse in (None, True, False):
            try:
                ids = tokenizer.encode_ids(text, add_special_tokens=special, parse_special=parse)
                yield ids
            except MtkitError as error:
                yield str(error)
    try:
        yield [column.tolist() for column in tokenizer.encode_offsets(text)]
    except MtkitError as error:
        yield str(error)
    for skip in (True, False):
        try:
            yield tokenizer.decode_bytes(ids, skip_special_tokens=skip)
        except MtkitError as error:
            yield str(error)
