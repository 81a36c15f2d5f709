"""What a trace holds: each step, each word with its tokens, and both as JSON values."""

from __future__ import annotations

from mtkit.base.escape import byte_escapes
from mtkit.base.record import Record
from mtkit.pipeline.trace.as_json import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import WordTrace


class Part(Record):
    """A stretch of text.

    Attributes:
        text: As it is at this step.
        start: Where it begins in the original text, in characters.
        end: Behind its last character there.
        id: Its id where it is an added token.
    """

    text: str
    start: int
    end: int
    id: int | None = None


class Step(Record):
    """What one component made of all parts.

    Attributes:
        stage: ``added tokens``, ``normalizer`` or ``pre-tokenizer``.
        name: Name of the component.
        detail: Its pattern, or what else tells it from others of its name.
        parts: All parts afterwards.
        changed: Whether they are others than before.
    """

    stage: str
    name: str
    detail: str
    parts: tuple[Part, ...]
    changed: bool


class Word(Record):
    """A word and its tokens.

    Attributes:
        part: The word.
        ids: Its ids.
        model: How the model found them; None for an added token.
    """

    part: Part
    ids: tuple[int, ...]
    model: WordTrace | None


def _word_values(word: Word) -> dict[str, object]:
    """Return a word with its merges, without values that are None."""
    values: dict[str, object] = {
        "word": byte_escapes(word.part.text),
        "offsets": [word.part.start, word.part.end],
        "added_token": word.model is None,
    }
    if word.model is not None:
        values["start"] = plain(word.model.start)
        values["steps"] = [
            {name: value for name, value in plain(merge).items() if value is not None}
            for merge in word.model.merges
        ]
        values["pieces"] = plain(word.model.pieces)
    return {**values, "ids": list(word.ids)}


class Trace(Record):
    """The way from a text to its ids.

    Attributes:
        text: The input.
        steps: From the cut of added tokens to the last pre-tokenizer.
        model: Name of the model.
        words: Each word with its tokens.
        post_processor: Names of the post-processor's components.
        ids: The result.
        tokens: What each id is spelled.
        offsets: (start, end) of each in the text.
    """

    text: str
    steps: tuple[Step, ...]
    model: str
    words: tuple[Word, ...]
    post_processor: tuple[str, ...]
    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]

    def to_json(self) -> dict[str, object]:
        """Return the trace as JSON values."""
        return {
            "text": byte_escapes(self.text),
            "steps": [plain(step) for step in self.steps],
            "model": self.model,
            "words": [_word_values(word) for word in self.words],
            "post_processor": list(self.post_processor),
            "ids": self.ids,
            "tokens": [byte_escapes(token) for token in self.tokens],
            "offsets": [list(pair) for pair in self.offsets],
        }


class DecodeStep(Record):
    """What one decoder made of the tokens."""

    name: str
    tokens: tuple[str, ...]


class DecodeTrace(Record):
    """The way from ids to text.

    Attributes:
        ids: The input.
        tokens: What each id is spelled; None where it is left out.
        steps: The decoder's components.
        text: The result.
    """

    ids: tuple[int, ...]
    tokens: tuple[str | None, ...]
    steps: tuple[DecodeStep, ...]
    text: str

    def to_json(self) -> dict[str, object]:
        """Return the trace as JSON values."""
        return dict(plain(self))
