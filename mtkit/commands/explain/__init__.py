"""``mtkit explain``: a text as its tokens, with what each of them is."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.base.escape import is_utf8
from mtkit.commands import output
from mtkit.commands.named import load_named
from mtkit.commands.options import application
from mtkit.commands.texts import parsed_special, texts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.commands.explain.tokens import Shown
    from mtkit.pipeline.trace.records import Trace

app = application()

_LONGEST = 1 << 16
"""Characters: each step keeps them all, and nobody looks at more."""


@app.command()
def explain(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Text to explain; - for standard input.")
    ] = None,
    tokenizer: str | None = None,
    prompt: str | None = None,
    files: list[str] | None = None,
    no_special: bool = False,
    parse_special: bool = False,
    no_parse_special: bool = False,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write every step as an HTML page.")
    ] = None,
    svg: Annotated[
        str | None,
        typer.Option("--svg", metavar="FILE", help="Write every step as an SVG picture."),
    ] = None,
    force: bool = False,
    as_reader: str | None = None,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Show how a text is split into tokens, with ids, bytes and word boundaries.

    --html and --svg draw every step from text to ids, merge by merge, as self-contained files.
    Piped output has a row per token: id, start, end, word number (none: added around the text),
    token, bytes.

    \b
    Examples:
      mtkit explain "Hello, MNN! 中文"
      mtkit explain "Hello, MNN!" -t tokenizer.json --html hello.html --svg hello.svg
    """
    import os

    from mtkit.commands.explain.tokens import tokens_of
    from mtkit.errors import UsageError

    if "-" in (html, svg):
        raise UsageError("no output file", hint="give a file, not a pipe")
    if html is not None and svg is not None and os.path.realpath(html) == os.path.realpath(svg):
        raise UsageError("is both the HTML and the SVG file", source=html)
    source = load_named(tokenizer, reader=as_reader, download=download)
    contents = [
        content if isinstance(content, bytes) else content.read(4 * _LONGEST + 1)
        for _, content in texts_of(text, prompt, files, 'mtkit explain "Hello, MNN!"')
    ]
    if len(contents) > 1:
        raise UsageError("only one text can be explained at a time")
    given = contents[0]
    if len(given.decode("utf-8", "surrogateescape")) > _LONGEST:
        hint = "head -c cuts it; mtkit encode takes any length"
        raise UsageError(f"the text has more than {_LONGEST} characters", hint=hint)
    special = parsed_special(parse_special, no_parse_special)
    trace = source.trace(given, add_special_tokens=not no_special, parse_special=special)
    tokens = tokens_of(trace, source)
    if html is not None or svg is not None:
        _draw(trace, tokens, html, svg, force=force)
    if as_json:
        rows = [
            {"id": one.id, "offsets": one.offsets, "word": one.word,
             "token": one.raw.decode("utf-8", "replace"),
             "bytes": one.raw.hex()}
            for one in tokens
        ]  # fmt: skip
        output.write_json({"schema": "mtkit.explain/1", "tokens": rows, "trace": trace.to_json()})
    elif output.is_terminal():
        _show(trace, tokens)
    else:
        output.write_rows(
            (one.id, *one.offsets, one.word, output.Escaped(one.text), one.raw.hex(" "))
            for one in tokens
        )


def _draw(
    trace: Trace, tokens: Sequence[Shown], html: str | None, svg: str | None, *, force: bool
) -> None:
    """Write the pictures that are asked for."""
    from mtkit.base.whole_files import write_files
    from mtkit.commands.explain import picture

    rows = picture.rows_of(trace, tokens)
    made = {
        path: [draw(rows).encode()]
        for path, draw in ((html, picture.page), (svg, picture.drawing))
        if path is not None
    }
    write_files(made, force=force)


def _show(trace: Trace, tokens: Sequence[Shown]) -> None:
    """Print tokens side by side, each over its id and its bytes; a bar stands between words.

    Where tokens have parts of characters, the characters are in a line above them.
    """
    from mtkit.commands.terminal import Screen, count, joined, part, sticky

    screen = Screen()
    lines = list(_lines(tokens, screen.width))
    for cells in lines:
        if any("\\x" in one.text and not is_utf8(one.raw) for one, _ in cells):
            screen.line(*_characters(cells, trace.text))
        for place in range(3):
            parts: list[object] = []
            for at, (one, width) in enumerate(cells):
                if at:
                    is_new = one.word != cells[at - 1][0].word
                    parts.append(part("dim", sticky(" │ " if is_new else " ")))
                role = ("odd" if one.number % 2 else "even", "id", "dim")[place]
                role = "special" if not place and one.is_special else role
                text = (one.text, str(one.id), one.raw.hex(" "))[place]
                parts.append(part(role, _fixed(text, width, fill=at < len(cells) - 1)))
            screen.line(*parts)
        if cells is not lines[-1]:
            output.write("\n")
    words = len({one.word for one in tokens if one.word is not None})
    characters = len(trace.text)
    rate = f"{characters / len(tokens):.1f} characters per token" if tokens else ""
    sums = [count(len(tokens), "token"), count(words, "word"), count(characters, "character"), rate]
    screen.line(*(part("dim", one) for one in joined(sums)))
    screen.line(part("hint", "every step: --html FILE, --svg FILE, or mtkit encode --trace"))


def _lines(tokens: Sequence[Shown], room: int) -> Iterator[list[tuple[Shown, int]]]:
    """Yield the tokens of each line with their widths."""
    from rich.cells import cell_len

    line: list[tuple[Shown, int]] = []
    used = 0
    for one in tokens:
        need = max(cell_len(one.text), len(str(one.id)), len(one.raw.hex(" ")))
        width = min(need, room)
        gap = 3 if line and line[-1][0].word != one.word else 1
        if line and used + gap + width > room:
            yield line
            line, used = [], 0
        used += (gap if line else 0) + width
        line.append((one, width))
    if line:
        yield line


def _characters(cells: Sequence[tuple[Shown, int]], text: str) -> Iterator[object]:
    """Yield the characters of a line, each over all tokens that have a part of it."""
    from mtkit.commands.terminal import part, sticky, token_text

    groups: list[list[tuple[Shown, int]]] = []
    for one, width in cells:
        before = [other for other, _ in groups[-1]] if groups else []
        ends = [other.offsets[1] for other in before if other.word == one.word]
        if one.word is not None and ends and one.offsets[0] < max(ends):
            groups[-1].append((one, width))
        else:
            groups.append([(one, width)])
    for at, group in enumerate(groups):
        if at:
            is_new = group[0][0].word != groups[at - 1][-1][0].word
            yield part("dim", sticky(" │ " if is_new else " "))
        start, end = group[0][0].offsets[0], max(one.offsets[1] for one, _ in group)
        shown = str(token_text(text[start:end].encode("utf-8", "surrogateescape")))
        width = sum(width for _, width in group) + len(group) - 1
        yield part("odd" if at % 2 else "even", _fixed(shown, width, fill=at < len(groups) - 1))


def _fixed(text: str, width: int, *, fill: bool) -> output.Escaped:
    """Return a text that is not folded, cut to a width or filled up to it."""
    from rich.cells import cell_len, set_cell_size

    from mtkit.commands.terminal import sticky

    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    return sticky(set_cell_size(text, width) if fill else text)
