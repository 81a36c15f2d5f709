"""What encoding takes and gives, in the tokenizer, the engine and the pipeline alike."""

from __future__ import annotations

from itertools import islice

from mtkit.base.record import Record
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    from typing_extensions import TypedDict

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


_SHOWN = 8


class Encoding(Record):
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

    def packed(self) -> tuple[memoryview, memoryview]:
        """Return the ids, and the offsets as interleaved starts and ends, both as int32."""
        return packed_rows([self.ids])[0], packed_rows(self.offsets)[0]

    def about(self, *texts: str | bytes) -> Encoding:
        """Keep the texts that were encoded, for ``repr``, and return self."""
        vars(self)["_texts"] = texts
        return self

    def __repr__(self) -> str:
        groups = list(islice(self._groups(), _SHOWN + 1))
        shown = ", ".join(f"{' '.join(map(str, ids))} {text!r}" for ids, text in groups[:_SHOWN])
        more = ", …" if len(groups) > _SHOWN else ""
        return f"<Encoding of {len(self)} token{'s' * (len(self) != 1)}: {shown}{more}>"

    def _groups(self) -> Iterator[tuple[list[int], str]]:
        """Yield ids with their text; those that share a character are together."""
        given = vars(self).get("_texts", ())
        try:
            texts = [text if isinstance(text, str) else text.decode() for text in given]
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


def shown(token: str) -> str:
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
