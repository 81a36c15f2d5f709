"""The way back as a program: the section DECO that native/decode/decoder.cpp reads.

Regular pieces are decoded from the table of pieces. Ids of which more is to be known (added tokens,
roles) are listed with the text that the pipeline gives for each. The decoder's components become
small steps over the tokens. What the core has no step for is ``UnsupportedError``.

First the decoders as small steps over the tokens of a sequence, see native/decode/decode_steps.cpp.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

from mtkit.base.native import native
from mtkit.base.packed import places_of_byte
from mtkit.engine.opcodes import (
    DECODER_VERSION,
    DecoderKind,
    Edge,
    Family,
    IdFlag,
    NormalizerKind,
    Spelling,
)
from mtkit.engine.program_writer import NONE, numbers, text, u8, u32
from mtkit.errors import UnsupportedError
from mtkit.spec import TokenType, components_of, decoders, fields, user_defined_pieces
from mtkit.spec.text import Text
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtkit.engine.program import Program
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.decoders import Decoder


BYTE_RUNS = u8(DecoderKind.BYTE_RUNS)
DIFFERENT = u8(DecoderKind.DIFFERENT)
NOT_EMPTY = u8(DecoderKind.NOT_EMPTY)
BYTES = u8(DecoderKind.BYTES)
EACH_LETTER = u8(DecoderKind.EACH_LETTER)
EACH_BYTE = u8(DecoderKind.EACH_BYTE)
FIRST_SPACE = u8(DecoderKind.FIRST_SPACE)
FIRST_MARK = u8(DecoderKind.FIRST_MARK)
WHOLE = u8(DecoderKind.WHOLE)
TEXT = u8(DecoderKind.TEXT)


def _join_step(separator: str = "") -> bytes:
    return u8(DecoderKind.JOIN) + text(separator)


def _replace_step(
    old: str,
    new: str,
    *,
    first: str | None = None,
    last: str | None = None,
    by_bytes: bool = False,
) -> bytes:
    """Replace a text; an empty one is found around every character, or every byte."""
    edge = Edge.FIRST if first is not None else Edge.LAST if last is not None else Edge.NONE
    at_edge = text(first or last or "")
    return u8(DecoderKind.REPLACE) + text(old) + text(new) + u8(edge) + at_edge + u8(by_bytes)


def _glue_step(prefix: str, *, first_too: bool) -> bytes:
    return u8(DecoderKind.GLUE) + text(prefix) + u8(first_too)


def _clean_step(pairs: Iterable[tuple[str, str]]) -> bytes:
    listed = list(pairs)
    return (
        u8(DecoderKind.CLEAN)
        + u32(len(listed))
        + b"".join(text(old) + text(new) for old, new in listed)
    )


def clean_steps(rule: str) -> list[bytes]:
    """Return the steps over the whole text that ``clean_up_spaces`` asks for."""
    from mtkit.pipeline.decoders import clean_up_pairs

    pairs = clean_up_pairs(rule)
    return [_join_step(), _clean_step(pairs)] if pairs else []


def chain_steps(program: Program, *, mapped: bool) -> tuple[list[bytes], bool]:
    """Return the steps of a chain of components, and whether pieces are to begin as bytes."""
    spec = program.spec
    clean = clean_steps(spec.clean_up_spaces)
    if spec.decoder is None:
        joined = [_join_step(spec.join)] if spec.join or clean else []
        return joined + clean, False
    listed = list(components_of(spec.decoder))
    as_bytes = mapped and bool(listed) and isinstance(listed[0], decoders.ByteLevel)
    steps: list[bytes] = []
    for at, step in enumerate(listed):
        rest = listed[at + 1 :]
        if isinstance(step, decoders.ByteLevel):
            steps += [] if as_bytes and at == 0 else [BYTES]
            if any(not isinstance(other, decoders.Fuse) for other in rest):
                steps += [_join_step(), TEXT]
        elif isinstance(step, decoders.Fuse):
            # Parts of a character that come together by joining stay apart in the pipeline.
            steps += [WHOLE, _join_step()] if any(map(_sees_characters, rest)) else [_join_step()]
        else:
            steps += _chain_step(step, program)
    return steps + clean, as_bytes


def _sees_characters(step: Decoder) -> bool:
    """Tell whether a step does something else where characters are only bytes."""
    if isinstance(step, decoders.ByteLevel):
        return True
    words = [getattr(step, name) for name in fields(type(step))]
    if isinstance(step, decoders.Replace):
        if not isinstance(step.pattern, Text):
            return True
        words = [step.pattern.text]
    return any(isinstance(word, str) and not (word and word.isascii()) for word in words)


def _chain_step(step: Decoder, program: Program) -> list[bytes]:
    from mtkit.pipeline.decoders import CLEAN_UPS

    if isinstance(step, decoders.Metaspace):
        first = None if step.prepend_scheme == "never" else ""
        return [_replace_step(step.replacement, " ", first=first)]
    if isinstance(step, decoders.WordPiece):
        # Where there is no prefix, every piece has it.
        glue = [_glue_step(step.prefix, first_too=False)] if step.prefix else []
        return [*glue, _clean_step(CLEAN_UPS)] if step.cleanup else glue
    if isinstance(step, decoders.ByteFallback):
        return [BYTE_RUNS]
    if isinstance(step, decoders.Replace):
        if isinstance(step.pattern, Text) and step.pattern.text:
            return [_replace_step(step.pattern.text, step.content)]
        return [u8(DecoderKind.MATCHES) + program.matcher(step.pattern) + text(step.content)]
    if isinstance(step, decoders.Strip):
        # It goes character by character: several are never found.
        content = step.content if len(step.content) == 1 else ""
        return [
            u8(DecoderKind.STRIP) + text(content) + u32(_count(step.start)) + u32(_count(step.stop))
        ]
    if isinstance(step, decoders.BPE):
        return [_replace_step(step.suffix, " ", last="")]
    if isinstance(step, decoders.CTC):
        steps = [DIFFERENT, _replace_step(step.pad_token, "")]
        if step.cleanup:
            steps += [_clean_step(CLEAN_UPS), _replace_step(step.word_delimiter_token, " ")]
        return [*steps, NOT_EMPTY]
    raise UnsupportedError(f"the core has no step for {type(step).__name__}")


def _count(number: int) -> int:
    """Return a number of times that no text is longer than."""
    return max(0, min(number, NONE - 1))


def bytewise_steps(spec: TokenizerSpec, *, mapped: bool) -> tuple[list[bytes], bool]:
    """Return the steps of a ``Bytewise`` decoder; see ``chain_steps``."""
    from mtkit.pipeline.byte_decoders import final_clean_up_pairs

    assert isinstance(spec.decoder, decoders.Bytewise)
    listed = list(components_of(decoders.Sequence(spec.decoder.steps)))
    as_bytes = mapped and bool(listed) and isinstance(listed[0], decoders.ByteLevel)
    steps = []
    for step in listed[1:] if as_bytes else listed:
        steps += _bytewise_step(step)
    pairs = final_clean_up_pairs(spec)
    if pairs:
        steps += [_join_step(), _clean_step(pairs)]
    return steps, as_bytes


def _bytewise_step(step: Decoder) -> list[bytes]:
    if isinstance(step, decoders.ByteLevel):
        return [EACH_LETTER]
    if isinstance(step, decoders.ByteFallback):
        return [EACH_BYTE]
    if isinstance(step, decoders.Metaspace):
        replaced = _replace_step(step.replacement, " ", by_bytes=True)
        return [replaced] if step.prepend_scheme == "never" else [replaced, FIRST_SPACE]
    if isinstance(step, decoders.WordPiece):
        return [_glue_step(step.prefix, first_too=True)]
    if isinstance(step, decoders.FirstMark):
        return [FIRST_MARK]
    if isinstance(step, decoders.Fuse):
        return [_join_step()]
    if isinstance(step, decoders.Replace):
        return [_replace_step(getattr(step.pattern, "text", ""), step.content, by_bytes=True)]
    if isinstance(step, decoders.Strip):
        return [u8(DecoderKind.ENDS) + text(step.content) + u8(step.start > 0) + u8(step.stop > 0)]
    raise UnsupportedError(f"the core has no step for {type(step).__name__}")


_DROPS = {"none": 0, "first": 1, "all": 2}
_NORMAL = int(TokenType.NORMAL)


class DecodeProgram:
    """Compiles the way back of one specification.

    Attributes:
        listed: Id -> flags and text, of ids that are not regular pieces.
    """

    def __init__(self, program: Program, mapped: bytes | None) -> None:
        """Begin.

        Args:
            mapped: Where the table of pieces has bytes instead of letters: for each id whether it
                does.
        """
        self.program = program
        self.spec = program.spec
        self.mapped = mapped
        self.listed: dict[int, tuple[int, bytes]] = {}
        self.family = Family.CHAIN
        self.spelling = Spelling.AS_IS
        self.unknown: bytes | None = None
        self.steps: list[bytes] = []

    def compile(self) -> bytes:
        """Return the section."""
        decoder = self.spec.decoder
        if isinstance(decoder, decoders.Pieces):
            self._pieces(decoder)
        elif isinstance(decoder, decoders.Bytewise):
            self._bytewise(decoder)
        elif isinstance(decoder, (decoders.Subwords, decoders.AfterBos)):
            self._by_piece(decoder)
        else:
            self._chain()
        ids = sorted(self.listed)
        entries = [self.listed[token_id] for token_id in ids]
        texts = [content for _, content in entries]
        drops, normalizer = "none", u8(NormalizerKind.NOTHING)
        if isinstance(decoder, decoders.Subwords):
            drops = decoder.drop_marks
            if decoder.denormalizer:
                normalizer = self.program.spaces(decoder.denormalizer, ())
        return b"".join(
            [
                u32(DECODER_VERSION),
                u32(self.spec.vocab_size),
                u8(self.family),
                u8(self.spelling),
                u8(self.unknown is not None),
                text(self.unknown or b""),
                u8(_DROPS[drops]),
                normalizer,
                u32(self.spec.special_ids.bos),
                numbers(ids),
                numbers(accumulate(map(len, texts))),
                text(bytes([flags for flags, _ in entries])),
                text(b"".join(texts)),
                u32(len(self.steps)),
                *self.steps,
            ]
        )

    def _list_irregular(self, spell: Callable[[int], bytes]) -> None:
        """List the pieces that are not in the byte alphabet, with what each is decoded to."""
        pieces = self.spec.vocabulary.pieces
        mapped = self.mapped
        if mapped is None:
            mapped = native.raw_pieces(pieces.blob, pieces.ends.data)[2]
        for token_id in places_of_byte(mapped, 0):
            self.listed.setdefault(token_id, (0, spell(token_id)))

    def _chain(self) -> None:
        """Components over the texts of tokens, or a rule that joins them."""
        from mtkit.pipeline.added_tokens import Cutter
        from mtkit.pipeline.decoders import letters_to_bytes
        from mtkit.pipeline.decoding import Decoding
        from mtkit.pipeline.normalizers import compile_normalizer

        spec, pieces = self.spec, self.spec.vocabulary.pieces
        added = spec.added_tokens.tokens
        normalize = None
        if spec.normalizer and any(token.normalized for token in added):
            normalize = compile_normalizer(spec.normalizer, user_defined_pieces(spec))
        decoding = Decoding(spec, Cutter(spec.added_tokens, normalize).normalized)
        self.steps, as_bytes = chain_steps(self.program, mapped=self.mapped is not None)

        special = {token.content for token in added if token.special}
        ids = {token.id for token in added if token.id >= 0}
        ids.update(self.spec.vocabulary.of_type(TokenType.ABSENT))
        ids.update(pieces.places(special))
        for token_id in ids:
            spelling = decoding.token(token_id)
            if spelling is None:
                self.listed[token_id] = (IdFlag.ABSENT, b"")
                continue
            content = spelling.encode("utf-8", "surrogateescape")
            hidden = IdFlag.HIDDEN if content in special else 0
            self.listed[token_id] = (hidden, letters_to_bytes(spelling) if as_bytes else content)
        if self.mapped is not None and not as_bytes:
            self.spelling = Spelling.LETTERS
            self._list_irregular(lambda token_id: bytes(pieces[token_id]))

    def _pieces(self, decoder: decoders.Pieces) -> None:
        """Tokens by their roles."""
        from mtkit.pipeline import byte_decoders as roles

        spec = self.spec
        self.family = Family.ROLES
        added = {token.id: token for token in spec.added_tokens.tokens}
        others = self.spec.vocabulary.of_type(*(role for role in range(256) if role != _NORMAL))
        for token_id in {*added, *others}:
            if token_id < 0:
                continue
            hidden = token_id in added and added[token_id].special
            content = roles.bytes_by_role(spec, added, token_id)
            self.listed[token_id] = (IdFlag.HIDDEN if hidden else 0, content)
        spelling = decoder.spelling
        if spelling == "byte_alphabet":
            self.spelling = Spelling.BYTES if self.mapped is None else Spelling.AS_IS
        elif self.mapped is not None:
            self.spelling = Spelling.LETTERS
            if spelling == "words":
                for token_id in range(len(spec.vocabulary)):
                    piece = roles.bytes_by_role(spec, added, token_id)
                    self.listed.setdefault(token_id, (0, piece))
        else:
            self.spelling = {"marks": Spelling.MARKS, "words": Spelling.WORDS}.get(
                spelling, Spelling.AS_IS
            )
        if self.spelling == Spelling.BYTES or self.mapped is not None:
            self._list_irregular(lambda token_id: roles.bytes_by_role(spec, added, token_id))
        self.steps = [FIRST_SPACE] if decoder.drop_first_space else []
        self.steps += clean_steps(spec.clean_up_spaces)

    def _bytewise(self, decoder: decoders.Bytewise) -> None:
        """Pieces as bytes; special tokens are left out of a sequence."""
        from mtkit.pipeline import byte_decoders

        self.steps, as_bytes = bytewise_steps(self.spec, mapped=self.mapped is not None)
        spell = byte_decoders.map_letters if as_bytes else bytes
        self.unknown = spell(decoder.unknown)
        for token_id in byte_decoders.ids_left_out(self.spec):
            if token_id >= 0:
                piece = byte_decoders.bytewise_piece(self.spec, token_id)
                self.listed[token_id] = (IdFlag.HIDDEN, spell(piece))
        if self.mapped is not None:
            self.spelling = Spelling.AS_IS if as_bytes else Spelling.LETTERS
            pieces = self.spec.vocabulary.pieces
            self._list_irregular(lambda token_id: spell(pieces[token_id]))

    def _by_piece(self, decoder: decoders.Subwords | decoders.AfterBos) -> None:
        """Pieces of a trained subword model."""
        pieces = self.spec.vocabulary.pieces
        if self.mapped is not None:  # the core has other pieces
            self.listed = {at: (0, bytes(piece)) for at, piece in enumerate(pieces)}
        if isinstance(decoder, decoders.AfterBos):
            self.family = Family.AFTER_BOS
            for token_id in self.spec.vocabulary.of_type(TokenType.CONTROL):
                self.listed[token_id] = (IdFlag.HIDDEN, bytes(pieces[token_id]))
            return
        self.family = Family.SUBWORDS
        of_bytes = self.spec.vocabulary.of_type(TokenType.BYTE)
        first, last = (of_bytes[0], of_bytes[-1]) if of_bytes else (0, -1)
        together = last - first + 1 == len(of_bytes)  # as a rule
        spellings = pieces[first : last + 1] if together else [pieces[at] for at in of_bytes]
        byte_of = _bytes_by_name()
        for token_id, piece in zip(of_bytes, spellings, strict=True):
            if piece in byte_of:
                self.listed[token_id] = byte_of[piece]
        for token_id in self.spec.vocabulary.of_type(TokenType.CONTROL):
            self.listed[token_id] = (IdFlag.PLAIN, b"")
        for token_id in self.spec.vocabulary.of_type(TokenType.UNKNOWN):
            self.listed[token_id] = (IdFlag.PLAIN, decoder.unk_surface)


@cache
def _bytes_by_name() -> dict[bytes, tuple[int, bytes]]:
    """Return what byte tokens are decoded to."""
    return {piece: (IdFlag.BYTE, bytes((byte,))) for byte, piece in enumerate(BYTE_TOKENS)}
