"""A text as its tokens, and every step from the text to them as a picture: ``mtkit explain``.

Every text is escaped to one line, so that nothing invisible and no control character is left, and
then through the escaping of XML. Pictures are self-contained and without a script.
"""

from __future__ import annotations

from mtkit.base.escape import printable, visible
from mtkit.base.record import Idioms, Record

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
    words = dict(_words_of_tokens(trace))
    rows = []
    for number, token_id in enumerate(trace.ids):
        raw = tokenizer.token_bytes(token_id)
        word, is_added = words.get(number, (None, True))
        start, end = trace.offsets[number]
        text = visible(raw)
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


_MOST_WHAT = 40
"""Characters of what a step is, in a notebook; a pattern may have hundreds."""
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
    return printable(text).replace(" ", "·")


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


class Explanation(Idioms, Record):
    """How a text becomes its tokens; ``str`` has a line for each step.

    Attributes:
        trace: The result of each stage of the tokenizer.
        tokens: The tokens: ``id``, ``text``, ``raw`` bytes, ``offsets``, number of the ``word``.
    """

    trace: Trace
    tokens: tuple[TokenRow, ...]

    @property
    def ids(self) -> list[int]:
        """The ids of the text."""
        return [token.id for token in self.tokens]

    @property
    def html(self) -> str:
        """A page with every step, as ``mtkit explain --html`` writes it."""
        return html_page(trace_rows(self.trace, self.tokens))

    @property
    def svg(self) -> str:
        """A drawing of every step, as ``mtkit explain --svg`` writes it."""
        return svg_drawing(trace_rows(self.trace, self.tokens))

    def __repr__(self) -> str:
        return f"<Explanation of {self.trace.text!r}: {len(self.tokens)} tokens>"

    def __str__(self) -> str:
        lines = []
        for row in trace_rows(self.trace, self.tokens):
            cells = (" ".join((cell.text, *cell.notes[:1])) for cell in row.cells)
            lines.append(f"{row.stage:14} {row.what:24} {' | '.join(cells)}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import Html, figure, spans, table

        def cell(text: str) -> Html:  # which is escaped to one line already
            return Html(_xml(text))

        rows = (
            (
                row.stage,
                cell(row.what if len(row.what) <= _MOST_WHAT else row.what[:_MOST_WHAT] + "…"),
                spans((cell(c.text), cell(" ".join(c.notes))) for c in row.cells),
            )
            for row in trace_rows(self.trace, self.tokens)
        )
        return figure(table((), rows))
