"""Decoders that give bytes from the start: ``Bytewise``, ``Pieces``, ``Subwords``, ``AfterBos``.

A source takes ids and gives the bytes that each settles, since the role of a token decides what it
gives; the stages behind it work on those, written as Latin-1.

``Bytewise``: tokens are byte strings from first to last; nothing is checked to be UTF-8. A sequence
loses its special tokens and goes through the steps; a single token (what a stream shows) has a
shorter way of its own, so the single tokens of a text joined are not always the text.

``Pieces``: token by token, as the role of each says.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, ``PipelineTokenizer::decode``, by its
behavior (``Bytewise``); ggml-org/llama.cpp, llama-vocab.cpp, ``token_to_piece`` and ``detokenize``
(``Pieces``); google/sentencepiece, sentencepiece_processor.cc, ``Decode`` (``Subwords``);
karpathy/llama2.c, run.c, ``decode`` (``AfterBos``).
"""

from __future__ import annotations

from codecs import utf_8_decode

from mtkit.errors import UsageError
from mtkit.pipeline.decoders import (
    CLEAN_UPS,
    EachToken,
    LiteralReplacement,
    Stage,
    WholeText,
    clean_up_pairs,
    literal_stages,
    run_stages,
)
from mtkit.pipeline.growth import decoded_limit, token_weight
from mtkit.pipeline.models.words import character_size
from mtkit.spec import TokenType, components_of, decoders
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import BYTE_OF_LETTER, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.spec import AddedToken, AddedTokens, TokenizerSpec, Vocabulary
    from mtkit.spec.decoders import Bytewise, Decoder
    from mtkit.spec.normalizers import Spaces


BY_BYTES = (decoders.Bytewise, decoders.Pieces, decoders.Subwords, decoders.AfterBos)


def byte_stages(
    tokenizer: TokenizerSpec, *, skip_special_tokens: bool
) -> tuple[Source, list[Stage]]:
    """Return the source and the stages of a decoder that works on bytes."""
    decoder = tokenizer.decoder
    if isinstance(decoder, decoders.Subwords):
        source = SubwordSource(tokenizer.vocabulary, decoder)
        if decoder.denormalizer is None:
            return source, []
        return source, [WholeText(EachToken(_denormalization(decoder.denormalizer)))]
    if isinstance(decoder, decoders.AfterBos):
        return AfterBosSource(tokenizer, skip_special_tokens=skip_special_tokens), []
    if isinstance(decoder, decoders.Pieces):
        pairs = clean_up_pairs(tokenizer.clean_up_spaces)
        return PieceSource(tokenizer, decoder, skip_special_tokens), literal_stages(pairs)
    assert isinstance(decoder, decoders.Bytewise)
    pairs = final_clean_up_pairs(tokenizer)
    stages = [*_bytewise_stages(decoder), *literal_stages(pairs)]
    return BytewiseSource(tokenizer, skip_special_tokens), stages


class Source:
    """The first step: ids to tokens."""

    def push(self, token_id: int) -> list[str]:
        """Take an id and return the tokens that are settled."""
        raise NotImplementedError

    def finish(self) -> list[str]:
        """Return what was held back."""
        return []


