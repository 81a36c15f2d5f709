"""The units of a job on a Ray cluster, by Ray Data.

Each unit is a task; Ray runs the tasks of a lost node again, and a part that was written twice is
the same part. The folder of the output and the files have to be reachable from every node.
"""

from __future__ import annotations

from functools import lru_cache

from mtkit.corpus.job import Job, Tally
from mtkit.corpus.unit_work import loaded, work
from mtkit.errors import MissingExtra, MtkitError, ResourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtkit.corpus.files import Unit
    from mtkit.corpus.parts import Parts
    from mtkit.tokenizer.tokenizer import Tokenizer


def run(
    job: Job, units: Sequence[tuple[int, Unit]], parts: Parts, address: str | None
) -> Iterator[Tally]:
    """Do the units, and yield what each held; as ``local.run``.

    Args:
        job: What is done.
        units: Number and unit.
        parts: Where the parts go.
        address: Of the cluster; None takes RAY_ADDRESS, or starts one on this machine.

    Raises:
        MissingExtra: Ray is not installed.
        ResourceError: The cluster cannot be reached, or a task failed for good.
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("needs Ray", hint='pip install "mtkit[ray]"') from None
    if not units:
        return
    try:
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False)
    except ConnectionError as error:
        raise ResourceError(f"no Ray cluster: {error}", source=address or "RAY_ADDRESS") from None

    def done(row: dict[str, Any]) -> dict[str, Any]:
        number, unit = units[row["item"]]
        try:
            tally = work(job, _tokenizer(job), unit, parts, number)
        except MtkitError as error:
            return {"error": str(error), "tally": [0] * len(Tally.__match_args__)}
        return {"error": "", "tally": [getattr(tally, name) for name in Tally.__match_args__]}

    rows = ray.data.from_items(list(range(len(units))), override_num_blocks=len(units)).map(done)
    try:
        for row in rows.iter_rows():
            if row["error"]:
                raise ResourceError(row["error"])
            yield Tally(*map(int, row["tally"]))
    except ray.exceptions.RayError as error:
        what = str(error).strip().splitlines()[-1]
        raise ResourceError(
            f"Ray gave up: {what}", hint="the same command resumes the work"
        ) from None


@lru_cache(1)
def _tokenizer(job: Job) -> Tokenizer:
    """Load the tokenizer once in each of Ray's processes."""
    return loaded(job)
