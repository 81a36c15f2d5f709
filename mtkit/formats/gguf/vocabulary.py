"""Token texts, merge lines and scores of a GGUF, read and written.

Most kinds of vocabulary list the bytes that the model looks up. Two do not:

* ``bert``: a word begins with U+2581 and its rest without it; mtkit's pieces are ``word`` and
  ``##rest``. Texts in square brackets are left alone, as llama.cpp's converter does.
* ``rwkv``: texts are escaped: ``\\t \\n \\r \\xHH`` (lower case), backslash and another character.

A merge is a string "left right", cut at the first space behind the first byte. A line without such
a space joins nothing to nothing, which never happens. Of two equal pairs the first counts.

Scores can stand for a merge list: llama.cpp merges neighbors whose union is a token, the best score
first. That gives the same tokens if the list has every pair whose union is a token, and the scores
fall with the first merge that gives each token.

Source: google/sentencepiece, bpe_model.cc.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.spec.models import Merges
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mtkit.formats.gguf.metadata import Keys
    from mtkit.gguf import GgufArray
    from mtkit.spec import Vocabulary


SPELLED_MODELS = frozenset({"bert", "rwkv"})
"""Values of ``tokenizer.ggml.model`` whose texts are not pieces."""

_ESCAPED = {0x09: b"\\t", 0x0A: b"\\n", 0x0D: b"\\r", 0x5C: b"\\\\"}


def parse_texts(kind: str, texts: Iterable[bytes]) -> Iterator[bytes]:
    """Turn the texts of a vocabulary into pieces; ``kind`` is ``tokenizer.ggml.model``."""
    if kind == "bert":
        return map(_parse_word, texts)
    if kind == "rwkv":
        return map(_unescape, texts)
    return iter(texts)


def spell_pieces(kind: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Turn pieces into the texts of a vocabulary."""
    if kind == "bert":
        return map(_spell_word, pieces)
    if kind == "rwkv":
        return map(_escape, pieces)
    return iter(pieces)


def _has_brackets(text: bytes) -> bool:
    return text.startswith(b"[") and text.endswith(b"]") and len(text) > 1


def _parse_word(text: bytes) -> bytes:
    if _has_brackets(text):
        return text
    if not text.startswith(MARK_BYTES):
        return b"##" + text
    word = text[len(MARK_BYTES) :]
    # Such a word never occurs in a text, as "#" and "[" are words by themselves; it keeps the mark,
    # so that it is not taken for the rest of a word.
    return text if word.startswith(b"##") or _has_brackets(word) or not word else word


def _spell_word(piece: bytes) -> bytes:
    if (
        _has_brackets(piece)
        or piece.startswith((MARK_BYTES + b"##", MARK_BYTES + b"["))
        or piece == MARK_BYTES
    ):
        return piece
    return piece[2:] if piece.startswith(b"##") else MARK_BYTES + piece


