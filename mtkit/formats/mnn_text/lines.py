"""Lines of MNN's text tokenizer files, checked one by one."""

from __future__ import annotations

from array import array

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.spec.models import Merges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.base.binary import Buffer


class Lines:
    """The lines of a file from an offset on, LF at the end of each."""

    def __init__(self, data: Buffer, offset: int) -> None:
        self.data = bytes(memoryview(data).cast("B")[offset:])
        self.start = offset
        self.at = 0

    def line(self, field: str) -> bytes:
        """Return the next line.

        Raises:
            FormatError: There is none.
        """
        if self.at >= len(self.data):
            raise FormatError(
                "the file ends before",
                field=field,
                offset=self.offset,
                hint="the file is truncated",
            )
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        line = self.data[self.at : end]
        self.at = end + 1
        return line

    @property
    def offset(self) -> int:
        """Offset of the next line in the file."""
        return self.start + min(self.at, len(self.data))

    def counts(self, wanted: int) -> list[int]:
        """Read a line of counts; no file has more entries than bytes left."""
        at = self.offset
        words = self.line("counts").split()[:wanted]
        if len(words) < wanted or not all(w.isdigit() and len(w) < 12 for w in words):
            raise FormatError(f"is not {wanted} numbers", field="counts", offset=at)
        counts = [int(word) for word in words]
        if sum(counts) > len(self.data) - self.at + 1:
            raise FormatError(
                f"{sum(counts)} entries, the file has {len(self.data) - self.at} bytes left",
                field="counts",
                offset=at,
                hint="the file is damaged or cut",
            )
        return counts

    def base64(self) -> bytes:
        """Read a line of base64."""
        at = self.offset
        return _decoded(self.line("token").strip(), at)

    def piece(self) -> tuple[bytes, float, int]:
        """Read ``base64 score type``."""
        at = self.offset
        words = self.line("piece").split()
        try:
            token, score, kind = words[0], float(words[1]), int(words[2])
        except (IndexError, ValueError):
            raise FormatError("is not base64, score and type", field="piece", offset=at) from None
        if not 0 <= kind <= 6 or abs(score) > 3e38:
            raise FormatError("score or type is out of range", field="piece", offset=at)
        return _decoded(token, at), score, kind


def tokens(lines: Lines, count: int) -> Iterator[bytes]:
    """Yield tokens that stand as they are."""
    for _ in range(count):
        yield lines.line("token")


def merges(lines: Lines, count: int, pieces: Pieces) -> Merges:
    """Read ``left right`` lines; what is cut at the first blank need not be tokens."""
    ids = pieces.ids
    unlisted: dict[bytes, int] = {}
    pairs = array("I")
    for _ in range(count):
        left, _, right = lines.line("merge").partition(b" ")
        for part in (left, right):
            token_id = ids.get(part)
            if token_id is None:
                token_id = len(pieces) + unlisted.setdefault(part, len(unlisted))
            pairs.append(token_id)
    return Merges(Numbers.of("I", pairs), Pieces.of(unlisted))


def _decoded(text: bytes, at: int) -> bytes:
    from binascii import Error, a2b_base64

    try:
        return a2b_base64(text)
    except Error:
        raise FormatError("is not base64", field="token", offset=at) from None
