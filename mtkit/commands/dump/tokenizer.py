"""``mtkit dump`` for the content of tokenizers: vocab, merges, scores and templates."""

from __future__ import annotations

from mtkit.base.escape import as_text
from mtkit.commands import output
from mtkit.commands.gguf_rows import name_matcher
from mtkit.errors import UnsupportedError, UsageError
from mtkit.inspection.document import float32_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.tokenizer.tokenizer import Tokenizer

    Rows = Iterator[tuple[object, ...]]


def show(
    what: str,
    tokenizer: Tokenizer,
    *,
    pattern: str | None,
    ids: str | None,
    style: str | None,
    as_json: bool,
) -> None:
    """Print one kind of content of a tokenizer."""
    if style is not None:
        _show_style(tokenizer, what, style)
    elif what == "template":
        _show_templates(tokenizer, pattern, as_json=as_json)
    else:
        columns, rows = _KINDS[what](tokenizer)
        keys = [name.removesuffix(">") for name in columns]
        rows = _chosen(tokenizer, keys, rows, pattern, ids)
        if as_json:
            found = [_entry(keys, row) for row in rows]
            output.write_json({"schema": "mtkit.dump/1", what: found})
        elif output.is_terminal():
            _show_screen(tokenizer, columns, rows)
        else:
            output.write_rows([_shown(cell) for cell in row] for row in rows)


def _chosen(
    tokenizer: Tokenizer, keys: list[str], rows: Rows, pattern: str | None, ids: str | None
) -> Rows:
    """Return the rows with a token whose text or spelling a pattern matches, and with such ids."""
    if ids is not None:
        from mtkit.commands.arguments import parse_id_ranges

        if keys[0] != "id":
            raise UsageError("--id is for dump vocab and dump scores")
        wanted = parse_id_ranges(ids)
        rows = (row for row in rows if any(row[0] in numbers for numbers in wanted))
    if pattern is None:
        return rows
    matches = name_matcher(pattern)

    def has(row: tuple[object, ...]) -> bool:
        pieces = (cell for cell in row if isinstance(cell, bytes))
        texts = (text for piece in pieces for text in (piece, tokenizer.piece_bytes(piece)))
        return any(matches(text.decode("utf-8", "surrogateescape")) for text in texts)

    return filter(has, rows)


def _show_screen(tokenizer: Tokenizer, columns: tuple[str, ...], rows: Rows) -> None:
    """Show tokens as text; a column more has the file's spelling where it is another one."""
    from mtkit.commands.terminal import Screen, token_text

    shown = []
    for row in rows:
        pieces = [cell for cell in row if isinstance(cell, bytes)]
        texts = [tokenizer.piece_bytes(piece) for piece in pieces]
        spelled = " ".join(map(as_text, pieces)) if pieces != texts else ""
        cells = [
            token_text(tokenizer.piece_bytes(cell)) if isinstance(cell, bytes) else _shown(cell)
            for cell in row
        ]
        shown.append((*cells, spelled))
    roles = {"id>": "id>:id", "type": "type:dim", "score>": "score>:dim", "rank>": "rank>:id"}
    heads = [roles.get(name, name) for name in columns]
    Screen().table((*heads, "spelling:dim"), shown, elastic=len(heads))


def _vocab(tokenizer: Tokenizer) -> tuple[tuple[str, ...], Rows]:
    vocabulary = tokenizer.spec.vocabulary
    scores = vocabulary.scores

    def rows() -> Rows:
        for token_id in range(tokenizer.spec.vocab_size):
            piece = tokenizer.id_to_piece(token_id)
            if piece is None:
                continue
            row = token_id, piece, tokenizer.token_kind(token_id)
            inside = scores is not None and token_id < len(vocabulary)
            yield row if scores is None else (*row, scores[token_id] if inside else None)

    columns = ("id>", "token", "type")
    return (columns if scores is None else (*columns, "score>")), rows()


def _merges(tokenizer: Tokenizer) -> tuple[tuple[str, ...], Rows]:
    from mtkit.spec import model_name

    merges = getattr(tokenizer.spec.model, "merges", None)
    if merges is None:
        raise UnsupportedError(
            f"has no merges: its model is {model_name(tokenizer.spec.model)}",
            source=tokenizer.source,
            hint="mtkit dump scores lists the scores that decide its merges"
            if tokenizer.spec.vocabulary.scores is not None
            else "mtkit dump vocab lists its tokens",
        )
    pieces = [*tokenizer.spec.vocabulary.pieces, *merges.unlisted]
    pairs = merges.pairs

    def rows() -> Rows:
        for rank in range(len(merges)):
            yield rank, pieces[pairs[2 * rank]], pieces[pairs[2 * rank + 1]]

    return ("rank>", "left", "right"), rows()


def _scores(tokenizer: Tokenizer) -> tuple[tuple[str, ...], Rows]:
    vocabulary = tokenizer.spec.vocabulary
    scores = vocabulary.scores
    if scores is None:
        merges = getattr(tokenizer.spec.model, "merges", None)
        raise UnsupportedError(
            "has no scores",
            source=tokenizer.source,
            hint=f"mtkit dump {'merges' if merges is not None else 'vocab'} lists what it has",
        )
    rows = zip(range(len(vocabulary)), scores, vocabulary.pieces, strict=True)
    return ("id>", "score>", "token"), rows


_KINDS: dict[str, Callable[[Tokenizer], tuple[tuple[str, ...], Rows]]] = {
    "vocab": _vocab,
    "merges": _merges,
    "scores": _scores,
}


def _shown(cell: object) -> object:
    if isinstance(cell, bytes):
        return as_text(cell)
    return float32_text(cell) if isinstance(cell, float) else cell


def _entry(keys: list[str], row: tuple[object, ...]) -> dict[str, object]:
    """Return a row as a JSON object; bytes that are not valid UTF-8 escaped, with a key in hex."""
    entry: dict[str, object] = {}
    for key, cell in zip(keys, row, strict=True):
        if not isinstance(cell, bytes):
            entry[key] = cell
            continue
        try:
            entry[key] = cell.decode("utf-8")
        except UnicodeDecodeError:
            entry[key] = cell.decode("utf-8", "backslashreplace")
            entry["bytes" if key == "token" else f"{key}_bytes"] = cell.hex()
    return entry


def _show_templates(tokenizer: Tokenizer, name: str | None, *, as_json: bool) -> None:
    templates = {template.name: template.text for template in tokenizer.spec.chat_templates}
    if as_json:
        output.write_json({"schema": "mtkit.dump/1", "template": templates})
        return
    if not templates:
        raise UnsupportedError("has no chat template", source=tokenizer.source)
    name = name or ("default" if "default" in templates else next(iter(templates)))
    if name not in templates:
        raise UsageError(
            f"has no template {name!r}", source=tokenizer.source, hint=f"it has {list(templates)}"
        )
    text = templates[name]
    if output.is_terminal():
        from mtkit.base.escape import printable

        text = "\n".join(map(printable, text.split("\n")))
    output.write(text + "\n")


def _show_style(tokenizer: Tokenizer, what: str, style: str) -> None:
    if style != "llama2c" or what != "scores":
        raise UsageError(f"--style {style} is not known for {what}", hint="dump scores has llama2c")
    from importlib import import_module

    from mtkit.base.escape import escape

    for line in import_module("mtkit.formats.llama2c").listing(tokenizer.spec):
        if output.is_terminal():
            output.write(escape(line.removesuffix(b"\n")) + "\n")
        else:
            output.write_bytes(line)
