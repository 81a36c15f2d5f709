"""``mtkit explain``: a text as its tokens, with what each of them is."""

from __future__ import annotations

from mtkit.base.escape import is_utf8, printable
from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model, load_tokenizer, open_texts, special_mode
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.pipeline.trace import Trace
    from mtkit.tokenizer.explanation import TokenRow


_LONGEST = 1 << 16
"""Characters: each step keeps them all, and nobody looks at more."""


OPTIONS = {
    "image": Option("--image", "Show how a picture becomes tokens, by the model of -t.", "FILE"),
    "audio": Option("--audio", "The same for a sound.", "FILE"),
    "mmproj": Option("--mmproj", "The model's projector; default: mmproj*.gguf beside it.", "GGUF"),
    "text": Option("", "Text to explain; - for standard input.", "TEXT"),
    "html": Option("--html", "Write every step as an HTML page.", "FILE"),
    "svg": Option("--svg", "Write every step as an SVG picture.", "FILE"),
}


def explain(
    text: str | None = None,
    tokenizer: str | None = None,
    prompt: str | None = None,
    files: list[str] | None = None,
    image: str | None = None,
    audio: str | None = None,
    mmproj: str | None = None,
    no_special: bool = False,
    parse_special: bool = False,
    no_parse_special: bool = False,
    html: str | None = None,
    svg: str | None = None,
    force: bool = False,
    as_reader: str | None = None,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Show how a text is split into tokens, with ids, bytes and word boundaries.

    --html and --svg draw every step from text to ids, merge by merge, as self-contained files.
    Piped output has a row per token: id, start, end, word number (none: added around the text),
    token, bytes.

    With --image or --audio, -t is a model with its projector (mmproj*.gguf) beside it. Piped output
    has a row per part: kind, tokens, positions that they take, columns and rows of a tile's grid,
    text around it.

    \b
    Examples:
      mtkit explain "Hello, MNN! 中文"
      mtkit explain "Hello, MNN!" -t tokenizer.json --html hello.html --svg hello.svg
    """
    if image is not None or audio is not None:
        model = find_model(tokenizer, quiet=True, download=download)
        _explain_medium(image, audio, model, mmproj, as_json=as_json)
        return
    import os

    from mtkit.errors import UsageError
    from mtkit.tokenizer.explanation import token_rows

    if "-" in (html, svg):
        raise UsageError("no output file", hint="give a file, not a pipe")
    if html is not None and svg is not None and os.path.realpath(html) == os.path.realpath(svg):
        raise UsageError("is both the HTML and the SVG file", source=html)
    source = load_tokenizer(tokenizer, reader=as_reader, download=download)
    contents = [
        content if isinstance(content, bytes) else content.read(4 * _LONGEST + 1)
        for _, content in open_texts(text, prompt, files, 'mtkit explain "Hello, MNN!"')
    ]
    if len(contents) > 1:
        raise UsageError("only one text can be explained at a time")
    sample = contents[0]
    if len(sample.decode("utf-8", "surrogateescape")) > _LONGEST:
        hint = "head -c cuts it; mtkit encode takes any length"
        raise UsageError(f"the text has more than {_LONGEST} characters", hint=hint)
    special = special_mode(parse_special, no_parse_special)
    trace = source.trace(sample, add_special_tokens=not no_special, parse_special=special)
    tokens = token_rows(trace, source)
    if html is not None or svg is not None:
        _draw(trace, tokens, html, svg, force=force)
    if as_json:
        rows = [
            {"id": token.id, "offsets": token.offsets, "word": token.word,
             "token": token.raw.decode("utf-8", "replace"),
             "bytes": token.raw.hex()}
            for token in tokens
        ]  # fmt: skip
        output.write_json({"schema": "mtkit.explain/1", "tokens": rows, "trace": trace.to_json()})
    elif output.is_terminal():
        _show_tokens(trace, tokens)
    else:
        output.write_rows(
            (token.id, *token.offsets, token.word, output.Escaped(token.text), token.raw.hex(" "))
            for token in tokens
        )


command = Command(explain, OPTIONS)


def _explain_medium(
    image: str | None, audio: str | None, model: str, mmproj: str | None, *, as_json: bool
) -> None:
    """Show what a model gets of a picture or sound."""
    from mtkit.api.inspection import explain_medium
    from mtkit.errors import UsageError
    from mtkit.settings import AnswerSettings

    paths = [path for path in (image, audio) if path is not None]
    if len(paths) != 1:
        raise UsageError("only one picture or sound can be explained at a time")
    pieces = explain_medium(paths[0], AnswerSettings(model, mmproj=mmproj))
    names = ("kind", "tokens", "positions", "columns", "rows", "text")
    rows = [tuple(getattr(piece, name) for name in names) for piece in pieces]
    if as_json:
        parts = [dict(zip(names, row, strict=True)) for row in rows]
        total = sum(piece.tokens for piece in pieces)
        output.write_json({"schema": "mtkit.explain-media/1", "tokens": total, "parts": parts})
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen, count_part

        screen = Screen()
        columns = ("kind", "tokens>", "positions>", "columns>", "rows>", "text")
        screen.table(columns, rows, elastic=5)
        screen.line(count_part(sum(piece.tokens for piece in pieces), "token"))
    else:
        output.write_rows((*row[:-1], printable(row[-1])) for row in rows)


def _draw(
    trace: Trace, tokens: Sequence[TokenRow], html: str | None, svg: str | None, *, force: bool
) -> None:
    """Write the pictures that are asked for."""
    from mtkit.base.files import write_files
    from mtkit.tokenizer.explanation import html_page, svg_drawing, trace_rows

    rows = trace_rows(trace, tokens)
    pictures = {
        path: [draw(rows).encode()]
        for path, draw in ((html, html_page), (svg, svg_drawing))
        if path is not None
    }
    write_files(pictures, force=force)


def _show_tokens(trace: Trace, tokens: Sequence[TokenRow]) -> None:
    """Print tokens side by side, each over its id and its bytes; a bar stands between words.

    Where tokens have parts of characters, the characters are in a line above them.
    """
    from mtkit.commands.terminal import Screen, count_part, join_parts, part, sticky

    screen = Screen()
    lines = list(_fold_tokens(tokens, screen.width))
    for cells in lines:
        if any("\\x" in token.text and not is_utf8(token.raw) for token, _ in cells):
            screen.line(*_characters(cells, trace.text))
        for place in range(3):
            parts: list[object] = []
            for at, (token, width) in enumerate(cells):
                if at:
                    is_new = token.word != cells[at - 1][0].word
                    parts.append(part("dim", sticky(" │ " if is_new else " ")))
                role = ("odd" if token.number % 2 else "even", "id", "dim")[place]
                role = "special" if not place and token.is_special else role
                text = (token.text, str(token.id), token.raw.hex(" "))[place]
                parts.append(part(role, _fixed(text, width, fill=at < len(cells) - 1)))
            screen.line(*parts)
        if cells is not lines[-1]:
            output.write("\n")
    words = len({token.word for token in tokens if token.word is not None})
    characters = len(trace.text)
    rate = f"{characters / len(tokens):.1f} characters per token" if tokens else ""
    sums = [
        count_part(len(tokens), "token"),
        count_part(words, "word"),
        count_part(characters, "character"),
        rate,
    ]
    screen.line(*(part("dim", fact) for fact in join_parts(sums)))
    screen.line(part("hint", "every step: --html FILE, --svg FILE, or mtkit encode --trace"))


def _fold_tokens(tokens: Sequence[TokenRow], room: int) -> Iterator[list[tuple[TokenRow, int]]]:
    """Yield the tokens of each line with their widths."""
    from rich.cells import cell_len

    line: list[tuple[TokenRow, int]] = []
    used = 0
    for token in tokens:
        need = max(cell_len(token.text), len(str(token.id)), len(token.raw.hex(" ")))
        width = min(need, room)
        gap = 3 if line and line[-1][0].word != token.word else 1
        if line and used + gap + width > room:
            yield line
            line, used = [], 0
        used += (gap if line else 0) + width
        line.append((token, width))
    if line:
        yield line


def _characters(cells: Sequence[tuple[TokenRow, int]], text: str) -> Iterator[object]:
    """Yield the characters of a line, each over all tokens that have a part of it."""
    from mtkit.commands.terminal import part, sticky, token_text

    groups: list[list[tuple[TokenRow, int]]] = []
    for token, width in cells:
        before = [neighbor for neighbor, _ in groups[-1]] if groups else []
        ends = [neighbor.offsets[1] for neighbor in before if neighbor.word == token.word]
        if token.word is not None and ends and token.offsets[0] < max(ends):
            groups[-1].append((token, width))
        else:
            groups.append([(token, width)])
    for at, group in enumerate(groups):
        if at:
            is_new = group[0][0].word != groups[at - 1][-1][0].word
            yield part("dim", sticky(" │ " if is_new else " "))
        start, end = group[0][0].offsets[0], max(token.offsets[1] for token, _ in group)
        characters = str(token_text(text[start:end].encode("utf-8", "surrogateescape")))
        width = sum(width for _, width in group) + len(group) - 1
        role = "odd" if at % 2 else "even"
        yield part(role, _fixed(characters, width, fill=at < len(groups) - 1))


def _fixed(text: str, width: int, *, fill: bool) -> output.Escaped:
    """Return a text that is not folded, cut to a width or filled up to it."""
    from rich.cells import cell_len, set_cell_size

    from mtkit.commands.terminal import sticky

    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    return sticky(set_cell_size(text, width) if fill else text)
