"""One unit: its documents encoded, and what comes of them written as a part."""

from __future__ import annotations

from bisect import bisect

from mtkit.corpus.documents import Block, documents, place
from mtkit.corpus.job import Tally
from mtkit.errors import FormatError, NoToken, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtkit.corpus.files import Unit
    from mtkit.corpus.job import Job
    from mtkit.corpus.parts import Parts
    from mtkit.tokenizer.tokenizer import Tokenizer

_COUNTED_AT_ONCE = 1 << 18
"""Ids that are counted together: numpy copies them to 64 bits, which should stay in the cache."""


def loaded(job: Job) -> Tokenizer:
    """Load the job's tokenizer."""
    from mtkit.tokenizer.load import load

    return load(job.tokenizer, overrides=job.overrides, reader=job.reader)


def work(job: Job, tokenizer: Tokenizer, unit: Unit, parts: Parts, number: int) -> Tally:
    """Encode a unit and write its part; the part is there whole or not at all.

    Raises:
        MtkitError: A document is bad and not to be left out, or the disk is full.
    """
    made = _Ids(job, tokenizer, unit)
    files = _kept(made, job.width) if job.width else {"counts": _counted(made)}
    parts.write(number, files, lambda: made.tally)
    return made.tally


class _Ids:
    """The ids of a unit, many documents at a time; ``tally`` is right when all were given."""

    def __init__(self, job: Job, tokenizer: Tokenizer, unit: Unit) -> None:
        self._job, self._tokenizer, self._unit = job, tokenizer, unit
        self._bad = 0
        self.tally = Tally()

    def __iter__(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Yield the ids of some documents, and how many each of them has; none has none."""
        import numpy as np

        end_id = self._job.end_id
        n_documents = n_tokens = n_empty = 0
        for block in self._blocks():
            ids, lengths = self._encoded(block.places, block.texts)
            n_empty += len(lengths)
            lengths = lengths[lengths > 0]
            n_empty -= len(lengths)
            if end_id is not None:
                ids = np.insert(ids, np.cumsum(lengths), end_id)
                lengths += 1
            n_documents += len(lengths)
            n_tokens += len(ids)
            yield ids, lengths
        self.tally = Tally(n_documents, n_tokens, self._unit.size, n_empty, self._bad)

    def _blocks(self) -> Iterator[Block]:
        """Yield the documents that are good as far as reading them shows."""
        for block in documents(self._unit, self._job.reading):
            if block.bad and not self._job.skip_bad:
                at, why = block.bad[0]
                before = bisect(block.places, at)  # one of them may be bad as well
                yield Block(block.places[:before], block.texts[:before])
                self._refuse(at, why)
            self._bad += len(block.bad)
            yield block

    def _encoded(
        self, places: Sequence[int], texts: Sequence[str | bytes]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of documents and how many each has; bad ones have none and are counted."""
        import numpy as np

        job = self._job
        try:
            ids, starts = self._tokenizer.encode_batch_arrays(
                texts, add_special_tokens=job.add_special, parse_special=job.parse_special
            )
        except (FormatError, NoToken, UsageError) as error:
            if len(texts) > 1:
                alone = [
                    self._encoded([at], [text]) for at, text in zip(places, texts, strict=True)
                ]
                every_id, every_length = zip(*alone, strict=True)
                return np.concatenate(every_id), np.concatenate(every_length)
            self._refuse(places[0], error.what)
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        return ids, np.diff(starts)

    def _refuse(self, at: int, why: str) -> None:
        """Count a document that is bad.

        Raises:
            FormatError: It is not to be left out.
        """
        if not self._job.skip_bad:
            hint = "--skip-bad leaves such documents out"
            raise FormatError(
                why, source=self._unit.path, field=place(self._unit, at), hint=hint
            ) from None
        self._bad += 1


def _counted(made: _Ids) -> Iterator[memoryview]:
    """Yield how often each id occurs, by id."""
    import numpy as np

    total = np.zeros(0, np.int64)
    for ids in _joined(made):
        counts = np.bincount(ids)
        if len(counts) < len(total):
            total[: len(counts)] += counts
        else:
            counts[: len(total)] += total
            total = counts
    yield total.data


def _joined(made: _Ids) -> Iterator[NDArray[np.int32]]:
    """Yield many ids at once, and not too many: a table of 200,000 counts is not made for a few."""
    waiting: list[NDArray[np.int32]] = []
    size = 0
    for ids, _ in made:
        waiting.append(ids)
        size += len(ids)
        if size >= _COUNTED_AT_ONCE:
            yield from _pieces(waiting)
            waiting, size = [], 0
    yield from _pieces(waiting)


def _pieces(parts: Sequence[NDArray[np.int32]]) -> Iterator[NDArray[np.int32]]:
    import numpy as np

    ids = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    for at in range(0, len(ids), _COUNTED_AT_ONCE):
        yield ids[at : at + _COUNTED_AT_ONCE]


def _kept(made: _Ids, width: int) -> dict[str, Iterator[memoryview]]:
    """Return the files of a part: ids, and behind them the length of each document."""
    import numpy as np

    found: list[NDArray[np.int64]] = []

    def ids() -> Iterator[memoryview]:
        for some, lengths in made:
            found.append(lengths)
            yield some.astype(np.uint16 if width == 2 else np.uint32).data

    def all_lengths() -> Iterator[memoryview]:
        yield np.concatenate([*found, np.zeros(0, np.int64)]).astype(np.uint64).data

    return {"ids": ids(), "lengths": all_lengths()}
