"""A word is a token or unknown.

Source: huggingface/tokenizers 0.23, models/wordlevel/mod.rs (``tokenize``).
"""

from __future__ import annotations

from mtkit.pipeline.models import WordTrace
from mtkit.pipeline.models.words import no_token, piece_steps
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models


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
