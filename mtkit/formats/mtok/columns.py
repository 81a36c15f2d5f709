"""The long columns of a specification in a .mtok: in the base, or in sections of their own.

The SPEC section is canonical JSON (spec.codec, defaults left out) in which a column is a reference:

* ``{"base": "pieces", "count": n, "but": [[id, base64], …]}``: the base's tokens by id;
* ``{"base": "scores", "count": n, "code": "f", "but": [[id, bits], …]}``: the base's scores;
  ``{"base": "pairs"}``: its merges;
* ``{"runs": [[value, length], …], "code": "B"}``: short for equal neighbors;
* ``{"section": tag, "code": "f"}``: a section of numbers, or without code of bytes, or, with
  ``"ends": true``, of byte strings: u32 count, u32 ends, bytes.

A column is compared with what the reader finds in the base before it is replaced by a reference, so
a base that lacks something costs space and nothing else.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.errors import FormatError
from mtkit.spec.codec import read_numbers, read_pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal

    from mtkit.spec.codec import Column

INLINE_BYTES = 256
"""Shorter columns are written into the JSON."""
TAGS = {
    "vocabulary.pieces": "VOCB",
    "vocabulary.types": "TYPE",
    "vocabulary.scores": "SCOR",
    "model.merges.pairs": "MERG",
    "model.merges.unlisted": "UNLS",
}
"""Path of a field -> tag of its section; a character map is CMAP, others are C000, C001, …"""


class BaseColumns(Record):
    """The columns in the base of a file."""

    pieces: Pieces
    scores: Numbers | None = None
    pairs: Numbers | None = None


class Keeper:
    """Puts columns into sections while a specification is encoded.

    Attributes:
        sections: Tag -> content.
    """

    def __init__(self, base: BaseColumns) -> None:
        self.base = base
        self.sections: dict[str, bytes] = {}

    def keep(self, column: Column, path: str) -> object:
        """Return a reference for a column, or None for a short one."""
        if isinstance(column, Pieces):
            return self._pieces(column, path)
        if isinstance(column, Numbers):
            return self._numbers(column, path)
        if len(column) < INLINE_BYTES:
            return None
        return {"section": self._section(path, bytes(column))}

    def _pieces(self, column: Pieces, path: str) -> object:
        if path == "vocabulary.pieces" and len(column) <= len(self.base.pieces):
            different = [
                [number, _base64(piece)]
                for number, (piece, there) in enumerate(zip(column, self.base.pieces, strict=False))
                if piece != there
            ]
            if len(different) <= len(column) // 8:
                return {"base": "pieces", "count": len(column), "but": different}
        if len(column.blob) + 4 * len(column) < INLINE_BYTES:
            return None
        content = len(column).to_bytes(4, "little") + column.ends.data + column.blob
        return {"section": self._section(path, content), "ends": True}

    def _numbers(self, column: Numbers, path: str) -> object:
        if len(column.data) < INLINE_BYTES:
            return None
        base = self.base
        if path == "vocabulary.scores" and base.scores is not None:
            narrowed = _narrow_scores(base.scores, column.code, len(column))
            if narrowed.code == column.code and len(narrowed) == len(column):
                # Compared as bits: NaN is not equal to itself.
                bits: Literal["I", "Q"] = "I" if column.code == "f" else "Q"
                pairs = zip(column.data.cast(bits), narrowed.data.cast(bits), strict=True)
                different = [[at, own] for at, (own, there) in enumerate(pairs) if own != there]
                if len(different) <= len(column) // 8:
                    reference = {"base": "scores", "count": len(column), "code": column.code}
                    return {**reference, "but": different}
        if path == "model.merges.pairs" and base.pairs == column:
            return {"base": "pairs"}
        runs = _runs(column) if column.code in "BbHhIiQq" else None
        if runs is not None:
            return {"runs": runs, "code": column.code}
        return {"section": self._section(path, bytes(column.data)), "code": column.code}

    def _section(self, path: str, content: bytes) -> str:
        tag = "CMAP" if path.endswith("charsmap") else TAGS.get(path, "C000")
        number = 0
        while tag in self.sections:
            number += 1
            tag = f"C{number:03}"
        self.sections[tag] = content
        return tag


class Fetcher:
    """Gives columns back while a specification is decoded."""

    def __init__(self, sections: Mapping[str, memoryview], base: Callable[[], BaseColumns]) -> None:
        self.sections = sections
        self.base = base

    def fetch(self, reference: Any, path: str) -> Column:
        """Return the column of a reference."""
        if not isinstance(reference, dict):
            raise FormatError("is not a reference", field=path)
        code = reference.get("code")
        if "base" in reference:
            return self._from_base(reference, path)
        if "runs" in reference:
            return read_numbers(code, _expand(reference["runs"], code, path), path)
        tag = reference.get("section")
        content = self.sections.get(tag) if isinstance(tag, str) else None
        if content is None:
            raise FormatError(f"is in section {tag!r}, which is not there", field=path)
        if code is not None:
            return read_numbers(code, content, path)
        if not reference.get("ends"):
            return bytes(content)
        count = int.from_bytes(content[:4], "little")
        if len(content) < 4 or count > (len(content) - 4) // 4:
            raise FormatError(f"is {count}, section {tag} is shorter", field=f"{path} count")
        return read_pieces(content[4 + 4 * count :], content[4 : 4 + 4 * count], path)

    def _from_base(self, reference: dict[str, Any], path: str) -> Column:
        base, what, count = self.base(), reference["base"], reference.get("count")
        if what == "pairs" and base.pairs is not None:
            return base.pairs
        if type(count) is not int or not 0 <= count <= len(base.pieces):
            raise FormatError(f"count {count!r} is not that of the base", field=path)
        if what == "scores" and base.scores is not None:
            scores = _narrow_scores(base.scores, str(reference.get("code")), count, path)
            return _correct_scores(scores, reference.get("but"), path)
        if what != "pieces":
            raise FormatError(f"is {what!r} of the base, which it lacks", field=path)
        changes = _changes(reference.get("but"), count, path)
        if not changes and count == len(base.pieces):
            return base.pieces
        pieces = list(base.pieces)[:count]
        for token_id, piece in changes.items():
            pieces[token_id] = piece
        return Pieces.of(pieces)


def _changes(but: Any, count: int, path: str) -> dict[int, bytes]:
    """Parse the list of pieces that differ from the base."""
    from binascii import a2b_base64

    try:
        changes = {token_id: a2b_base64(text) for token_id, text in but}
    except (TypeError, ValueError):
        raise FormatError("has a damaged list of changes", field=path) from None
    if not all(type(token_id) is int and 0 <= token_id < count for token_id in changes):
        raise FormatError("changes an id that is not there", field=path)
    return changes


def _correct_scores(scores: Numbers, but: Any, path: str) -> Numbers:
    """Replace the scores that differ from the base, which are given as bits."""
    from array import array

    values = array("I" if scores.code == "f" else "Q")
    values.frombytes(scores.data.tobytes())
    try:
        for token_id, bits in but:
            values[token_id if token_id >= 0 else len(values)] = bits
    except (TypeError, ValueError, IndexError, OverflowError):
        raise FormatError("has a damaged list of changes", field=path) from None
    return Numbers(scores.code, values.tobytes())


def _narrow_scores(scores: Numbers, code: str, count: int, path: str = "") -> Numbers:
    """Return the first scores as another float type."""
    from array import array

    if code not in {"f", "d"}:
        raise FormatError(f"{code!r} is not a float", field=path)
    try:
        return Numbers.of(code, array(code, scores.view[:count].tolist()))
    except OverflowError:
        return Numbers.of("d", scores.view[:count].tolist())


def _runs(column: Numbers) -> list[list[int]] | None:
    """Return (value, length) of equal neighbors, or None where that is not much shorter."""
    from itertools import groupby

    limit = len(column.data) // 64
    runs: list[list[int]] = []
    for value, group in groupby(column.view.tolist()):
        runs.append([value, sum(1 for _ in group)])
        if len(runs) > limit:
            return None
    return runs


RUN_LIMIT = 1 << 26
"""Longest column of runs: far more ids than any vocabulary has."""


def _expand(runs: Any, code: Any, path: str) -> bytes:
    from array import array

    if not isinstance(code, str) or len(code) != 1 or code not in "BbHhIiQq":
        raise FormatError(f"{code!r} is not a type of integer", field=path)
    out = array(code)
    try:
        for value, length in runs:
            if type(length) is not int or not 0 <= length <= RUN_LIMIT - len(out):
                raise FormatError(f"a run of {length!r} is too long", field=path)
            out.extend(array(code, [value]) * length)
    except (TypeError, ValueError, OverflowError):
        raise FormatError("has damaged runs", field=path) from None
    return out.tobytes()


def _base64(data: bytes) -> str:
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode("ascii")
