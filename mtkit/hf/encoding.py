"""mtkit's reading of a tokenizer of the library, and the encodings that it gives for texts.

Source: tokenizers 0.23 (tokenizer/encoding.rs, utils/padding.rs, utils/truncation.rs).
"""

from __future__ import annotations

import json
from functools import cached_property
from itertools import groupby
from struct import iter_unpack

from mtkit.base.binary import Source
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.tokenizer.tokenizer import Tokenizer

    Layout = list[tuple[int | None, list[int], int]]
    """In order: number of the text or None, special tokens, type id."""


_PROBE, _SECOND = "a b", "b a b"
_ALL = slice(None)


class BatchSettings:
    """How a batch is encoded: the settings of the library's object at that time."""

    def __init__(self, inner: Any, add_special_tokens: bool) -> None:
        self.add_special_tokens = add_special_tokens
        self.parse_special = False if inner.encode_special_tokens else None
        self.truncation: dict[str, Any] | None = inner.truncation
        self.padding: dict[str, Any] | None = inner.padding

    def kept(self, lengths: Sequence[int], added: int) -> tuple[slice, ...] | None:
        """Return the parts of a text's ids, or of a pair's, that truncation leaves.

        Args:
            added: Number of the special tokens around them.

        Returns:
            None where the library has to say what is wrong.
        """
        cut = self.truncation
        if cut is None:
            return (_ALL,) * len(lengths)
        room, total = cut["max_length"] - added, sum(lengths)
        if total <= room:
            return (_ALL,) * len(lengths)
        left, strategy = list(lengths), cut["strategy"]
        if strategy == "longest_first" and len(left) == 2:
            short = min(left)
            long = max(short, room - short)
            if short + long > room:
                short, long = room // 2, room - room // 2
            left = [long, short] if left[0] > left[1] else [short, long]
        elif strategy == "only_second":
            if len(left) == 1:
                return None
            left[1] -= total - room
        else:
            left[0] -= total - room
        if any(n < length and n <= cut["stride"] for n, length in zip(left, lengths, strict=True)):
            return None
        is_left = cut["direction"] == "left"
        return tuple(
            _ALL if n >= length else slice(length - n, None) if is_left else slice(n)
            for n, length in zip(left, lengths, strict=True)
        )


class OwnTokenizer:
    """mtkit's reading of a tokenizer of the library."""

    def __init__(self, inner: Any) -> None:
        from mtkit.tokenizer.load import load_source

        self._inner = inner
        self._text = inner.to_str()
        document = json.loads(self._text)
        document |= {"truncation": None, "padding": None}
        content = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self.tokenizer: Tokenizer = load_source(Source("tokenizer.json", content))
        self.tokenizer.engine  # noqa: B018  raises what mtkit cannot run
        self._check_ids()
        self._layouts: dict[tuple[bool, bool], Layout | None] = {}
        layout = self.layout(is_pair=False, add_special_tokens=True)
        self.is_simple = layout is not None and not any(kind for *_, kind in layout)

    def layout(self, is_pair: bool, add_special_tokens: bool) -> Layout | None:
        """Return what lies in a row; None where that is not the texts with ids around them."""
        key = is_pair, add_special_tokens
        if key not in self._layouts:
            self._layouts[key] = self._find_layout(*key)
        return self._layouts[key]

    def _find_layout(self, is_pair: bool, add_special_tokens: bool) -> Layout | None:
        texts = (_PROBE, _SECOND) if is_pair else (_PROBE,)
        whole = self.tokenizer.encode(*texts, add_special_tokens=add_special_tokens)
        rows = zip(whole.sequence, whole.type_ids, whole.ids, strict=True)
        layout = [
            (of, [number for *_, number in group], kind)
            for (of, kind), group in groupby(rows, lambda row: row[:2])
        ]
        own = {of: ids for of, ids, _ in layout if of is not None}
        plain = [self.tokenizer.encode_ids(text, add_special_tokens=False) for text in texts]
        in_order = [of for of, *_ in layout if of is not None] == list(range(len(texts)))
        if not in_order or list(own.values()) != plain:
            return None
        return [(of, ids if of is None else [], kind) for of, ids, kind in layout]

    def around(self, settings: BatchSettings) -> tuple[list[int], list[int]]:
        """Return the special tokens before and after one text."""
        layout = self.layout(is_pair=False, add_special_tokens=settings.add_special_tokens)
        assert layout is not None
        at = next(at for at, (of, *_) in enumerate(layout) if of is not None)
        front, back = layout[:at], layout[at + 1 :]
        return [i for _, ids, _ in front for i in ids], [i for _, ids, _ in back for i in ids]

    def _check_ids(self) -> None:
        """Raise UnsupportedError where tokens were added to a model that is not there any more."""
        added = {token.id: token.content for token in self.tokenizer.spec.added_tokens.tokens}
        for number, token in self._inner.get_added_tokens_decoder().items():
            if added.get(number) != token.content.encode("utf-8", "surrogatepass"):
                what = (
                    f"the added token {token.content!r} has the id {number}, which no file can say"
                )
                raise UnsupportedError(what)

    @cached_property
    def plain(self) -> Any:
        """A tokenizer of the library that nobody else changes, for all that mtkit does not give."""
        return type(self._inner).from_str(self._text)

    def encode(self, text: Any, settings: BatchSettings) -> FastEncoding:
        """Encode one text, or a pair."""
        text, pair = (text, None) if isinstance(text, str) else text
        if not self.is_simple or pair is not None:
            return FastEncoding(self, text, pair, settings)
        ids = self.tokenizer.encode_ids(
            text, add_special_tokens=False, parse_special=settings.parse_special
        )
        front, back = self.around(settings)
        kept = settings.kept((len(ids),), len(front) + len(back))
        if kept is None:
            return FastEncoding(self, text, pair, settings)
        return FastEncoding(self, text, pair, settings, [*front, *ids[kept[0]], *back])

    def offset_rows(
        self, texts: Sequence[str], parse_special: bool | None
    ) -> tuple[list[list[int]], list[list[tuple[int, int]]]]:
        """Return the ids and offsets of texts, without special tokens around them."""
        rows: tuple[list[list[int]], list[list[tuple[int, int]]]] = [], []
        encode = self.tokenizer.engine.encode_offsets
        for text in texts:
            ids, places = encode(text, False, parse_special)
            rows[0].append(ids.tolist())
            rows[1].append(list(iter_unpack("2i", places)))
        return rows

    def offsets(self, text: str, settings: BatchSettings) -> list[tuple[int, int]]:
        """Return the offsets of the ids of ``encode``, for one text."""
        _, (places,) = self.offset_rows([text], settings.parse_special)
        front, back = self.around(settings)
        kept = settings.kept((len(places),), len(front) + len(back))
        assert kept is not None
        return [*[(0, 0)] * len(front), *places[kept[0]], *[(0, 0)] * len(back)]


