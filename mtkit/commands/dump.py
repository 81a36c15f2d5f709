"""``mtkit dump``: one kind of content of a file, whole."""

from __future__ import annotations

import os

from mtkit.base.escape import as_text
from mtkit.commands import gguf_rows, output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model, load_tokenizer, open_file
from mtkit.commands.options import Option
from mtkit.errors import UnsupportedError, UsageError
from mtkit.inspection.document import float32_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtkit.base.binary import Source
    from mtkit.tokenizer.tokenizer import Tokenizer

    Rows = Iterator[tuple[object, ...]]


_OF_GGUF = ("metadata", "tensors")
_OF_TOKENIZER = ("vocab", "merges", "scores", "template")
SUBJECTS = (*_OF_GGUF, *_OF_TOKENIZER)
"""What can be dumped."""
_SCHEMA = "mtkit.dump/1"


OPTIONS = {
    "what": Option("", ", ".join(SUBJECTS), "WHAT", values=SUBJECTS),
    "file": Option(
        "", "File, or - for standard input; default: the tokenizer that mtkit config shows.", "FILE"
    ),
    "pattern": Option(
        "--filter", "Names or tokens that contain this text, or match this glob.", "PATTERN"
    ),
    "ids": Option("--id", "Token ids, such as 1234,5000-5010.", "IDS"),
    "style": Option("--style", "Print as another tool does.", "llama2c"),
}


