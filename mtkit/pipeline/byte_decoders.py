"""Decoders that give bytes from the start: ``Bytewise``, ``Pieces``, ``Subwords``, ``AfterBos``.

``Bytewise``: tokens are byte strings from first to last; nothing is checked to be UTF-8. A sequence
loses its special tokens and goes through the steps; a single token (what a stream shows) has a
shorter way of its own, so the single tokens of a text joined are not always the text.

``Pieces``: token by token, as the role of each says.

``Subwords`` and ``AfterBos`` take ids, since the role of a token decides what it gives, one by one:
a whole sequence is a stream that has ended.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, ``PipelineTokenizer::decode``, by its
behavior (``Bytewise``); ggml-org/llama.cpp, llama-vocab.cpp, ``token_to_piece`` and ``detokenize``
(``Pieces``); google/sentencepiece, sentencepiece_processor.cc, ``Decode`` (``Subwords``);
karpathy/llama2.c, run.c, ``decode`` (``AfterBos``).
"""

from __future__ import annotations

from codecs import utf_8_decode

from mtkit.errors import UsageError
from mtkit.pipeline.decoders import CLEAN_UPS, clean_up, clean_up_pairs
from mtkit.pipeline.models.words import character_size
from mtkit.spec import TokenType, decoders, post_processors
from mtkit.spec import decoders as spec
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import BYTE_OF_LETTER, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtkit.spec import AddedToken, AddedTokens, TokenizerSpec, Vocabulary
    from mtkit.spec.decoders import Bytewise, Decoder


def decode_bytewise(
    spec: TokenizerSpec, ids: Iterable[int], *, skip_special_tokens: bool = True
) -> bytes:
    """Decode a sequence."""
    chain = _bytewise_of(spec)
    skipped = ids_left_out(spec) if skip_special_tokens else frozenset()
    tokens = [bytewise_piece(spec, token_id) for token_id in ids if token_id not in skipped]
    for step in flat_steps(chain.steps):
        tokens = apply_bytewise_step(step, tokens)
    return clean_up(b"".join(tokens).decode("latin-1"), final_clean_up_pairs(spec)).encode(
        "latin-1"
    )


def final_clean_up_pairs(spec: TokenizerSpec) -> tuple[tuple[str, str], ...]:
    """Return what is replaced in the whole text at the end, one after the other."""
    glues = any(
        isinstance(step, decoders.WordPiece) for step in flat_steps(_bytewise_of(spec).steps)
    )
    contracts = spec.clean_up_spaces == "contractions"
    return CLEAN_UPS[:4] * glues + clean_up_pairs("contractions") * contracts


def decode_single_token(spec: TokenizerSpec, token_id: int) -> bytes:
    """Decode one token as a stream shows it, special or not."""
    return single_piece_text(_bytewise_of(spec), bytewise_piece(spec, token_id))


def single_piece_text(chain: Bytewise, piece: bytes) -> bytes:
    """Give the text of one piece."""
    if chain.single == "steps":
        tokens = [piece]
        for step in flat_steps(chain.steps):
            tokens = apply_bytewise_step(step, tokens)
        return b"".join(tokens)
    text = _replace_hex_bytes(piece.replace(MARK_BYTES, b" "))
    steps = list(flat_steps(chain.steps))
    for step in steps:
        if isinstance(step, decoders.WordPiece):
            prefix = to_bytes(step.prefix)
            text = text[len(prefix) :] if prefix and text.startswith(prefix) else b" " + text
            break
    if any(isinstance(step, decoders.ByteLevel) for step in steps):
        text = map_letters(text)
    return text


def ids_left_out(spec: TokenizerSpec) -> frozenset[int]:
    """Return the ids that a decoded sequence leaves out."""
    group: AddedTokens | None = spec.added_tokens
    found: set[int] = set()
    while group is not None:
        found |= {token.id for token in group.tokens if token.special}
        group = group.first
    return frozenset(found)


def bytewise_piece(spec: TokenizerSpec, token_id: int) -> bytes:
    """Return the stored piece of an id, or what stands for an id without one."""
    if 0 <= token_id < len(spec.vocabulary):
        piece: bytes = spec.vocabulary.pieces[token_id]
        return piece
    return _bytewise_of(spec).unknown


