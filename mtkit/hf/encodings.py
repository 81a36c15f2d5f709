"""Encodings: ids of mtkit, and what the tokenizers library knows of them besides.

Source: huggingface/tokenizers 0.23, tokenizer/encoding.rs, utils/padding.rs, utils/truncation.rs.
"""

from __future__ import annotations

import json
from functools import cached_property

from mtkit.base.binary import Source
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.tokenizer.tokenizer import Tokenizer

_PROBE = "a b"


class How:
    """How a batch is encoded: what the library's object says at that time."""

    def __init__(self, inner: Any, add_special_tokens: bool) -> None:
        self.add_special_tokens = add_special_tokens
        self.parse_special = False if inner.encode_special_tokens else None
        self.truncation: dict[str, Any] | None = inner.truncation
        self.padding: dict[str, Any] | None = inner.padding


class Own:
    """mtkit's reading of a tokenizer of the library."""

    def __init__(self, inner: Any) -> None:
        from mtkit.tokenizer.load import load_source

        self._inner = inner
        self._text = inner.to_str()
        document = json.loads(self._text)
        document |= {"truncation": None, "padding": None}
        content = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self.tokenizer: Tokenizer = load_source(Source("tokenizer.json", content))
        self.tokenizer.engine  # noqa: B018  what mtkit cannot run is said here
        self._check_ids()
        whole = self.tokenizer.encode(_PROBE)
        plain = self.tokenizer.encode_ids(_PROBE, add_special_tokens=False)
        front = next((i for i, one in enumerate(whole.special_tokens_mask) if not one), 0)
        self.around = whole.ids[:front], whole.ids[front + len(plain) :]
        is_simple = whole.ids == [*self.around[0], *plain, *self.around[1]]
        self.is_simple = is_simple and not any(whole.type_ids)

    def _check_ids(self) -> None:
        """Raise UnsupportedError where tokens were added to a model that is not there any more."""
        listed = {token.id: token.content for token in self.tokenizer.spec.added_tokens.tokens}
        for number, token in self._inner.get_added_tokens_decoder().items():
            if listed.get(number) != token.content.encode("utf-8", "surrogatepass"):
                what = (
                    f"the added token {token.content!r} has the id {number}, which no file can say"
                )
                raise UnsupportedError(what)

    @cached_property
    def plain(self) -> Any:
        """A tokenizer of the library that nobody else changes: for what mtkit does not give."""
        return type(self._inner).from_str(self._text)

    def encoded(self, given: Any, how: How) -> FastEncoding:
        """Encode one text, or a pair."""
        text, pair = (given, None) if isinstance(given, str) else given
        if not self.is_simple or pair is not None:
            return FastEncoding(self, text, pair, how)
        ids = self.tokenizer.encode_ids(
            text, add_special_tokens=False, parse_special=how.parse_special
        )
        front, back = self.around if how.add_special_tokens else ([], [])
        if how.truncation is not None:
            room = how.truncation["max_length"] - len(front) - len(back)
            is_error = (
                room <= how.truncation["stride"] or how.truncation["strategy"] == "only_second"
            )
            if is_error and len(ids) > room:
                return FastEncoding(self, text, pair, how)  # the library says what is wrong
            if len(ids) > room:
                is_left = how.truncation["direction"] == "left"
                ids = ids[len(ids) - room :] if is_left else ids[:room]
        return FastEncoding(self, text, pair, how, [*front, *ids, *back])


class FastEncoding:
    """An encoding whose ids are there; the rest is made when it is asked for.

    Attributes:
        ids: Token ids.
        attention_mask: 0 for padding, else 1.
        type_ids: Segment numbers.
    """

    def __init__(
        self, own: Own, text: str, pair: str | None, how: How, ids: list[int] | None = None
    ) -> None:
        self._own, self._text, self._pair, self._how = own, text, pair, how
        self._length: int | None = None
        if ids is None:
            library = self._made()
            self.ids, self.type_ids = library.ids, library.type_ids
        else:
            self.ids, self.type_ids = ids, [0] * len(ids)
        self.attention_mask = [1] * len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_sequences(self) -> int:
        """Number of texts: 1 or 2."""
        return 1 if self._pair is None else 2

    def padded(self, length: int, padding: dict[str, Any]) -> None:
        """Fill up to a length as the library does."""
        missing = length - len(self.ids)
        if missing <= 0:
            if self._how.truncation is not None:  # what was cut off is filled up, too
                self._length = length
            return
        self._length = length
        for values, filler in (
            (self.ids, padding["pad_id"]),
            (self.attention_mask, 0),
            (self.type_ids, padding["pad_type_id"]),
        ):
            at = 0 if padding["direction"] == "left" else len(values)
            values[at:at] = [filler] * missing

    def _made(self) -> Any:
        """Return what the library makes of the text: truncated, and filled up as this one is."""
        how, plain = self._how, self._own.plain
        plain.encode_special_tokens = how.parse_special is False
        plain.no_truncation()
        plain.no_padding()
        if how.truncation is not None:
            plain.enable_truncation(**how.truncation)
        if self._length is not None and how.padding is not None:
            plain.enable_padding(**{**how.padding, "length": self._length})
        return plain.encode(self._text, self._pair, add_special_tokens=how.add_special_tokens)

    @cached_property
    def _library(self) -> Any:
        return self._made()

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """(start, end) in characters of the text that a token stands in."""
        how = self._how
        if self._pair is not None or how.truncation is not None or self._length is not None:
            return list(self._library.offsets)
        made = self._own.tokenizer.encode(
            self._text, add_special_tokens=how.add_special_tokens, parse_special=how.parse_special
        )
        return made.offsets

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._library, name)


def pad(made: list[FastEncoding], padding: dict[str, Any]) -> None:
    """Fill up a batch to its longest, or to a length."""
    length = padding["length"] or max(map(len, made), default=0)
    multiple = padding["pad_to_multiple_of"]
    if multiple:
        length = -(-length // multiple) * multiple
    for one in made:
        one.padded(length, padding)
