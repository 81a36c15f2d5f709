"""What a vocabulary says of its ids."""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import TokenType, Vocabulary


def test_ids_of_a_type() -> None:
    pieces = Pieces.of([b"a", b"b", b"c", b"d"])
    types = [TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.ABSENT, TokenType.USER_DEFINED]
    typed = Vocabulary(pieces, Numbers.of("B", types))
    assert typed.of_type(TokenType.USER_DEFINED) == [1, 3]
    assert typed.of_type(TokenType.ABSENT, TokenType.NORMAL) == [0, 2]
    assert typed.of_type(TokenType.BYTE) == []
    plain = Vocabulary(pieces)
    assert plain.of_type(TokenType.NORMAL) == plain.of_type(6, TokenType.NORMAL) == [0, 1, 2, 3]
    assert plain.of_type(TokenType.CONTROL) == []
