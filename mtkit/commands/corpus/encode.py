"""``mtkit corpus encode``: documents to the files that trainers read."""

from __future__ import annotations

from typing import Annotated

import typer

_MOST_IN_TWO_BYTES = 1 << 16


def encode(
    paths: list[str],
    *,
    tokenizer: str | None = None,
    output_file: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File to write: .bin, .npy, .parquet or .arrow."
        ),
    ],
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
    from mtkit.commands.corpus.job import done, job_of, settings_of
    from mtkit.commands.named import load_named
    from mtkit.commands.texts import parsed_special
    from mtkit.corpus.files import Reading
    from mtkit.corpus.run import encode as encoded

    source = load_named(tokenizer, reader=as_reader, download=download, verify_tables=verify_tables)
    special_in_text = parsed_special(parse_special, no_parse_special)
    job = job_of(
        source, tokenizer, Reading(field, lines), special=special, eod=eod,
        parse_special=special_in_text, skip_bad=skip_bad, as_reader=as_reader,
        width=2 if source.vocab_size <= _MOST_IN_TWO_BYTES else 4,
    )  # fmt: skip
    settings = settings_of(engine, jobs, ray_address, force=force, restart=restart)
    done(encoded, job, paths, output_file, settings, as_json=as_json)
