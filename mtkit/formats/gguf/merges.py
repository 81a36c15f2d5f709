"""Merge lists of a GGUF: strings "left right", cut at the first space behind the first byte.

A line without such a space joins nothing to nothing, which never happens. Of a pair listed twice
the first counts, so the others are left out.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.spec.models import Merges
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.formats.gguf.keys import Keys
    from mtkit.gguf import GgufArray
    from mtkit.spec import Vocabulary

KEY = "tokenizer.ggml.merges"


def read_merges(keys: Keys, vocabulary: Vocabulary, *, required: bool) -> Merges:
    """Read the merges.

    Raises:
        FormatError: There are none, though the kind of vocabulary needs them.
    """
    listed = merges_of(keys, required=required)
    ids, size = vocabulary.pieces.ids, len(vocabulary)
    unlisted: dict[bytes, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    for line in listed.pieces() if listed is not None else ():
        line = line.split(b"\0", 1)[0]
        at = line.find(b" ", 1)
        left, right = (line[:at], line[at + 1 :]) if at > 0 else (b"", b"")
        one, two = ids.get(left), ids.get(right)
        if one is None:
            one = unlisted.setdefault(left, size + len(unlisted))
        if two is None:
            two = unlisted.setdefault(right, size + len(unlisted))
        pairs[one, two] = None
    return Merges(
        Numbers.of("I", (number for pair in pairs for number in pair)),
        Pieces.of(unlisted),
    )


def merges_of(keys: Keys, *, required: bool) -> GgufArray | None:
    """Return the merges as the file spells them.

    Raises:
        FormatError: There are none, though the kind of vocabulary needs them.
    """
    found = keys.array(KEY, "string")
    if found is None and required:
        raise FormatError("is missing", field=KEY, hint="the vocabulary cannot be used without")
    return found


def fits(merges: Merges, vocabulary: Vocabulary, alphabet: Iterable[bytes]) -> bool:
    """Tell whether it makes no difference when unknown characters are dealt with.

    So it is where the vocabulary has the whole alphabet that words are spelled in (the byte
    alphabet, or the byte tokens), and all that merging takes and makes is a token.
    """
    ids = vocabulary.pieces.ids
    if merges.unlisted or not all(letter in ids for letter in alphabet):
        return False
    byte_ids = {ids[text] for text in BYTE_TOKENS if text in ids}
    pieces = list(vocabulary.pieces)
    return not any(
        pieces[left] + pieces[right] not in ids or left in byte_ids or right in byte_ids
        for left, right in merges.pairs.pairs()
    )


def write_merges(merges: Merges, vocabulary: Vocabulary) -> list[bytes]:
    """Write each merge as a line."""
    parts = [*vocabulary.pieces, *merges.unlisted]
    return [parts[left] + b" " + parts[right] for left, right in merges.pairs.pairs()]
