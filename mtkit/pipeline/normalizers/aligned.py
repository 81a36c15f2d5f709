"""A text that remembers, for each of its characters, the stretch of the original it stands for.

``text[i]`` stands for ``original[spans[i][0]:spans[i][1]]``; the numbers count characters of the
whole original text, also in a part cut out of it. ``start`` and ``end`` say which stretch of the
original the text as a whole came from.

The rules (whom an inserted character belongs to, what a change of the whole text covers) are those
of the NormalizedString of ``tokenizers``, oddities included, since its offsets are the measure.

Source: huggingface/tokenizers 0.23, tokenizer/normalizer.rs.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.pipeline.normalizers.growth import Growth, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mtkit.spec.pre_tokenizers import Behavior

    Span = tuple[int, int]
    Change = tuple[str, int]


class Aligned:
    """Text with alignment; parts are new objects, changes happen in place.

    Attributes:
        text: The text as it is now.
        spans: Stretch of the original of each character; same length as ``text``.
        start: Where the part of the original begins that this text came from.
        end: Where it ends.
        growth: What the steps may add to the whole text.
    """

    __slots__ = ("end", "growth", "spans", "start", "text")

    def __init__(self, text: str, spans: list[Span], start: int, end: int, growth: Growth) -> None:
        self.text = text
        self.spans = spans
        self.start = start
        self.end = end
        self.growth = growth

    @classmethod
    def of(cls, text: str) -> Aligned:
        """Return an unchanged text aligned with itself."""
        spans = [(at, at + 1) for at in range(len(text))]
        return cls(text, spans, 0, len(text), Growth(text))

    def __len__(self) -> int:
        return len(self.text)

    def copy(self) -> Aligned:
        """Return an independent copy."""
        return Aligned(self.text, list(self.spans), self.start, self.end, self.growth)

    def part(self, first: int, last: int) -> Aligned:
        """Return the characters ``first`` to ``last`` (exclusive) as a text of its own."""
        spans = self.spans[first:last]
        if not spans:
            return Aligned("", [], self.start, self.start, self.growth)
        return Aligned(self.text[first:last], spans, spans[0][0], spans[-1][1], self.growth)

    def offsets(self, first: int, last: int) -> Span:
        """Return the stretch of the original that some characters stand for."""
        start = self.spans[first][0]
        return start, start if first == last else self.spans[last - 1][1]

    def transform(
        self, changes: Iterable[Change], removed: int = 0, at: tuple[int, int] | None = None
    ) -> None:
        """Write new characters over a part of the text.

        Args:
            changes: Each new character with 1: inserted, 0: stands for the next old one, -n: also
                for the n old ones after it.
            removed: Old characters that vanish in front.
            at: The part of the text; None for the whole.

        Raises:
            UnsupportedError: The changes stand for more characters than there are.
        """
        first, last = self._whole() if at is None else at
        old, nowhere = self.spans, (self.start, self.start)
        cursor = min(first + removed, last)
        text, spans = [], []
        for character, change in changes:
            if change > 0:
                spans.append(old[cursor - 1] if cursor else nowhere)
            elif cursor < len(old):
                spans.append(old[cursor])
                cursor = min(cursor + 1 - change, max(last, cursor))
            else:
                raise UnsupportedError(
                    "the normalizers do not fit each other: one inserts text at the very start"
                    " and a later one changes the whole text; the reference fails here, too"
                )
            text.append(character)
        written = "".join(text)
        self.growth.spend(size(written) - size(self.text[first:last]))
        self.text = self.text[:first] + written + self.text[last:]
        self.spans = old[:first] + spans + old[last:]

    def _whole(self) -> tuple[int, int]:
        """Return the part that a change of the whole text covers.

        Characters in front that stand for nothing do not belong to it: the reference finds the
        part by its stretch of the original.
        """
        if self.start == self.end:
            return 0, 0
        for at, (start, end) in enumerate(self.spans):
            if start != end:
                return at, len(self.spans)
        return len(self.spans), len(self.spans)

    def filter(self, keep: Callable[[str], bool]) -> None:
        """Drop the characters that are not to be kept."""
        changes: list[Change] = []
        in_front = gone = 0
        for character in self.text:
            if not keep(character):
                gone += 1
                continue
            if changes:
                changes[-1] = (changes[-1][0], -gone)
            else:
                in_front = gone
            changes.append((character, 0))
            gone = 0
        if changes:
            changes[-1] = (changes[-1][0], -gone)
        if self.text:
            self.transform(changes, in_front)

    def prepend(self, text: str) -> None:
        """Put a text in front; it belongs to the first character. Nothing happens when empty."""
        if self.text:
            self.growth.check(size(text))
            changes = [(character, int(at > 0)) for at, character in enumerate(text)]
            self.transform([*changes, (self.text[0], 1)], at=(0, 1))

    def replace(self, matches: Sequence[Span], content: str) -> None:
        """Write ``content`` over each match; it belongs to the last character of the match."""
        if not self.text:
            return
        found = "".join([self.text[first:last] for first, last in matches])
        self.growth.spend(len(matches) * size(content) - size(found))
        text, spans, done = [], [], 0
        for first, last in matches:
            owner = self.spans[last - 1] if last else (self.start, self.start)
            text += [self.text[done:first], content]
            spans += self.spans[done:first] + [owner] * len(content)
            done = last
        self.text = "".join(text) + self.text[done:]
        self.spans = spans + self.spans[done:]

    def strip(self, is_space: Callable[[str], bool], *, left: bool, right: bool) -> None:
        """Remove spaces from the ends."""
        first, last = 0, len(self.text)
        while left and first < len(self.text) and is_space(self.text[first]):
            first += 1
        while right and last > 0 and is_space(self.text[last - 1]):
            last -= 1
        if first or last < len(self.text):
            self.transform([(character, 0) for character in self.text[first:last]], first)

    def split(
        self, matches: Sequence[Span], behavior: Behavior, *, invert: bool = False
    ) -> list[Aligned]:
        """Cut the text at matches; parts without characters are left out."""
        stretches = [(span, found != invert) for span, found in covering(matches, len(self.text))]
        return [self.part(*span) for span in _cut(stretches, behavior) if span[0] < span[1]]


def covering(matches: Sequence[Span], size: int) -> list[tuple[Span, bool]]:
    """Return the matches and the stretches between them, each with whether it is a match."""
    stretches: list[tuple[Span, bool]] = []
    done = 0
    for first, last in matches:
        if done != first:
            stretches.append(((done, first), False))
        stretches.append(((first, last), True))
        done = last
    if done != size:
        stretches.append(((done, size), False))
    return stretches


def _cut(stretches: list[tuple[Span, bool]], behavior: Behavior) -> list[Span]:
    """Join or drop stretches as a behavior says."""
    if behavior == "removed":
        return [span for span, found in stretches if not found]
    if behavior == "isolated":
        return [span for span, _ in stretches]
    backwards = behavior == "merged_with_next"
    parts: list[Span] = []
    before = False
    for span, found in reversed(stretches) if backwards else stretches:
        if behavior == "contiguous":
            joins = found == before
        else:
            joins = found and (not before or behavior == "glued_to_previous")
        before = found
        if not joins or not parts:
            parts.append(span)
        elif backwards:
            parts[-1] = (span[0], parts[-1][1])
        else:
            parts[-1] = (parts[-1][0], span[1])
    return parts[::-1] if backwards else parts