def _unescape(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    out = bytearray()
    at = 0
    while at < len(text):
        byte = text[at]
        at += 1
        if byte != 0x5C or at == len(text):
            out.append(byte)
            continue
        letter = text[at : at + 1]
        at += 1
        if letter == b"x":
            digits = text[at : at + 2]
            out.append(_hex(digits))
            at += 2
        else:
            out += {b"t": b"\t", b"n": b"\n", b"r": b"\r"}.get(letter, letter)
    return bytes(out)


def _hex(digits: bytes) -> int:
    """Parse two hexadecimal digits; other characters count as 0."""
    value = 0
    for digit in digits:
        value = value * 16 + max(b"0123456789abcdef".find(bytes((digit,))), 0)
    return value


def _escape(piece: bytes) -> bytes:
    try:
        piece.decode("utf-8")
        foreign = False
    except UnicodeDecodeError:
        foreign = True
    out = bytearray()
    for byte in piece:
        if byte in _ESCAPED:
            out += _ESCAPED[byte]
        elif byte < 0x20 or byte == 0x7F or (foreign and byte >= 0x80):
            out += b"\\x%02x" % byte
        else:
            out.append(byte)
    return bytes(out)


MERGES = "tokenizer.ggml.merges"


def read_merges(keys: Keys, vocabulary: Vocabulary, *, required: bool) -> tuple[Merges, bool]:
    """Read the merges; return also whether all their parts and results are tokens."""
    array = merge_lines(keys, required=required)
    lines, pieces = Pieces.of([]) if array is None else array.pieces(), vocabulary.pieces
    try:
        from mtkit.base.native import native
    except ImportError:
        return parse_merges(lines, pieces)
    texts = (lines.blob, lines.ends.data, pieces.blob, pieces.ends.data)
    pairs, blob, ends, is_whole = native.read_merge_lines(*texts)
    return Merges(Numbers("I", pairs), Pieces(blob, Numbers("I", ends))), is_whole


def parse_merges(lines: Iterable[bytes], pieces: Pieces) -> tuple[Merges, bool]:
    """Parse the lines of merges; the reference for the native core."""
    ids, size = pieces.ids, len(pieces)
    unlisted: dict[bytes, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    is_whole = True
    for line in lines:
        line = line.split(b"\0", 1)[0]
        at = line.find(b" ", 1)
        left, right = (line[:at], line[at + 1 :]) if at > 0 else (b"", b"")
        left_id, right_id = ids.get(left), ids.get(right)
        if left_id is None:
            left_id = unlisted.setdefault(left, size + len(unlisted))
        if right_id is None:
            right_id = unlisted.setdefault(right, size + len(unlisted))
        pairs[left_id, right_id] = None
        is_whole = is_whole and left + right in ids
    flat = (number for pair in pairs for number in pair)
    merges = Merges(Numbers.of("I", flat), Pieces.of(unlisted))
    return merges, is_whole and not unlisted


def merge_lines(keys: Keys, *, required: bool) -> GgufArray | None:
    """Return the merges as lines."""
    lines = keys.array(MERGES, "string")
    if lines is None and required:
        what = "is missing"
        raise FormatError(what, field=MERGES, hint="the vocabulary cannot be used without it")
    return lines


def has_alphabet(merges: Merges, vocabulary: Vocabulary, alphabet: Collection[bytes]) -> bool:
    """Tell whether an alphabet (byte letters, byte tokens) is there and no merge has byte tokens.

    If also all parts and results of merges are tokens, it makes no difference whether unknown
    characters are replaced before or after merging.
    """
    pieces = vocabulary.pieces
    if len({pieces[number] for number in pieces.places(alphabet)}) < len(alphabet):
        return False
    byte_ids = set(pieces.places(BYTE_TOKENS))
    return not byte_ids or byte_ids.isdisjoint(merges.pairs.view)


def format_merges(merges: Merges, vocabulary: Vocabulary) -> list[bytes]:
    """Write each merge as a line."""
    parts = [*vocabulary.pieces, *merges.unlisted]
    return [parts[left] + b" " + parts[right] for left, right in merges.pairs.pairs()]


NEVER_MERGED = -1e9
"""Score of a token that no merge gives."""


def scores_of_merges(
    merges: Merges, vocabulary: Vocabulary, skip: frozenset[int]
) -> list[float] | None:
    """Return a score for each token, or None where scores cannot express the merges."""
    pieces, ids = list(vocabulary.pieces), vocabulary.pieces.ids
    scores = [NEVER_MERGED] * len(pieces)
    pairs: set[tuple[int, int]] = set()
    for rank, (left, right) in enumerate(merges.pairs.pairs()):
        if left >= len(pieces) or right >= len(pieces):
            return None
        result = ids.get(pieces[left] + pieces[right])
        if result is None:
            return None
        pairs.add((left, right))
        if scores[result] == NEVER_MERGED:
            scores[result] = -float(rank)
    for token_id, piece in enumerate(pieces):
        if token_id in skip:
            continue
        for cut in range(1, len(piece)):
            if piece[cut] & 0xC0 == 0x80:
                continue
            left, right = ids.get(piece[:cut]), ids.get(piece[cut:])
            if left is None or right is None or left in skip or right in skip:
                continue
            if (left, right) not in pairs:
                return None
    return scores
