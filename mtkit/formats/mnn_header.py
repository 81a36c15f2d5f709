"""The three text lines that begin every tokenizer file of the MNN runtime.

Line 1: magic 430 and the kind (0 to 3 text files, 4 the binary pipeline file). Line 2: how many
special, stop and prefix ids. Line 3: those ids, in that order. Numbers are read as C++ streams
read ``int``: blanks and a plus sign in front and anything behind the last number are ignored, a
number that is missing counts as 0.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, ``Tokenizer::createTokenizer`` and
``load_special``, by their behavior.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.base.binary import Buffer

MAGIC = 430
LINE_LIMIT = 1 << 24
"""Longest line in bytes; two million special ids are not a tokenizer."""
_BLANKS = b" \t\n\v\f\r"
_INT_MAX = (1 << 31) - 1


class Header(Record):
    """The three lines; ``end`` is the offset of the first byte behind them."""

    kind: int
    special: tuple[int, ...]
    stop: tuple[int, ...]
    prefix: tuple[int, ...]
    end: int


def sniff_kind(data: Buffer) -> int | None:
    """Return the kind that the first line names; None without the magic number."""
    numbers = _numbers(bytes(data[:64]).split(b"\n", 1)[0])
    return numbers[1] if len(numbers) > 1 and numbers[0] == MAGIC else None


def read_header(data: Buffer) -> Header:
    """Read the three lines."""
    view = memoryview(data).cast("B")
    (first, _), (second, counts_at), (third, ids_at) = lines = [*_lines(view, 3)]
    numbers = _numbers(first)
    if len(numbers) < 2 or numbers[0] != MAGIC:
        raise FormatError("is not 430 and a kind", field="magic", offset=0)
    counts = [*_numbers(second), 0, 0, 0][:3]
    ids = _numbers(third)
    for count in counts:
        # A missing id is 0, so nothing else bounds a forged count.
        if not 0 <= count <= len(view):
            what = f"is {count}, but the file has {len(view)} bytes"
            raise FormatError(what, field="id count", offset=counts_at)
    total = sum(counts)
    ids = (ids + [0] * (total - len(ids)))[:total]
    for token_id in ids:
        if not -1 <= token_id <= _INT_MAX:
            raise FormatError(f"{token_id} is not a token id", field="special ids", offset=ids_at)
    special, stop = counts[0], counts[0] + counts[1]
    return Header(
        numbers[1],
        tuple(ids[:special]),
        tuple(ids[special:stop]),
        tuple(ids[stop:]),
        lines[2][1] + len(third) + 1,
    )


def _lines(view: memoryview, count: int) -> list[tuple[bytes, int]]:
    """Return the first lines without their LF, each with its offset."""
    lines: list[tuple[bytes, int]] = []
    at = 0
    for number in range(count):
        window = bytes(view[at : at + LINE_LIMIT])
        end = window.find(b"\n")
        if end < 0:
            raise FormatError(
                "does not end", field=f"line {number + 1}", offset=at, hint="the file is truncated"
            )
        lines.append((window[:end], at))
        at += end + 1
    return lines


def _numbers(line: bytes) -> list[int]:
    """Read blank-separated decimal integers until something else comes."""
    numbers: list[int] = []
    at = 0
    while True:
        while at < len(line) and line[at] in _BLANKS:
            at += 1
        start = at
        if line[at : at + 1] in {b"+", b"-"}:
            at += 1
        digits = at
        while at < len(line) and 48 <= line[at] <= 57:
            at += 1
        if at == digits:
            return numbers
        # Thirteen digits are out of range already.
        numbers.append(int(line[start : min(at, start + 14)]))
