"""The way back as a program: the section DECO that native/decode/decoder.cpp reads.

Regular pieces are decoded from the table of pieces. Ids of which more is to be known (added tokens,
roles) are listed with the text that the pipeline gives for each. The decoder's components become
small steps over the tokens. What the core has no step for is ``UnsupportedError``.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

from mtkit.base.native import native
from mtkit.base.packed import places_of_byte
from mtkit.engine.decode_steps import FIRST_SPACE, bytewise_steps, chain_steps, clean_steps
from mtkit.engine.opcodes import DECODER_VERSION, Family, IdFlag, NormalizerKind, Spelling
from mtkit.engine.program_writer import numbers, text, u8, u32
from mtkit.spec import TokenType, decoders
from mtkit.spec.traverse import user_defined
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.engine.program import Program

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
            program: The program of the specification, which has its patterns.
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
        """Return the section.

        Raises:
            UnsupportedError: The core has no steps for the decoder.
        """
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

    def _list_irregular(self, spelled: Callable[[int], bytes]) -> None:
        """List the pieces that are not in the byte alphabet, with what each is decoded to."""
        pieces = self.spec.vocabulary.pieces
        mapped = self.mapped
        if mapped is None:
            mapped = native.raw_pieces(pieces.blob, pieces.ends.data)[2]
        for token_id in places_of_byte(mapped, 0):
            self.listed.setdefault(token_id, (0, spelled(token_id)))

    def _chain(self) -> None:
        """Components over the texts of tokens, or a rule that joins them."""
        from mtkit.pipeline.added_tokens import Cutter
        from mtkit.pipeline.decoders.components import letters_to_bytes
        from mtkit.pipeline.decoders.decode import Decoding
        from mtkit.pipeline.normalizers.components import compile_normalizer

        spec, pieces = self.spec, self.spec.vocabulary.pieces
        added = spec.added_tokens.tokens
        normalize = None
        if spec.normalizer and any(token.normalized for token in added):
            normalize = compile_normalizer(spec.normalizer, user_defined(spec))
        decoding = Decoding(spec, Cutter(spec.added_tokens, normalize).normalized)
        self.steps, as_bytes = chain_steps(self.program, mapped=self.mapped is not None)

        special = {token.content for token in added if token.special}
        wanted = {token.id for token in added if token.id >= 0}
        wanted.update(self.spec.vocabulary.of_type(TokenType.ABSENT))
        wanted.update(pieces.places(special))
        for token_id in wanted:
            shown = decoding.token(token_id)
            if shown is None:
                self.listed[token_id] = (IdFlag.ABSENT, b"")
                continue
            content = shown.encode("utf-8", "surrogateescape")
            hidden = IdFlag.HIDDEN if content in special else 0
            self.listed[token_id] = (hidden, letters_to_bytes(shown) if as_bytes else content)
        if self.mapped is not None and not as_bytes:
            self.spelling = Spelling.LETTERS
            self._list_irregular(lambda token_id: bytes(pieces[token_id]))

    def _pieces(self, decoder: decoders.Pieces) -> None:
        """Tokens by their roles."""
        from mtkit.pipeline.decoders import pieces as roles

        spec = self.spec
        self.family = Family.ROLES
        added = {token.id: token for token in spec.added_tokens.tokens}
        others = self.spec.vocabulary.of_type(*(role for role in range(256) if role != _NORMAL))
        for token_id in {*added, *others}:
            if token_id < 0:
                continue
            hidden = token_id in added and added[token_id].special
            content = roles.piece_of(spec, added, token_id)
            self.listed[token_id] = (IdFlag.HIDDEN if hidden else 0, content)
        spelling = decoder.spelling
        if spelling == "byte_alphabet":
            self.spelling = Spelling.BYTES if self.mapped is None else Spelling.AS_IS
        elif self.mapped is not None:
            self.spelling = Spelling.LETTERS
            if spelling == "words":
                for token_id in range(len(spec.vocabulary)):
                    piece = roles.piece_of(spec, added, token_id)
                    self.listed.setdefault(token_id, (0, piece))
        else:
            self.spelling = {"marks": Spelling.MARKS, "words": Spelling.WORDS}.get(
                spelling, Spelling.AS_IS
            )
        if self.spelling == Spelling.BYTES or self.mapped is not None:
            self._list_irregular(lambda token_id: roles.piece_of(spec, added, token_id))
        self.steps = [FIRST_SPACE] if decoder.drop_first_space else []
        self.steps += clean_steps(spec.clean_up_spaces)

    def _bytewise(self, decoder: decoders.Bytewise) -> None:
        """Pieces as bytes; special tokens are left out of a sequence."""
        from mtkit.pipeline.decoders import bytewise

        self.steps, as_bytes = bytewise_steps(self.spec, mapped=self.mapped is not None)
        spelled = bytewise.letters_to_bytes if as_bytes else bytes
        self.unknown = spelled(decoder.unknown)
        for token_id in bytewise.special_ids(self.spec):
            if token_id >= 0:
                piece = bytewise.piece_of(self.spec, token_id)
                self.listed[token_id] = (IdFlag.HIDDEN, spelled(piece))
        if self.mapped is not None:
            self.spelling = Spelling.AS_IS if as_bytes else Spelling.LETTERS
            pieces = self.spec.vocabulary.pieces
            self._list_irregular(lambda token_id: spelled(pieces[token_id]))

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
        spelled = pieces[first : last + 1] if together else [pieces[at] for at in of_bytes]
        byte_of = _bytes_by_name()
        for token_id, piece in zip(of_bytes, spelled, strict=True):
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
