"""Bytes merged without a split, and the unstable end of a text.

More text can change the last word of a text, and words of white space in front of it. What can then
be there are the tokens that begin with those bytes, or with an end of them.

Source: openai/tiktoken 0.14, src/lib.rs (``_increase_last_piece_token_len``,
``_encode_unstable_native``).
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

from mtkit.unicode.utf8 import letters_of_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mtkit.spec import TokenizerSpec
    from mtkit.tokenizer.tokenizer import Tokenizer

_SPACES = frozenset(b" \n\t")


class SinglePieces:
    """The ranks of an encoding without its split pattern."""

    def __init__(self, spec: TokenizerSpec, pattern: str, ranks: Mapping[bytes, int]) -> None:
        self._spec, self._pattern, self._ranks = spec, pattern, ranks
        self._bytes = {rank: piece for piece, rank in ranks.items()}

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        """The model alone: its words are spelled in the letters that stand for bytes."""
        from mtkit.spec import AddedTokens, replace
        from mtkit.tokenizer.tokenizer import Tokenizer

        bare = {"normalizer": None, "pre_tokenizer": None, "post_processor": None}
        return Tokenizer(replace(self._spec, **bare, added_tokens=AddedTokens(())))

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self._ranks)

    def encode(self, raw: bytes) -> list[int]:
        """Return the ids of bytes that are one word."""
        rank = self._ranks.get(raw)
        return self._tokenizer.encode_ids(letters_of_bytes(raw)) if rank is None else [rank]

    def unstable(self, ids: list[int], last: str) -> tuple[list[int], bytes]:
        """Return the ids in front of the unstable end of a text, and the bytes of that end."""
        from mtkit.formats.ranks import fancy_regex
        from mtkit.patterns.matcher import compile_pattern

        words = compile_pattern(fancy_regex(self._pattern)).find(last)
        if not words:
            return ids, b""
        start, end = words[-1]
        count = len(self.encode(last[start:end].encode()))
        if count and self._is_space(ids[len(ids) - count]):
            while count < len(ids) and self._is_space(ids[len(ids) - count - 1]):
                count += 1
        at = len(ids) - count
        return ids[:at], b"".join(self._bytes[number] for number in ids[at:])

    def _is_space(self, number: int) -> bool:
        return number in self._bytes and _SPACES.issuperset(self._bytes[number])

    def completions(
        self, raw: bytes, encode_ordinary: Callable[[str], list[int]]
    ) -> list[list[int]]:
        """Return the lists of ids that begin with some bytes, each once."""
        if not raw:
            return []
        lists: dict[tuple[int, ...], None] = dict.fromkeys(
            (self._ranks[piece],) for piece in self._beginning_with(raw)
        )
        for at in range(1, len(raw)):
            for piece in self._beginning_with(raw[at:]):
                whole = raw[:at] + piece
                try:
                    ids = encode_ordinary(whole.decode())
                except UnicodeDecodeError:
                    ids = self.encode(whole)
                lists[tuple(self._reaching(ids, len(raw)))] = None
        last = _last_character(raw)
        if last and last.decode("utf-8", "replace").isspace() and len(last) < len(raw):
            lists[tuple(self.encode(raw[: -len(last)]) + self.encode(last))] = None
        return [list(ids) for ids in lists]

    def _beginning_with(self, raw: bytes) -> Iterator[bytes]:
        pieces = self._sorted
        for at in range(bisect_left(pieces, raw), len(pieces)):
            if not pieces[at].startswith(raw):
                return
            yield pieces[at]

    def _reaching(self, ids: list[int], length: int) -> Iterator[int]:
        """Yield as many ids as it takes for so many bytes."""
        for number in ids:
            yield number
            length -= len(self._bytes[number])
            if length <= 0:
                return


def _last_character(raw: bytes) -> bytes:
    """Return the bytes of the last character, at most four."""
    for count in range(1, min(4, len(raw)) + 1):
        if raw[-count] & 0xC0 != 0x80:
            return raw[-count:]
    return raw[-1:]
