"""The tokens of a trace, each with the word that it belongs to."""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.pipeline.trace.records import Trace
    from mtkit.tokenizer.tokenizer import Tokenizer


class Shown(Record):
    """A token as it is shown.

    Attributes:
        number: Its place among the tokens.
        id: Its id.
        text: Its text on one line, a space as a middle dot.
        raw: The bytes that it stands for.
        offsets: The characters of the text, (start, end).
        word: Which word it is a part of; None where it was put around the text.
        is_special: Whether it is no text: an added token of the text, or one put around it.
    """

    number: int
    id: int
    text: str
    raw: bytes
    offsets: tuple[int, int]
    word: int | None
    is_special: bool


def tokens_of(trace: Trace, tokenizer: Tokenizer) -> list[Shown]:
    """Return the tokens of a text, in order."""
    from mtkit.commands.terminal import token_text

    words = dict(_words(trace))
    found = []
    for number, token_id in enumerate(trace.ids):
        raw = tokenizer.token_bytes(token_id)
        word, is_added = words.get(number, (None, True))
        start, end = trace.offsets[number]
        shown = str(token_text(raw))
        found.append(Shown(number, token_id, shown, raw, (start, end), word, is_added))
    return found


def _words(trace: Trace) -> Iterator[tuple[int, tuple[int, bool]]]:
    """Yield place of a token -> number of its word, and whether that is an added token."""
    inner = [token_id for word in trace.words for token_id in word.ids]
    around = len(trace.ids) - len(inner)
    begins = (at for at in range(around + 1) if trace.ids[at : at + len(inner)] == inner)
    place = next(begins, None)
    if place is None:  # a post-processor that changed the ids themselves
        return
    for number, word in enumerate(trace.words):
        for _ in word.ids:
            yield place, (number, word.model is None)
            place += 1