def dump(
    what: str,
    file: str | None = None,
    pattern: str | None = None,
    ids: str | None = None,
    style: str | None = None,
    as_reader: str | None = None,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Print all of a file's tokens, merges, scores, metadata, tensors or its template.

    Columns: vocab: id, token, type, and score if there are scores; merges: rank, left, right;
    scores: id, score, token; metadata: key, type, value; tensors: name, shape (fastest axis first),
    type, offset in the data section, bytes. template prints the chat template unchanged. Text is
    escaped to one line; bytes that are not UTF-8 become \\xNN. On a terminal, each token is shown
    as text (·hello), and in another column as the file spells it (Ġhello); --filter searches
    both.

    \b
    Examples:
      mtkit dump vocab tokenizer.model | head
      mtkit dump vocab --filter " hello"
      mtkit dump vocab model.gguf --id 1234,5000-5010
      mtkit dump scores tokenizer.bin --style llama2c
      mtkit dump metadata model.gguf --filter tokenizer.chat_template
      mtkit dump tensors model.gguf | sort -k5 -n
    """
    if what not in SUBJECTS:
        hint = f"known: {', '.join(SUBJECTS)}"
        if os.path.exists(what):
            hint = f"run: mtkit {_line(file, what)}; {hint}"
        raise UsageError(f"cannot dump {what!r}", hint=hint)
    if what in _OF_TOKENIZER:
        tokenizer = load_tokenizer(file, reader=as_reader, download=download)
        _show_tokenizer(what, tokenizer, pattern=pattern, ids=ids, style=style, as_json=as_json)
        return
    if style is not None:
        raise UsageError("--style is for dump scores")
    if ids is not None:
        raise UsageError("--id is for dump vocab and dump scores")
    if file is None:
        raise UsageError(f"dump {what} needs a GGUF file")
    if what == "tensors" and file.endswith((".safetensors", ".safetensors.index.json")):
        hint = f"run: mtkit inspect --tensors {file}"
        raise UsageError("dump tensors is for a GGUF", source=file, hint=hint)
    source = open_file(_gguf_of(file), download=download)
    _show_gguf(what, source, pattern=pattern, as_json=as_json)


command = Command(dump, OPTIONS)


def _line(what: str | None, file: str) -> str:
    """Return the command line for a file that was given in place of WHAT."""
    if what in SUBJECTS:
        return f"dump {what} {file}"
    if os.path.isdir(file):
        return f"inspect {file}"
    return f"dump {'metadata' if file.endswith('.gguf') else 'vocab'} {file}"


def _gguf_of(name: str) -> str:
    if not os.path.isdir(name):
        return name
    try:
        return find_model(name)
    except UsageError as error:
        error.hint = f"run: mtkit inspect {name}"
        raise


def _show_gguf(what: str, source: Source, *, pattern: str | None, as_json: bool) -> None:
    """Print the metadata or the tensor table of a GGUF."""
    from mtkit.gguf import open_gguf

    file = open_gguf(source)
    if what == "metadata":
        keys = gguf_rows.choose_names(file.metadata, pattern)
    else:
        names = set(gguf_rows.choose_names([tensor.name for tensor in file.tensors], pattern))
        tensors = [tensor for tensor in file.tensors if tensor.name in names]
    if as_json:
        from mtkit.inspection import document

        content = (
            document.metadata_document(file.metadata, keys)
            if what == "metadata"
            else document.tensors_document(tensors)
        )
        output.write_json({"schema": _SCHEMA, "what": what, what: content})
    elif what == "metadata":
        output.write_rows(gguf_rows.metadata_rows(file.metadata, keys, is_whole=True))
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen

        columns = ("name", "shape>", "type", "offset>:dim", "bytes>:dim")
        Screen().table(columns, map(gguf_rows.tensor_row, tensors))
    else:
        output.write_rows(map(gguf_rows.tensor_row, tensors))


def _show_tokenizer(
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
        rows = _select_rows(tokenizer, keys, rows, pattern, ids)
        if as_json:
            entries = [_entry(keys, row) for row in rows]
            output.write_json({"schema": _SCHEMA, what: entries})
        elif output.is_terminal():
            _show_screen(tokenizer, columns, rows)
        else:
            output.write_rows([_format_cell(cell) for cell in row] for row in rows)


def _select_rows(
    tokenizer: Tokenizer, keys: list[str], rows: Rows, pattern: str | None, ids: str | None
) -> Rows:
    """Return the rows of these ids whose token matches the pattern, as text or as spelled."""
    if ids is not None:
        from mtkit.commands.arguments import parse_id_ranges

        if keys[0] != "id":
            raise UsageError("--id is for dump vocab and dump scores")
        ranges = parse_id_ranges(ids)
        rows = (row for row in rows if any(row[0] in numbers for numbers in ranges))
    if pattern is None:
        return rows
    matches = gguf_rows.name_matcher(pattern)

    def has(row: tuple[object, ...]) -> bool:
        pieces = (cell for cell in row if isinstance(cell, bytes))
        texts = (text for piece in pieces for text in (piece, tokenizer.piece_bytes(piece)))
        return any(matches(text.decode("utf-8", "surrogateescape")) for text in texts)

    return filter(has, rows)


def _show_screen(tokenizer: Tokenizer, columns: tuple[str, ...], rows: Rows) -> None:
    """Show tokens as text, and as the file spells them where that differs."""
    from mtkit.commands.terminal import Screen, token_text

    table = []
    for row in rows:
        pieces = [cell for cell in row if isinstance(cell, bytes)]
        texts = [tokenizer.piece_bytes(piece) for piece in pieces]
        spelling = " ".join(map(as_text, pieces)) if pieces != texts else ""
        cells = [
            token_text(tokenizer.piece_bytes(cell))
            if isinstance(cell, bytes)
            else _format_cell(cell)
            for cell in row
        ]
        table.append((*cells, spelling))
    roles = {"id>": "id>:id", "type": "type:dim", "score>": "score>:dim", "rank>": "rank>:id"}
    heads = [roles.get(name, name) for name in columns]
    Screen().table((*heads, "spelling:dim"), table, elastic=len(heads))


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


def _format_cell(cell: object) -> object:
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
        output.write_json({"schema": _SCHEMA, "template": templates})
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

    from mtkit.base.escape import printable

    for line in import_module("mtkit.formats.llama2c").listing(tokenizer.spec):
        if output.is_terminal():
            output.write(printable(line.removesuffix(b"\n")) + "\n")
        else:
            output.write_bytes(line)
