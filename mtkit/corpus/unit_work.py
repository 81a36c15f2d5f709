"""One unit: its documents encoded, and what comes of them written as a part."""

from __future__ import annotations

from mtkit.corpus.documents import Unusable, documents
from mtkit.corpus.job import Tally
from mtkit.errors import FormatError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from mtkit.corpus.files import Unit
    from mtkit.corpus.job import Job
    from mtkit.corpus.parts import Parts
    from mtkit.tokenizer.tokenizer import Tokenizer

_AT_ONCE = 1 << 20
"""Tokens that are kept before they are counted or written."""


def loaded(job: Job) -> Tokenizer:
    """Load the job's tokenizer."""
    from mtkit.tokenizer.load import load

    return load(job.tokenizer, overrides=job.overrides)


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
    """The ids of a unit, document by document; ``tally`` is right when all were given."""

    def __init__(self, job: Job, tokenizer: Tokenizer, unit: Unit) -> None:
        self._job, self._tokenizer, self._unit = job, tokenizer, unit
        self.tally = Tally()

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        import numpy as np

        job = self._job
        end = np.array([job.end_id] if job.end_id is not None else [], np.int32)
        n_documents = n_tokens = n_empty = n_bad = 0
        for place, text in documents(self._unit, job.reading):
            ids = self._encoded(place, text)
            if ids is None:
                n_bad += 1
                continue
            if not len(ids):
                n_empty += 1
                continue
            n_documents += 1
            given = np.concatenate((ids, end)) if len(end) else ids
            n_tokens += len(given)
            yield given
        self.tally = Tally(n_documents, n_tokens, self._unit.size, n_empty, n_bad)

    def _encoded(self, place: str, text: str | bytes | Unusable) -> NDArray[np.int32] | None:
        """Return the ids of a document; None where it is bad and left out."""
        import numpy as np

        job = self._job
        try:
            if isinstance(text, Unusable):
                raise FormatError(text.why)  # noqa: TRY301  as if encoding it had said so
            ids = self._tokenizer.encode_array(
                text, add_special_tokens=job.add_special, parse_special=job.parse_special
            )
            return np.frombuffer(ids, np.int32)
        except (FormatError, UsageError) as error:
            if job.skip_bad:
                return None
            raise FormatError(
                error.what, source=self._unit.path, field=place,
                hint="--skip-bad leaves such documents out",
            ) from None  # fmt: skip


def _counted(made: _Ids) -> Iterator[memoryview]:
    """Yield how often each id occurs, by id."""
    import numpy as np

    total = np.zeros(0, np.int64)
    for ids in _gathered(made):
        counts = np.bincount(ids)
        if len(counts) < len(total):
            total[: len(counts)] += counts
        else:
            counts[: len(total)] += total
            total = counts
    yield total.data


def _gathered(made: _Ids) -> Iterator[NDArray[np.int32]]:
    """Yield the ids of many documents at once: a table of 200,000 counts is not made for each."""
    import numpy as np

    waiting: list[NDArray[np.int32]] = []
    size = 0
    for ids in made:
        waiting.append(ids)
        size += len(ids)
        if size >= _AT_ONCE:
            yield np.concatenate(waiting)
            waiting, size = [], 0
    if waiting:
        yield np.concatenate(waiting)


def _kept(made: _Ids, width: int) -> dict[str, Iterator[memoryview]]:
    """Return the files of a part: ids, and behind them the length of each document."""
    import numpy as np

    lengths: list[int] = []

    def ids() -> Iterator[memoryview]:
        for document in made:
            lengths.append(len(document))
            yield document.astype(np.uint16 if width == 2 else np.uint32).data

    def all_lengths() -> Iterator[memoryview]:
        yield np.array(lengths, np.uint64).data

    return {"ids": ids(), "lengths": all_lengths()}
