"""What is done with every document, and what a unit of them held."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.corpus.files import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Job(Record):
    """What is done with every document.

    Attributes:
        tokenizer: Path of its file; each process loads it.
        overrides: What reading that file needs (``mtkit.load``).
        reader: Another way to read it (``mtkit.load``).
        reading: How documents are found.
        add_special: Let the post-processor add its tokens.
        parse_special: Recognize special tokens in the text (``Tokenizer.encode_ids``).
        end_id: Id that is put behind each document, or None.
        width: Bytes of an id in a part; 0 counts the ids instead of keeping them.
        skip_bad: Leave out what is not a document, instead of ending.
    """

    tokenizer: str
    overrides: Mapping[str, object] | None = None
    reader: str | None = None
    reading: Reading = Reading()
    add_special: bool = False
    parse_special: bool | None = None
    end_id: int | None = None
    width: int = 0
    skip_bad: bool = False


class Tally(Record):
    """What a unit held.

    Attributes:
        documents: That gave ids.
        tokens: Of all.
        size: Bytes of the file read: the measure of progress.
        empty: Documents without a token, left out.
        bad: Places that held no document, left out.
    """

    documents: int = 0
    tokens: int = 0
    size: int = 0
    empty: int = 0
    bad: int = 0

    def __add__(self, other: Tally) -> Tally:
        mine, others = (tuple(getattr(t, n) for n in t.__match_args__) for t in (self, other))
        return Tally(*(a + b for a, b in zip(mine, others, strict=True)))
