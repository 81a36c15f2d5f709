"""``Encoding`` with the methods of ``tiktoken.Encoding``.

Source: openai/tiktoken 0.14, ``core.py``, ``src/lib.rs`` and ``src/py.rs``.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from mtkit.errors import MtkitError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any, Literal

    import numpy as np
    from numpy.typing import NDArray

    from mtkit.spec.vocabulary import AddedTokens
    from mtkit.tiktoken.pieces import SinglePieces
    from mtkit.tokenizer.tokenizer import Tokenizer

    Some = AbstractSet[str] | Literal["all"]
    Listed = Collection[str] | Literal["all"]

_NOTHING: frozenset[str] = frozenset()
_NO_IDS: frozenset[int] = frozenset()


def from_file(path: str | os.PathLike[str]) -> Encoding:
    """Return an encoding of a tokenizer file of any format (``mtkit.load``)."""
    from mtkit.tokenizer.load import load

    return Encoding.of(load(path))


class Encoding:
    """A tokenizer with the methods of ``tiktoken.Encoding``.

    Attributes:
        name: The name of the encoding, or the path of the file.
    """

    _tokenizer: Tokenizer

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        """Make an encoding from ranks.

        Args:
            mergeable_ranks: Bytes of a token -> its rank, which is its id.
        """
        from mtkit.formats.ranks import fancy_regex, rank_spec, rank_vocabulary
        from mtkit.patterns.matcher import compile_pattern
        from mtkit.spec import SpecialIds
        from mtkit.tokenizer.tokenizer import Tokenizer

        ends = SpecialIds(eos=special_tokens.get("<|endoftext|>"))
        try:
            compile_pattern(fancy_regex(pat_str))
            vocabulary = rank_vocabulary(mergeable_ranks)
        except MtkitError as error:
            raise ValueError(str(error)) from None
        spec = rank_spec(vocabulary, pat_str, special_tokens, ends)
        self.name = name
        self._tokenizer = Tokenizer(spec, source=name)
        self._pat_str = pat_str
        self._mergeable_ranks = mergeable_ranks
        self._special_tokens = special_tokens
        if explicit_n_vocab:
            assert len(mergeable_ranks) + len(special_tokens) == explicit_n_vocab
            assert self.max_token_value == explicit_n_vocab - 1

    @classmethod
    def of(cls, tokenizer: Tokenizer, name: str = "") -> Encoding:
        """Return the encoding of a tokenizer of mtkit."""
        encoding = cls.__new__(cls)
        encoding._tokenizer = tokenizer  # noqa: SLF001  its own
        encoding.name = name or tokenizer.source
        return encoding

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __getstate__(self) -> Mapping[str, Any]:
        """Leave out what can be computed again."""
        return {"name": self.name, "_tokenizer": self._tokenizer}

    @cached_property
    def _ranks_and_pattern(self) -> tuple[dict[bytes, int], str]:
        from mtkit.formats.ranks import ranks_of

        try:
            ranks, pattern, _ = ranks_of(self._tokenizer.spec, "tiktoken")
        except UnsupportedError as error:
            raise AttributeError(f"{self.name} has no ranks: {error.what}") from None
        return ranks, pattern

    @cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        """Bytes -> id of the ordinary tokens."""
        return self._ranks_and_pattern[0]

    @cached_property
    def _pat_str(self) -> str:
        return self._ranks_and_pattern[1]

    @cached_property
    def _pieces(self) -> SinglePieces:
        from mtkit.tiktoken.pieces import SinglePieces

        return SinglePieces(self._tokenizer.spec, self._pat_str, self._mergeable_ranks)

    @cached_property
    def _special_tokens(self) -> dict[str, int]:
        """Text -> id of the added tokens."""
        ids: dict[str, int] = {}
        group: AddedTokens | None = self._tokenizer.spec.added_tokens
        while group is not None:
            for token in group.tokens:
                ids.setdefault(token.content.decode("utf-8", "replace"), token.id)
            group = group.first
        return ids

    @cached_property
    def _holes(self) -> frozenset[int]:
        """Ids that no token has."""
        vocabulary = self._tokenizer.spec.vocabulary
        if vocabulary.types is None and self.n_vocab == len(vocabulary):
            return _NO_IDS
        piece = self._tokenizer.id_to_piece
        return frozenset(number for number in range(self.n_vocab) if piece(number) is None)

    @cached_property
    def special_tokens_set(self) -> set[str]:
        """Texts of the special tokens."""
        return set(self._special_tokens)

    @property
    def eot_token(self) -> int:
        """Id of <|endoftext|>."""
        return self._special_tokens["<|endoftext|>"]

    @property
    def max_token_value(self) -> int:
        """The greatest id."""
        return self._tokenizer.vocab_size - 1

    @property
    def n_vocab(self) -> int:
        """Number of ids."""
        return self._tokenizer.vocab_size

    def is_special_token(self, token: int) -> bool:
        """Tell whether an id is that of a special token."""
        return token in self._special_tokens.values()

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of a text in which special tokens are text."""
        return self._tokenizer.encode_ids(
            _sound(text), add_special_tokens=False, parse_special=False
        )

    def encode(
        self, text: str, *, allowed_special: Some = _NOTHING, disallowed_special: Listed = "all"
    ) -> list[int]:
        """Return the ids of a text.

        Args:
            text: The text.
            allowed_special: Special tokens that are recognized.
            disallowed_special: Special tokens that must not be in the text; "all" for those that
                are not allowed.

        Raises:
            ValueError: One that must not be there is there.
        """
        allowed = self._allowed(text, allowed_special, disallowed_special)
        if not allowed:
            return self.encode_ordinary(text)
        if allowed == self.special_tokens_set:
            return self._tokenizer.encode_ids(
                _sound(text), add_special_tokens=False, parse_special=True
            )
        ids: list[int] = []
        for part in _cut(frozenset(allowed)).split(_sound(text)):
            if part in allowed:
                ids.append(self._special_tokens[part])
            elif part:
                ids += self.encode_ordinary(part)
        return ids

    def _allowed(self, text: str, allowed: Some, disallowed: Listed) -> AbstractSet[str]:
        """Return the special tokens that are allowed, once no other one is in the text."""
        permitted = self.special_tokens_set if allowed == "all" else allowed
        refused = self.special_tokens_set - permitted if disallowed == "all" else disallowed
        match = _cut(frozenset(refused)).search(text) if refused else None
        if match is not None:
            raise ValueError(
                f"Encountered text corresponding to disallowed special token {match[0]!r}.\n"
                f"allowed_special={{{match[0]!r}}} takes it as that token, "
                "disallowed_special=() takes all of them as text."
            )
        return permitted & self.special_tokens_set

    def encode_to_numpy(
        self, text: str, *, allowed_special: Some = _NOTHING, disallowed_special: Listed = "all"
    ) -> NDArray[np.uint32]:
        """Return the ids of a text as an array of uint32."""
        import numpy as np

        allowed = self._allowed(text, allowed_special, disallowed_special)
        if not allowed:
            ids = self._tokenizer.encode_array(
                _sound(text), add_special_tokens=False, parse_special=False
            )
            return np.frombuffer(ids, np.uint32)
        return np.array(
            self.encode(text, allowed_special=allowed, disallowed_special=()), np.uint32
        )

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """Return the ids of many texts in which special tokens are text."""
        return self._tokenizer.encode_batch_ids(
            [_sound(string) for string in text],
            threads=num_threads,
            add_special_tokens=False,
            parse_special=False,
        )

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int = 8,
        allowed_special: Some = _NOTHING,
        disallowed_special: Listed = "all",
    ) -> list[list[int]]:
        """Return the ids of many texts; as ``encode``."""
        text = list(text)  # which may be an iterator
        for string in text:
            allowed = self._allowed(string, allowed_special, disallowed_special)
        if text and not allowed:
            return self.encode_ordinary_batch(text, num_threads=num_threads)
        return [
            self.encode(string, allowed_special=allowed_special, disallowed_special=())
            for string in text
        ]

    def encode_with_unstable(
        self, text: str, *, allowed_special: Some = _NOTHING, disallowed_special: Listed = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """Return the ids that more text cannot change, and what can stand behind them.

        Args:
            text: The beginning of a text.
            allowed_special: As ``encode`` takes it.
            disallowed_special: As ``encode`` takes it.

        Returns:
            Ids, and lists of ids: the text is a beginning of what the ids and any of the lists
            stand for.
        """
        allowed = self._allowed(text, allowed_special, disallowed_special)
        ids = self.encode(text, allowed_special=allowed, disallowed_special=())
        parts = _cut(frozenset(allowed)).split(_sound(text)) if allowed else [_sound(text)]
        stable, rest = self._pieces.unstable(ids, parts[-1])
        return stable, self._pieces.completions(rest, self.encode_ordinary)

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        raw = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        return self._pieces.encode(raw)

    def _encode_bytes(self, text: bytes) -> list[int]:
        """Return the ids of bytes that need not be UTF-8, as tiktoken guesses them."""
        try:
            return self.encode_ordinary(text.decode())
        except UnicodeDecodeError as error:
            valid, rest = text[: error.start].decode(), text[error.start :]
        stable, cut = self._pieces.unstable(self.encode_ordinary(valid), valid)
        return [*stable, *self._pieces.encode(cut + rest)]

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Return the id of a text that is a token.

        Raises:
            KeyError: It is none.
        """
        text = text_or_bytes
        raw = text.encode() if isinstance(text, str) else bytes(text)
        ids = self._tokenizer.text_to_ids(raw)
        special = self._special_tokens.get(raw.decode("utf-8", "replace"))
        if special is not None:
            ids = [*(number for number in ids if number != special), special]
        if not ids:
            raise KeyError(raw)
        return ids[0]

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of ids.

        Raises:
            KeyError: One is not an id.
            OverflowError: One is not an unsigned 32-bit integer.
        """
        if not self._holes.isdisjoint(tokens):
            hole = next(token for token in tokens if token in self._holes)
            raise KeyError(f"Invalid token for decoding: {hole}")
        try:
            return self._tokenizer.decode_bytes(tokens, skip_special_tokens=False)
        except UsageError:
            outside = next(token for token in tokens if not 0 <= token < self.n_vocab)
            if all(0 <= token < 1 << 32 for token in tokens):
                raise KeyError(f"Invalid token for decoding: {outside}") from None
            raise OverflowError("an id is not an unsigned 32-bit integer") from None

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Return the text of ids; ``errors`` as ``bytes.decode`` takes it.

        Raises:
            KeyError: One is not an id.
            OverflowError: One is not an unsigned 32-bit integer.
        """
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Return the bytes of an id.

        Raises:
            KeyError: It is not an id.
            OverflowError: It is not an unsigned 32-bit integer.
        """
        return self.decode_bytes([token])

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """Return the bytes of each id."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """Return the text of ids, and the character that each begins in.

        Raises:
            UnicodeDecodeError: The bytes are not valid UTF-8.
        """
        offsets, characters = [], 0
        pieces = self.decode_tokens_bytes(tokens)
        for piece in pieces:
            offsets.append(max(0, characters - (0x80 <= piece[0] < 0xC0)))
            characters += sum(not 0x80 <= byte < 0xC0 for byte in piece)
        return b"".join(pieces).decode(), offsets

    def decode_batch(
        self,
        batch: Sequence[Sequence[int]],
        *,
        errors: str = "replace",
        num_threads: int = 8,  # noqa: ARG002
    ) -> list[str]:
        """Return the texts of many lists of ids."""
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(
        self,
        batch: Sequence[Sequence[int]],
        *,
        num_threads: int = 8,  # noqa: ARG002
    ) -> list[bytes]:
        """Return the bytes of many lists of ids."""
        return [self.decode_bytes(tokens) for tokens in batch]

    def token_byte_values(self) -> list[bytes]:
        """Return the bytes of all ordinary tokens, sorted."""
        special = set(self._special_tokens.values())
        ordinary = (number for number in range(self.n_vocab) if number not in special)
        pieces = (self._tokenizer.token_bytes(number) for number in ordinary)
        return sorted(piece for piece in pieces if piece)


def _sound(text: str) -> str:
    """Return a text without lone surrogates: halves of a pair are joined, others U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@lru_cache(128)
def _cut(tokens: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern that splits a text at some tokens and keeps them."""
    return re.compile(f"({'|'.join(map(re.escape, tokens))})")
