"""Signs: the fixed texts that a chat template writes around what a model says, and finding them.

A model may write a sign without its white space: at the ends of a sign as much is passed as there
is, between its words any. A sign may have holes: an id or a number that the model fills in, or the
name or key that stood before it once more.

``IncomingText`` is text that comes in pieces. What reads it are generators: one that needs more
text yields, and is resumed when there is more, or when there will be none.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from typing import TypeAlias, TypeVar

    T = TypeVar("T")

    Waiting: TypeAlias = Generator[None, None, T]


ID, NUMBER, NAME, KEY, EOS = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
"""Holes: private characters, which templates do not write."""
MOST_WORD = 200
"""Characters of a name, a key or an id."""
NO_MATCH, PARTIAL = -1, -2

_TOKEN = re.compile(
    r"</?[^<>\s]{1,80}(?: [^<>\n]{1,80})?>|<｜[^<>｜\n]{1,60}｜>|\[/?[A-Z_]{2,30}\]|\w+|\s|.",
    re.DOTALL,
)
_WORD = re.compile(r"[\w.:-]*")
_DIGITS = re.compile(r"\d*")


def tags_and_words(text: str) -> list[str]:
    """Cut a text where a template may go on in another way: never inside a tag or a word."""
    return _TOKEN.findall(text)


def common_start(texts: Sequence[str]) -> str:
    """Return what all texts begin with, whole tokens."""
    return "".join(_same_start(map(tags_and_words, texts)))


def common_end(texts: Sequence[str]) -> str:
    """Return what all texts end with, whole tokens."""
    return "".join(_same_start([tags_and_words(text)[::-1] for text in texts])[::-1])


def _same_start(rows: Iterable[list[str]]) -> list[str]:
    start = []
    for column in zip(*rows, strict=False):
        if any(token != column[0] for token in column):
            break
        start.append(column[0])
    return start


def with_number_holes(text: str, other: str) -> str:
    """Return a text with holes for the numbers that differ in another text."""
    pieces, others = re.split(r"(\d+)", text), re.split(r"(\d+)", other)
    if pieces[::2] != others[::2]:
        return text
    return "".join(
        NUMBER if place % 2 and a != b else a
        for place, (a, b) in enumerate(zip(pieces, others, strict=True))
    )


class Sign:
    """A sign.

    Attributes:
        core: Without white space at its ends; all of it where there is nothing else.
        first: The character that the core begins with; empty where that is a hole.
    """

    def __init__(self, text: str) -> None:
        core = text.strip() or text
        self.text, self.core = text, core
        self.lead = text[: len(text) - len(text.lstrip())] if core != text else ""
        self.trail = text[len(self.lead) + len(core) :]
        self._pieces = re.findall(r"\s+|[\ue000-\ue003]|[^\s\ue000-\ue003]+", core)
        if not core.strip():
            self._pieces = [core]
        self._is_blank = not core.strip()
        self.first = "" if core[:1] in (ID, NUMBER, NAME, KEY) else core[:1]
        self._plain = core if len(self._pieces) == 1 and self.first else ""

    def __repr__(self) -> str:
        return f"Sign({self.text!r})"

    def match(self, text: str, at: int, name: str = "", key: str = "") -> int:
        """Return where the core that begins at a place ends.

        Returns:
            The place behind it, ``NO_MATCH``, or ``PARTIAL`` where the text ends inside it.
        """
        if self._plain:
            if text.startswith(self._plain, at):
                return at + len(self._plain)
            return PARTIAL if self._plain.startswith(text[at:]) else NO_MATCH
        for piece in self._pieces:
            if piece in (NAME, KEY):
                piece = name if piece == NAME else key
            if piece in (ID, NUMBER):
                match = (_WORD if piece == ID else _DIGITS).match(text, at)
                end = match.end() if match else at
                if end == len(text) and end - at < MOST_WORD:
                    return PARTIAL
                if not 0 < end - at < MOST_WORD:
                    return NO_MATCH
                at = end
            elif piece.isspace() and not self._is_blank:
                while at < len(text) and text[at].isspace():
                    at += 1
                if at == len(text):
                    return PARTIAL
            elif text.startswith(piece, at):
                at += len(piece)
            else:
                return PARTIAL if piece.startswith(text[at:]) else NO_MATCH
        return at

    def id_in(self, text: str, at: int) -> str:
        """Return the id in the core that matches at a place; nothing where it has none."""
        for piece in self._pieces:
            if piece == ID:
                match = _WORD.match(text, at)
                return match[0] if match else ""
            if piece.isspace():
                while at < len(text) and text[at].isspace():
                    at += 1
            elif piece == NUMBER:
                match = _DIGITS.match(text, at)
                at = match.end() if match else at
            else:
                at += len(piece)
        return ""

    def places(self, text: str, start: int) -> Iterator[int]:
        """Yield where the core may begin."""
        if not self.first:
            yield from range(start, len(text))
            return
        at = text.find(self.first, start)
        while at >= 0:
            yield at
            at = text.find(self.first, at + 1)


def length_without(text: str, lead: str) -> int:
    """Return the length of a text without as much of a sign's white space as it ends with."""
    for length in range(len(lead), 0, -1):
        if text.endswith(lead[-length:]):
            return len(text) - length
    return len(text)


