"""What encoding takes and gives, and the tokens on their way to it: truncated, padded.

``Encoding`` is the same in the tokenizer, the engine and the pipeline; ``Tokens`` are its columns
from the model to the result, with what truncation cut off. ``TokenBuilder`` makes them of what the
native core gives for a text.

Source: huggingface/tokenizers 0.23, tokenizer/encoding.rs, utils/truncation.rs, utils/padding.rs.
"""

from __future__ import annotations

from itertools import islice

from mtkit.base.record import Idioms, Record
from mtkit.errors import ResourceError, UsageError, format_count
from mtkit.spec import post_processors
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    from typing_extensions import TypedDict

    from mtkit.spec import Padding, TokenizerSpec, Truncation
    from mtkit.spec.post_processors import PostProcessor

    class TextOptions(TypedDict, total=False):
        """How one text is encoded.

        Attributes:
            add_special_tokens: Let the post-processor add its tokens; the default.
            parse_special: Recognize special tokens written in the text; None: as the reference
                does when called plainly.
        """

        add_special_tokens: bool
        parse_special: bool | None

    class EncodeOptions(TextOptions, total=False):
        """How texts are encoded.

        Attributes:
            truncation: "file": cut as the file asks.
            padding: "file": fill up to a common length as the file asks.
        """

        truncation: Literal["file"] | None
        padding: Literal["file"] | None

    Columns = tuple[list[int], list[tuple[int, int]], list[tuple[int, bytes]]]

    """ids, offsets, and (place, text) of the tokens that are not spelled as their pieces."""


_GROUPS_SHOWN = 8


class Encoding(Idioms, Record):
    """One encoded text (or pair); the lists have one entry per token.

    Attributes:
        ids: Token ids.
        tokens: Each token as the file's own library spells it: usually as in the vocabulary; an
            added token, or a part unknown to a SentencePiece model, as in the normalized text.
            Bytes that are not valid UTF-8 are backslash escapes.
        offsets: (start, end) in characters of the original text; (0, 0) for tokens that the
            post-processor added and for padding.
        type_ids: Segment numbers.
        special_tokens_mask: 1 for tokens that the post-processor added and for padding, else 0.
        sequence: 0 for the first text, 1 for the second, None for tokens that the post-processor
            added and for padding.
        attention_mask: 0 for padding, else 1.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    type_ids: list[int]
    special_tokens_mask: list[int]
    sequence: list[int | None]
    attention_mask: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def packed(self) -> tuple[memoryview, memoryview]:
        """Return the ids, and the offsets as interleaved starts and ends, both as int32."""
        return packed_rows([self.ids])[0], packed_rows(self.offsets)[0]

    def about(self, *texts: str | bytes) -> Encoding:
        """Keep the texts that were encoded, for ``repr``, and return self."""
        vars(self)["_texts"] = texts
        return self

    def __repr__(self) -> str:
        groups = list(islice(self._groups(), _GROUPS_SHOWN + 1))
        rows = ", ".join(
            f"{' '.join(map(str, ids))} {text!r}" for ids, text in groups[:_GROUPS_SHOWN]
        )
        more = ", …" if len(groups) > _GROUPS_SHOWN else ""
        return f"<Encoding of {len(self)} token{'s' * (len(self) != 1)}: {rows}{more}>"

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import figure, note, spans

        groups = ((text, " ".join(map(str, ids))) for ids, text in self._groups())
        return figure(spans(groups), note(format_count(len(self), "token")))

    def _groups(self) -> Iterator[tuple[list[int], str]]:
        """Yield ids with their text; those that share a character are together."""
        sources = vars(self).get("_texts", ())
        try:
            texts = [text if isinstance(text, str) else bytes(text).decode() for text in sources]
        except UnicodeDecodeError:  # what offsets count there is the reference's own
            texts = []
        ids: list[int] = []
        start = end = 0
        now: int | None = None
        for at, (place, sequence) in enumerate(zip(self.offsets, self.sequence, strict=True)):
            is_plain = sequence is not None and sequence < len(texts) and place[0] < place[1]
            if ids and is_plain and sequence == now and place[0] < end:
                ids.append(self.ids[at])
                end = max(end, place[1])
                continue
            if ids and now is not None:
                yield ids, texts[now][start:end]
            ids, now = [self.ids[at]], sequence if is_plain else None
            start, end = place
            if now is None:
                yield ids, self.tokens[at]
        if ids and now is not None:
            yield ids, texts[now][start:end]


def printable_token(token: str) -> str:
    """Return a token with bytes that are not valid UTF-8 as ``\\xNN``."""
    if token.isascii():
        return token
    return to_bytes(token).decode("utf-8", "backslashreplace")


def packed_rows(rows: Iterable[Iterable[int]]) -> tuple[memoryview, memoryview]:
    """Return rows of numbers behind each other as int32, and where each starts as int64.

    The starts end with that of a row behind the last.
    """
    from array import array

    numbers, starts = array("i"), array("q", [0])
    for row in rows:
        numbers.extend(row)
        starts.append(len(numbers))
    return memoryview(numbers), memoryview(starts)


LONGEST_PADDED = 1 << 22
"""Length in tokens that a file may ask for: in seven columns these are a quarter of a gigabyte."""
_COLUMNS = ("ids", "values", "offsets", "type_ids", "special", "sequence", "attention")


class Tokens:
    """Columns with one entry per token.

    Attributes:
        values: What each token is spelled; some post-processors look at it.
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
        texts = {token: printable_token(token) for token in set(self.values)}  # padding repeats one
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
        """Keep at most ``size`` tokens; the rest becomes overflow that shares ``stride`` tokens."""
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
    """Cut one or two texts to ``max_length`` tokens together."""
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
        has = format_count(len(target), "token")
        raise UsageError(
            f"is {truncation.strategy}, that text has {has} and {surplus} must go",
            field="truncation.strategy",
        )
    target.cut(len(target) - surplus, stride, direction)


