"""Decoders token by token: each holds back what a later token could still change.

Source: the decoders in ``decoders.py``, whose answers for a whole sequence these give in parts.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from mtkit.pipeline.decoders import components as whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.spec import decoders as spec


RULED = frozenset(" .?!,'ntmsvred")
"""The characters of the clean-up rules."""


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
    """Byte tokens; a run of them is settled by the token behind it."""

    def __init__(self) -> None:
        self._bytes: list[int] = []

    def push(self, token: str) -> list[str]:
        """Take a token."""
        byte = whole.fallback_byte(token)
        if byte is not None:
            self._bytes.append(byte)
            return []
        return [*self.finish(), token]

    def finish(self) -> list[str]:
        """Give the rest."""
        run, self._bytes = self._bytes, []
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
    """A character taken from the ends of the whole text."""

    def __init__(self, decoder: spec.Strip) -> None:
        self._decoder = decoder
        self._left = decoder.start
        self._held = ""

    def push(self, token: str) -> list[str]:
        """Take a token."""
        while self._left and token:
            if token[0] != self._decoder.content:
                self._left = 0
            else:
                token = token[1:]
                self._left -= 1
        text = self._held + token
        kept = len(text)
        while kept and text[kept - 1] == self._decoder.content:
            kept -= 1
        kept = max(kept, len(text) - self._decoder.stop)
        self._held = text[kept:]
        return [text[:kept]]

    def finish(self) -> list[str]:
        """Give the rest."""
        return [self._held[: max(len(self._held) - self._decoder.stop, 0)]]


class Whole(Stage):
    """Nothing is settled before the end."""

    def __init__(self, decode: whole.Decode) -> None:
        self._decode = decode
        self._parts: list[str] = []

    def push(self, token: str) -> list[str]:
        """Take a token."""
        self._parts.append(token)
        return []

    def finish(self) -> list[str]:
        """Give the rest."""
        return self._decode(["".join(self._parts)])


class Cleaned(Stage):
    """Spaces dropped in front of punctuation: a text is settled up to its last words."""

    def __init__(self, steps: tuple[Callable[[str], str], ...]) -> None:
        self._steps = steps
        self._held = ""

    def push(self, token: str) -> list[str]:
        """Take a token."""
        text = self._held + token
        cut = len(text)
        while cut and not _settled(text, cut):
            cut -= 1
        self._held = text[cut:]
        return [self._clean(text[:cut])]

    def finish(self) -> list[str]:
        """Give the rest."""
        return [self._clean(self._held)]

    def _clean(self, text: str) -> str:
        for step in self._steps:
            text = step(text)
        return text


def _settled(text: str, cut: int) -> bool:
    """Tell whether no clean-up rule can reach over a place.

    A rule looks for a space and at most three of a few characters behind it.
    """
    if text[cut - 1] not in RULED or (cut < len(text) and text[cut] not in RULED):
        return True
    return cut >= 3 and " " not in text[cut - 3 : cut]
