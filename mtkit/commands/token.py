"""``mtkit token``: tokens by id, and by text."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.inputs import load_tokenizer
from mtkit.commands.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.tokenizer.tokenizer import Tokenizer


_MOST = 1 << 16
"""Most ids of one range."""


OPTIONS = {
    "words": Option("", "Ids, ranges (5000-5010), or texts.", "ID|TEXT..."),
    "as_text": Option("--text", "Treat numbers as text, not as ids."),
}


def token(
    words: list[str],
    tokenizer: str | None = None,
    as_text: bool = False,
    as_reader: str | None = None,
    download: bool = False,
    as_json: bool = False,
) -> None:
    """Look up tokens by id or text; exit code 1 if one does not exist.

    A text is what the token stands for (" hello", or "·hello" with a dot for each space) or how the
    file spells it ("Ġhello"). Piped output has a row per token: id, spelling, type, bytes in hex.

    \b
    Examples:
      mtkit token 1234 5000-5010
      mtkit token "·hello" "<|im_end|>" -t model.gguf
    """
    import os

    from mtkit.commands import output
    from mtkit.errors import AnswerNo, UsageError

    if tokenizer is None and len(words) > 1 and os.path.isfile(words[0]):
        from shlex import join

        line = f"run: mtkit token {join([*words[1:], '-t', words[0]])}"
        raise UsageError("is a file, not a token", source=words[0], hint=line)
    source = load_tokenizer(tokenizer, reader=as_reader, download=download)
    token_ids: list[int] = []
    missing: list[str] = []
    for word in words:
        ids = _ids(source, word, as_text=as_text)
        token_ids += ids
        if not ids:
            missing.append(_missing(source, word))
    rows = list(_rows(source, token_ids))
    if as_json:
        keys = ("id", "token", "type", "bytes")
        entries = [dict(zip(keys, row, strict=True)) for row in rows]
        output.write_json({"schema": "mtkit.token/1", "tokens": entries})
    elif not output.is_terminal():
        output.write_rows(rows)
    elif rows:
        _show(source, rows)
    if missing:
        raise AnswerNo("; ".join(missing), source=source.source)


command = Command(token, OPTIONS)


def _ids(tokenizer: Tokenizer, word: str, *, as_text: bool) -> list[int]:
    """Return the ids that a word stands for: an id, a range, a text or a spelling."""
    from mtkit.commands.arguments import parse_id_ranges

    is_number = word[:1].isascii() and word[:1].isdigit() and set(word) <= set("0123456789-,")
    if is_number and not as_text:
        return [
            token_id
            for numbers in parse_id_ranges(word)
            for token_id in numbers[:_MOST]
            if tokenizer.id_to_piece(token_id) is not None
        ]
    for text in dict.fromkeys((word, word.replace("·", " "))):
        piece_id = tokenizer.token_to_id(text)
        ids = tokenizer.text_to_ids(text) or ([] if piece_id is None else [piece_id])
        if ids:
            return ids
    return []


def _missing(tokenizer: Tokenizer, word: str) -> str:
    if word[:1].isdigit():
        return f"there is no id {word}: the vocabulary has ids 0 to {tokenizer.vocab_size - 1}"
    ids = tokenizer.encode_ids(word.replace("·", " "), add_special_tokens=False)
    return f"{word!r} is not one token but {len(ids)}: {' '.join(map(str, ids[:16]))}"


def _rows(tokenizer: Tokenizer, ids: list[int]) -> Iterator[tuple[int, str, str, str]]:
    """Yield id, spelling, type and bytes in hex."""
    from mtkit.base.escape import as_text, byte_escapes

    for token_id in ids:
        piece = tokenizer.id_to_piece(token_id) or b""
        kind, text = tokenizer.token_kind(token_id), tokenizer.token_bytes(token_id)
        yield token_id, byte_escapes(as_text(piece)), kind, text.hex()


def _show(tokenizer: Tokenizer, rows: list[tuple[int, str, str, str]]) -> None:
    from mtkit.commands.terminal import Screen, part, token_text

    table = []
    for token_id, spelling, kind, _ in rows:
        raw = tokenizer.token_bytes(token_id)
        text = part("special" if kind in ("control", "unknown") else "", token_text(raw))
        own = "" if raw == tokenizer.id_to_piece(token_id) else spelling
        table.append((token_id, text, kind, raw.hex(" "), own))
    columns = ("id>:id", "token", "type:dim", "bytes:dim", "spelling:dim")
    Screen().table(columns, table, elastic=3)