def pad(all_tokens: list[Tokens], padding: Padding) -> None:
    """Fill the results of one call to a common length."""
    longest = max(map(len, all_tokens), default=0)
    size = longest if padding.length is None else padding.length
    multiple = padding.pad_to_multiple_of
    if multiple and size % multiple:
        size += multiple - size % multiple
    if size > max(longest, LONGEST_PADDED):
        raise ResourceError(f"asks for {size} tokens, at most {LONGEST_PADDED}", field="padding")
    for tokens in all_tokens:
        tokens.pad(size, padding)


class PieceTexts(dict[int, str]):
    """Id -> how the vocabulary spells it, read when it is first asked for."""

    def __init__(self, spec: TokenizerSpec) -> None:
        super().__init__()
        self._pieces = spec.vocabulary.pieces

    def __missing__(self, token_id: int) -> str:
        exists = 0 <= token_id < len(self._pieces)
        piece = self._pieces[token_id] if exists else b""
        text = self[token_id] = str(piece, "utf-8", "surrogateescape")
        return text


class TokenBuilder:
    """Makes ``Tokens`` of what the core gives for a text."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self.spec = spec
        self._spelling = PieceTexts(spec)
        self._prefix = list(spec.prefix_ids)
        self.keeps_offsets = not _trims_offsets(spec.post_processor)

    def tokens(self, columns: Columns, number: int) -> Tokens:
        """Return the tokens of the first (0) or second (1) text."""
        ids, offsets, spellings = columns
        spelling = self._spelling
        values = [spelling[token_id] for token_id in ids]
        for at, text in spellings:
            values[at] = str(text, "utf-8", "surrogateescape")
        if self._prefix and number == 0:
            ids = self._prefix + ids
            values = [spelling[token_id] for token_id in self._prefix] + values
            offsets = [(0, 0)] * len(self._prefix) + offsets
        return Tokens(ids, values, offsets, number, number)


def _trims_offsets(component: PostProcessor | None) -> bool:
    if isinstance(component, post_processors.Sequence):
        return any(map(_trims_offsets, component.steps))
    trimming = (post_processors.Roberta, post_processors.ByteLevel)
    return isinstance(component, trimming) and component.trim_offsets
