"""Decoding over plain bytes: the ``Bytewise`` decoder, whole sequences and single tokens.

Tokens are byte strings from first to last; nothing is checked to be UTF-8. A sequence loses its
special tokens and goes through the steps; a single token (what a stream shows) has a shorter way
of its own, so the single tokens of a text joined are not always the text.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, ``PipelineTokenizer::decode``, by its
behavior.
"""

from __future__ import annotations

from mtkit.pipeline.decoders.components import CLEAN_UPS, clean_up, clean_up_pairs
from mtkit.spec import decoders
from mtkit.spec.text import MARK_BYTES
from mtkit.unicode.byte_alphabet import BYTES
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtkit.spec import AddedTokens, TokenizerSpec
    from mtkit.spec.decoders import Bytewise, Decoder


def decode(spec: TokenizerSpec, ids: Iterable[int], *, skip_special_tokens: bool = True) -> bytes:
    """Decode a sequence."""
    chain = _chain(spec)
    skipped = special_ids(spec) if skip_special_tokens else frozenset()
    tokens = [piece_of(spec, token_id) for token_id in ids if token_id not in skipped]
    for step in flat(chain.steps):
        tokens = apply_step(step, tokens)
    return clean_up(b"".join(tokens).decode("latin-1"), final_pairs(spec)).encode("latin-1")


def final_pairs(spec: TokenizerSpec) -> tuple[tuple[str, str], ...]:
    """Return what is replaced in the whole text at the end, one after the other."""
    glues = any(isinstance(step, decoders.WordPiece) for step in flat(_chain(spec).steps))
    contracts = spec.clean_up_spaces == "contractions"
    return CLEAN_UPS[:4] * glues + clean_up_pairs("contractions") * contracts


def decode_single(spec: TokenizerSpec, token_id: int) -> bytes:
    """Decode one token as a stream shows it, special or not."""
    return single(_chain(spec), piece_of(spec, token_id))


def single(chain: Bytewise, piece: bytes) -> bytes:
    """Give the text of one piece."""
    if chain.single == "steps":
        tokens = [piece]
        for step in flat(chain.steps):
            tokens = apply_step(step, tokens)
        return b"".join(tokens)
    text = _bytes_anywhere(piece.replace(MARK_BYTES, b" "))
    steps = list(flat(chain.steps))
    for step in steps:
        if isinstance(step, decoders.WordPiece):
            prefix = to_bytes(step.prefix)
            text = text[len(prefix) :] if prefix and text.startswith(prefix) else b" " + text
            break
    if any(isinstance(step, decoders.ByteLevel) for step in steps):
        text = letters_to_bytes(text)
    return text


def special_ids(spec: TokenizerSpec) -> frozenset[int]:
    """Return the ids that a decoded sequence leaves out."""
    group: AddedTokens | None = spec.added_tokens
    found: set[int] = set()
    while group is not None:
        found |= {token.id for token in group.tokens if token.special}
        group = group.first
    return frozenset(found)


def piece_of(spec: TokenizerSpec, token_id: int) -> bytes:
    """Return the stored piece of an id, or what stands for an id without one."""
    if 0 <= token_id < len(spec.vocabulary):
        piece: bytes = spec.vocabulary.pieces[token_id]
        return piece
    return _chain(spec).unknown


def letters_to_bytes(text: bytes) -> bytes:
    """Map letters of the byte alphabet back to bytes, leaving other characters as they are."""
    out = bytearray()
    for char in text.decode("utf-8", "surrogateescape"):
        value = BYTES.get(char)
        if value is None:
            out += char.encode("utf-8", "surrogateescape")
        else:
            out.append(value)
    return bytes(out)


def flat(steps: Sequence[Decoder]) -> Iterator[Decoder]:
    """Give the steps one by one, those of a sequence in its place."""
    for step in steps:
        if isinstance(step, decoders.Sequence):
            yield from flat(step.steps)
        else:
            yield step


def _chain(spec: TokenizerSpec) -> Bytewise:
    assert isinstance(spec.decoder, decoders.Bytewise), spec.decoder
    return spec.decoder


def apply_step(step: Decoder, tokens: list[bytes]) -> list[bytes]:
    """Run one step over the tokens of a sequence."""
    match step:
        case decoders.ByteLevel():
            return [letters_to_bytes(token) for token in tokens]
        case decoders.ByteFallback():
            return [_byte(token) for token in tokens]
        case decoders.Metaspace():
            mark = to_bytes(step.replacement)
            spaced = [token.replace(mark, b" ") for token in tokens]
            if step.prepend_scheme != "never" and spaced and spaced[0].startswith(b" "):
                spaced[0] = spaced[0][1:]
            return spaced
        case decoders.WordPiece():
            return _glue(tokens, to_bytes(step.prefix))
        case decoders.FirstMark():
            return [token.replace(MARK_BYTES, b" ", 1) for token in tokens]
        case decoders.Fuse():
            return [b"".join(tokens)]
        case decoders.Replace():
            text = to_bytes(getattr(step.pattern, "text", ""))
            return [token.replace(text, to_bytes(step.content)) for token in tokens]
        case decoders.Strip():
            return _strip(tokens, step)
        case _:
            raise AssertionError(f"{type(step).__name__} is not a bytewise step")


def _byte(token: bytes) -> bytes:
    """Return the byte that a ``<0xHH>`` token stands for, or the token itself."""
    value = hex_byte(token) if len(token) == 6 else None
    return token if value is None else bytes([value])


def hex_byte(token: bytes) -> int | None:
    """Read ``<0xHH>`` at the start of a byte string."""
    if len(token) < 6 or not token.startswith(b"<0x") or token[5:6] != b">":
        return None
    try:
        return int(token[3:5], 16) if token[3:5].isalnum() else None
    except ValueError:
        return None


def _bytes_anywhere(text: bytes) -> bytes:
    at = text.find(b"<0x")
    while at >= 0:
        value = hex_byte(text[at : at + 6])
        if value is not None:
            text = text[:at] + bytes([value]) + text[at + 6 :]
        at = text.find(b"<0x", at + 1)
    return text


def _glue(tokens: list[bytes], prefix: bytes) -> list[bytes]:
    glued = []
    for place, token in enumerate(tokens):
        if prefix and token.startswith(prefix):
            glued.append(token[len(prefix) :])
        else:
            glued.append(b" " + token if place else token)
    return glued


def _strip(tokens: list[bytes], step: decoders.Strip) -> list[bytes]:
    content = to_bytes(step.content)
    tokens = list(tokens)
    if tokens and content:
        if step.start > 0 and tokens[0].startswith(content):
            tokens[0] = tokens[0][len(content) :]
        if step.stop > 0 and tokens[-1].endswith(content):
            tokens[-1] = tokens[-1][: -len(content)]
    return tokens
