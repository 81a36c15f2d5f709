"""``mtkit inspect`` of a tokenizer."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.commands import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.base.binary import Source
    from mtkit.inspection.tokenizer import TokenizerReport
    from mtkit.tokenizer.tokenizer import Tokenizer

_SHOWN_TOKENS = 12
_SHOWN_LETTERS = 32


def show(source: Source, *, pattern: str | None, as_json: bool) -> None:
    """Print what a tokenizer is; ``pattern`` chooses added tokens that have it."""
    from mtkit.inspection.tokenizer import document, report
    from mtkit.tokenizer.load import load_source

    tokenizer = load_source(source)
    if as_json:
        head = {"schema": "mtkit.inspect/1", "format": tokenizer.format_name}
        said = {"assumptions": list(tokenizer.assumptions)}
        output.write_json({**head, **document(tokenizer.spec), **said})
        return
    found = report(tokenizer.spec)
    most = None if pattern is not None or not output.is_terminal() else _SHOWN_TOKENS
    rows = list(_rows(tokenizer, found, pattern, most))
    if not output.is_terminal():
        output.write_rows([("format", tokenizer.format_name), ("ids", found.vocab_size), *rows])
        return
    from rich.table import Table
    from rich.text import Text

    from mtkit.formats import get_format

    title = get_format(tokenizer.format_name).TITLE
    console = output.console()
    heading = f"{printable(source.name)}   {title}   {output.grouped(found.vocab_size)} ids"
    console.print(heading, style="bold")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    last = ""
    for stage, *cells in rows:
        texts = [printable(cell) if isinstance(cell, str) else str(cell) for cell in cells]
        table.add_row(
            Text(str(stage) if stage != last else "", style="cyan"),
            Text("  ".join(text for text in texts if text)),
        )
        last = str(stage)
    console.print(table)


def _rows(
    tokenizer: Tokenizer, found: TokenizerReport, pattern: str | None, most: int | None
) -> Iterator[tuple[object, ...]]:
    for stage in found.stages:
        settings = ", ".join(f"{name} {value}" for name, value in stage.settings)
        yield stage.stage, stage.name, settings
    for name, count in found.counts.items():
        yield "tokens", name, count
    for name, token_id in found.special_ids.items():
        yield "special id", name, token_id, tokenizer.id_to_token(token_id) or ""
    shown = [row for row in found.added if pattern is None or pattern.encode() in row[1]]
    for token_id, content, flags in shown[:most]:
        text = content.decode("utf-8", "surrogateescape")
        yield "added token", token_id, text, " ".join(flags)
    if most is not None and len(shown) > most:
        yield "added token", f"… {len(shown)} in all; mtkit dump vocab has them"
    for name, length in found.templates.items():
        yield "chat template", name, f"{length} characters"
    for token_id, piece in found.longest:
        text = piece.decode("utf-8", "surrogateescape")
        if most is not None and len(text) > _SHOWN_LETTERS:
            text = f"{text[:_SHOWN_LETTERS]}… {len(text)} letters"
        yield "longest token", token_id, text
    for text in tokenizer.assumptions:
        yield "assumed", text
