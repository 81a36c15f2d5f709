"""What every model needs: the bytes of a word, places in it, and pieces that begin at a place.

Models look pieces up as bytes; a word is a ``str`` in which bytes that are not valid UTF-8 are
surrogate escapes. Tokens are laid end to end by their size in bytes; a token that covers only some
bytes of a character covers the whole character in code points.
"""

from __future__ import annotations

from mtkit.errors import NoToken
from mtkit.pipeline.models import PieceStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mtkit.pipeline.models import Symbol
    from mtkit.spec import Vocabulary


def characters(data: bytes) -> list[bytes]:
    """Cut bytes as the first byte of each character says; the last may be cut short."""
    parts, at = [], 0
    while at < len(data):
        size = character_size(data[at])
        parts.append(data[at : at + size])
        at += size
    return parts


def character_size(first: int) -> int:
    """Return how many bytes a character has, from its first byte alone."""
    return (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4)[first >> 4]


def character_of_bytes(word: str) -> list[int]:
    """Return for each byte of the word the index of its character."""
    places: list[int] = []
    for index, character in enumerate(word):
        code = ord(character)
        size = 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)
        places += [index] * (1 if 0xDC80 <= code <= 0xDCFF else size)
    return places


def lay_out(word: str, tokens: Iterable[tuple[int, int]]) -> list[Symbol]:
    """Lay (id, size in bytes) end to end over a word; a negative id leaves a gap."""
    spans, at = [], 0
    for token_id, size in tokens:
        if token_id >= 0:
            spans.append((token_id, at, at + size))
        at += size
    return in_characters(word, spans)


def in_characters(word: str, spans: list[Symbol]) -> list[Symbol]:
    """Turn (id, start, end) in bytes into code points of the word, ``Symbol``."""
    places = character_of_bytes(word)
    size = len(places)
    return [
        (token_id, ~start, ~end)
        if end > size
        else (token_id, places[start], places[start])
        if start == end
        else (token_id, places[start], places[end - 1] + 1)
        for token_id, start, end in spans
    ]


def beyond(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the offsets of a token that reaches over the end of its word.

    The library takes its place in the word, in bytes, for one in the whole text, and gives it
    back as it is where the text has no such byte.

    Source: huggingface/tokenizers 0.23, tokenizer/pre_tokenizer.rs, ``BytesToCharOffsetConverter``.
    """
    places = character_of_bytes(text)
    if start >= len(places):
        return start, end
    if end < len(places):
        return places[start], places[end]
    return places[start], (places[end - 1] if end == len(places) else places[start] + 1) + 1


def spell_unknown(
    parts: Iterable[tuple[bytes, int | None]],
    *,
    unk: int | None,
    byte_ids: Mapping[int, int] | None,
    fuse: bool = True,
    last: bool = True,
) -> list[Symbol]:
    """Turn (bytes, id or None) into (id, start, end) in bytes.

    For None stand byte tokens or the unknown token.

    Args:
        byte_ids: Byte -> token, used where all bytes of a piece have one; None to use ``unk``.
        last: Whether the last byte token covers the piece and those before it nothing, as in
            sentencepiece (``PopulateSentencePieceText``), or each of them the whole piece.
    """
    spans: list[Symbol] = []
    fusing = False
    start = end = 0
    for data, token_id in parts:
        start, end = end, end + len(data)
        if token_id is not None:
            spans.append((token_id, start, end))
            fusing = False
        elif byte_ids is not None and all(byte in byte_ids for byte in data):
            first = start if last else end
            spans += [(byte_ids[byte], start, first) for byte in data[:-1]]
            spans.append((byte_ids[data[-1]], start, end))
            fusing = False
        elif unk is None:
            raise no_token(data)
        else:
            if fusing and fuse:
                start = spans.pop()[1]
            spans.append((unk, start, end))
            fusing = True
    return spans


def no_token(data: bytes) -> NoToken:
    """Return the error for text that a model without an unknown token cannot encode."""
    return NoToken(
        f"has no token for {data[:40].decode('utf-8', 'backslashreplace')!r} and no unknown token",
        field="model",
    )


def piece_steps(vocabulary: Vocabulary, symbols: Iterable[Symbol]) -> tuple[PieceStep, ...]:
    """Describe tokens for a trace; an id outside the vocabulary has no piece."""
    pieces, scores = vocabulary.pieces, vocabulary.scores
    ids = range(len(pieces))
    return tuple(
        PieceStep(
            token_id,
            pieces[token_id] if token_id in ids else b"",
            scores[token_id] if scores is not None and token_id in ids else None,
            max(start, 0),
            max(end, 0),
        )
        for token_id, start, end in symbols
    )


class Prefixes:
    """Pieces that begin at a place, found by trying the lengths that exist for the first byte."""

    def __init__(self, ids: Mapping[bytes, int]) -> None:
        self.ids = ids
        lengths: dict[int, set[int]] = {}
        for piece in ids:
            if piece:
                lengths.setdefault(piece[0], set()).add(len(piece))
        self.lengths = {first: tuple(sorted(sizes)) for first, sizes in lengths.items()}

    def at(self, data: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Yield (end, id) of each piece that begins at ``start``, shortest first."""
        room = len(data) - start
        for length in self.lengths.get(data[start], ()):
            if length > room:
                return
            token_id = self.ids.get(data[start : start + length])
            if token_id is not None:
                yield start + length, token_id

    def longest(self, data: bytes, start: int) -> tuple[int, int] | None:
        """Return (end, id) of the longest piece that begins at ``start``."""
        room = len(data) - start
        for length in reversed(self.lengths.get(data[start], ())):
            if length <= room:
                token_id = self.ids.get(data[start : start + length])
                if token_id is not None:
                    return start + length, token_id
        return None
