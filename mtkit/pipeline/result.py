"""What encoding gives, in the pipeline and in the engine alike."""

from __future__ import annotations

from mtkit.base.record import Record


class Encoded(Record):
    """Ids with their places in the text; all lists have one entry a token.

    Attributes:
        ids: Token ids.
        tokens: How the reference spells each token: as in the vocabulary; an added token, or a
            part that a model of scores does not know, as the normalized text has it. Bytes that
            are not valid UTF-8 are surrogate escapes.
        offsets: (start, end) in characters of the original text; (0, 0) for tokens that the
            post-processor added.
        type_ids: Segment numbers.
        special: 1 for tokens that the post-processor added, else 0.
        sequence: 0 for the first text, 1 for the second, None for added ones.
        attention: 0 for padding, else 1.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    type_ids: list[int]
    special: list[int]
    sequence: list[int | None]
    attention: list[int]
