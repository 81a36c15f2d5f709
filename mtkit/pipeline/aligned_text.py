"""A text that remembers, for each of its characters, the stretch of the original it stands for.

``text[i]`` stands for ``original[spans[i][0]:spans[i][1]]``; the numbers count characters of the
whole original text, also in a part cut out of it. ``start`` and ``end`` say which stretch of the
original the text as a whole came from.

The rules (whom an inserted character belongs to, what a change of the whole text covers) are those
of the NormalizedString of ``tokenizers``, oddities included, since its offsets are the measure.

``normal_form`` gives the Unicode normal forms as changes of such a text. It decomposes each
character, puts the marks behind a starter in the order of their combining classes, and for the
composed forms joins each starter with the marks that are not blocked from it. Next to each
character of the result stands what became of the old ones (see ``AlignedText.transform``): a
further character of a decomposition is inserted, a mark that went into a composition is removed. A
mark that moves takes its change along, as in the reference.

Source: huggingface/tokenizers 0.23, tokenizer/normalizer.rs; for the normal forms the crate
unicode-normalization-alignments 0.1, which ``tokenizers`` uses.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.pipeline.growth import Growth, utf8_size
from mtkit.unicode.characters import combining_class, composition, decomposition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Literal

    from mtkit.spec.pre_tokenizers import Behavior

    Span = tuple[int, int]

    Change = tuple[str, int]


class AlignedText:
    """Text with alignment; parts are new objects, changes happen in place.

    Attributes:
        spans: Stretch of the original of each character; same length as ``text``.
        start: Where the part of the original begins that this text came from.
    """

    __slots__ = ("end", "growth", "spans", "start", "text")

    def __init__(self, text: str, spans: list[Span], start: int, end: int, growth: Growth) -> None:
        self.text = text
        self.spans = spans
        self.start = start
        self.end = end
        self.growth = growth

    @classmethod
    def of(cls, text: str) -> AlignedText:
        """Return an unchanged text aligned with itself."""
        spans = [(at, at + 1) for at in range(len(text))]
        return cls(text, spans, 0, len(text), Growth(text))

    def __len__(self) -> int:
        return len(self.text)

    def copy(self) -> AlignedText:
        """Return an independent copy."""
        return AlignedText(self.text, list(self.spans), self.start, self.end, self.growth)

    def part(self, first: int, last: int) -> AlignedText:
        """Return the characters ``first`` to ``last`` (exclusive) as a text of its own."""
        spans = self.spans[first:last]
        if not spans:
            return AlignedText("", [], self.start, self.start, self.growth)
        return AlignedText(self.text[first:last], spans, spans[0][0], spans[-1][1], self.growth)

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
            at: The part of the text; None for the whole.
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
        new = "".join(text)
        self.growth.spend(utf8_size(new) - utf8_size(self.text[first:last]))
        self.text = self.text[:first] + new + self.text[last:]
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
            self.growth.check(utf8_size(text))
            changes = [(character, int(at > 0)) for at, character in enumerate(text)]
            self.transform([*changes, (self.text[0], 1)], at=(0, 1))

    def replace(self, matches: Sequence[Span], content: str) -> None:
        """Write ``content`` over each match; it belongs to the last character of the match."""
        if not self.text:
            return
        old = "".join([self.text[first:last] for first, last in matches])
        self.growth.spend(len(matches) * utf8_size(content) - utf8_size(old))
        text, spans, end = [], [], 0
        for first, last in matches:
            owner = self.spans[last - 1] if last else (self.start, self.start)
            text += [self.text[end:first], content]
            spans += self.spans[end:first] + [owner] * len(content)
            end = last
        self.text = "".join(text) + self.text[end:]
        self.spans = spans + self.spans[end:]

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
    ) -> list[AlignedText]:
        """Cut the text at matches; parts without characters are left out."""
        stretches = [
            (span, is_match != invert)
            for span, is_match in stretches_around(matches, len(self.text))
        ]
        return [
            self.part(*span) for span in _join_stretches(stretches, behavior) if span[0] < span[1]
        ]


def stretches_around(matches: Sequence[Span], size: int) -> list[tuple[Span, bool]]:
    """Return the matches and the stretches between them, each with whether it is a match."""
    stretches: list[tuple[Span, bool]] = []
    end = 0
    for first, last in matches:
        if end != first:
            stretches.append(((end, first), False))
        stretches.append(((first, last), True))
        end = last
    if end != size:
        stretches.append(((end, size), False))
    return stretches


def _join_stretches(stretches: list[tuple[Span, bool]], behavior: Behavior) -> list[Span]:
    if behavior == "removed":
        return [span for span, is_match in stretches if not is_match]
    if behavior == "isolated":
        return [span for span, _ in stretches]
    backwards = behavior == "merged_with_next"
    parts: list[Span] = []
    before = False
    for span, is_match in reversed(stretches) if backwards else stretches:
        if behavior == "contiguous":
            joins = is_match == before
        else:
            joins = is_match and (not before or behavior == "glued_to_previous")
        before = is_match
        if not joins or not parts:
            parts.append(span)
        elif backwards:
            parts[-1] = (span[0], parts[-1][1])
        else:
            parts[-1] = (parts[-1][0], span[1])
    return parts[::-1] if backwards else parts


def normal_form(text: str, form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> list[Change]:
    """Return the characters of a normal form with their changes."""
    decomposed = _decompose(text, compatible="K" in form)
    return _compose(decomposed) if form.endswith("C") else decomposed


def _decompose(text: str, *, compatible: bool) -> list[Change]:
    changes: list[Change] = []
    marks: list[tuple[int, Change]] = []
    for character in text:
        inserted = 0
        for part in (
            character if character < "\x80" else decomposition(character, compatible=compatible)
        ):
            order = combining_class(part)
            if order == 0 and marks:
                changes += [change for _, change in sorted(marks, key=_order)]
                marks.clear()
            if order == 0:
                changes.append((part, inserted))
            else:
                marks.append((order, (part, inserted)))
            inserted = 1
    return changes + [change for _, change in sorted(marks, key=_order)]


def _order(mark: tuple[int, Change]) -> int:
    return mark[0]


def _compose(changes: list[Change]) -> list[Change]:
    result: list[Change] = []
    starter: Change | None = None
    waiting: list[Change] = []
    highest = 0
    for character, change in changes:
        order = combining_class(character)
        if starter is None:
            if order:
                result.append((character, change))
            else:
                starter = (character, change)
            continue
        # A mark is blocked by one of the same or a higher class before it, a starter by any mark.
        if not waiting or highest < order:
            composed = composition(starter[0], character)
            if composed is not None:
                starter = (composed, starter[1] + change - 1)
                continue
        if order == 0:
            result += [starter, *waiting]
            starter, waiting = (character, change), []
        else:
            waiting.append((character, change))
            highest = order
    return [*result, starter, *waiting] if starter else result
