"""The tokens that a token is put together from, in the vocabulary of a GGUF.

Merging never looks beyond the ends of what becomes one token, so a token comes about in every text
as it does alone: by the same merges of the same parts. A vocabulary that has these parts and merges
gives the same tokens, wherever all tokens that come out are in it.
"""

from __future__ import annotations

from itertools import pairwise

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

_BY_MERGES, _BY_SCORES = frozenset({"gpt2", "gemma4"}), frozenset({"llama"})
_WHOLE = frozenset({"t5", "bert", "rwkv"})
"""Models that look tokens up as they are."""
_MOST_CHARACTERS = 4096


class TokenParts:
    """What tokens are made of."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """Take the keys of a model.

        Raises:
            UnsupportedError: Its tokenizer is one of another kind.
        """
        kind = metadata.get("tokenizer.ggml.model")
        if kind not in _BY_MERGES | _BY_SCORES | _WHOLE:
            raise UnsupportedError(f"a vocabulary of the model {kind!r} is not cut")
        self._tokens = list(metadata["tokenizer.ggml.tokens"])
        self._ids: dict[str, int] = {}
        for number, token in enumerate(self._tokens):
            self._ids.setdefault(token, number)
        self._rank: Callable[[str, str], float | None] | None = None
        if kind in _BY_MERGES:
            merges = metadata.get("tokenizer.ggml.merges") or ()
            ranks: dict[str, int] = {}
            for rank, merge in enumerate(merges):
                ranks.setdefault(merge, rank)
            self._rank = lambda left, right: ranks.get(f"{left} {right}")
        elif kind in _BY_SCORES:
            scores = metadata.get("tokenizer.ggml.scores")  # llama.cpp takes 0 where there are none
            self._scores = list(scores or [0.0] * len(self._tokens))
            self._rank = self._by_score

    def closed(self, ids: Iterable[int]) -> set[int]:
        """Return ids with all that they are made of."""
        found: set[int] = set()
        for token_id in ids:
            if token_id not in found:
                found.add(token_id)
                found.update(self._of(self._tokens[token_id]))
        return found

    def merges(self, merges: Iterable[str], kept: set[int]) -> list[str]:
        """Return the merges that a smaller vocabulary has: of nothing that it lacks."""
        gone = {token for number, token in enumerate(self._tokens) if number not in kept}
        gone -= {self._tokens[number] for number in kept}
        return [
            merge
            for merge in merges
            if gone.isdisjoint((*merge.split(" "), merge.replace(" ", "", 1)))
        ]

    def _by_score(self, left: str, right: str) -> float | None:
        number = self._ids.get(left + right)
        return None if number is None else -self._scores[number]

    def _of(self, token: str) -> Iterable[int]:
        if self._rank is None or len(token) < 2:
            return ()
        if len(token) > _MOST_CHARACTERS:
            raise UnsupportedError(f"a token of {len(token)} characters is not taken apart")
        symbols, seen = list(token), set(token)
        while len(symbols) > 1:
            ranks = [self._rank(*pair) for pair in pairwise(symbols)]
            listed = [(rank, at) for at, rank in enumerate(ranks) if rank is not None]
            if not listed:
                return ()  # no text is merged into it
            _, at = min(listed)
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
            seen.add(symbols[at])
        return [self._ids[part] for part in seen if part in self._ids]
