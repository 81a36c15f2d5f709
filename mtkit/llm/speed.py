"""How fast a model is on this machine: prompts (pp) and single tokens (tg), as in llama-bench.

A test computes tokens drawn at random in an empty context: a prompt of N tokens in batches, or N
tokens one after the other. Neither samples, and nothing is turned into text.
"""

from __future__ import annotations

import time
from typing import cast

from mtkit.base.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.settings import KvType


class ModelSpeed(Record):
    """The speed of one test.

    Attributes:
        test: ``pp512``: a prompt of 512 tokens; ``tg128``: 128 single tokens.
        rates: Tokens a second of each round.
    """

    test: str
    threads: int
    kv_type: str
    rates: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Tokens a second on average."""
        return sum(self.rates) / len(self.rates)

    @property
    def deviation(self) -> float:
        """Standard deviation of the rounds; 0 of a single one."""
        from statistics import stdev

        return stdev(self.rates) if len(self.rates) > 1 else 0.0


def measure_model(
    runner: Runner,
    tests: Sequence[tuple[str, int]],
    threads: Sequence[int | None],
    kv_types: Sequence[str],
    rounds: int,
    on_progress: Callable[[float], object],
) -> list[ModelSpeed]:
    """Return the speed of each test with each number of threads and type of the KV cache.

    Args:
        tests: ``pp`` or ``tg``, and how many tokens.
        threads: None: as many as are fastest.
    """
    speeds: list[ModelSpeed] = []
    own = runner.settings
    total = len(threads) * len(kv_types) * len(tests) * rounds
    size = max(count for _, count in tests)
    for kv_type in kv_types:
        for count in threads:
            settings = replace(own.context, kv_type=cast("KvType", kv_type), threads=count)
            runner.settings = replace(own, context=settings)
            context = runner.open_context(size)
            ids = _random_ids(runner.model.n_vocab, size)
            _run(context, "pp", ids[:2])  # what is made for the first batch is not measured
            for name, n_tokens in tests:
                rates: list[float] = []
                for _ in range(rounds):
                    on_progress((len(speeds) * rounds + len(rates)) / total)
                    rates.append(n_tokens / _run(context, name, ids[:n_tokens]))
                used = context.settings.threads or 1
                speeds.append(ModelSpeed(f"{name}{n_tokens}", used, kv_type, tuple(rates)))
    on_progress(1)
    return speeds


def _random_ids(n_vocab: int, size: int) -> list[int]:
    from random import Random

    draw = Random(0).randrange  # noqa: S311  the same ids in each run
    return [draw(n_vocab) for _ in range(size)]


def _run(context: Context, test: str, ids: list[int]) -> float:
    """Return the seconds that a test takes."""
    context.clear()
    start = time.perf_counter()
    if test == "pp":
        context.decode(ids)
        context.logits()  # waits until it is done
    else:
        for token_id in ids:
            context.step(token_id)
            context.logits()
    return time.perf_counter() - start
