"""``mtkit corpus count``: how often each token occurs."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.corpus.job import (  # noqa: TC001  typer reads them
    ENGINE,
    FIELD,
    FORCE,
    JOBS,
    LINES,
    PATHS,
    RAY_ADDRESS,
    RESTART,
    SKIP_BAD,
    SPECIAL,
)
from mtkit.commands.options import (  # noqa: TC001
    AS_JSON,
    AS_READER,
    DOWNLOAD,
    NO_PARSE_SPECIAL,
    TOKENIZER,
)


def count(
    paths: PATHS,
    *,
    tokenizer: TOKENIZER = None,
    output_file: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="File for the counts.")
    ],
    field: FIELD = "text",
    lines: LINES = False,
    special: SPECIAL = False,
    no_parse_special: NO_PARSE_SPECIAL = False,
    skip_bad: SKIP_BAD = False,
    jobs: JOBS = None,
    engine: ENGINE = "local",
    ray_address: RAY_ADDRESS = None,
    restart: RESTART = False,
    force: FORCE = False,
    as_reader: AS_READER = None,
    download: DOWNLOAD = False,
    as_json: AS_JSON = False,
) -> None:
    """Count how often each token occurs in a corpus.

    The result is a JSON file that `sx vocab --freq` reads. To resume an interrupted run, repeat the
    command.

    \b
    Examples:
      mtkit corpus count data/ -t qwen3/ -o freq.json
      mtkit corpus count books.txt.xz --lines -t gpt2 -o freq.json
    """
    from mtkit.commands.corpus.job import done, job_of, settings_of
    from mtkit.commands.named import load_named
    from mtkit.corpus.files import Reading
    from mtkit.corpus.run import count as counted

    source = load_named(tokenizer, reader=as_reader, download=download)
    job = job_of(
        source, tokenizer, Reading(field, lines), special=special, eod=False,
        parse_special=not no_parse_special, width=0, skip_bad=skip_bad, as_reader=as_reader,
    )  # fmt: skip
    settings = settings_of(engine, jobs, ray_address, force=force, restart=restart)
    done(counted, job, paths, output_file, settings, as_json=as_json)
