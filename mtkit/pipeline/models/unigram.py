"""The segmentation with the highest sum of scores, found from left to right.

``best[i]`` is the best sum of a segmentation of the first i bytes. From each place that a
segmentation can reach, every piece that begins there offers a sum for the place where it ends; it
wins when it is strictly greater (so the earliest start, the longest last piece, keeps a tie).

With ``precision`` f32 every sum is rounded to float32 before it is compared, so ties are common;
where a sum has grown beyond ``RESET``, the sums from there on are counted from it.

Source: google/sentencepiece 0.2.3, unigram_model.cc (``EncodeOptimized``);
huggingface/tokenizers 0.23, models/unigram/model.rs (``encode_optimized``, ``tokenize``).
"""

from __future__ import annotations

from array import array
from math import inf

from mtkit.pipeline.models import WordTrace
from mtkit.pipeline.models.score_bpe import Tables
from mtkit.pipeline.models.words import (
    Prefixes,
    character_size,
    in_characters,
    no_token,
    piece_steps,
    spell_unknown,
)
from mtkit.spec import TokenType
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.models import Symbol
    from mtkit.spec import TokenizerSpec
    from mtkit.spec import models as spec_models

UNKNOWN_PENALTY = 10.0
"""What an unknown character costs below the lowest score (kUnkPenalty)."""
USER_DEFINED_BONUS = 0.1
"""What a preferred piece counts for each byte after its first (sentencepiece 0.2.3, measured)."""
RESET = 100_000.0
"""Float32 sums beyond it begin again (kScoreResetThreshold)."""
FLOAT_MAX = (2.0 - 2.0**-23) * 2.0**127


def f32(value: float) -> float:
    """Round to float32."""
    return array("f", (value,))[0]


class Unigram:
    """Encoder of ``spec.models.Unigram``."""

    def __init__(self, spec: TokenizerSpec, model: spec_models.Unigram) -> None:
        self.model = model
        self.vocabulary = vocabulary = spec.vocabulary
        tables = Tables(vocabulary)
        self.ids = tables.segmented
        if model.candidates == "any":
            self.ids = vocabulary.last_ids
        tried = dict(self.ids)
        tried.pop(b"", None)
        if model.candidates == "used":
            tried = {piece: i for piece, i in tried.items() if i not in tables.unused}
        self.byte_ids = tables.byte_ids() if model.byte_fallback else None
        self.prefixes = Prefixes(tried)
        self.path_scores = self._path_scores()

    def _path_scores(self) -> list[float]:
        """Return what each id counts as a piece; also set ``unk_offer``."""
        model, vocabulary = self.model, self.vocabulary
        size = len(vocabulary)
        path_scores = [0.0] * size if vocabulary.scores is None else list(vocabulary.scores)
        kinds = vocabulary.all_types()
        if model.candidates == "any":
            counted = [s for s, kind in zip(path_scores, kinds, strict=True) if kind != 255]
        else:
            counted = [s for s, kind in zip(path_scores, kinds, strict=True) if kind == 1]
        lowest = min(counted, default=FLOAT_MAX) - UNKNOWN_PENALTY
        self.unk_offer = lowest if model.candidates == "any" else f32(lowest)
        if model.user_defined != "score":
            for token_id, kind in enumerate(kinds):
                if kind == TokenType.USER_DEFINED:
                    length = len(vocabulary.pieces[token_id])
                    preferred = f32(USER_DEFINED_BONUS * (length - 1))
                    path_scores[token_id] = preferred if model.user_defined == "preferred" else 0.0
        return path_scores

    def encode(self, word: str) -> list[Symbol]:
        """Return the tokens of a text."""
        data = to_bytes(word)
        return in_characters(word, self._spell(self._segment(data)))

    def trace(self, word: str) -> WordTrace:
        """Return the tokens of a text with their scores."""
        return WordTrace((), (), piece_steps(self.vocabulary, self.encode(word)))

    def _segment(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return the pieces of the best segmentation as (bytes, id)."""
        model, path_scores, unk = self.model, self.path_scores, self.model.unk
        size = len(data)
        rounded, reset = (f32, RESET) if model.precision == "f32" else (float, inf)
        best = [0.0] * (size + 1)
        came_from = [-1] * (size + 1)
        ids = [-1] * (size + 1)
        start = reached = 0
        while start < size:
            if abs(best[start]) > reset:
                here = best[start]
                for place in range(start, reached + 1):
                    if place == start or came_from[place] >= 0:
                        best[place] = rounded(best[place] - here)
            here = best[start]
            next_start = min(start + character_size(data[start]), size)
            single = False
            for end, token_id in self.prefixes.at(data, start):
                reached = max(reached, end)
                offer = rounded(path_scores[token_id] + here)
                if came_from[end] < 0 or offer > best[end]:
                    best[end], came_from[end], ids[end] = offer, start, token_id
                single = single or end == next_start
            if not single:
                reached = max(reached, next_start)
                offer = rounded(self.unk_offer + here)
                if came_from[next_start] < 0 or offer > best[next_start]:
                    if unk is None:
                        raise no_token(data[start:next_start])
                    best[next_start], came_from[next_start], ids[next_start] = offer, start, unk
            start = next_start
        path: list[tuple[bytes, int]] = []
        end = size
        while end > 0:
            path.append((data[came_from[end] : end], ids[end]))
            end = came_from[end]
        path.reverse()
        return path

    def _spell(self, path: list[tuple[bytes, int]]) -> list[Symbol]:
        """Fuse unknown pieces and spell them; return (id, start, end) in bytes."""
        unk, last = self.model.unk, self.model.byte_places == "last"
        parts: list[tuple[bytes, int | None]] = []
        for text, token_id in path:
            fuses = token_id == unk and self.model.fuse_unk and not last
            if fuses and parts and parts[-1][1] is None:
                parts[-1] = parts[-1][0] + text, None
            else:
                parts.append((text, None if token_id == unk else token_id))
        if self.model.candidates == "any":
            # The reference looks the joined text up again: it can be a piece after all.
            parts = [
                (text, self.ids.get(text) if token_id is None else token_id)
                for text, token_id in parts
            ]
        fuse = self.model.fuse_unk
        return spell_unknown(parts, unk=unk, byte_ids=self.byte_ids, fuse=fuse, last=last)
