"""``mtkit corpus``: count or encode many documents.

The two commands share their options, and how a job is run and shown.
"""

from __future__ import annotations

import os
import sys
import time

from mtkit.commands.command import Command, Group
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.corpus.documents import Reading
    from mtkit.corpus.job import Job
    from mtkit.corpus.run import JobResult, JobSettings
    from mtkit.tokenizer.tokenizer import Tokenizer


_OPTIONS = {
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


def make_job(
    tokenizer: Tokenizer, name: str | None, reading: Reading, *, special: bool, eod: bool,
    parse_special: bool | None, width: int, skip_bad: bool, as_reader: str | None,
) -> Job:  # fmt: skip
    """Return the job of these options."""
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


def run_settings(
    engine: str, jobs: int | None, ray_address: str | None, *, force: bool, restart: bool
) -> JobSettings:
    """Return how a job is run."""
    from mtkit.corpus.run import JobSettings
    from mtkit.errors import UsageError

    if engine not in ("local", "ray"):
        raise UsageError(f"there is no engine {engine!r}", hint="--engine local or ray")
    if ray_address is not None and engine != "ray":
        raise UsageError("--ray-address needs --engine ray")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    is_ray = engine == "ray"
    return JobSettings(jobs or cores or 1, is_ray, ray_address, force, restart)


def run_job(
    run: Callable[..., JobResult], job: Job, paths: Sequence[str], path: str, settings: JobSettings,
    *, as_json: bool,
) -> None:  # fmt: skip
    """Run a job with a progress bar, then show the totals."""
    from mtkit.commands import output
    from mtkit.commands.terminal import Progress
    from mtkit.corpus.documents import units_of

    units, left_out = units_of(paths, job.reading)
    progress = Progress("encoding" if job.width else "counting")
    start = time.perf_counter()
    first: list[int] = []

    def show(now: int, total: int) -> None:
        first.append(now)  # what an earlier run had done says nothing about the rate
        rate = (now - first[0]) / (time.perf_counter() - start)
        left = f", {_format_clock((total - now) / rate)} left" if rate else ""
        progress.show(now / total if total else 1.0, f"{output.format_size(round(rate))}/s{left}")
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
            [
                (name, output.format_number(value))
                for name, value in rows
                if value or name in _ALWAYS_SHOWN
            ],
            elastic=0,
        )


_ALWAYS_SHOWN = ("documents", "tokens")


def _format_clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def count(
    paths: list[str],
    *,
    tokenizer: str | None = None,
    output_file: str,
    field: str = "text",
    lines: bool = False,
    special: bool = False,
    parse_special: bool = False,
    no_parse_special: bool = False,
    skip_bad: bool = False,
    jobs: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    restart: bool = False,
    force: bool = False,
    as_reader: str | None = None,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Count how often each token occurs in a corpus.

    The result is a JSON file that `sx vocab --freq` reads. To resume an interrupted run, repeat the
    command.

    \b
    Examples:
      mtkit corpus count data/ -t qwen3/ -o freq.json
      mtkit corpus count books.txt.xz --lines -t gpt2 -o freq.json
    """
    from mtkit.commands.inputs import load_tokenizer, special_mode
    from mtkit.corpus.documents import Reading
    from mtkit.corpus.run import count as counted

    source = load_tokenizer(tokenizer, reader=as_reader, download=download)
    special_in_text = special_mode(parse_special, no_parse_special)
    job = make_job(
        source, tokenizer, Reading(field, lines), special=special, eod=False,
        parse_special=special_in_text, width=0, skip_bad=skip_bad, as_reader=as_reader,
    )  # fmt: skip
    settings = run_settings(engine, jobs, ray_address, force=force, restart=restart)
    run_job(counted, job, paths, output_file, settings, as_json=as_json)


_MOST_IN_TWO_BYTES = 1 << 16


def encode(
    paths: list[str],
    *,
    tokenizer: str | None = None,
    output_file: str,
    eod: bool = False,
    field: str = "text",
    lines: bool = False,
    special: bool = False,
    parse_special: bool = False,
    no_parse_special: bool = False,
    skip_bad: bool = False,
    jobs: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    restart: bool = False,
    force: bool = False,
    as_reader: str | None = None,
    download: bool = False,
    verify_tables: bool = False,
    as_json: bool = False,
) -> None:
    """Encode a corpus to .bin, .npy, Parquet or Arrow.

    .bin comes with Megatron's .idx. The order of the documents does not depend on the number of
    processes. An id takes two bytes if the vocabulary has at most 65,536 ids. Finished parts are
    kept in FILE.parts until all are done: to resume an interrupted run, repeat the command.

    \b
    Examples:
      mtkit corpus encode data/*.jsonl.zst -t qwen3/ --eod -o train.bin
      mtkit corpus encode wiki.parquet -t gpt2 -o wiki.npy --jobs 8
    """
    from mtkit.commands.inputs import load_tokenizer, special_mode
    from mtkit.corpus.documents import Reading
    from mtkit.corpus.run import encode as encoded

    source = load_tokenizer(
        tokenizer, reader=as_reader, download=download, verify_tables=verify_tables
    )
    special_in_text = special_mode(parse_special, no_parse_special)
    job = make_job(
        source, tokenizer, Reading(field, lines), special=special, eod=eod,
        parse_special=special_in_text, skip_bad=skip_bad, as_reader=as_reader,
        width=2 if source.vocab_size <= _MOST_IN_TWO_BYTES else 4,
    )  # fmt: skip
    settings = run_settings(engine, jobs, ray_address, force=force, restart=restart)
    run_job(encoded, job, paths, output_file, settings, as_json=as_json)


_TEXT = """Count or encode the documents of a corpus on all cores; interrupted runs can be resumed.

Documents are lines of JSON (.jsonl, .ndjson), rows of .parquet, or text files (.txt, .md,
source code), also compressed (.gz, .xz, .bz2, .zst). They come from files, folders and URLs.

\b
Examples:
  mtkit corpus count data/ -t qwen3/ -o freq.json
  mtkit corpus encode data/*.jsonl.zst -t qwen3/ --eod -o train.bin
"""
command = Group(
    _TEXT,
    {
        "count": Command(
            count,
            {**_OPTIONS, "output_file": Option("-o --output", "File for the counts.", "FILE")},
        ),
        "encode": Command(
            encode,
            {
                **_OPTIONS,
                "output_file": Option(
                    "-o --output", "File to write: .bin, .npy, .parquet or .arrow.", "FILE"
                ),
            },
        ),
    },
)
