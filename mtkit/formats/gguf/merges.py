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
    from collections.abc import Collection, Iterable

    from mtkit.formats.gguf.keys import Keys
    from mtkit.gguf import GgufArray
    from mtkit.spec import Vocabulary

KEY = "tokenizer.ggml.merges"


def read_merges(keys: Keys, vocabulary: Vocabulary, *, required: bool) -> tuple[Merges, bool]:
    """Read the merges; with them, whether all that merging takes and makes is a token.

    Raises:
        FormatError: There are none, though the kind of vocabulary needs them.
    """
    found = merges_of(keys, required=required)
    lines, pieces = Pieces.of([]) if found is None else found.pieces(), vocabulary.pieces
    try:
        from mtkit.base.native import native
    except ImportError:
        return parse_merges(lines, pieces)
    texts = (lines.blob, lines.ends.data, pieces.blob, pieces.ends.data)
    pairs, blob, ends, is_whole = native.read_merge_lines(*texts)
    return Merges(Numbers("I", pairs), Pieces(blob, Numbers("I", ends))), is_whole


def parse_merges(lines: Iterable[bytes], pieces: Pieces) -> tuple[Merges, bool]:
    """Read the lines of merges; this defines what the core does."""
    ids, size = pieces.ids, len(pieces)
    unlisted: dict[bytes, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    is_whole = True
    for line in lines:
        line = line.split(b"\0", 1)[0]
        at = line.find(b" ", 1)
        left, right = (line[:at], line[at + 1 :]) if at > 0 else (b"", b"")
        one, two = ids.get(left), ids.get(right)
        if one is None:
            one = unlisted.setdefault(left, size + len(unlisted))
        if two is None:
            two = unlisted.setdefault(right, size + len(unlisted))
        pairs[one, two] = None
        is_whole = is_whole and left + right in ids
    flat = (number for pair in pairs for number in pair)
    merges = Merges(Numbers.of("I", flat), Pieces.of(unlisted))
    return merges, is_whole and not unlisted


def merges_of(keys: Keys, *, required: bool) -> GgufArray | None:
    """Return the merges as the file spells them.

    Raises:
        FormatError: There are none, though the kind of vocabulary needs them.
    """
    found = keys.array(KEY, "string")
    if found is None and required:
        raise FormatError("is missing", field=KEY, hint="the vocabulary cannot be used without it")
    return found


def fits(merges: Merges, vocabulary: Vocabulary, alphabet: Collection[bytes]) -> bool:
    """Tell whether it makes no difference when unknown characters are dealt with.

    So it is where all that merging takes and makes is a token, as is asked before, and the
    vocabulary has the whole alphabet that words are spelled in (the byte alphabet, or the byte
    tokens).
    """
    pieces = vocabulary.pieces
    if len({pieces[number] for number in pieces.places(alphabet)}) < len(alphabet):
        return False
    byte_ids = set(pieces.places(BYTE_TOKENS))
    return not byte_ids or byte_ids.isdisjoint(merges.pairs.view)


def write_merges(merges: Merges, vocabulary: Vocabulary) -> list[bytes]:
    """Write each merge as a line."""
    parts = [*vocabulary.pieces, *merges.unlisted]
    return [parts[left] + b" " + parts[right] for left, right in merges.pairs.pairs()]