class FastEncoding:
    """An encoding whose ids are there; the rest is computed when it is read.

    Attributes:
        attention_mask: 0 for padding, else 1.
        _size: Number of ids without padding; -1 where the library's encoding is taken.
    """

    def __init__(
        self,
        own: OwnTokenizer,
        text: str,
        pair: str | None,
        settings: BatchSettings,
        ids: list[int] | None = None,
    ) -> None:
        self._own, self._text, self._pair, self._settings = own, text, pair, settings
        self._length: int | None = None
        if ids is None:
            library = self._encode()
            self.ids, self.type_ids = library.ids, library.type_ids
            self._size = -1
        else:
            self._size = len(ids)
            self.ids, self.type_ids = ids, [0] * len(ids)
        self.attention_mask = [1] * len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_sequences(self) -> int:
        """Number of texts: 1 or 2."""
        return 1 if self._pair is None else 2

    def pad(self, length: int, padding: dict[str, Any]) -> None:
        """Pad to a length as the library does."""
        missing = length - len(self.ids)
        if missing <= 0:
            if self._settings.truncation is not None:  # the overflowing parts are padded, too
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

    def _encode(self) -> Any:
        """Return the library's encoding of the text, truncated and padded as this one."""
        settings, plain = self._settings, self._own.plain
        plain.encode_special_tokens = settings.parse_special is False
        plain.no_truncation()
        plain.no_padding()
        if settings.truncation is not None:
            plain.enable_truncation(**settings.truncation)
        if self._length is not None and settings.padding is not None:
            plain.enable_padding(**{**settings.padding, "length": self._length})
        return plain.encode(self._text, self._pair, add_special_tokens=settings.add_special_tokens)

    @cached_property
    def _library(self) -> Any:
        return self._encode()

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """(start, end) of each token in its text, in characters."""
        if self._size < 0:
            return list(self._library.offsets)
        offsets = self._own.offsets(self._text, self._settings)
        missing = [(0, 0)] * (len(self.ids) - self._size)
        is_left = missing and self._settings.padding["direction"] == "left"  # type: ignore[index]
        return [*missing, *offsets] if is_left else [*offsets, *missing]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._library, name)


def pad_batch(batch: list[FastEncoding], padding: dict[str, Any]) -> None:
    """Pad a batch to its longest, or to a length."""
    length = padding["length"] or max(map(len, batch), default=0)
    multiple = padding["pad_to_multiple_of"]
    if multiple:
        length = -(-length // multiple) * multiple
    for encoding in batch:
        encoding.pad(length, padding)
