"""The ids that a draft of a static vocabulary can propose (FR-Spec): vocab.txt.

One decimal id a line, the most frequent first, so that the head of a file is a smaller vocabulary.
Blank lines, and what follows a number sign, do not count.
"""

from __future__ import annotations

from mtkit.base.binary import map_file
from mtkit.errors import FormatError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


def read(path: str, n_vocab: int) -> list[int]:
    """Return the ids of a vocab.txt.

    Args:
        path: The file.
        n_vocab: Number of ids that there are.

    Raises:
        UsageError: It cannot be read.
        FormatError: A line holds no id, one that does not exist, or one that came before.
    """
    found: dict[int, int] = {}
    try:
        lines = bytes(map_file(path)).decode().splitlines()
    except UnicodeDecodeError:
        raise FormatError("is not a list of ids: not valid UTF-8", source=path) from None
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if not (text.isascii() and text.isdigit()):
            raise FormatError(f"{text!r} is not an id", source=path, field=f"line {number}")
        token_id = int(text) if len(text) < 12 else n_vocab
        if token_id >= n_vocab:
            raise FormatError(
                f"there is no id {text}", source=path, field=f"line {number}",
                hint=f"the model has ids 0 to {n_vocab - 1}",
            )  # fmt: skip
        if token_id in found:
            raise FormatError(
                f"id {token_id} stands in line {found[token_id]} already",
                source=path,
                field=f"line {number}",
            )
        found[token_id] = number
    return list(found)


def text(ids: Sequence[int], note: str) -> str:
    """Return the text of a vocab.txt, a note at its head."""
    return f"# {note}\n" + "".join(f"{token_id}\n" for token_id in ids)


def most_frequent(
    counts: Mapping[int, int], size: int, always: Collection[int], n_vocab: int
) -> list[int]:
    """Return so many ids, the most frequent first, of equals the lowest.

    Args:
        counts: Id -> how often it occurs.
        size: How many ids.
        always: Ids that are among them however rare they are.
        n_vocab: Number of ids that there are.

    Raises:
        UsageError: There are more that have to be in than fit.
    """
    if len(always) > size:
        raise UsageError(
            f"{size} ids hold less than the {len(always)} that every vocabulary needs",
            hint="end tokens, bytes and control tokens are always in",
        )
    ranked = sorted(range(n_vocab), key=lambda i: (-counts.get(i, 0), i))
    kept = set(always)
    for token_id in ranked:
        if len(kept) >= size:
            break
        kept.add(token_id)
    return [token_id for token_id in ranked if token_id in kept]


def coverage(counts: Mapping[int, int], ids: Iterable[int]) -> float:
    """Return the part of all occurrences that these ids are."""
    total = sum(counts.values())
    return sum(counts.get(i, 0) for i in ids) / total if total else 0.0
