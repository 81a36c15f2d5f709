"""What the runs of a benchmark say together: medians, sums, ratios to plain decoding."""

from __future__ import annotations

from statistics import median, stdev

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any

    from mtkit.llm.speculative.bench import Run

ALL = "all"
_LARGEST = "largest"


def summaries(
    runs: Sequence[Run], paired: str | None, static: Collection[int] | None
) -> list[dict[str, object]]:
    """Return a row for each temperature, source and group; of several sources, one of all too.

    Args:
        runs: All of them.
        paired: The group whose greedy text a text has to be that was not declined; None for A.
        static: The static vocabulary, to say what of the text is outside; None without one.
    """
    sources = list(dict.fromkeys(run.source for run in runs))
    found = []
    for temperature in dict.fromkeys(run.temperature for run in runs):
        for source in [*sources, *[ALL] * (len(sources) > 1)]:
            chosen = [
                run
                for run in runs
                if run.temperature == temperature and source in (run.source, ALL)
            ]
            by_group = {
                name: [run for run in chosen if run.group == name]
                for name in dict.fromkeys(run.group for run in chosen)
            }
            plain = by_group["A"]
            for name, made in by_group.items():
                row: dict[str, object] = {
                    "temperature": temperature, "source": source, "group": name,
                    **_speeds(made, plain),
                }  # fmt: skip
                if temperature:
                    row |= _likelihood(made)
                else:
                    drafted = by_group[paired] if paired not in (None, name) else plain
                    row["identical"] = sum(
                        run.ids == (one if _is_plain(run) else two).ids
                        for run, one, two in zip(made, plain, drafted, strict=True)
                    )
                if static is not None:
                    ids = [i for run in made for i in run.ids]
                    row["outside"] = sum(i not in static for i in ids) / len(ids)
                if made[0].drafting is not None:
                    row["drafting"] = together([run.drafting or {} for run in made])
                found.append(row)
    return found


def _is_plain(run: Run) -> bool:
    """Whether nothing was to be drafted in a text."""
    return run.drafting is None or bool(run.drafting["declined_texts"])


def _speeds(made: Sequence[Run], plain: Sequence[Run]) -> dict[str, object]:
    def rate(runs: Iterable[Run], seconds: Callable[[Run], float]) -> float:
        runs = list(runs)
        return sum(len(run.ids) for run in runs) / sum(map(seconds, runs))

    def own(run: Run) -> float:
        return run.seconds

    def wall(run: Run) -> float:
        return run.wall_seconds

    each = [rate([run], own) for run in made]
    return {
        "prompts": len(made),
        "tokens": sum(len(run.ids) for run in made),
        "seconds": sum(map(own, made)),
        "wall_seconds": sum(map(wall, made)),
        "tokens_per_second": rate(made, own),
        "median_tokens_per_second": median(each),
        "speed": rate(made, own) / rate(plain, own),
        "median_speed": median(
            one / rate([run], own) for one, run in zip(each, plain, strict=True)
        ),
        "wall_speed": rate(made, wall) / rate(plain, wall),
    }


def _likelihood(made: Sequence[Run]) -> dict[str, object]:
    """Return the mean of the texts' log-likelihoods, and its standard error."""
    found = [run.log_likelihood for run in made if run.log_likelihood is not None]
    error = stdev(found) / len(found) ** 0.5 if len(found) > 1 else None
    return {"log_likelihood": sum(found) / len(found), "log_likelihood_error": error}


def together(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of several texts as one."""
    total: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            if isinstance(value, dict):
                total[key] = together([total[key], value] if key in total else [value])
            elif isinstance(value, list):
                had = total.get(key, [])
                size = max(len(had), len(value))
                total[key] = [sum(p) for p in zip(*(_padded(x, size) for x in (had, value)))]  # noqa: B905  both have the size
            elif isinstance(value, str):
                total[key] = value
            elif key == _LARGEST:
                total[key] = max(total.get(key, 0), value)
            else:
                total[key] = total.get(key, 0) + value
    if "rounds" in total:
        total["acceptance"] = _part(total["accepted"], total["drafted"])
        total["tokens_per_round"] = _part(total["emitted"], total["rounds"])
        total["acceptance_by_place"] = [
            _part(kept, tried)
            for kept, tried in zip(total["accepted_by_place"], total["tried_by_place"], strict=True)
        ]
    return total


def _part(some: float, of: float) -> float:
    return some / of if of else 0.0


def _padded(numbers: list[float], size: int) -> list[float]:
    return [*numbers, *[0] * (size - len(numbers))]
