"""The counters of ``/metrics``, for Prometheus."""

from __future__ import annotations

from collections import Counter as Counts

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from mtkit.serve.job import JobEnd
    from mtkit.serve.scheduler import Scheduler
    from mtkit.serve.slot import Slot

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class _SchedulerCollector(Collector):
    """The counters that schedulers keep themselves."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the counters."""
        metrics = self._metrics
        yield CounterMetricFamily("mtkit_batches", "Batches computed.", metrics.sum("rounds"))
        yield CounterMetricFamily("mtkit_batch_tokens", "Tokens in them.", metrics.sum("computed"))


class _Sums:
    """llama-server's counters of prompts and answers."""

    def __init__(self) -> None:
        self.prompt = self.cached = self.predicted = self.steps = self.longest = 0
        self.drafted = self.accepted = self.verified = 0
        self.prompt_seconds = self.predicted_seconds = 0.0
        self._last = (0, 0.0, 0, 0.0)

    def add(self, prompt: int, cached: int, end: JobEnd) -> None:
        """Count an answer."""
        self.prompt += prompt - cached
        self.cached += cached
        self.prompt_seconds += end.prompt_seconds
        self.predicted += end.generated
        self.steps += max(end.generated - 1, 0)
        self.predicted_seconds += end.seconds
        self.longest = max(self.longest, prompt + end.generated)
        figures = end.drafting or {}
        self.drafted += int(figures.get("drafted", 0))
        self.accepted += int(figures.get("accepted", 0))
        self.verified += int(figures.get("rounds", 0))

    def rates(self) -> tuple[float, float]:
        """Return tokens a second of prompts and of answers since the last call."""
        now = (self.prompt, self.prompt_seconds, self.steps, self.predicted_seconds)
        a, b, c, d = (new - old for new, old in zip(now, self._last, strict=True))
        self._last = now
        return (a / b if b > 0 else 0.0), (c / d if d > 0 else 0.0)


_KEPT = ("rounds", "computed", "parts")
"""Counters of a scheduler that stay when its model is unloaded."""


class Metrics:
    """Counters of one server, whose models come and go."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._schedulers: list[Scheduler] = []
        self._past: Counts[str] = Counts()

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

        def dynamic() -> float:
            return sum((slot.drafting or {}).get("dynamic_vocabulary", 0) for slot in self._slots())

        for name, text, value in (
            ("slots", "Slots.", lambda: len(self._slots())),
            ("slots_busy", "Slots that answer.", self._busy),
            ("queue_length", "Requests that wait for a slot.", lambda: self.sum("queued")),
            ("dynamic_vocabulary", "Ids added to the vocabularies of drafts.", dynamic),
        ):  # fmt: skip
            Gauge(f"mtkit_{name}", text, registry=registry).set_function(value)
        registry.register(_SchedulerCollector(self))
        self._sums = _Sums()

    def add(self, scheduler: Scheduler) -> None:
        """Count what a scheduler does."""
        self._schedulers.append(scheduler)

    def remove(self, scheduler: Scheduler) -> None:
        """Keep the counters of a scheduler that has ended."""
        self._schedulers.remove(scheduler)
        for name in _KEPT:
            self._past[name] += getattr(scheduler, name)

    def sum(self, name: str) -> int:
        """Return a counter of all schedulers, those that have ended included."""
        count = self._past[name]
        for scheduler in self._schedulers:
            count += getattr(scheduler, name)
        return count

    def _slots(self) -> list[Slot]:
        return [slot for scheduler in self._schedulers for slot in scheduler.slots]

    def _busy(self) -> int:
        return sum(slot.job is not None for slot in self._slots())

    def count_request(self, status: int) -> None:
        """Count a request."""
        self._requests.labels(str(status)).inc()

    def count_ignored(self, name: str, count: int) -> None:
        """Count fields of a request that changed nothing."""
        self._ignored.labels(name).inc(count)

    def count_first(self, seconds: float) -> None:
        """Count the time to a first token."""
        self._first.observe(seconds)

    def count_answer(self, prompt: int, cached: int, end: JobEnd) -> None:
        """Count an answer."""
        self._sums.add(prompt, cached, end)
        self._prompt.inc(prompt)
        self._cached.inc(cached)
        self._generated.inc(end.generated)
        self.count_end(end.end)
        for name, counter in self._drafting.items():
            counter.inc((end.drafting or {}).get(name, 0))
        if end.generated > 1 and end.seconds > 0:
            self._speed.observe((end.generated - 1) / end.seconds)

    def count_end(self, end: str) -> None:
        """Count the end of an answer, whole or not."""
        self._ends.labels(end).inc()

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it, in our names and llama-server's."""
        return generate_latest(self._registry) + self._in_llama_servers_names().encode()

    def _in_llama_servers_names(self) -> str:
        """Return llama-server's counters and gauges.

        Source: llama.cpp, tools/server/server-task.cpp (``to_metrics``).
        """
        sums, batches = self._sums, self.sum("rounds")
        prompt_rate, predicted_rate = sums.rates()
        rows = (
            ("prompt_tokens_total", "counter", "Tokens of prompts computed.", sums.prompt),
            ("prompt_tokens_cached_total", "counter", "Tokens of prompts remembered.", sums.cached),
            ("prompt_seconds_total", "counter", "Time of prompts.", sums.prompt_seconds),
            ("tokens_predicted_total", "counter", "Tokens of answers.", sums.predicted),
            ("tokens_predicted_seconds_total", "counter", "Time of answers.",
             sums.predicted_seconds),
            ("n_decode_total", "counter", "Batches computed.", batches),
            ("n_tokens_max", "counter", "Tokens of the longest prompt and answer.", sums.longest),
            ("spec_decode_num_draft_tokens_total", "counter", "Tokens drafted.", sums.drafted),
            ("spec_decode_num_accepted_tokens_total", "counter", "Of them, accepted.",
             sums.accepted),
            ("spec_decode_num_drafts_total", "counter", "Rounds with drafts.", sums.verified),
            ("prompt_tokens_seconds", "gauge", "Tokens of prompts a second.", prompt_rate),
            ("predicted_tokens_seconds", "gauge", "Tokens of answers a second.", predicted_rate),
            ("requests_processing", "gauge", "Slots that answer.", self._busy()),
            ("requests_deferred", "gauge", "Requests that wait for a slot.", self.sum("queued")),
            ("n_busy_slots_per_decode", "gauge", "Slots in a batch.",
             self.sum("parts") / max(batches, 1)),
        )  # fmt: skip
        return "".join(
            f"# HELP llamacpp:{name} {text}\n# TYPE llamacpp:{name} {kind}\n"
            f"llamacpp:{name} {float(value)!r}\n"
            for name, kind, text, value in rows
        )
