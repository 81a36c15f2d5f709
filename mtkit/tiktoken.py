"""The interface of tiktoken over mtkit: ``import mtkit.tiktoken as tiktoken``.

The same answers and errors from the same calls, for any tokenizer that mtkit reads. What completes
an unfinished text (``encode_with_unstable``) is not there, nor is downloading: encodings are found
where tiktoken keeps them.

Source: openai/tiktoken 0.14, ``core.py``.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Literal

    import numpy as np
    from numpy.typing import NDArray

    from mtkit.spec.vocabulary import AddedTokens
    from mtkit.tokenizer.tokenizer import Tokenizer

    Some = AbstractSet[str] | Literal["all"]
    Listed = Collection[str] | Literal["all"]

__all__ = [
    "Encoding",
    "encoding_for_model",
    "encoding_name_for_model",
    "from_file",
    "get_encoding",
    "list_encoding_names",
]

_NOTHING: frozenset[str] = frozenset()


def get_encoding(encoding_name: str) -> Encoding:
    """Return a published encoding by its name.

    Raises:
        ValueError: There is no such encoding.
        UsageError: Its ranks are not on this machine.
    """
    from mtkit.sources import tiktoken_cache

    if encoding_name not in list_encoding_names():
        known = ", ".join(list_encoding_names())
        raise ValueError(f"Unknown encoding {encoding_name}; there are {known}")
    if tiktoken_cache.find(encoding_name) is None:
        raise UsageError(
            "is not in tiktoken's cache",
            source=encoding_name,
            hint="tiktoken.get_encoding of tiktoken itself fetches it, or take from_file",
        )
    return _named(encoding_name)


def encoding_for_model(model_name: str) -> Encoding:
    """Return the encoding of a model.

    Raises:
        KeyError: The model is not known.
    """
    return get_encoding(encoding_name_for_model(model_name))


def encoding_name_for_model(model_name: str) -> str:
    """Return the name of a model's encoding.

    Raises:
        KeyError: The model is not known.
    """
    from mtkit.sources import tiktoken_cache

    name = tiktoken_cache.encoding_of(model_name)
    if name is None:
        raise KeyError(f"no encoding is known for {model_name!r}; get_encoding names one")
    return name


def list_encoding_names() -> list[str]:
    """Return the names that ``get_encoding`` knows."""
    from mtkit.sources import tiktoken_cache

    return tiktoken_cache.names()


def from_file(path: str | os.PathLike[str]) -> Encoding:
    """Return an encoding of a tokenizer file of any format (``mtkit.load``)."""
    from mtkit.tokenizer.load import load

    return Encoding(load(path))


@lru_cache
def _named(name: str) -> Encoding:
    from mtkit.tokenizer.load import load

    return Encoding(load(name), name)


class Encoding:
    """A tokenizer with the methods of ``tiktoken.Encoding``.

    Attributes:
        name: Of the encoding, or path of the file.
    """

    def __init__(self, tokenizer: Tokenizer, name: str = "") -> None:
        self._tokenizer = tokenizer
        self.name = name or tokenizer.source

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    @cached_property
    def _special_tokens(self) -> dict[str, int]:
        """Text -> id of the added tokens."""
        found: dict[str, int] = {}
        group: AddedTokens | None = self._tokenizer.spec.added_tokens
        while group is not None:
            for token in group.tokens:
                found.setdefault(token.content.decode("utf-8", "replace"), token.id)
            group = group.first
        return found

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
            allowed_special: Special tokens that are recognised.
            disallowed_special: Special tokens that must not be in the text; "all" for those that
                are not allowed.

        Raises:
            ValueError: One that must not be there is there.
        """
        allowed = self._judged(text, allowed_special, disallowed_special)
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

    def _judged(self, text: str, allowed: Some, disallowed: Listed) -> AbstractSet[str]:
        """Return the special tokens that are allowed, once no other one is in the text."""
        permitted = self.special_tokens_set if allowed == "all" else allowed
        refused = self.special_tokens_set - permitted if disallowed == "all" else disallowed
        found = _cut(frozenset(refused)).search(text) if refused else None
        if found is not None:
            raise ValueError(
                f"the text has the special token {found[0]!r}: allowed_special={{{found[0]!r}}} "
                "takes it as that, disallowed_special=() as text"
            )
        return permitted & self.special_tokens_set

    def encode_to_numpy(
        self, text: str, *, allowed_special: Some = _NOTHING, disallowed_special: Listed = "all"
    ) -> NDArray[np.uint32]:
        """Return the ids of a text as an array of uint32."""
        import numpy as np

        allowed = self._judged(text, allowed_special, disallowed_special)
        if not allowed:
            found = self._tokenizer.encode_array(
                _sound(text), add_special_tokens=False, parse_special=False
            )
            return np.frombuffer(found, np.uint32)
        return np.array(
            self.encode(text, allowed_special=allowed, disallowed_special=()), np.uint32
        )

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """Return the ids of many texts in which special tokens are text."""
        return self._tokenizer.encode_batch_ids(
            [_sound(one) for one in text],
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
        for one in text:
            allowed = self._judged(one, allowed_special, disallowed_special)
        if text and not allowed:
            return self.encode_ordinary_batch(text, num_threads=num_threads)
        return [
            self.encode(one, allowed_special=allowed_special, disallowed_special=()) for one in text
        ]

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Return the id of a text that is a token.

        Raises:
            KeyError: It is none.
        """
        if isinstance(text_or_bytes, str):
            special = self._special_tokens.get(text_or_bytes)
            if special is not None:
                return special
            text_or_bytes = text_or_bytes.encode()
        ids = self._tokenizer.text_to_ids(text_or_bytes)
        if not ids:
            raise KeyError(text_or_bytes)
        return ids[0]

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of ids.

        Raises:
            KeyError: One is not an id.
            OverflowError: One is not an unsigned 32-bit integer.
        """
        try:
            return self._tokenizer.decode_bytes(tokens, skip_special_tokens=False)
        except UsageError as error:
            if all(0 <= token < 1 << 32 for token in tokens):
                raise KeyError(error.what) from None
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
            begun = sum(not 0x80 <= byte < 0xC0 for byte in piece)
            offsets.append(max(0, characters - (0x80 <= piece[0] < 0xC0)))
            characters += begun
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
        found = (self._tokenizer.token_bytes(number) for number in ordinary)
        return sorted(piece for piece in found if piece)


def _sound(text: str) -> str:
    """Return a text without lone surrogates: halves of a pair are joined, others U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@lru_cache(128)
def _cut(tokens: frozenset[str]) -> re.Pattern[str]:
    """Return what finds and keeps any of some tokens."""
    return re.compile(f"({'|'.join(map(re.escape, tokens))})")
