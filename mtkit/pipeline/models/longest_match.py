"""Models that take the longest piece from the left: over bytes, over a word, or the whole word.

``Trie`` goes over bytes; one at which no piece begins is the unknown token. ``WordPiece`` goes over
a word from its left. To ``WordLevel`` a word is a token or unknown.

Source: BlinkDL/RWKV-LM, rwkv_tokenizer.py (``encodeBytes``); huggingface/tokenizers 0.23,
models/wordpiece/mod.rs and models/wordlevel/mod.rs (``tokenize``).
"""

from __future__ import annotations

from mtkit.pipeline.models import WordTrace
from mtkit.pipeline.models.words import Prefixes, lay_out, no_token, piece_steps
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models


class Trie:
    """Encoder of ``spec.models.Trie``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.Trie) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        self.prefixes = Prefixes(spec.vocabulary.ids)

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a text."""
        data = to_bytes(word)
        tokens: list[tuple[int, int]] = []
        at = 0
        while at < len(data):
            match = self.prefixes.longest(data, at)
            if match is None:
                if self.model.unk is None:
                    raise no_token(data[at : at + 1])
                match = at + 1, self.model.unk
            tokens.append((match[1], match[0] - at))
            at = match[0]
        return lay_out(word, tokens)

    def trace(self, word: str) -> WordTrace:
        """Return the pieces of a text."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))


class WordPiece:
    """Encoder of ``spec.models.WordPiece``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.WordPiece) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        self.ids = spec.vocabulary.ids
        self.prefix = to_bytes(self.model.prefix)
        # In bytes, which bounds the number of characters as well.
        self.longest = max((len(piece) for piece in self.ids), default=0)

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a word: all of them or one unknown token."""
        model = self.model
        size = len(word) if model.unit == "characters" else len(to_bytes(word))
        too_long = model.max_chars is not None and size > model.max_chars
        if too_long and model.too_long == "nothing":
            return []
        symbols: list[Symbol] = []
        start = 0
        while start < len(word) and not too_long:
            prefix = self.prefix if start else b""
            dropped = 0
            if start and model.restart and word.startswith(model.restart, start):
                prefix, dropped = b"", len(model.restart)
            for end in range(min(len(word), start + dropped + self.longest), start + dropped, -1):
                token_id = self.ids.get(prefix + to_bytes(word[start + dropped : end]))
                if token_id is not None:
                    symbols.append((token_id, start, end))
                    start = end
                    break
            else:
                break
        if start < len(word):
            if model.unk is None:
                raise no_token(to_bytes(word))
            if model.gap == "rest":
                return [*symbols, (model.unk, start, len(word))]
            return [(model.unk, 0, len(word))]
        return symbols

    def trace(self, word: str) -> WordTrace:
        """Return the pieces of a word."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))


class WordLevel:
    """Encoder of ``spec.models.WordLevel``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.WordLevel) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        self.ids = spec.vocabulary.ids

    def encode(self, word: str) -> list[Symbol]:
        """Return the one token of a word."""
        data = to_bytes(word)
        token_id = self.ids.get(data, self.model.unk) if data else self.model.unk
        if token_id is None:
            raise no_token(data)
        return [(token_id, 0, len(word))]

    def trace(self, word: str) -> WordTrace:
        """Return the token of a word."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))
