"""``mtkit compare``: two tokenizers on the same texts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mtkit.commands.options import (
    AS_JSON,
    DOWNLOAD,
    NO_PARSE_SPECIAL,
    NO_SPECIAL,
    application,
    load_named,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.tokenizer.compare import Comparison

app = application()


@app.command()
def compare(
    left: Annotated[str, typer.Argument(metavar="A", help="File or folder.")],
    right: Annotated[str, typer.Argument(metavar="B", help="File or folder.")],
    input_file: Annotated[
        str | None,
        typer.Option("-f", "--input", metavar="FILE", help="Corpus, by lines; - for a pipe."),
    ] = None,
    most: Annotated[
        int, typer.Option("-n", "--most", metavar="N", min=0, help="Differences to show.")
    ] = 10,
    no_special: NO_SPECIAL = False,
    no_parse_special: NO_PARSE_SPECIAL = False,
    download: DOWNLOAD = False,
    as_json: AS_JSON = False,
) -> None:
    """Compare the ids of two tokenizers; exit code 1 when any differ.

    Without --input the 200 built-in texts are compared. Shown of each difference: the text, the
    stage at which the two part, and both token lists from the first difference on.

    \b
    Examples:
      mtkit compare tokenizer.json model.gguf
      mtkit compare old/ new/ --input corpus.txt --json
    """
    from mtkit.conversion.probes import texts
    from mtkit.tokenizer.compare import compare as run

    one, other = (load_named(name, download=download) for name in (left, right))
    corpus = texts() if input_file is None else _lines(input_file)
    done = run(
        one,
        other,
        corpus,
        most=most,
        add_special_tokens=not no_special,
        parse_special=False if no_parse_special else None,
    )
    _show(done, as_json=as_json)
    if done.differences and {one.stage for one in done.differences} == {"post-processor"}:
        sys.stderr.write(
            "mtkit: only added special tokens differ here; --no-special leaves them out\n"
        )
    if not done.equal:
        raise typer.Exit(1)


def _lines(path: str) -> Iterator[bytes]:
    import os

    from mtkit.base.binary import standard_input
    from mtkit.errors import UsageError
    from mtkit.tokenizer.compare import lines_of

    if path == "-":
        yield from lines_of(standard_input())
        return
    try:
        size = os.path.getsize(path)
        file = open(path, "rb")  # noqa: SIM115  closed below, opened here for the message
    except OSError as error:
        raise UsageError(error.strerror or str(error), source=path) from None
    with file:
        if not sys.stderr.isatty() or size < _WORTH_A_BAR_BYTES:
            yield from lines_of(file)
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("compare", total=size)
            yield from lines_of(file, lambda done: bar.update(task, completed=done))


_WORTH_A_BAR_BYTES = 1 << 20


def _show(done: Comparison, *, as_json: bool) -> None:
    from mtkit.base.escape import byte_escapes, escape
    from mtkit.commands import output

    if as_json:
        output.write_json(
            {
                "schema": "mtkit.compare/1",
                "equal": done.equal,
                "texts": done.texts,
                "different": done.different,
                "tokens": list(done.tokens),
                "differences": [
                    {
                        "number": one.number,
                        "text": byte_escapes(one.text),
                        "first": one.first,
                        "stage": one.stage,
                        "left": {"ids": one.left[0], "tokens": one.left[1]},
                        "right": {"ids": one.right[0], "tokens": one.right[1]},
                    }
                    for one in done.differences
                ],
            }
        )
        return
    for one in done.differences:
        output.write(f"text {one.number}\t{one.stage}\t{_cut(escape(one.text))}\n")
        for name, (ids, tokens) in (("A", one.left), ("B", one.right)):
            start = max(one.first - 2, 0)
            pairs = zip(ids[start:], tokens[start:], strict=True)
            shown = " ".join(f"{i}:{escape(token)}" for i, token in pairs)
            output.write(f"  {name} from token {start}\t{_cut(shown)}\n")
    verdict = "equal" if done.equal else f"{done.different} different"
    if 0 < len(done.differences) < done.different:
        verdict += f" (the first {len(done.differences)} shown)"
    output.write(f"{done.texts} texts, {verdict}; tokens {done.tokens[0]} and {done.tokens[1]}\n")


def _cut(text: str) -> str:
    """Shorten a line on a terminal; in a pipe nothing is cut."""
    width = 160
    return text if not sys.stdout.isatty() or len(text) <= width else text[:width] + "…"
