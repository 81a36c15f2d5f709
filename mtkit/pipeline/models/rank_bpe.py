"""Byte-pair encoding without a merge list: the union with the lowest id merges first.

Source: openai/tiktoken, src/lib.rs (``byte_pair_encode``): a word that is a token is looked up
whole; else the pair with the lowest rank merges, leftmost among equals.
"""

from __future__ import annotations

from mtkit.pipeline.models import MergeStep, WordTrace
from mtkit.pipeline.models.merging import merge
from mtkit.pipeline.models.words import lay_out, no_token, piece_steps
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.pipeline.models.merging import More, Rank
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models


class RankBPE:
    """Encoder of ``spec.models.RankBPE``."""

    def __init__(self, spec: TokenizerSpec, _: spec_models.RankBPE) -> None:
        self.vocabulary = spec.vocabulary
        self.ids = spec.vocabulary.ids

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a word."""
        return self._run(word, None)[1]

    def trace(self, word: str) -> WordTrace:
        """Return the merges of a word in order."""
        steps: list[MergeStep] = []
        start, symbols = self._run(word, steps)
        return WordTrace(tuple(start), tuple(steps), piece_steps(self.vocabulary, symbols))

    def _run(self, word: str, steps: list[MergeStep] | None) -> tuple[list[bytes], list[Symbol]]:
        """Return the start symbols and the tokens; with ``steps``, append each merge."""
        ids = self.ids
        data = to_bytes(word)
        if not data:
            return [], []
        if data in ids:
            return [data], [(ids[data], 0, len(word))]

        def candidate(left: bytes, right: bytes) -> tuple[int, bytes] | None:
            made = left + right
            token_id = ids.get(made)
            return None if token_id is None else (token_id, made)

        def observe(rank: Rank, left: bytes, right: bytes, after: list[bytes], more: More) -> None:
            assert steps is not None
            steps.append(MergeStep((left, right), int(rank), None, tuple(after), more))

        start = [to_bytes(character) for character in word]
        for text in start:
            if text not in ids:
                raise no_token(text)
        merged = merge(
            start,
            [len(text) for text in start],
            candidate,
            lambda left, right: left + right,
            observe=None if steps is None else observe,
        )
        return start, lay_out(word, [(ids[text], size) for text, size in merged])
