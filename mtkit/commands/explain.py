"""``mtkit explain``: a text as its tokens, with what each of them is.

``--html`` and ``--svg`` draw all steps of the trace, self-contained and without a script. Every
text is escaped to one line, so that nothing invisible and no control character is left, and then
through the escaping of XML.
"""

from __future__ import annotations

from mtkit.base.escape import escape, is_utf8, printable
from mtkit.base.record import Record
from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import load_tokenizer, open_texts, special_mode
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.pipeline.trace import Trace, Word
    from mtkit.tokenizer.tokenizer import Tokenizer


class TokenRow(Record):
    """A token as it is shown.

    Attributes:
        text: Its text on one line, a space as a middle dot.
        raw: The bytes that it stands for.
        word: Which word it is a part of; None where it was put around the text.
        is_special: Whether it is no text: an added token of the text, or one put around it.
    """

    number: int
    id: int
    text: str
    raw: bytes
    offsets: tuple[int, int]
    word: int | None
    is_special: bool


def token_rows(trace: Trace, tokenizer: Tokenizer) -> list[TokenRow]:
    """Return the tokens of a text, in order."""
    from mtkit.commands.terminal import token_text

    words = dict(_words_of_tokens(trace))
    rows = []
    for number, token_id in enumerate(trace.ids):
        raw = tokenizer.token_bytes(token_id)
        word, is_added = words.get(number, (None, True))
        start, end = trace.offsets[number]
        text = str(token_text(raw))
        rows.append(TokenRow(number, token_id, text, raw, (start, end), word, is_added))
    return rows


def _words_of_tokens(trace: Trace) -> Iterator[tuple[int, tuple[int, bool]]]:
    """Yield place of a token -> number of its word, and whether that is an added token."""
    inner = [token_id for word in trace.words for token_id in word.ids]
    around = len(trace.ids) - len(inner)
    begins = (at for at in range(around + 1) if trace.ids[at : at + len(inner)] == inner)
    place = next(begins, None)
    if place is None:  # a post-processor that changed the ids themselves
        return
    for number, word in enumerate(trace.words):
        for _ in word.ids:
            yield place, (number, word.model is None)
            place += 1


_COLUMNS = 96
_CELL, _LINE, _LEFT, _WHAT = 8, 18, 280, 124
_CSS = """\
:root{--b:#fff;--f:#1f2328;--d:#59636e;--e:#d8ecff;--o:#fff0c2;--s:#f3dcff}
@media (prefers-color-scheme:dark){:root{--b:#0d1117;--f:#e6edf3;--d:#9198a1;--e:#15395c;\
--o:#4d3800;--s:#442a5c}}
"""
_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><title>mtkit explain</title>
<style>
%sbody{background:var(--b);color:var(--f);margin:1.5rem;
font:15px/1.5 ui-monospace,Menlo,Consolas,monospace}
table{border-collapse:collapse}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0}
th{font-weight:600;white-space:nowrap}
small,td.d{color:var(--d);overflow-wrap:anywhere}td.d{max-width:16rem}
span{display:inline-block;margin:0 3px 3px 0;padding:0 4px;border-radius:3px;vertical-align:top;
overflow-wrap:anywhere}
small{display:block;font-size:11px;line-height:1.3}
.e{background:var(--e)}.o{background:var(--o)}.s{background:var(--s)}
</style></head><body><table>
%s
</table></body></html>
"""
_DRAWING = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">
<style>%s.b{fill:var(--b)}text{fill:var(--f);font:13px ui-monospace,Menlo,Consolas,monospace}\
.h{font-weight:600}.d{fill:var(--d);font-size:11px}.e{fill:var(--e)}.o{fill:var(--o)}.s{fill:var(--s)}</style>
<rect class="b" width="100%%" height="100%%"/>
%s
</svg>
"""


class TraceCell(Record):
    """A stretch of text with what stands below it; ``role``: e, o (by turns) or s (special)."""

    text: str
    notes: tuple[str, ...] = ()
    role: str = "e"


class TraceRow(Record):
    """What one step made of the text."""

    stage: str
    what: str
    cells: tuple[TraceCell, ...]


def trace_rows(trace: Trace, tokens: Sequence[TokenRow]) -> list[TraceRow]:
    """Return a row for each step that changed something, for each merge, and for the tokens."""
    rows = [TraceRow("text", "", (TraceCell(_with_dots(trace.text)),))]
    stage = ""
    for step in trace.steps:
        if not step.changed:
            continue
        head = step.stage if step.stage != stage else ""
        stage = step.stage
        what = f"{step.name} {printable(step.detail)}".strip()
        marks = [("" if part.id is None else str(part.id)) for part in step.parts]
        texts = [_with_dots(part.text) for part in step.parts]
        rows.append(TraceRow(head, what, _token_cells(texts, marks)))
    head = "model"
    for word in trace.words:
        steps = list(_step_rows(word, head, trace.model if head else ""))
        rows += steps
        head = "" if steps else head
    cells = tuple(
        TraceCell(
            token.text,
            (str(token.id), token.raw.hex(" ")),
            "s" if token.is_special else "eo"[at % 2],
        )
        for at, token in enumerate(tokens)
    )
    return [*rows, TraceRow("tokens", ", ".join(trace.post_processor), cells)]


