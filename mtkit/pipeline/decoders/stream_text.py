"""Decoders token by token: each holds back what a later token could still change.

Source: the decoders in ``decoders.py``, whose answers for a whole sequence these give in parts.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from mtkit.pipeline.decoders import components as whole
from mtkit.pipeline.normalizers.growth import longest, too_long, weight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtkit.spec import decoders as spec


class Stage:
    """A decoder, token by token."""

    def push(self, token: str) -> list[str]:
        """Take a token and return the tokens that are settled."""
        raise NotImplementedError

    def finish(self) -> list[str]:
        """Return what was held back."""
        return []


class Each(Stage):
    """Each token on its own; only the first is told apart."""

    def __init__(self, decode: Callable[[str, bool], str]) -> None:
        self._decode = decode
        self._first = True

    def push(self, token: str) -> list[str]:
        """Take a token."""
        text = self._decode(token, self._first)
        self._first = False
        return [text]


class Joined(Stage):
    """A separator between tokens."""

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._first = True

    def push(self, token: str) -> list[str]:
        """Take a token."""
        first, self._first = self._first, False
        return [token if first else self._separator + token]


class Bytes(Stage):
    """Letters of the byte alphabet to characters."""

    def __init__(self) -> None:
        self._utf8 = getincrementaldecoder("utf-8")("replace")

    def push(self, token: str) -> list[str]:
        """Take a token."""
        return [self._utf8.decode(whole.letters_to_bytes(token))]

    def finish(self) -> list[str]:
        """Give the rest."""
        return [self._utf8.decode(b"", True)]


class Run(Stage):
    """Byte tokens; a run of them is text as a whole or not at all, so what follows it settles it.

    Where a run cannot become UTF-8 any more, each of its bytes is U+FFFD at once.
    """

    def __init__(self) -> None:
        self._run: list[int] = []
        self._utf8 = getincrementaldecoder("utf-8")()
        self._broken = False

    def push(self, token: str) -> list[str]:
        """Take a token."""
        byte = whole.fallback_byte(token)
        if byte is None:
            return [*self.finish(), token]
        if self._broken:
            return ["\ufffd"]
        self._run.append(byte)
        try:
            self._utf8.decode(bytes((byte,)))
        except UnicodeDecodeError:
            given = self.finish()
            self._broken = True
            return given
        return []

    def finish(self) -> list[str]:
        """Give the rest."""
        run, self._run = self._run, []
        self._utf8.reset()
        self._broken = False
        return whole.spelled(run, lossy=True)


class Late(Stage):
    """The last token is written otherwise, so each waits for the next."""

    def __init__(self, decoder: spec.BPE) -> None:
        self._decoder = decoder
        self._held: list[str] = []

    def push(self, token: str) -> list[str]:
        """Take a token."""
        settled = [whole.suffixed(self._decoder, held, last=False) for held in self._held]
        self._held = [token]
        return settled

    def finish(self) -> list[str]:
        """Give the rest."""
        return [whole.suffixed(self._decoder, held, last=True) for held in self._held]


class Different(Stage):
    """Repeats are dropped."""

    def __init__(self, decoder: spec.CTC) -> None:
        self._decoder = decoder
        self._before: str | None = None

    def push(self, token: str) -> list[str]:
        """Take a token."""
        if token == self._before:
            return []
        self._before = token
        text = whole.ctc_text(self._decoder, token)
        return [text] if text else []


class Ends(Stage):
    """A character taken from the ends of one text; those that may be at its end are counted."""

    def __init__(self, decoder: spec.Strip) -> None:
        self._decoder = decoder
        self._content = decoder.content if len(decoder.content) == 1 else ""
        self._held = 0
        self._begun = False

    def push(self, token: str) -> list[str]:
        """Take a token."""
        body = token.strip(self._content)
        given = ""
        if body:
            held = self._held + len(token) - len(token.lstrip(self._content))
            given = self._content * (held - self._taken_in_front()) + body
            self._begun = True
            self._held = len(token) - len(token.rstrip(self._content))
        else:
            self._held += len(token)
        settled = max(self._held - self._taken_in_front() - self._decoder.stop, 0)
        self._held -= settled
        return [given + self._content * settled]

    def _taken_in_front(self) -> int:
        return 0 if self._begun else self._decoder.start

    def finish(self) -> list[str]:
        """Give the rest."""
        if self._begun:
            return [self._content * max(self._held - self._decoder.stop, 0)]
        return [whole.stripped(self._decoder, self._content * self._held)]


class Whole(Stage):
    """Nothing is settled before the end."""

    def __init__(self, decode: Callable[[list[str]], list[str]]) -> None:
        self._decode = decode
        self._parts: list[str] = []

    def push(self, token: str) -> list[str]:
        """Take a token."""
        self._parts.append(token)
        return []

    def finish(self) -> list[str]:
        """Give the rest."""
        return self._decode(["".join(self._parts)])


class Literal(Stage):
    """A literal replaced in one text that comes in parts; what may become one waits.

    The search is Knuth's, Morris's and Pratt's: a character costs the same, however long the
    literal is.
    """

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new
        self._size = 0
        self._shorter = _borders(old)

    def push(self, token: str) -> list[str]:
        """Take a token."""
        if not self._size and self._old[0] not in token:
            return [token]
        given: list[str] = []
        most = left = longest(weight([token]))
        for character in token:
            while self._size and self._old[self._size] != character:
                shorter = self._shorter[self._size]
                given.append(self._old[: self._size - shorter])
                self._size = shorter
            if self._old[self._size] == character:
                self._size += 1
            else:
                given.append(character)
            if self._size == len(self._old):
                given.append(self._new)
                self._size = 0
                left -= weight([self._new])
                if left < 0:
                    raise too_long(most)
        return ["".join(given)]

    def finish(self) -> list[str]:
        """Give the rest."""
        return [self._old[: self._size]]


def literals(pairs: Iterable[tuple[str, str]]) -> list[Stage]:
    """Return a stage for each (old, new)."""
    return [Literal(*pair) for pair in pairs]


def _borders(text: str) -> list[int]:
    """Return for the beginning of each size the longest shorter beginning that it ends with."""
    borders = [0, 0]
    for size in range(1, len(text)):
        shorter = borders[size]
        while shorter and text[shorter] != text[size]:
            shorter = borders[shorter]
        borders.append(shorter + (text[shorter] == text[size]))
    return borders
