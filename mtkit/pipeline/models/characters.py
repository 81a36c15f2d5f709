"""Models without segmentation: every character, or every word, is a token or unknown.

Source: google/sentencepiece, char_model.cc, word_model.cc, model_interface.cc
(``SplitIntoWords``).
"""

from __future__ import annotations

from mtkit.pipeline.models import WordTrace
from mtkit.pipeline.models.score_bpe import Tables
from mtkit.pipeline.models.words import in_characters, piece_steps, spell_unknown
from mtkit.spec.text import MARK_BYTES
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models


class Characters:
    """Encoder of ``spec.models.Characters``."""

    def __init__(
        self, spec: TokenizerSpec, model: spec_models.Characters | spec_models.Words
    ) -> None:
        self.model = model
        self.vocabulary = spec.vocabulary
        self.tables = Tables(spec.vocabulary)
        self.byte_ids = self.tables.byte_ids() if self.model.byte_fallback else None

    def parts(self, data: bytes) -> list[bytes]:
        """Cut a text into what is looked up."""
        return self.tables.cut(data)[0]

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a text."""
        found = [(part, self.tables.find(part)) for part in self.parts(to_bytes(word))]
        spans = spell_unknown(found, unk=self.model.unk, byte_ids=self.byte_ids)
        return in_characters(word, spans)

    def trace(self, word: str) -> WordTrace:
        """Return the tokens of a text."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))


class Words(Characters):
    """Encoder of ``spec.models.Words``."""

    def parts(self, data: bytes) -> list[bytes]:
        """Cut in front of every mark."""
        head, *rest = data.split(MARK_BYTES)
        return [head] * bool(head) + [MARK_BYTES + part for part in rest]