def _step_rows(word: Word, head: str, model: str) -> Iterator[TraceRow]:
    """Yield how the model found the tokens of a word: start and each merge, or its pieces."""
    if word.model is None:
        return
    if not word.model.start:
        scores = [
            "" if piece.score is None else f"{piece.score:.4g}" for piece in word.model.pieces
        ]
        texts = [_piece(piece.piece) for piece in word.model.pieces]
        yield TraceRow(head, model, _token_cells(texts, scores))
        return
    yield TraceRow(head, model, _token_cells([_piece(piece) for piece in word.model.start]))
    for merge in word.model.merges:
        left, right = map(_piece, merge.pair)
        why = f"rank {merge.rank}" if merge.rank is not None else f"score {merge.score:g}"
        front, behind = merge.more or (False, False)
        cells = _token_cells(
            ["…"] * front + [_piece(piece) for piece in merge.after] + ["…"] * behind
        )
        yield TraceRow("", f"{left} + {right}  {why}", cells)


def _token_cells(texts: Sequence[str], notes: Sequence[str] = ()) -> tuple[TraceCell, ...]:
    below = notes or [""] * len(texts)
    return tuple(
        TraceCell(text, (note,) if note else (), "eo"[at % 2])
        for at, (text, note) in enumerate(zip(texts, below, strict=True))
    )


def _piece(piece: bytes) -> str:
    return _with_dots(piece.decode("utf-8", "surrogateescape"))


def _with_dots(text: str) -> str:
    return escape(text).replace(" ", "·")


def html_page(rows: Sequence[TraceRow]) -> str:
    """Return a page of HTML."""
    lines = []
    for row in rows:
        cells = "".join(
            f'<span class="{cell.role}">{_xml(cell.text) or "&nbsp;"}'
            + "".join(f"<small>{_xml(note)}</small>" for note in cell.notes)
            + "</span>"
            for cell in row.cells
        )
        head = f'<th>{_xml(row.stage)}</th><td class="d">{_xml(row.what)}</td>'
        lines.append(f"<tr>{head}<td>{cells}</td></tr>")
    return _PAGE % (_CSS, "\n".join(lines))


def svg_drawing(rows: Sequence[TraceRow]) -> str:
    """Return an SVG."""
    from rich.cells import cell_len

    out: list[str] = []
    y = _LINE
    for row in rows:
        out.append(_svg_text(10, y, row.stage, "h"))
        what = row.what if len(row.what) <= 20 else row.what[:19] + "…"
        out.append(_svg_text(_WHAT, y, what, "d"))
        x, deepest = 0, 0
        for cell in row.cells:
            deepest = max(deepest, len(cell.notes))
            for first, text in enumerate(_cut_rows(cell.text)):
                notes = cell.notes if not first else ()
                width = max(map(cell_len, (text, *notes)))
                if x and x + width + 1 > _COLUMNS:
                    x, y = 0, y + _LINE * (1 + deepest)
                left = _LEFT + x * _CELL
                out.append(
                    f'<rect class="{cell.role}" x="{left - 2}" y="{y - 13}" rx="3" '
                    f'width="{width * _CELL + 4}" height="{_LINE * (1 + len(notes)) - 2}"/>'
                )
                out.append(_svg_text(left, y, text, "", cell_len(text)))
                for below, note in enumerate(notes, 1):
                    out.append(_svg_text(left, y + below * 15, note, "d"))
                x += width + 1
        y += _LINE * (1 + deepest) + 4
    width = _LEFT + _COLUMNS * _CELL + 10
    return _DRAWING % (width, y, width, y, _CSS, "\n".join(element for element in out if element))


def _cut_rows(text: str) -> Iterator[str]:
    """Yield a text in pieces that fit a line."""
    from rich.cells import chop_cells

    yield from chop_cells(text, _COLUMNS) if text else [""]


def _svg_text(x: int, y: int, text: str, role: str, columns: int = 0) -> str:
    if not text:
        return ""
    mark = f' class="{role}"' if role else ""
    wide = f' textLength="{columns * _CELL}" lengthAdjust="spacingAndGlyphs"' if columns else ""
    return f'<text x="{x}" y="{y}"{mark}{wide}>{_xml(text)}</text>'


def _xml(text: str) -> str:
    """Escape a text for an element or an attribute; what XML cannot hold is left out."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = escaped.replace('"', "&quot;").replace("'", "&#39;")
    return "".join(c for c in escaped if c not in "\ufffe\uffff")


_LONGEST = 1 << 16
"""Characters: each step keeps them all, and nobody looks at more."""


OPTIONS = {
    "text": Option("", "Text to explain; - for standard input.", "TEXT"),
    "html": Option("--html", "Write every step as an HTML page.", "FILE"),
    "svg": Option("--svg", "Write every step as an SVG picture.", "FILE"),
}


def explain(
    text: str | None = None,
    tokenizer: str | None = None,
    prompt: str | None = None,
    files: list[str] | None = None,
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

    \b
    Examples:
      mtkit explain "Hello, MNN! 中文"
      mtkit explain "Hello, MNN!" -t tokenizer.json --html hello.html --svg hello.svg
    """
    import os

    from mtkit.errors import UsageError

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


def _draw(
    trace: Trace, tokens: Sequence[TokenRow], html: str | None, svg: str | None, *, force: bool
) -> None:
    """Write the pictures that are asked for."""
    from mtkit.base.files import write_files

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
