"""``mtkit corpus``: what to do with many documents, a command each."""

from __future__ import annotations

from mtkit.commands.corpus.count import count
from mtkit.commands.corpus.encode import encode
from mtkit.commands.corpus.job import OPTIONS
from mtkit.commands.options import application

app = application()


@app.callback()
def corpus() -> None:
    """Count or encode the documents of a corpus on all cores; interrupted runs can be resumed.

    Documents are lines of JSON (.jsonl, .ndjson), rows of .parquet, or text files (.txt, .md,
    source code), also compressed (.gz, .xz, .bz2, .zst). They come from files, folders and URLs.

    \b
    Examples:
      mtkit corpus count data/ -t qwen3/ -o freq.json
      mtkit corpus encode data/*.jsonl.zst -t qwen3/ --eod -o train.bin
    """


app.command(name="count", options=OPTIONS)(count)
app.command(name="encode", options=OPTIONS)(encode)
