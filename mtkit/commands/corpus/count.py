"""``mtkit corpus count``: how often each token occurs."""

from __future__ import annotations

from typing import Annotated

import typer


def count(
    paths: list[str],
    *,
    tokenizer: str | None = None,
    output_file: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="File for the counts.")
    ],
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
    from mtkit.commands.corpus.job import done, job_of, settings_of
    from mtkit.commands.named import load_named
    from mtkit.commands.texts import parsed_special
    from mtkit.corpus.files import Reading
    from mtkit.corpus.run import count as counted

    source = load_named(tokenizer, reader=as_reader, download=download)
    special_in_text = parsed_special(parse_special, no_parse_special)
    job = job_of(
        source, tokenizer, Reading(field, lines), special=special, eod=False,
        parse_special=special_in_text, width=0, skip_bad=skip_bad, as_reader=as_reader,
    )  # fmt: skip
    settings = settings_of(engine, jobs, ray_address, force=force, restart=restart)
    done(counted, job, paths, output_file, settings, as_json=as_json)
