"""Greedy longest match over bytes.

A byte at which no piece begins is the unknown token.

Source: BlinkDL/RWKV-LM, rwkv_tokenizer.py (``encodeBytes``).
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
            found = self.prefixes.longest(data, at)
            if found is None:
                if self.model.unk is None:
                    raise no_token(data[at : at + 1])
                found = at + 1, self.model.unk
            tokens.append((found[1], found[0] - at))
            at = found[0]
        return lay_out(word, tokens)

    def trace(self, word: str) -> WordTrace:
        """Return the pieces of a text."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))