def map_letters(text: bytes) -> bytes:
    """Map letters of the byte alphabet back to bytes, leaving other characters as they are."""
    out = bytearray()
    for char in text.decode("utf-8", "surrogateescape"):
        value = BYTE_OF_LETTER.get(char)
        if value is None:
            out += char.encode("utf-8", "surrogateescape")
        else:
            out.append(value)
    return bytes(out)


def flat_steps(steps: Sequence[Decoder]) -> Iterator[Decoder]:
    """Give the steps one by one, those of a sequence in its place."""
    for step in steps:
        if isinstance(step, decoders.Sequence):
            yield from flat_steps(step.steps)
        else:
            yield step


def _bytewise_of(spec: TokenizerSpec) -> Bytewise:
    assert isinstance(spec.decoder, decoders.Bytewise), spec.decoder
    return spec.decoder


def apply_bytewise_step(step: Decoder, tokens: list[bytes]) -> list[bytes]:
    """Run one step over the tokens of a sequence."""
    match step:
        case decoders.ByteLevel():
            return [map_letters(token) for token in tokens]
        case decoders.ByteFallback():
            return [_byte_or_token(token) for token in tokens]
        case decoders.Metaspace():
            mark = to_bytes(step.replacement)
            spaced = [token.replace(mark, b" ") for token in tokens]
            if step.prepend_scheme != "never" and spaced and spaced[0].startswith(b" "):
                spaced[0] = spaced[0][1:]
            return spaced
        case decoders.WordPiece():
            return _glue_words(tokens, to_bytes(step.prefix))
        case decoders.FirstMark():
            return [token.replace(MARK_BYTES, b" ", 1) for token in tokens]
        case decoders.Fuse():
            return [b"".join(tokens)]
        case decoders.Replace():
            text = to_bytes(getattr(step.pattern, "text", ""))
            return [token.replace(text, to_bytes(step.content)) for token in tokens]
        case decoders.Strip():
            return _strip_ends(tokens, step)
        case _:
            raise AssertionError(f"{type(step).__name__} is not a bytewise step")


def _byte_or_token(token: bytes) -> bytes:
    """Return the byte that a ``<0xHH>`` token stands for, or the token itself."""
    value = read_hex_byte(token) if len(token) == 6 else None
    return token if value is None else bytes([value])


def read_hex_byte(token: bytes) -> int | None:
    """Read ``<0xHH>`` at the start of a byte string."""
    if len(token) < 6 or not token.startswith(b"<0x") or token[5:6] != b">":
        return None
    try:
        return int(token[3:5], 16) if token[3:5].isalnum() else None
    except ValueError:
        return None


def _replace_hex_bytes(text: bytes) -> bytes:
    at = text.find(b"<0x")
    while at >= 0:
        value = read_hex_byte(text[at : at + 6])
        if value is not None:
            text = text[:at] + bytes([value]) + text[at + 6 :]
        at = text.find(b"<0x", at + 1)
    return text


def _glue_words(tokens: list[bytes], prefix: bytes) -> list[bytes]:
    glued = []
    for place, token in enumerate(tokens):
        if prefix and token.startswith(prefix):
            glued.append(token[len(prefix) :])
        else:
            glued.append(b" " + token if place else token)
    return glued


def _strip_ends(tokens: list[bytes], step: decoders.Strip) -> list[bytes]:
    content = to_bytes(step.content)
    tokens = list(tokens)
    if tokens and content:
        if step.start > 0 and tokens[0].startswith(content):
            tokens[0] = tokens[0][len(content) :]
        if step.stop > 0 and tokens[-1].endswith(content):
            tokens[-1] = tokens[-1][: -len(content)]
    return tokens


_HEX_DIGITS = b"0123456789abcdef"


def decode_pieces(
    spec: TokenizerSpec,
    ids: Iterable[int],
    *,
    skip_special_tokens: bool,
    remove_added: bool = False,
) -> bytes:
    """Decode a sequence.

    Args:
        remove_added: Take off the first and the last token where they are what the post-processor
            puts there; behind a first one taken off no space is dropped.
    """
    assert isinstance(spec.decoder, decoders.Pieces)
    ids = list(ids)
    drops_space = spec.decoder.drop_first_space
    if remove_added:
        first, last = _template_ends(spec)
        if ids and ids[0] in first:
            ids, drops_space = ids[1:], False
        if ids and ids[-1] in last:
            ids = ids[:-1]
    added = {token.id: token for token in spec.added_tokens.tokens}
    parts = [bytes_by_role(spec, added, i, skip_special_tokens=skip_special_tokens) for i in ids]
    if drops_space and parts and parts[0].startswith(b" "):
        parts[0] = parts[0][1:]
    text = b"".join(parts)
    pairs = clean_up_pairs(spec.clean_up_spaces)
    if not pairs:
        return text
    return clean_up(text.decode("latin-1"), pairs).encode("latin-1")


