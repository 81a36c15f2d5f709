"""All steps of a trace as a page of HTML or as an SVG, self-contained and without a script.

Every text is escaped to one line, so that nothing invisible and no control character is left, and
then through the escaping of XML.
"""

from __future__ import annotations

from mtkit.base.escape import escape, printable
from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.commands.explain.tokens import Shown
    from mtkit.pipeline.trace.records import Trace, Word

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


class Cell(Record):
    """A stretch of text with what stands below it; ``role``: e, o (by turns) or s (special)."""

    text: str
    notes: tuple[str, ...] = ()
    role: str = "e"


class Row(Record):
    """What one step made of the text."""

    stage: str
    what: str
    cells: tuple[Cell, ...]


def rows_of(trace: Trace, tokens: Sequence[Shown]) -> list[Row]:
    """Return a row for each step that changed something, for each merge, and for the tokens."""
    rows = [Row("text", "", (Cell(_dotted(trace.text)),))]
    stage = ""
    for step in trace.steps:
        if not step.changed:
            continue
        head = step.stage if step.stage != stage else ""
        stage = step.stage
        what = f"{step.name} {printable(step.detail)}".strip()
        marks = [("" if part.id is None else str(part.id)) for part in step.parts]
        texts = [_dotted(part.text) for part in step.parts]
        rows.append(Row(head, what, _cells(texts, marks)))
    head = "model"
    for word in trace.words:
        steps = list(_steps(word, head, trace.model if head else ""))
        rows += steps
        head = "" if steps else head
    cells = tuple(
        Cell(one.text, (str(one.id), one.raw.hex(" ")), "s" if one.is_special else "eo"[at % 2])
        for at, one in enumerate(tokens)
    )
    return [*rows, Row("tokens", ", ".join(trace.post_processor), cells)]


def _steps(word: Word, head: str, model: str) -> Iterator[Row]:
    """Yield how the model found the tokens of a word: start and each merge, or its pieces."""
    if word.model is None:
        return
    if not word.model.start:
        scores = ["" if one.score is None else f"{one.score:.4g}" for one in word.model.pieces]
        texts = [_piece(one.piece) for one in word.model.pieces]
        yield Row(head, model, _cells(texts, scores))
        return
    yield Row(head, model, _cells([_piece(one) for one in word.model.start]))
    for merge in word.model.merges:
        left, right = map(_piece, merge.pair)
        why = f"rank {merge.rank}" if merge.rank is not None else f"score {merge.score:g}"
        front, behind = merge.more or (False, False)
        cells = _cells(["…"] * front + [_piece(one) for one in merge.after] + ["…"] * behind)
        yield Row("", f"{left} + {right}  {why}", cells)


def _cells(texts: Sequence[str], notes: Sequence[str] = ()) -> tuple[Cell, ...]:
    below = notes or [""] * len(texts)
    return tuple(
        Cell(text, (note,) if note else (), "eo"[at % 2])
        for at, (text, note) in enumerate(zip(texts, below, strict=True))
    )


def _piece(piece: bytes) -> str:
    return _dotted(piece.decode("utf-8", "surrogateescape"))


def _dotted(text: str) -> str:
    return escape(text).replace(" ", "·")


def page(rows: Sequence[Row]) -> str:
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


def drawing(rows: Sequence[Row]) -> str:
    """Return an SVG."""
    from rich.cells import cell_len

    out: list[str] = []
    y = _LINE
    for row in rows:
        out.append(_text(10, y, row.stage, "h"))
        what = row.what if len(row.what) <= 20 else row.what[:19] + "…"
        out.append(_text(_WHAT, y, what, "d"))
        x, deepest = 0, 0
        for cell in row.cells:
            deepest = max(deepest, len(cell.notes))
            for first, text in enumerate(_cut(cell.text)):
                notes = cell.notes if not first else ()
                width = max(map(cell_len, (text, *notes)))
                if x and x + width + 1 > _COLUMNS:
                    x, y = 0, y + _LINE * (1 + deepest)
                left = _LEFT + x * _CELL
                out.append(
                    f'<rect class="{cell.role}" x="{left - 2}" y="{y - 13}" rx="3" '
                    f'width="{width * _CELL + 4}" height="{_LINE * (1 + len(notes)) - 2}"/>'
                )
                out.append(_text(left, y, text, "", cell_len(text)))
                for below, note in enumerate(notes, 1):
                    out.append(_text(left, y + below * 15, note, "d"))
                x += width + 1
        y += _LINE * (1 + deepest) + 4
    width = _LEFT + _COLUMNS * _CELL + 10
    return _DRAWING % (width, y, width, y, _CSS, "\n".join(one for one in out if one))


def _cut(text: str) -> Iterator[str]:
    """Yield a text in pieces that fit a line."""
    from rich.cells import chop_cells

    yield from chop_cells(text, _COLUMNS) if text else [""]


def _text(x: int, y: int, text: str, role: str, columns: int = 0) -> str:
    if not text:
        return ""
    mark = f' class="{role}"' if role else ""
    wide = f' textLength="{columns * _CELL}" lengthAdjust="spacingAndGlyphs"' if columns else ""
    return f'<text x="{x}" y="{y}"{mark}{wide}>{_xml(text)}</text>'


def _xml(text: str) -> str:
    """Escape a text for an element or an attribute; what XML cannot hold is left out."""
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = shown.replace('"', "&quot;").replace("'", "&#39;")
    return "".join(c for c in shown if c not in "\ufffe\uffff")
