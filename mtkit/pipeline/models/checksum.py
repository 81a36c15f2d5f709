"""A stand-in for a vocabulary in tests: every five bytes are one id, their checksum.

Source: ggml-org/llama.cpp, llama-vocab.cpp, ``llm_tokenizer_test``.
"""

from __future__ import annotations

from mtkit.errors import FormatError
from mtkit.pipeline.models import WordTrace
from mtkit.pipeline.models.words import lay_out, piece_steps
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models

CHUNK_BYTES = 5
FACTOR = 31


class Checksum:
    """Encoder of ``spec.models.Checksum``."""

    def __init__(self, spec: TokenizerSpec, _: spec_models.Checksum) -> None:
        self.vocabulary = spec.vocabulary
        if not len(self.vocabulary):
            raise FormatError("is empty", field="vocabulary")

    def encode(self, word: str) -> list[Symbol]:
        """Return the checksums of a text."""
        data, size = to_bytes(word), len(self.vocabulary)
        tokens = []
        for at in range(0, len(data), CHUNK_BYTES):
            chunk = data[at : at + CHUNK_BYTES]
            number = 0
            for byte in chunk:
                number = number * FACTOR + byte
            tokens.append((number % size, len(chunk)))
        return lay_out(word, tokens)

    def trace(self, word: str) -> WordTrace:
        """Return the pieces of a text."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))
