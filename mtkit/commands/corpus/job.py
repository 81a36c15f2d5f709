"""What the commands of a corpus have in common: their options, and how a job is shown."""

from __future__ import annotations

import os
import sys
import time

from mtkit.commands.declared import SHARED, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mtkit.corpus.files import Reading
    from mtkit.corpus.job import Job
    from mtkit.corpus.run import Finished, Settings
    from mtkit.tokenizer.tokenizer import Tokenizer

OPTIONS: Mapping[str, Option] = {
    **SHARED,
    "paths": Option("", "Files, folders and URLs with documents.", "PATH..."),
    "field": Option("--field", "JSON field or column with the text.", "NAME"),
    "lines": Option("--lines", "Treat each line of a text file as a document."),
    "special": Option("--add-special", "Add special tokens (BOS, EOS …).", also="--special"),
    "eod": Option("--eod", "Add the tokenizer's EOS after each document."),
    "skip_bad": Option("--skip-bad", "Skip documents without a text, and count them."),
    "jobs": Option("-j --jobs", "Number of processes; default: one per core.", "N", low=1),
    "engine": Option("--engine", "local, or ray for a Ray cluster.", "NAME"),
    "ray_address": Option(
        "--ray-address", "Address of the Ray cluster; default: RAY_ADDRESS.", "ADDRESS"
    ),
    "restart": Option("--restart", "Discard the parts of an earlier run."),
}


def job_of(
    tokenizer: Tokenizer, name: str | None, reading: Reading, *, special: bool, eod: bool,
    parse_special: bool | None, width: int, skip_bad: bool, as_reader: str | None,
) -> Job:  # fmt: skip
    """Return the job that options ask for.

    Raises:
        UsageError: ``eod`` and the tokenizer has no end token, or it comes from a pipe.
    """
    from mtkit.corpus.job import Job
    from mtkit.errors import UsageError
    from mtkit.sources.locate import locate

    path = tokenizer.source
    if not os.path.exists(path):
        hint = "save it to a file: each process loads it"
        raise UsageError("cannot be read twice", source=path, hint=hint)
    if eod and tokenizer.eos_id is None:
        raise UsageError("has no end token", source=path, hint="omit --eod")
    return Job(
        os.path.abspath(path),
        overrides=locate(name).overrides,
        reader=as_reader,
        reading=reading,
        add_special=special,
        parse_special=parse_special,
        end_id=tokenizer.eos_id if eod else None,
        width=width,
        skip_bad=skip_bad,
    )


def settings_of(
    engine: str, jobs: int | None, ray_address: str | None, *, force: bool, restart: bool
) -> Settings:
    """Return how a job is run.

    Raises:
        UsageError: There is no such engine, or an address is given without Ray.
    """
    from mtkit.corpus.run import Settings
    from mtkit.errors import UsageError

    if engine not in ("local", "ray"):
        raise UsageError(f"there is no engine {engine!r}", hint="--engine local or ray")
    if ray_address is not None and engine != "ray":
        raise UsageError("--ray-address needs --engine ray")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    is_ray = engine == "ray"
    return Settings(jobs or cores or 1, is_ray, ray_address, force, restart)


def done(
    run: Callable[..., Finished], job: Job, paths: Sequence[str], path: str, settings: Settings,
    *, as_json: bool,
) -> None:  # fmt: skip
    """Do a job, showing how far it is, and then what the corpus held."""
    from mtkit.commands import output
    from mtkit.commands.progress import Progress
    from mtkit.corpus.files import units_of

    units, left_out = units_of(paths, job.reading)
    progress = Progress("encoding" if job.width else "counting")
    begun = time.perf_counter()
    first: list[int] = []

    def show(now: int, total: int) -> None:
        first.append(now)  # what an earlier run had done says nothing about the rate
        rate = (now - first[0]) / (time.perf_counter() - begun)
        left = f", {_clock((total - now) / rate)} left" if rate else ""
        progress.show(now / total if total else 1.0, f"{output.size(round(rate))}/s{left}")
        del first[1:]

    try:
        finished = run(job, units, path, settings, show)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
        output.warn(path, ["interrupted: the same command resumes the work"])
        raise
    tally = finished.tally
    rows = [
        ("documents", tally.documents), ("tokens", tally.tokens), ("bytes read", tally.size),
        ("empty documents left out", tally.empty), ("bad documents left out", tally.bad),
        ("files left out", left_out),
    ]  # fmt: skip
    if as_json:
        values = {name.replace(" ", "_"): value for name, value in rows}
        output.write_json({"schema": "mtkit.corpus/1", "output": path, **values})
    elif not output.is_terminal():
        output.write_rows(rows)
    else:
        from mtkit.commands.terminal import Screen

        Screen().table(
            ("what", "number>"),
            [(name, output.grouped(value)) for name, value in rows if value or name in _ALWAYS],
            elastic=0,
        )


_ALWAYS = ("documents", "tokens")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
