"""``mtkit inspect`` of a tokenizer."""

from __future__ import annotations

from mtkit.commands import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.base.binary import Source
    from mtkit.inspection.tokenizer import TokenizerReport
    from mtkit.tokenizer.tokenizer import Tokenizer

_SHOWN_TOKENS = 12
_SHOWN_LETTERS = 32


def show_tokenizer(source: Source, *, pattern: str | None, as_json: bool) -> None:
    """Print what a tokenizer is; ``pattern`` chooses added tokens that have it."""
    from mtkit.conversion.folder_notes import folder_notes, tokenizer_document
    from mtkit.inspection.tokenizer import inspect_tokenizer
    from mtkit.tokenizer.load import load_source

    tokenizer = load_source(source)
    output.warn(source.name, tokenizer.warnings)
    if as_json:
        output.write_json(tokenizer_document(tokenizer))
        return
    notes = folder_notes(tokenizer)
    report = inspect_tokenizer(tokenizer.spec)
    most = None if pattern is not None or not output.is_terminal() else _SHOWN_TOKENS
    rows = list(_rows(tokenizer, report, pattern, most))
    rows += [("note", text) for text in notes]
    if not output.is_terminal():
        output.write_rows([("format", tokenizer.format_name), ("ids", report.vocab_size), *rows])
        return
    from mtkit.commands.terminal import Screen, count_part, join_parts, part
    from mtkit.formats import get_format

    screen = Screen()
    title = part("dim", get_format(tokenizer.format_name).TITLE)
    parts = join_parts([title, count_part(report.vocab_size, "id")])
    screen.line(part("name", source.name), output.Escaped("   "), *parts, hanging=2)
    output.write("\n")
    screen.facts(_facts(tokenizer, rows))


def _facts(
    tokenizer: Tokenizer, rows: list[tuple[object, ...]]
) -> Iterator[tuple[str, list[object]]]:
    """Yield the rows for people: a line for each component, one for all tokens of a kind."""
    from itertools import groupby

    from mtkit.commands.terminal import join_parts, sticky

    for kind, group in groupby(rows, key=lambda row: str(row[0])):
        parts = _TOKEN_KINDS.get(kind)
        if parts is None:
            lines = [join_parts(map(str, cells), sticky(" ")) for _, *cells in group]
            yield from zip((kind, *[""] * len(lines)), lines, strict=False)
        else:
            yield (
                kind,
                join_parts(join_parts(parts(tokenizer, *row[1:]), sticky(" ")) for row in group),
            )


def _count_parts(_: Tokenizer, name: str, number: int) -> list[object]:
    return [output.format_number(number), "of them special" if name == "special" else name]


def _token_parts(tokenizer: Tokenizer, token_id: object, *others: object) -> list[object]:
    """Return an id with its text and flags; the remark on tokens that are not shown as it is."""
    from mtkit.commands.terminal import part, token_text

    if not isinstance(token_id, int):
        return [part("dim", token_id)]
    text = token_text(tokenizer.token_bytes(token_id))
    if len(text) > _SHOWN_LETTERS:
        text = output.Escaped(f"{text[:_SHOWN_LETTERS]}… {len(text)} letters")
    return [part("id", token_id), text, *(part("dim", flags) for flags in others[1:])]


def _special_parts(tokenizer: Tokenizer, name: str, token_id: int, _: str) -> list[object]:
    return [name, *_token_parts(tokenizer, token_id)]


_TOKEN_KINDS: dict[str, Callable[..., list[object]]] = {
    "tokens": _count_parts,
    "special id": _special_parts,
    "added token": _token_parts,
    "longest token": _token_parts,
}
"""Kinds of rows that are one line on a terminal, and what a row becomes."""


def _rows(
    tokenizer: Tokenizer, report: TokenizerReport, pattern: str | None, most: int | None
) -> Iterator[tuple[object, ...]]:
    stages = []
    for stage in report.stages:
        text = ", ".join(f"{name} {value}" for name, value in stage.settings)
        stages.append((stage.stage, stage.name, text))  # a pattern can be copied
    yield from (row for row in stages if row[0] == "model")
    for name, count in report.counts.items():
        yield "tokens", name, count
    for name, token_id in report.special_ids.items():
        yield "special id", name, token_id, tokenizer.id_to_token(token_id) or ""
    for name, length in report.templates.items():
        yield "chat template", *[name] * (len(report.templates) > 1), f"{length} characters"
    added = [row for row in report.added if pattern is None or pattern.encode() in row[1]]
    for token_id, content, flags in added[:most]:
        text = content.decode("utf-8", "surrogateescape")
        yield "added token", token_id, text, " ".join(flags)
    if most is not None and len(added) > most:
        yield "added token", f"… {len(added)} in all; mtkit dump vocab has them"
    yield from (row for row in stages if row[0] != "model")  # with the patterns, which are long
    for token_id, piece in report.longest:
        yield "longest token", token_id, piece.decode("utf-8", "surrogateescape")
    for text in tokenizer.assumptions:
        yield "assumed", text
