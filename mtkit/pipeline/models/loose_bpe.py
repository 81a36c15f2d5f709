"""Byte-pair encoding by pairs with ranks of their own, whose results are looked up as they come.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``BPEModel::bpe``), by its behavior.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from mtkit.pipeline.models import MergeStep, WordTrace
from mtkit.pipeline.models.merging import symbols_near
from mtkit.pipeline.models.words import lay_out, piece_steps
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models


class LooseBPE:
    """Encoder of ``spec.models.LooseBPE``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.LooseBPE) -> None:
        self.vocabulary = spec.vocabulary
        self.pieces = list(spec.vocabulary.pieces)
        self.ids = spec.vocabulary.ids
        self.ranks: dict[tuple[int, int], int] = {}
        for pair, rank in zip(model.pairs.pairs(), model.ranks, strict=True):
            self.ranks.setdefault(pair, rank)

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a word."""
        return lay_out(word, self._merge(*self._start(word), None))

    def trace(self, word: str) -> WordTrace:
        """Return the merges of a word in order."""
        steps: list[MergeStep] = []
        keys, sizes = self._start(word)
        symbols = lay_out(word, self._merge(list(keys), sizes, steps))
        start = tuple(self.pieces[key] for key in keys)
        return WordTrace(start, tuple(steps), piece_steps(self.vocabulary, symbols))

    def _start(self, word: str) -> tuple[list[int], list[int]]:
        """Return ids and sizes in bytes of what the word begins as.

        What is dropped counts as part of the token in front, so that the places behind it are
        right.
        """
        keys: list[int] = []
        sizes: list[int] = []
        for character in word:
            text = to_bytes(character)
            token_id = self.ids.get(text)
            parts = [(token_id, len(text))]
            if token_id is None:
                parts = [(self.ids.get(BYTE_TOKENS[byte]), 1) for byte in text]
            for key, size in parts:
                if key is not None:
                    keys.append(key)
                    sizes.append(size)
                elif sizes:
                    sizes[-1] += size
        return keys, sizes

    def _merge(
        self, keys: list[int], sizes: list[int], steps: list[MergeStep] | None
    ) -> list[tuple[int, int]]:
        """Merge the lowest rank, leftmost first, until no pair is left or one makes nothing."""
        count = len(keys)
        following = list(range(1, count + 1))
        preceding = list(range(-1, count - 1))
        heap = [
            (rank, left, keys[left], keys[left + 1])
            for left in range(count - 1)
            if (rank := self.ranks.get((keys[left], keys[left + 1]))) is not None
        ]
        heapify(heap)
        alive = [True] * count
        while heap:
            rank, at, left, right = heappop(heap)
            behind = following[at]
            if not alive[at] or behind >= count or (keys[at], keys[behind]) != (left, right):
                continue
            made = self.ids.get(self.pieces[left] + self.pieces[right])
            if made is None:
                break
            keys[at] = made
            sizes[at] += sizes[behind]
            alive[behind] = False
            after = following[at] = following[behind]
            if after < count:
                preceding[after] = at
            if steps is not None:
                near, more = symbols_near(at, keys, preceding, following)
                pair = self.pieces[left], self.pieces[right]
                texts = tuple(self.pieces[key] for key in near)
                steps.append(MergeStep(pair, rank, None, texts, more))
            for place in (preceding[at], at):
                if place >= 0 and following[place] < count:
                    pair_ids = keys[place], keys[following[place]]
                    found = self.ranks.get(pair_ids)
                    if found is not None:
                        heappush(heap, (found, place, *pair_ids))
        return [(keys[at], sizes[at]) for at in range(count) if alive[at]]