class IncomingText:
    """Text that comes in pieces.

    Attributes:
        lets_go: Text that has been read is dropped whenever more is waited for.
        has_run_out: More was wanted, and there was none.
    """

    def __init__(self) -> None:
        self.text, self.at, self.ended, self.lets_go = "", 0, False, False
        self.has_run_out = False

    def let_go(self, upto: int) -> str:
        """Return the text up to a place, and keep the rest alone."""
        gone, self.text = self.text[:upto], self.text[upto:]
        self.at = max(self.at - upto, 0)
        return gone

    def more(self) -> Waiting[bool]:
        """Wait for more; False where there is none."""
        if self.lets_go:
            self.let_go(self.at)
        size = len(self.text)
        while len(self.text) == size:
            if self.ended:
                self.has_run_out = True
                return False
            yield
        return True

    def blank(self) -> Waiting[bool]:
        """Pass white space; False where the text ends behind it."""
        while True:
            text = self.text
            while self.at < len(text) and text[self.at].isspace():
                self.at += 1
            if self.at < len(text):
                return True
            if not (yield from self.more()):
                return False

    def peek(self) -> Waiting[str]:
        """Return the next character; nothing at the end."""
        if self.at >= len(self.text) and not (yield from self.more()):
            return ""
        return self.text[self.at]

    def trail(self, blank: str) -> Waiting[None]:
        """Pass as much of some white space as there is."""
        for character in blank:
            if (yield from self.peek()) != character:
                return
            self.at += 1

    def sign(self, sign: Sign, name: str = "", key: str = "") -> Waiting[str | None]:
        """Pass a sign, behind any white space.

        Returns:
            The id in it, or "" where it has none; None where another text stands here.
        """
        start = self.at
        if not sign.core.strip():
            if sign.core:
                yield from self.trail(sign.core)
            return ""
        while True:
            if not (yield from self.blank()):
                break
            end = sign.match(self.text, self.at, name, key)
            if end == PARTIAL:
                if (yield from self.more()):
                    continue
                break
            if end < 0:
                break
            number = sign.id_in(self.text, self.at)
            self.at = end
            yield from self.trail(sign.trail)
            return number
        self.at = start
        return None

    def longest(self, signs: Sequence[Sign], name: str = "") -> Waiting[Sign | None]:
        """Pass the longest of some signs that stands here; None where none does."""
        start = self.at
        while signs and (yield from self.blank()):
            matches = [(sign.match(self.text, self.at, name), sign) for sign in signs]
            if any(end == PARTIAL for end, _ in matches) and (yield from self.more()):
                self.at = start
                continue
            end, sign = max(matches, key=lambda match: match[0])
            if end < 0:
                break
            self.at = end
            yield from self.trail(sign.trail)
            return sign
        self.at = start
        return None
