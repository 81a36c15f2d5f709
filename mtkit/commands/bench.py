"""``mtkit bench``: how fast a tokenizer is on this machine."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.options import Option, parse_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.tokenizer.speed import TextSpeed


OPTIONS = {
    "texts": Option(
        "", "Text files; - for standard input; default: texts that come with Python.", "[TEXT]..."
    ),
    "rounds": Option("--rounds", "Number of rounds.", "N", low=1),
    "size": Option("--size", "Read at most this much of each text, such as 200k.", "BYTES"),
}


def bench(
    texts: list[str] | None = None,
    tokenizer: str | None = None,
    rounds: int = 5,
    size: str = "1M",
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Measure how fast a tokenizer loads, encodes and decodes.

    fresh: a text that the tokenizer has not seen; again: the same text a second time; decode: all
    of its ids. Times are CPU time, the median of the rounds. Loading includes the ids of one word.
    The documentation compares mtkit with other libraries (docs/performance.md).

    Piped output: what, text, figure, unit.

    \b
    Examples:
      mtkit bench
      mtkit bench -t tokenizer.json corpus.txt
      mtkit bench -t qwen3/ corpus.txt --size 10M --json
    """
    from mtkit.commands import output
    from mtkit.commands.inputs import load_tokenizer
    from mtkit.commands.terminal import Progress
    from mtkit.errors import UsageError
    from mtkit.tokenizer.load import load
    from mtkit.tokenizer.speed import measure, texts_of

    if tokenizer == "-":
        hint = "save it as a file"
        raise UsageError("a pipe cannot be loaded several times", field="-t -", hint=hint)
    samples = texts_of(texts or [], parse_bytes(size, "--size"))
    subject = load_tokenizer(tokenizer, download=download)
    progress = Progress("measuring").show
    seconds, speeds = measure(lambda: load(tokenizer), samples, rounds, progress)
    if as_json:
        from mtkit._version import __version__

        output.write_json(
            {
                "schema": "mtkit.bench/1",
                "mtkit": __version__,
                "tokenizer": subject.source,
                "format": subject.format_name,
                "rounds": rounds,
                "load_seconds": seconds,
                "texts": [_document(speed) for speed in speeds],
            }
        )
        return
    load_ms = f"{seconds * 1e3:.3g}"
    if not output.is_terminal():
        output.write_rows([("load", "", load_ms, "ms")])
        for speed in speeds:
            output.write_rows(
                (what, speed.name, figure, "MB/s") for what, figure in _figures(speed).items()
            )
        return
    from mtkit.commands.terminal import Screen, part

    screen = Screen()
    screen.line(part("name", subject.source), f"  loaded in {load_ms} ms")
    columns = ("MB/s", *(f"{name}>" for name in _figures(speeds[0])))
    screen.table(columns, [[speed.name, *_figures(speed).values()] for speed in speeds])


command = Command(bench, OPTIONS)


def _figures(speed: TextSpeed) -> dict[str, str]:
    """Return megabytes of text a second; empty if the clock is too coarse for a short text."""
    costs = {"fresh": speed.fresh, "again": speed.again, "decode": speed.decode}
    return {
        name: f"{speed.n_bytes / seconds / 1e6:.3g}" if seconds else ""
        for name, seconds in costs.items()
    }


def _document(speed: TextSpeed) -> dict[str, object]:
    return {
        "name": speed.name,
        "bytes": speed.n_bytes,
        "ids": speed.n_ids,
        "fresh_seconds": speed.fresh,
        "again_seconds": speed.again,
        "decode_seconds": speed.decode,
    }
