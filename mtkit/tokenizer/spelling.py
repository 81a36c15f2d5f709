"""How a vocabulary spells its tokens, and which bytes of text each stands for by itself."""

from __future__ import annotations

from collections.abc import Mapping

from mtkit.base.record import Record, fields
from mtkit.spec import normalizers, pre_tokenizers
from mtkit.spec.text import MARK
from mtkit.spec.vocabulary import TokenType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.spec import TokenizerSpec

_BYTE_LEVEL = (normalizers.ByteLevel, pre_tokenizers.ByteLevel)
_MARKING = (normalizers.Spaces, pre_tokenizers.Metaspace)


class Spelling:
    """The tokens of a specification by id; an added token wins over the vocabulary's."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._vocabulary = spec.vocabulary
        self._added = {token.id: token.content for token in spec.added_tokens.tokens}
        self._special = {token.id for token in spec.added_tokens.tokens if token.special}
        self._added_ids = {content: token_id for token_id, content in [*self._added.items()][::-1]}
        parts = [*_inside(spec.normalizer), *_inside(spec.pre_tokenizer)]
        self._byte_level = any(isinstance(part, _BYTE_LEVEL) for part in parts)
        self._marked = any(isinstance(p, _MARKING) or _has_mark(p) for p in parts)

    def piece(self, token_id: int) -> bytes | None:
        """Return an id's bytes as the vocabulary spells them, or None where there is no token."""
        added = self._added.get(token_id)
        if added is not None:
            return added
        if not 0 <= token_id < len(self._vocabulary):
            return None
        if self._vocabulary.type_of(token_id) is TokenType.ABSENT:
            return None
        piece: bytes = self._vocabulary.pieces[token_id]
        return piece

    def kind(self, token_id: int) -> str:
        """Return what an id is for: "normal", "control", "byte" …, or "added"."""
        inside = 0 <= token_id < len(self._vocabulary)
        kind = self._vocabulary.type_of(token_id) if inside else TokenType.ABSENT
        if token_id in self._added and kind in (TokenType.ABSENT, TokenType.NORMAL):
            return "control" if token_id in self._special else "added"
        return kind.name.lower()

    def id_of(self, piece: bytes) -> int | None:
        """Return the id of a piece in the vocabulary's spelling, or None."""
        added = self._added_ids.get(piece)
        return self._vocabulary.pieces.ids.get(piece) if added is None else added

    def text(self, token_id: int) -> bytes:
        """Return the bytes of text that an id stands for, as far as it does so by itself.

        The byte alphabet is read back, U+2581 is a space where the tokenizer marks spaces so, a
        byte token is its byte; other pieces stand for themselves.
        """
        piece = self.piece(token_id) or b""
        return piece if token_id in self._added else self.text_of(piece)

    def text_of(self, piece: bytes) -> bytes:
        """Return the bytes of text that a piece stands for by itself, added tokens aside."""
        if self._byte_level:
            from mtkit.unicode.utf8 import bytes_of_letters

            raw = bytes_of_letters(piece.decode("utf-8", "replace"))
            return piece if raw is None else raw
        if len(piece) == 6 and piece.startswith(b"<0x") and piece.endswith(b">"):
            try:
                return bytes([int(piece[3:5], 16)])
            except ValueError:
                return piece
        return piece.replace(MARK.encode(), b" ") if self._marked else piece

    def ids_of_text(self, text: bytes) -> list[int]:
        """Return the ids that stand for a text by themselves, in order."""
        from mtkit.unicode.utf8 import letters_of_bytes

        pieces = [text, letters_of_bytes(text).encode(), text.replace(b" ", MARK.encode())]
        pieces += [f"<0x{byte:02X}>".encode() for byte in text if len(text) == 1]
        ids = {self.id_of(piece) for piece in pieces}
        return sorted(i for i in ids if i is not None and self.text(i) == text)


class Vocabulary(Mapping[str, int]):
    """Token as the vocabulary spells it -> id; of several with one spelling, the one it means."""

    def __init__(self, spelling: Spelling, size: int) -> None:
        self._spelling, self._size = spelling, size
        self._count: int | None = None

    def __getitem__(self, token: str) -> int:
        token_id = self._spelling.id_of(token.encode("utf-8", "surrogatepass"))
        if token_id is None:
            raise KeyError(token)
        return token_id

    def __iter__(self) -> Iterator[str]:
        spelling = self._spelling
        for token_id in range(self._size):
            piece = spelling.piece(token_id)
            if piece is not None and spelling.id_of(piece) == token_id:
                yield piece.decode("utf-8", "backslashreplace")

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count

    def __repr__(self) -> str:
        return f"<Vocabulary of {self._size} ids>"


def _inside(component: object) -> Iterator[Record]:
    if isinstance(component, tuple):
        for part in component:
            yield from _inside(part)
    elif isinstance(component, Record):
        yield component
        for name in fields(component):
            yield from _inside(getattr(component, name))


def _has_mark(part: Record) -> bool:
    values = (getattr(part, name) for name in fields(part))
    return any(isinstance(value, str) and MARK in value for value in values)