def bytes_by_role(
    spec: TokenizerSpec,
    added: dict[int, AddedToken],
    token_id: int,
    *,
    skip_special_tokens: bool = False,
) -> bytes:
    """Return the bytes of one token, nothing for an id that names none."""
    assert isinstance(spec.decoder, decoders.Pieces)
    token, spelling, vocabulary = added.get(token_id), spec.decoder.spelling, spec.vocabulary
    if token is not None and token.special and skip_special_tokens:
        return b""
    inside = 0 <= token_id < len(vocabulary)
    piece = vocabulary.pieces[token_id] if inside else b""
    if spelling == "bytes":
        return piece
    role = vocabulary.type_of(token_id) if inside else TokenType.UNDEFINED
    if spelling == "plain" and role is not TokenType.BYTE:
        return piece
    if token is not None:
        return token.content
    if role is TokenType.BYTE:
        return _byte_of_digits(piece)
    return _normal_bytes(piece, spelling) if role is TokenType.NORMAL else b""


def _byte_of_digits(piece: bytes) -> bytes:
    """Return the byte of a ``<0xHH>`` token; what is not a digit ends the number."""
    value = 0
    for digit in piece[3:5].lower():
        place = _HEX_DIGITS.find(digit)
        if place < 0:
            break
        value = value * 16 + place
    return bytes((value,)) if len(piece) > 3 else b""


def _normal_bytes(piece: bytes, spelling: str) -> bytes:
    if spelling == "marks":
        return piece.replace(MARK_BYTES, b" ")
    if spelling == "words":
        if piece.startswith(b"##"):
            return piece[2:].replace(MARK_BYTES, b" ")
        alone = piece.startswith(MARK_BYTES) or (piece[:1] == b"[" and piece[-1:] == b"]")
        return (piece if alone else b" " + piece).replace(MARK_BYTES, b" ")
    written = bytearray()
    for letter in piece.decode("utf-8", "surrogateescape"):
        byte = BYTE_OF_LETTER.get(letter)
        if byte is None:
            code = letter.encode("utf-8", "surrogateescape").hex().encode()
            written += b"[UNK_BYTE_0x" + code + piece + b"]"
        else:
            written.append(byte)
    return bytes(written)


