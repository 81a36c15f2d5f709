"""What ``/metrics`` tells Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from mtkit.serve.job import Done
    from mtkit.serve.scheduler import Scheduler

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class _Computed(Collector):
    """What the scheduler counts itself."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def collect(self) -> Iterator[Metric]:
        """Yield the counters."""
        scheduler = self._scheduler
        yield CounterMetricFamily("mtkit_batches", "Batches computed.", scheduler.rounds)
        yield CounterMetricFamily("mtkit_batch_tokens", "Tokens in them.", scheduler.computed)


class Metrics:
    """Counters of one server."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"mtkit_{name}", text, labels, registry=registry)

        self._requests = counter("requests", "Requests answered, by status.", "status")
        self._prompt = counter("prompt_tokens", "Tokens of prompts.")
        self._cached = counter("cached_tokens", "Tokens of prompts that a slot remembered.")
        self._generated = counter("generated_tokens", "Tokens of answers.")
        self._ends = counter("answers", "Answers, by what ended them.", "end")
        self._ignored = counter("ignored_fields", "Fields that changed nothing, by name.", "name")
        self._drafting = {
            "drafted": counter("drafted_tokens", "Tokens that were drafted."),
            "accepted": counter("accepted_tokens", "Of them, those that were accepted."),
            "triggers": counter("draft_triggers", "Rounds that looked for unknown ids."),
        }
        self._first = Histogram(
            "mtkit_first_token_seconds", "Time to the first token.", buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self._speed = Histogram(
            "mtkit_tokens_per_second", "Speed of each answer.", registry=registry,
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000),
        )  # fmt: skip

        def busy() -> int:
            return sum(slot.job is not None for slot in scheduler.slots)

        def dynamic() -> float:
            return sum(
                (slot.drafting or {}).get("dynamic_vocabulary", 0) for slot in scheduler.slots
            )

        for name, text, value in (
            ("slots", "Slots.", lambda: len(scheduler.slots)),
            ("slots_busy", "Slots that answer.", busy),
            ("queue_length", "Requests that wait for a slot.", lambda: scheduler.queued),
            ("dynamic_vocabulary", "Ids added to the vocabularies of drafts.", dynamic),
        ):  # fmt: skip
            Gauge(f"mtkit_{name}", text, registry=registry).set_function(value)
        registry.register(_Computed(scheduler))

    def request(self, status: int) -> None:
        """Count a request."""
        self._requests.labels(str(status)).inc()

    def ignored(self, name: str) -> None:
        """Count a field of a request that changed nothing."""
        self._ignored.labels(name).inc()

    def first(self, seconds: float) -> None:
        """Count the time to a first token."""
        self._first.observe(seconds)

    def answer(self, prompt: int, cached: int, done: Done) -> None:
        """Count an answer."""
        self._prompt.inc(prompt)
        self._cached.inc(cached)
        self._generated.inc(done.generated)
        self._ends.labels(done.end).inc()
        for name, one in self._drafting.items():
            one.inc((done.drafting or {}).get(name, 0))
        if done.seconds > 0:
            self._speed.observe((done.generated - 1) / done.seconds)

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self._registry)
