"""PLaMo's vocabulary, tokenizer.jsonl: a line a token, ``["text", score, "NORMAL", ...]``.

The roles of tokens are in tokenizer_config.json beside it. Encoding is the path of least cost.

Source: pfnet/plamo-2, tokenization_plamo.py; llama.cpp, conversion/base.py (``_set_vocab_plamo``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.formats.contract import Reading
from mtkit.formats.json_fields import parse_json
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    decoders,
    models,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.base.binary import Source

NAME = "plamo"
TITLE = "PLaMo vocabulary"

_CONFIG, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
_LINE = rb'\s*\["(?:[^"\\]|\\.)*",\s*-?\d[\d.eE+-]*,\s*"[A-Z]+"'
_TYPES = {
    "UNKNOWN": TokenType.UNKNOWN, "CONTROL": TokenType.CONTROL, "BYTE": TokenType.BYTE,
}  # fmt: skip
_MARKS = ("<|plamo:", "|>")
"""Around the text of a token of control that is listed as a normal one."""
_TURN = b"<|plamo:op|>"
_BYTES = [f"<0x{value:02X}>".encode() for value in range(256)]
_ROLES = ("bos", "eos", "pad", "sep", "unk")


def sniff(source: Source) -> bool:
    """Tell by a first line of a text, a number and a type."""
    import re

    return re.match(_LINE, bytes(source.data[:1000])) is not None


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a vocabulary.

    Raises:
        FormatError: A line is damaged, a byte has no token, or a role names no token.
    """
    pieces, scores, types = [], [], bytearray()
    at = 0
    for line in bytes(source.data).split(b"\n"):
        if line.strip():
            text, score, kind = _token(line, at)
            pieces.append(text.encode("utf-8", "surrogatepass"))
            scores.append(score)
            is_marked = text.startswith(_MARKS[0]) and text.endswith(_MARKS[1])
            usual = TokenType.CONTROL if is_marked else TokenType.NORMAL
            types.append(_TYPES.get(kind, usual))
        at += len(line) + 1
    there = {piece for piece, kind in zip(pieces, types, strict=True) if kind == TokenType.BYTE}
    for piece in _BYTES:
        if piece not in there:
            raise FormatError(f"have no byte token {piece.decode()}", field="tokens")
    vocabulary = Vocabulary(Pieces.of(pieces), Numbers("B", bytes(types)), Numbers.of("f", scores))
    special = [
        AddedToken(number, pieces[number], special=True)
        for number, kind in enumerate(types)
        if kind == TokenType.CONTROL
    ]
    config = _config(source)
    ids = _roles(config, pieces)
    if _TURN in pieces:
        ids["eot"] = pieces.index(_TURN)
    ends = tuple(sorted({ids[role] for role in ("eos", "eot") if role in ids}))
    return Reading(
        TokenizerSpec(
            vocabulary,
            models.ShortestPath(),
            decoder=decoders.Pieces("plain"),
            added_tokens=AddedTokens(tuple(special)),
            special_ids=SpecialIds(**ids, stop=ends),
            chat_templates=_templates(source, config),
            invalid_utf8="wide",
        )
    )


def _token(line: bytes, at: int) -> tuple[str, float, str]:
    import json

    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, list) and len(row) > 1:
        text, score, kind = row[0], row[1], row[2] if len(row) > 2 else "NORMAL"
        is_number = type(score) in (int, float) and abs(score) < 3e38
        if isinstance(text, str) and text and is_number and isinstance(kind, str):
            return text, float(score), kind
    raise FormatError(f"is {line[:60]!r}, not a text, a score and a type", field="line", offset=at)


def _config(source: Source) -> dict[str, Any]:
    data = source.beside(_CONFIG)
    config = parse_json(data, _CONFIG) if data is not None else {}
    return config if isinstance(config, dict) else {}


def _templates(source: Source, config: dict[str, Any]) -> tuple[ChatTemplate, ...]:
    """Return the chat template: that of a file of its own, else that of the configuration."""
    data = source.beside(_TEMPLATE)
    text = data.decode("utf-8", "replace") if data is not None else config.get("chat_template")
    return (ChatTemplate("default", text),) if isinstance(text, str) and text else ()


def _roles(config: dict[str, Any], pieces: list[bytes]) -> dict[str, int]:
    """Return role -> id, of those that the configuration names."""
    ids = {}
    for role in _ROLES:
        text = config.get(f"{role}_token")
        text = text.get("content") if isinstance(text, dict) else text
        if text is None:
            continue
        if not isinstance(text, str) or text.encode("utf-8", "surrogatepass") not in pieces:
            raise FormatError(f"is {text!r}, which is no token", field=f"{_CONFIG}: {role}_token")
        ids[role] = pieces.index(text.encode("utf-8", "surrogatepass"))
    return ids
