"""How much longer the steps of a tokenizer may make a text.

A few steps that each write a hundred letters for one would fill any memory. All normalizers and
pre-tokenizers together may add ``GROWTH_BYTES``, or ``GROWTH_FACTOR`` times the text where that is
more, to its UTF-8 form; no tokenizer that is meant for use comes near. What shrinks a text gives
nothing back. The engine counts in the same way, less the letters of a last byte-level step, which
it never writes. Decoders may make as much of the tokens that they get.
"""

from __future__ import annotations

from mtkit.errors import ResourceError
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    A = TypeVar("A")

    T = TypeVar("T")


GROWTH_BYTES = 1 << 20
"""As in native/steps/steps.hpp."""
GROWTH_FACTOR = 64


class Growth:
    """What may still be added to a text and its parts."""

    __slots__ = ("_left", "_most")

    def __init__(self, text: str) -> None:
        self._left = self._most = max(GROWTH_BYTES, GROWTH_FACTOR * utf8_size(text))

    def check(self, added: int) -> None:
        """Stop a step that adds too many bytes, before it writes them."""
        if added > self._left:
            raise ResourceError(f"the text becomes more than {self._most} bytes longer")

    def spend(self, added: int) -> None:
        """Count the bytes that a step adds."""
        self.check(added)
        self._left -= max(added, 0)


def token_weight(tokens: Iterable[str]) -> int:
    """Return what tokens count for a decoder: a byte more than each has.

    Many may be empty, and set apart.
    """
    return sum(utf8_size(token) + 1 for token in tokens)


def decoded_limit(weight: int) -> int:
    """Return how many bytes decoders may make of tokens of that weight in all."""
    return weight + max(GROWTH_BYTES, GROWTH_FACTOR * weight)


def check_tokens(tokens: Iterable[str], most: int) -> None:
    """Stop a decoder whose tokens are longer than ``longest`` allows."""
    if sum(map(utf8_size, tokens)) > most:
        raise too_long(most)


def too_long(most: int) -> ResourceError:
    """Return the error of a decoder."""
    return ResourceError(f"the text becomes longer than {most} bytes", field="decoder")


def utf8_size(text: str) -> int:
    """Return how many bytes a text has."""
    return len(text) if text.isascii() else len(to_bytes(text))


def name_step(step: object, run: Callable[[A], T]) -> Callable[[A], T]:
    """Name a step in the error of what it makes too long."""

    def checked(text: A) -> T:
        try:
            return run(text)
        except ResourceError as error:
            error.field = error.field or type(step).__name__
            raise

    return checked
