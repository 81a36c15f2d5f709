r"""RWKV's vocabulary files: one ``id literal length`` a line, the literal in Python's syntax.

``12 '\x0c' 1`` is text, ``127 b'\x80' 1`` bytes; the length counts bytes. Ids need not be dense; 0
is the end of a document and has no line. Encoding is the greedy longest match over bytes.

Source: BlinkDL/RWKV-LM, RWKV-v5/tokenizer/rwkv_tokenizer.py.
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Loss, Reading, Written, losses_between
from mtkit.spec import (
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    decoders,
    model_name,
    models,
)
from mtkit.spec.vocabulary import is_sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from re import Pattern

    from mtkit.formats.contract import WriteOptions

NAME = "rwkv"
TITLE = "RWKV vocabulary"

HIGHEST_ID = 1 << 24
"""No vocabulary comes near; a higher id is damage."""
_LINE = rb"""(\d{1,9}) (b?)('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*") (\d{1,9})\s*"""
_ESCAPE = rb"""\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\\'"abfnrtv0]))"""
_ESCAPES = {
    b"\\": "\\", b"'": "'", b'"': '"', b"a": "\a", b"b": "\b", b"f": "\f", b"n": "\n", b"r": "\r",
    b"t": "\t", b"v": "\v", b"0": "\0",
}  # fmt: skip


def sniff(source: Source) -> bool:
    """Tell by a first line of an id, a quoted literal and a length."""
    import re

    return re.match(_LINE + rb"\n?", bytes(source.data[:1000])) is not None


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a vocabulary.

    Raises:
        FormatError: A line is damaged, or an id or a piece stands twice.
    """
    import re

    line_form, escape = re.compile(_LINE), re.compile(_ESCAPE, re.DOTALL)
    tokens: dict[int, bytes] = {}
    at = 0
    for line in bytes(source.data).split(b"\n"):
        if line.strip():
            entry = line_form.fullmatch(line)
            if entry is None:
                what = f"is {line[:60]!r}, not an id, a literal and a length"
                raise FormatError(what, field="line", offset=at)
            token_id, piece = int(entry[1]), _unquote(entry[3][1:-1], bool(entry[2]), escape, at)
            if token_id in tokens or token_id > HIGHEST_ID or len(piece) != int(entry[4]):
                what = f"{line[:60]!r}: the id stands twice or is too high, or the length is wrong"
                raise FormatError(what, field="line", offset=at)
            tokens[token_id] = piece
        at += len(line) + 1
    if not tokens:
        raise FormatError("holds no token", field="line 1")
    size = max(tokens) + 1
    if is_sparse(size, len(tokens)):
        raise FormatError(f"the highest is {size - 1}, but there are {len(tokens)}", field="ids")
    types = bytearray([TokenType.ABSENT]) * size
    for token_id in tokens:
        types[token_id] = TokenType.NORMAL
    pieces = Pieces.of([tokens.get(token_id, b"") for token_id in range(size)])
    spec = TokenizerSpec(
        Vocabulary(pieces, Numbers("B", bytes(types))),
        models.Trie(),
        decoder=decoders.Pieces("bytes"),
        invalid_utf8="keep",
        special_ids=SpecialIds(eos=0, stop=(0,)) if 0 not in tokens else SpecialIds(),
    )
    assumptions = ("id 0 ends a document",) if 0 not in tokens else ()
    return Reading(spec, assumptions)


def _unquote(body: bytes, is_bytes: bool, escape: Pattern[bytes], at: int) -> bytes:
    r"""Return the bytes of a literal: in text ``\xe9`` is a character, in bytes a byte."""
    if b"\\" not in body:
        return body
    out, last = [], 0
    for match in escape.finditer(body):
        out.append(body[last : match.start()])
        last = match.end()
        digits = match[1] or match[2] or match[3]
        if digits is None:
            out.append(_ESCAPES[match[4]].encode())
        elif is_bytes:
            if match[1] is None:
                raise FormatError("has a character escape in bytes", field="line", offset=at)
            out.append(bytes([int(digits, 16)]))
        else:
            code = int(digits, 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise FormatError("escapes what is not a character", field="line", offset=at)
            out.append(chr(code).encode("utf-8"))
    out.append(body[last:])
    if b"\\" in escape.sub(b"", body):
        raise FormatError("has an unknown escape", field="line", offset=at)
    return b"".join(out)


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a vocabulary for greedy longest match."""
    if not isinstance(spec.model, models.Trie):
        name = model_name(spec.model)
        raise UnsupportedError(f"RWKV uses greedy longest match, not {name}")
    if spec.normalizer is not None or spec.pre_tokenizer is not None:
        raise UnsupportedError("it has no normalizer and no pre-tokenizer")
    lines = []
    for token_id, piece in enumerate(spec.vocabulary.pieces):
        if spec.vocabulary.type_of(token_id) is not TokenType.ABSENT and piece:
            lines.append(f"{token_id} {_quote(piece)} {len(piece)}\n")
    data = "".join(lines).encode("utf-8")
    losses = (
        []
        if spec.model.unk is None
        else [Loss("metadata", "model", "the unknown token is not kept")]
    )
    back = read(Source("rwkv_vocab.txt", data), {}).spec
    return Written({"rwkv_vocab.txt": data}, losses_between(spec, back, losses))


def _quote(piece: bytes) -> str:
    try:
        return repr(piece.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(piece)
