"""Text that comes in pieces, read by generators that wait where it ends.

A generator that needs more yields; it is resumed when there is more, or when there will be none.
"""

from __future__ import annotations

from mtkit.chat.signs import PARTIAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import TypeAlias, TypeVar

    from mtkit.chat.signs import Sign

    T = TypeVar("T")
    Waiting: TypeAlias = Generator[None, None, T]


class Incoming:
    """A text.

    Attributes:
        text: What there is of it and not yet let go.
        at: Up to where it is read.
        ended: Nothing more comes.
        lets_go: What is read is not kept.
        gone: How much was let go so far.
    """

    def __init__(self) -> None:
        self.text, self.at, self.ended, self.lets_go, self.gone = "", 0, False, False, 0

    def let_go(self, upto: int) -> str:
        """Return the text up to a place, and keep the rest alone."""
        gone, self.text = self.text[:upto], self.text[upto:]
        self.at = max(self.at - upto, 0)
        self.gone += len(gone)
        return gone

    def more(self) -> Waiting[bool]:
        """Wait for more; False where there is none."""
        if self.lets_go:
            self.let_go(self.at)
        size = len(self.text)
        while len(self.text) == size:
            if self.ended:
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
        for one in blank:
            if (yield from self.peek()) != one:
                return
            self.at += 1

    def sign(self, sign: Sign, name: str = "", key: str = "") -> Waiting[str | None]:
        """Pass a sign, which need not begin here with white space.

        Returns:
            The id in it, if it has one; None where something else stands here, and nothing passed.
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
            found = sign.id_in(self.text, self.at)
            self.at = end
            yield from self.trail(sign.trail)
            return found
        self.at = start
        return None

    def longest(self, signs: Sequence[Sign], name: str = "") -> Waiting[Sign | None]:
        """Pass the longest of some signs that stands here; None where none does."""
        start = self.at
        while signs and (yield from self.blank()):
            found = [(sign.match(self.text, self.at, name), sign) for sign in signs]
            if any(end == PARTIAL for end, _ in found) and (yield from self.more()):
                self.at = start
                continue
            end, sign = max(found, key=lambda one: one[0])
            if end < 0:
                break
            self.at = end
            yield from self.trail(sign.trail)
            return sign
        self.at = start
        return None
