"""Tokens on their way from the model to the result, with what truncation cut off.

Source: huggingface/tokenizers 0.23, tokenizer/encoding.rs, utils/truncation.rs, utils/padding.rs.
"""

from __future__ import annotations

from mtkit.errors import ResourceError, UsageError, counted
from mtkit.pipeline.result import Encoding, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from mtkit.spec import Padding, Truncation

LONGEST_PADDED = 1 << 22
"""Length in tokens that a file may ask for: in seven columns these are a quarter of a gigabyte."""
_COLUMNS = ("ids", "values", "offsets", "type_ids", "special", "sequence", "attention")


class Tokens:
    """Columns with one entry per token.

    Attributes:
        values: What each token is spelled; some post-processors look at it.
        overflow: Further parts of a text that was cut.
    """

    __slots__ = (*_COLUMNS, "overflow")

    def __init__(
        self,
        ids: list[int],
        values: list[str],
        offsets: list[tuple[int, int]],
        type_id: int = 0,
        sequence: int | None = 0,
        *,
        special: int = 0,
        attention: int = 1,
    ) -> None:
        self.ids = ids
        self.values = values
        self.offsets = offsets
        self.type_ids = [type_id] * len(ids)
        self.special = [special] * len(ids)
        self.sequence = [sequence] * len(ids)
        self.attention = [attention] * len(ids)
        self.overflow: list[Tokens] = []

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def added(cls, ids: Iterable[int], values: Iterable[str], type_id: int) -> Tokens:
        """Return tokens that stand for nothing in the text."""
        ids = list(ids)
        return cls(ids, list(values), [(0, 0)] * len(ids), type_id, None, special=1)

    def part(self, first: int, last: int) -> Tokens:
        """Return some of the tokens, without overflow."""
        part = Tokens([], [], [])
        for name in _COLUMNS:
            setattr(part, name, getattr(self, name)[first:last])
        return part

    def set_type(self, type_id: int) -> None:
        """Give all tokens a segment number; those in the overflow keep theirs."""
        self.type_ids = [type_id] * len(self)

    def extend(self, other: Tokens) -> None:
        """Append other tokens; every overflow of the one is joined with all of the other."""
        overflow = []
        for mine in self.overflow:
            overflow += [mine.joined(theirs) for theirs in (other, *other.overflow)]
        overflow += [self.joined(theirs) for theirs in other.overflow]
        for name in _COLUMNS:
            getattr(self, name).extend(getattr(other, name))
        self.overflow = overflow

    def joined(self, other: Tokens) -> Tokens:
        """Return new tokens: these and the other ones, overflow included."""
        result = self.part(0, len(self))
        result.overflow = list(self.overflow)
        result.extend(other)
        return result

    def encoded(self) -> Encoding:
        """Return the result."""
        texts = {token: shown(token) for token in set(self.values)}  # padding repeats one
        return Encoding(
            self.ids,
            [texts[token] for token in self.values],
            self.offsets,
            self.type_ids,
            self.special,
            self.sequence,
            self.attention,
        )

    def cut(self, size: int, stride: int, direction: Literal["left", "right"]) -> None:
        """Keep at most ``size`` tokens; the others become overflow that shares ``stride`` tokens.

        Raises:
            UsageError: The stride is not smaller than what is kept.
        """
        if size >= len(self):
            return
        if size <= 0:
            whole = self.part(0, len(self))
            for name in _COLUMNS:
                setattr(self, name, [])
            self.overflow = [whole]
            return
        if stride >= size:
            raise UsageError(
                f"is {stride}, but it must be smaller than the {size} tokens that are left of"
                " max_length without special tokens",
                field="truncation.stride",
            )
        step = size - stride
        if direction == "right":
            ends = [(first, min(first + size, len(self))) for first in range(0, len(self), step)]
            parts = ends[: next(at for at, (_, last) in enumerate(ends) if last == len(self)) + 1]
        else:
            ends = [(max(last - size, 0), last) for last in range(len(self), 0, -step)]
            parts = ends[: next(at for at, (first, _) in enumerate(ends) if first == 0) + 1]
        cut = [self.part(*span) for span in parts]
        for name in _COLUMNS:
            setattr(self, name, getattr(cut[0], name))
        self.overflow = cut[1:]

    def pad(self, size: int, padding: Padding) -> None:
        """Fill up to ``size`` tokens."""
        for part in self.overflow:
            part.pad(size, padding)
        missing = size - len(self)
        if missing <= 0:
            return
        filler = Tokens(
            [padding.pad_id] * missing,
            [padding.pad_token] * missing,
            [(0, 0)] * missing,
            padding.pad_type_id,
            None,
            special=1,
            attention=0,
        )
        for name in _COLUMNS:
            mine, other = getattr(self, name), getattr(filler, name)
            setattr(self, name, other + mine if padding.direction == "left" else mine + other)


def truncate(first: Tokens, second: Tokens | None, truncation: Truncation, max_length: int) -> None:
    """Cut one or two texts to ``max_length`` tokens together.

    Raises:
        UsageError: The strategy cannot cut enough.
    """
    stride, direction = truncation.stride, truncation.direction
    if max_length == 0:
        for tokens in (first, second):
            if tokens is not None:
                tokens.cut(0, stride, direction)
        return
    surplus = len(first) + (len(second) if second is not None else 0) - max_length
    if surplus <= 0:
        return
    if truncation.strategy == "longest_first":
        if second is None:
            first.cut(max_length, stride, direction)
            return
        short, long = sorted((len(first), len(second)))
        swapped = len(first) > len(second)
        long = short if short > max_length else max(short, max_length - short)
        if short + long > max_length:
            short = max_length // 2
            long = short + max_length % 2
        sizes = (long, short) if swapped else (short, long)
        first.cut(sizes[0], stride, direction)
        second.cut(sizes[1], stride, direction)
        return
    target = first if truncation.strategy == "only_first" else second
    if target is None:
        raise UsageError("is only_second, there is one text", field="truncation.strategy")
    if len(target) <= surplus:
        has = counted(len(target), "token")
        raise UsageError(
            f"is {truncation.strategy}, that text has {has} and {surplus} must go",
            field="truncation.strategy",
        )
    target.cut(len(target) - surplus, stride, direction)


def pad(all_tokens: list[Tokens], padding: Padding) -> None:
    """Fill the results of one call to a common length.

    Raises:
        ResourceError: The file asks for a length that no memory holds.
    """
    longest = max(map(len, all_tokens), default=0)
    size = longest if padding.length is None else padding.length
    multiple = padding.pad_to_multiple_of
    if multiple and size % multiple:
        size += multiple - size % multiple
    if size > max(longest, LONGEST_PADDED):
        raise ResourceError(f"asks for {size} tokens, at most {LONGEST_PADDED}", field="padding")
    for tokens in all_tokens:
        tokens.pad(size, padding)