def _template_ends(spec: TokenizerSpec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the fixed ids at the begin and at the end of the template for one text."""
    template = spec.post_processor
    if not isinstance(template, post_processors.Template):
        return (), ()
    slots = template.single
    place = next((at for at, slot in enumerate(slots) if slot.text is not None), len(slots))
    first = [token for slot in slots[:place] for token in slot.ids]
    last = [token for slot in slots[place:] for token in slot.ids]
    return tuple(first[:1]), tuple(last[-1:])


REPLACEMENT_BYTES = "\ufffd".encode()
HEX_LETTERS = b"0123456789abcdefABCDEF"
_BYTE_OF = {piece: byte for byte, piece in enumerate(BYTE_TOKENS)}


def decode_subwords(
    tokenizer: TokenizerSpec, ids: Iterable[int], *, skip_special_tokens: bool = True
) -> bytes:
    """Decode a sequence with a decoder of this module."""
    source = subword_stream(tokenizer, skip_special_tokens=skip_special_tokens)
    text = b"".join([source.push(token_id) for token_id in ids]) + source.finish()
    return denormalize(tokenizer.decoder, text)


def subword_stream(tokenizer: TokenizerSpec, *, skip_special_tokens: bool) -> Subwords | AfterBos:
    """Return what decodes id by id, up to the denormalizer."""
    if isinstance(tokenizer.decoder, spec.Subwords):
        return Subwords(tokenizer.vocabulary, tokenizer.decoder)
    return AfterBos(tokenizer, skip_special_tokens=skip_special_tokens)


def denormalize(decoder: object, text: bytes) -> bytes:
    """Apply the denormalizer of a decoder that has one; an empty text stays empty."""
    if not isinstance(decoder, spec.Subwords) or decoder.denormalizer is None or not text:
        return text
    from mtkit.pipeline.aligned_text import AlignedText
    from mtkit.pipeline.normalizers import compile_spaces

    aligned = AlignedText.of(text.decode("utf-8", "surrogateescape"))
    compile_spaces(decoder.denormalizer, ())(aligned)
    return aligned.text.encode("utf-8", "surrogateescape")


def _check_id(token_id: int, vocabulary: Vocabulary) -> None:
    if not 0 <= token_id < len(vocabulary):
        raise UsageError(
            f"is {token_id}, but the vocabulary has the ids 0 to {len(vocabulary) - 1}", field="id"
        )


class Subwords:
    """Joins pieces; control pieces are never shown, bytes wait for the rest of their character."""

    def __init__(self, vocabulary: Vocabulary, decoder: spec.Subwords) -> None:
        self._vocabulary = vocabulary
        self._decoder = decoder
        self._drops = decoder.drop_marks != "none"
        self._waiting = bytearray()

    def push(self, token_id: int) -> bytes:
        """Take an id and return the bytes that are settled now."""
        _check_id(token_id, self._vocabulary)
        piece, kind = self._vocabulary.pieces[token_id], self._vocabulary.type_of(token_id)
        if kind == TokenType.BYTE and piece in _BYTE_OF:
            self._waiting.append(_BYTE_OF[piece])
            return self._written(_take_characters(self._waiting, end=False))
        return self.finish() + self._written(self._shown(piece, kind))

    def finish(self) -> bytes:
        """Return what was held back."""
        return self._written(_take_characters(self._waiting, end=True))

    def _shown(self, piece: bytes, kind: TokenType) -> bytes:
        if kind == TokenType.CONTROL:
            return b""
        if kind == TokenType.UNKNOWN:
            return self._decoder.unk_surface
        if self._drops and piece.startswith(MARK_BYTES):
            piece = piece[len(MARK_BYTES) :]
            self._drops = self._decoder.drop_marks == "all"
        return piece.replace(MARK_BYTES, b" ")

    def _written(self, text: bytes) -> bytes:
        """Return a text; behind one that is not empty no mark is dropped."""
        self._drops = self._drops and not text
        return text


def _take_characters(waiting: bytearray, *, end: bool) -> bytes:
    """Take the characters off that bytes begin with, U+FFFD for each byte of none.

    Args:
        waiting: The bytes; what could still become a character stays.
    """
    taken = bytearray()
    while waiting:
        part = bytes(waiting[: character_size(waiting[0])])
        try:
            _, size = utf_8_decode(part, "strict", end)
        except UnicodeDecodeError:
            part, size = REPLACEMENT_BYTES, 1
        if not size:
            break
        taken += part
        del waiting[:size]
    return bytes(taken)


class AfterBos:
    """Joins pieces as the reference prints them one by one."""

    def __init__(self, tokenizer: TokenizerSpec, *, skip_special_tokens: bool) -> None:
        self._vocabulary = tokenizer.vocabulary
        self._bos = tokenizer.special_ids.bos
        self._skip = skip_special_tokens
        self._before: int | None = None

    def push(self, token_id: int) -> bytes:
        """Take an id and return its bytes."""
        _check_id(token_id, self._vocabulary)
        before, self._before = self._before, token_id
        if self._skip and self._vocabulary.type_of(token_id) == TokenType.CONTROL:
            return b""
        if before is None and token_id == self._bos:
            return b""
        piece: bytes = self._vocabulary.pieces[token_id]
        if before is not None and before == self._bos:
            piece = piece.removeprefix(b" ")
        return scan_byte(piece)

    def finish(self) -> bytes:
        """Return nothing: nothing was held back."""
        return b""


def scan_byte(piece: bytes) -> bytes:
    """Return the byte that a piece begins to spell, else the piece.

    The reference's scanf is content with ``<0x`` and one or two digits of either case, white space
    between allowed, whatever follows. It prints a C string: byte 0 gives nothing.
    """
    if not piece.startswith(b"<0x"):
        return piece
    rest = piece[3:].lstrip(b" \t\n\v\f\r")
    digits = rest[:2] if rest[1:2] and rest[1] in HEX_LETTERS else rest[:1]
    if not digits or digits[0] not in HEX_LETTERS:
        return piece
    return bytes((int(digits, 16),)).strip(b"\0")