class BytewiseSource(Source):
    """Pieces of the vocabulary, special ones left out."""

    def __init__(self, tokenizer: TokenizerSpec, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skipped = ids_left_out(tokenizer) if skip else frozenset()

    def push(self, token_id: int) -> list[str]:
        """Take an id."""
        if token_id in self._skipped:
            return []
        return [bytewise_piece(self._tokenizer, token_id).decode("latin-1")]


def _bytewise_steps(chain: Bytewise) -> list[Decoder]:
    return list(components_of(decoders.Sequence(chain.steps)))


def final_clean_up_pairs(spec: TokenizerSpec) -> tuple[tuple[str, str], ...]:
    """Return what is replaced in the whole text at the end, one after the other."""
    steps = _bytewise_steps(_bytewise_of(spec))
    glues = any(isinstance(step, decoders.WordPiece) for step in steps)
    contracts = spec.clean_up_spaces == "contractions"
    return CLEAN_UPS[:4] * glues + clean_up_pairs("contractions") * contracts


def decode_single_token(spec: TokenizerSpec, token_id: int) -> bytes:
    """Decode one token as a stream shows it, special or not."""
    return single_piece_text(_bytewise_of(spec), bytewise_piece(spec, token_id))


def single_piece_text(chain: Bytewise, piece: bytes) -> bytes:
    """Give the text of one piece."""
    if chain.single == "steps":
        tokens = [piece.decode("latin-1")]
        limit = decoded_limit(token_weight(tokens))
        return "".join(run_stages(_bytewise_stages(chain), tokens, limit)).encode("latin-1")
    text = _replace_hex_bytes(piece.replace(MARK_BYTES, b" "))
    steps = _bytewise_steps(chain)
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
    ids: set[int] = set()
    while group is not None:
        ids |= {token.id for token in group.tokens if token.special}
        group = group.first
    return frozenset(ids)


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


def _bytewise_of(spec: TokenizerSpec) -> Bytewise:
    assert isinstance(spec.decoder, decoders.Bytewise), spec.decoder
    return spec.decoder


def _bytewise_stages(chain: Bytewise) -> list[Stage]:
    stages: list[Stage] = []
    fused = False
    for step in _bytewise_steps(chain):
        if isinstance(step, decoders.Fuse):
            fused = True
        elif isinstance(step, decoders.Strip):
            stages.append(_TextStrip(step, fused=fused))
        elif fused and isinstance(step, decoders.Replace) and _literal(step):
            stages.append(LiteralReplacement(_to_latin(_literal(step)), _to_latin(step.content)))
        else:
            stage = EachToken(_bytewise_step(step))
            stages.append(WholeText(stage) if fused else stage)
    return stages


def _literal(step: decoders.Replace) -> str:
    return getattr(step.pattern, "text", "")


def _to_latin(text: str) -> str:
    return to_bytes(text).decode("latin-1")


def _bytewise_step(step: Decoder) -> Callable[[str, bool], str]:
    """Return a step for one token, first or not."""
    match step:
        case decoders.ByteLevel():
            return lambda token, _: map_letters(token.encode("latin-1")).decode("latin-1")
        case decoders.ByteFallback():
            return lambda token, _: _byte_or_token(token)
        case decoders.Metaspace():
            return lambda token, first: _spell_spaces(step, token, first=first)
        case decoders.WordPiece():
            return lambda token, first: _glue_word(_to_latin(step.prefix), token, first=first)
        case decoders.FirstMark():
            return lambda token, _: token.replace(_LATIN_MARK, " ", 1)
        case decoders.Replace():
            old, new = _to_latin(_literal(step)), _to_latin(step.content)
            return lambda token, _: token.replace(old, new)
        case _:
            raise AssertionError(f"{type(step).__name__} is not a bytewise step")


_LATIN_MARK = MARK_BYTES.decode("latin-1")


def _spell_spaces(step: decoders.Metaspace, token: str, *, first: bool) -> str:
    spaced = token.replace(_to_latin(step.replacement), " ")
    return spaced.removeprefix(" ") if first and step.prepend_scheme != "never" else spaced


def _glue_word(prefix: str, token: str, *, first: bool) -> str:
    if prefix and token.startswith(prefix):
        return token[len(prefix) :]
    return token if first else " " + token


def _byte_or_token(token: str) -> str:
    """Return the byte that a ``<0xHH>`` token stands for, or the token itself."""
    value = read_hex_byte(token.encode("latin-1")) if len(token) == 6 else None
    return token if value is None else chr(value)


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


class _TextStrip(Stage):
    """A text taken once from the begin and once from the end."""

    def __init__(self, step: decoders.Strip, *, fused: bool) -> None:
        self._content = _to_latin(step.content)
        self._start = step.start > 0 and bool(self._content)
        self._stop = step.stop > 0 and bool(self._content)
        self._fused = fused
        self._held: list[str] = []

    def push(self, token: str) -> list[str]:
        held, self._held = self._held, []
        if self._fused:
            return self._push_part("".join([*held, token]))
        token = self._begin(token)
        if self._stop and token.endswith(self._content):
            self._held = [token]
            return held
        return [*held, token]

    def _push_part(self, text: str) -> list[str]:
        if self._start and text != self._content and self._content.startswith(text):
            self._held = [text]
            return []
        text = self._begin(text)
        cut = len(text)
        if self._stop and (len(self._content) > 1 or text.endswith(self._content)):
            cut = max(cut - len(self._content), 0)
        self._held = [text[cut:]]
        return [text[:cut]]

    def _begin(self, text: str) -> str:
        starts, self._start = self._start, False
        return text.removeprefix(self._content) if starts else text

    def finish(self) -> list[str]:
        rest = [self._begin(text) for text in self._held]
        return [text.removesuffix(self._content) for text in rest] if self._stop else rest


_HEX_DIGITS = b"0123456789abcdef"


class PieceSource(Source):
    """The bytes of each token by its role; the first can lose a space."""

    def __init__(self, tokenizer: TokenizerSpec, decoder: decoders.Pieces, skip: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip
        self._drops = decoder.drop_first_space
        self._added = {token.id: token for token in tokenizer.added_tokens.tokens}

    def push(self, token_id: int) -> list[str]:
        """Take an id."""
        piece = bytes_by_role(
            self._tokenizer, self._added, token_id, skip_special_tokens=self._skip
        ).decode("latin-1")
        drops, self._drops = self._drops, False
        return [piece.removeprefix(" ") if drops else piece]


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
    output = bytearray()
    for letter in piece.decode("utf-8", "surrogateescape"):
        byte = BYTE_OF_LETTER.get(letter)
        if byte is None:
            code = letter.encode("utf-8", "surrogateescape").hex().encode()
            output += b"[UNK_BYTE_0x" + code + piece + b"]"
        else:
            output.append(byte)
    return bytes(output)


REPLACEMENT_BYTES = "\ufffd".encode()
HEX_LETTERS = b"0123456789abcdefABCDEF"
_BYTE_OF = {piece: byte for byte, piece in enumerate(BYTE_TOKENS)}


def _denormalization(denormalizer: Spaces) -> Callable[[str, bool], str]:
    """Return the denormalizer of a text; an empty one stays empty."""
    from mtkit.pipeline.aligned_text import AlignedText
    from mtkit.pipeline.normalizers import compile_spaces

    def denormalize(text: str, _: bool) -> str:
        if not text:
            return text
        aligned = AlignedText.of(text.encode("latin-1").decode("utf-8", "surrogateescape"))
        compile_spaces(denormalizer, ())(aligned)
        return _to_latin(aligned.text)

    return denormalize


def _check_id(token_id: int, vocabulary: Vocabulary) -> None:
    if not 0 <= token_id < len(vocabulary):
        raise UsageError(
            f"is {token_id}, but the vocabulary has the ids 0 to {len(vocabulary) - 1}", field="id"
        )


class SubwordSource(Source):
    """Joins pieces; control pieces are never shown, bytes wait for the rest of their character."""

    def __init__(self, vocabulary: Vocabulary, decoder: decoders.Subwords) -> None:
        self._vocabulary = vocabulary
        self._decoder = decoder
        self._drops = decoder.drop_marks != "none"
        self._waiting = bytearray()

    def push(self, token_id: int) -> list[str]:
        """Take an id."""
        _check_id(token_id, self._vocabulary)
        piece, kind = self._vocabulary.pieces[token_id], self._vocabulary.type_of(token_id)
        if kind == TokenType.BYTE and piece in _BYTE_OF:
            self._waiting.append(_BYTE_OF[piece])
            return self._settle(_take_characters(self._waiting, end=False))
        return self.finish() + self._settle(self._spell(piece, kind))

    def finish(self) -> list[str]:
        """Give the rest."""
        return self._settle(_take_characters(self._waiting, end=True))

    def _spell(self, piece: bytes, kind: TokenType) -> bytes:
        if kind == TokenType.CONTROL:
            return b""
        if kind == TokenType.UNKNOWN:
            return self._decoder.unk_surface
        if self._drops and piece.startswith(MARK_BYTES):
            piece = piece[len(MARK_BYTES) :]
            self._drops = self._decoder.drop_marks == "all"
        return piece.replace(MARK_BYTES, b" ")

    def _settle(self, text: bytes) -> list[str]:
        """Return a text; behind one that is not empty no mark is dropped."""
        self._drops = self._drops and not text
        return [text.decode("latin-1")]


def _take_characters(waiting: bytearray, *, end: bool) -> bytes:
    """Take the characters off that bytes begin with, U+FFFD for each byte of none."""
    characters = bytearray()
    while waiting:
        part = bytes(waiting[: character_size(waiting[0])])
        try:
            _, size = utf_8_decode(part, "strict", end)
        except UnicodeDecodeError:
            part, size = REPLACEMENT_BYTES, 1
        if not size:
            break
        characters += part
        del waiting[:size]
    return bytes(characters)


class AfterBosSource(Source):
    """Joins pieces as the reference prints them one by one."""

    def __init__(self, tokenizer: TokenizerSpec, *, skip_special_tokens: bool) -> None:
        self._vocabulary = tokenizer.vocabulary
        self._bos = tokenizer.special_ids.bos
        self._skip = skip_special_tokens
        self._before: int | None = None

    def push(self, token_id: int) -> list[str]:
        """Take an id."""
        _check_id(token_id, self._vocabulary)
        before, self._before = self._before, token_id
        if self._skip and self._vocabulary.type_of(token_id) == TokenType.CONTROL:
            return []
        if before is None and token_id == self._bos:
            return []
        piece: bytes = self._vocabulary.pieces[token_id]
        if before is not None and before == self._bos:
            piece = piece.removeprefix(b" ")
        return [_scan_byte(piece).decode("latin-1")]


def _scan_byte(piece: bytes) -> bytes:
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
