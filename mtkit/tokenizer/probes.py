"""The built-in texts on which tokenizers are compared: 200 of them, in data/probes.json.

They are made to part tokenizers that nearly agree: spaces and their kinds, digits, contractions,
case, scripts without spaces, combining marks in both orders, controls, emoji with joiners, code,
mixtures of words, and ("spelled") texts that spell out what a special token or U+2581 looks like.
"""

from __future__ import annotations

from mtkit.base.binary import package_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.spec import AddedTokens, TokenizerSpec

OWN_TEXTS = 32
"""Of special tokens, at most so many are spelled out in texts of their own."""


def texts() -> list[str]:
    """Return all texts, the spelled ones last."""
    import json

    with open(package_file("probes.json"), encoding="utf-8") as file:
        groups = json.load(file)
    return [*groups["plain"], *groups["spelled"]]


def special_texts(spec: TokenizerSpec) -> list[str]:
    """Return texts that spell out special tokens: in the middle of words and between spaces."""
    from mtkit.spec.vocabulary import TokenType

    kinds = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
    found = sorted(set(spellings(spec, kinds)))
    texts = []
    for token in found[:: -(-len(found) // OWN_TEXTS) or 1]:
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            continue
        texts.append(f"a{text}b {text} c")
    return texts


def spellings(spec: TokenizerSpec, kinds: tuple[int, ...]) -> Iterator[bytes]:
    """Yield the texts of added tokens and of pieces of some types."""
    group: AddedTokens | None = spec.added_tokens
    while group is not None:
        yield from (token.content for token in group.tokens if token.content)
        group = group.first
    pieces = spec.vocabulary.pieces
    for token_id, kind in enumerate(spec.vocabulary.types or ()):
        if kind in kinds and pieces[token_id]:
            yield pieces[token_id]
