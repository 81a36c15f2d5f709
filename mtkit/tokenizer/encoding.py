"""What is known of an encoded text, token by token."""

from __future__ import annotations

from mtkit.base.record import Record


class Encoding(Record):
    """One encoded text (or pair); the lists have one entry a token.

    Attributes:
        ids: Token ids.
        tokens: How the reference spells each token: as in the vocabulary, or as the normalized
            text has what the vocabulary lacks. Bytes that are not valid UTF-8 are backslash
            escapes.
        offsets: (start, end) in characters of the original text.
        type_ids: Segment numbers.
        special_tokens_mask: 1 for tokens that encoding added.
        attention_mask: 0 for padding.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    type_ids: list[int]
    special_tokens_mask: list[int]
    attention_mask: list[int]


def shown(token: str) -> str:
    """Return a token with bytes that are not valid UTF-8 as ``\\xNN``."""
    if token.isascii():
        return token
    return token.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
