"""How probable tokens are, as an answer tells it."""

from __future__ import annotations

from mtkit.serve.job import Chances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.llama import SlotContext
    from mtkit.llm.sampling import Sampler
    from mtkit.serve.job import Terms


def probable(context: SlotContext, row: int, sampler: Sampler, terms: Terms) -> Any:
    """Return logits whose softmax is to be told; None where nothing is.

    Call it before a token is chosen.

    Returns:
        float32 of shape (n_vocab,), minus infinity where a sampler left nothing.
    """
    if terms.top is None:
        return None
    logits = context.logits(row)
    found = logits.copy()
    if terms.sampled:
        left, values = ([], []) if terms.sampler.is_greedy else sampler.distribution(row)
        logits[:] = found  # a bias was added
        found.fill(float("-inf"))
        found[left] = values
    return found


def chances(row: Any, token_id: int, top: int) -> Chances:
    """Return how probable a token was.

    Args:
        row: As ``probable`` gives it.
        token_id: The token.
        top: How many of the most probable tokens to tell, none of which is impossible.
    """
    import numpy as np

    if row[token_id] == float("-inf"):  # greedy, or a grammar took what the samplers had not left
        row[token_id] = 0.0
    shifted = row - row.max()
    total = float(np.log(np.exp(shifted).sum(dtype=np.float64)))
    best: list[tuple[int, float]] = []
    if top:
        places = np.argpartition(-shifted, min(top, len(shifted) - 1))[:top]
        ordered = places[np.argsort(-shifted[places], kind="stable")]
        ordered = ordered[shifted[ordered] > float("-inf")]
        best = [(int(place), float(shifted[place]) - total) for place in ordered]
    return Chances(float(shifted[token_id]) - total, best)
