"""What people call the models, for messages."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec.models import Model

_NAMES = {
    "BPE": "BPE by merges",
    "LooseBPE": "BPE by pairs",
    "RankBPE": "BPE by rank",
    "ScoreBPE": "BPE by score",
    "SectionBPE": "BPE with sections",
    "LatticeUnigram": "Unigram over bytes",
    "Characters": "single characters",
    "Words": "whole words",
    "Trie": "greedy longest match",
    "ShortestPath": "PLaMo-2's shortest path",
}
"""Record of a model -> its name, where people call it otherwise."""


def model_name(model: Model) -> str:
    """Return what people call a model, such as "BPE by score"."""
    name = type(model).__name__
    return _NAMES.get(name, name)
