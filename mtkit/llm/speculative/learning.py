"""What puts ids into a dynamic vocabulary: ShenXing's search, the prompt, the text.

The search has a double condition: the first drafted token of a round was rejected, and the target's
most likely id there is not in the static vocabulary. That id joins, and those like it. An id that
fires it again is not searched for again: the answer would be the same.
"""

from __future__ import annotations

import time

from mtkit.gguf.rows import Rows
from mtkit.gguf.vocabulary_rows import EMBEDDING, HEAD
from mtkit.llm.speculative import semantic_index
from mtkit.llm.speculative.draft_vocabulary import Dynamic, finishers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.gguf import GgufFile
    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.proposal import Outcome
    from mtkit.llm.speculative.semantic_index import SemanticIndex
    from mtkit.settings import DraftSettings

_CAP = 4096
"""Ids beside the static ones at most; the oldest leave first."""


class Learning:
    """Changes a dynamic vocabulary between rounds.

    Attributes:
        vocabulary: What is changed.
        search_seconds: Time spent on searches.
        first_rejected: Rounds whose first drafted token was rejected.
        unknown: Rounds that ended where an id outside the static vocabulary was wanted.
        triggers: Rounds that fulfilled both conditions.
        searched: Ids that fulfilled them for the first time.
        neighbors: Ids that searches gave.
        added: Ids that were added, by whatever.
        hits: Accepted tokens that the static vocabulary does not have.
        largest: Most ids that were there at once.
    """

    def __init__(
        self,
        vocabulary: Dynamic,
        index: SemanticIndex | None = None,
        *,
        seed_prompt: bool = False,
        learn: bool = False,
    ) -> None:
        """Begin with an empty dynamic vocabulary.

        Args:
            vocabulary: The draft's.
            index: What is searched where both conditions hold; None: nothing is.
            seed_prompt: Add the ids of the prompt.
            learn: Add every id that is emitted.
        """
        self.vocabulary, self._index = vocabulary, index
        self._seed_prompt, self._learn = seed_prompt, learn
        self.reset()

    def reset(self) -> None:
        """Empty the dynamic vocabulary, and count anew."""
        self.search_seconds = 0.0
        self.first_rejected = self.unknown = self.triggers = 0
        self.neighbors = self.added = self.hits = self.largest = 0
        self.searched: set[int] = set()
        self._waiting: list[int] = []
        self.vocabulary.clear()

    def begin(self, ids: Sequence[int]) -> None:
        """Take a prompt."""
        if self._seed_prompt:
            self._waiting += dict.fromkeys(ids)

    def ready(self) -> None:
        """Add what waits for the next proposal: where none comes, it costs nothing."""
        if self._waiting:
            self._add(self._waiting)
            self._waiting = []

    def saw(self, outcome: Outcome) -> None:
        """Take a round."""
        known = self.vocabulary
        self.hits += sum(i not in known for i in outcome.drafted[: outcome.accepted])
        if self._index is not None and outcome.drafted:
            self._look(outcome, self._index)
        if self._learn:
            self._waiting += [i for i in outcome.emitted if i >= 0]

    def _look(self, outcome: Outcome, index: SemanticIndex) -> None:
        """Search for what a round asks for."""
        wanted, rejected = outcome.most_likely, outcome.accepted == 0
        unknown = wanted >= 0 and wanted not in self.vocabulary
        self.first_rejected += rejected
        self.unknown += unknown
        if not (rejected and unknown):
            return
        self.triggers += 1
        if wanted in self.searched:
            return
        self.searched.add(wanted)
        start = time.perf_counter()
        found = [token_id for token_id, _ in index.search(wanted)]
        self._add([wanted, *found])
        self.neighbors += len(found)
        self.search_seconds += time.perf_counter() - start

    def _add(self, ids: list[int]) -> None:
        self.added += self.vocabulary.add(ids)
        self.largest = max(self.largest, self.vocabulary.size)

    def document(self) -> dict[str, object]:
        """Return the counters for JSON."""
        found: dict[str, object] = {
            "size": self.vocabulary.size,
            "largest": self.largest,
            "added": self.added,
            "hits": self.hits,
        }
        if self._index is not None:
            found |= {
                "first_rejected": self.first_rejected,
                "unknown": self.unknown,
                "triggers": self.triggers,
                "searches": len(self.searched),
                "neighbors": self.neighbors,
                "search_seconds": self.search_seconds,
            }
        return found


def is_dynamic(drafting: DraftSettings) -> bool:
    """Whether anything adds ids to a draft's vocabulary."""
    return drafting.sx_quant_embd is not None or drafting.sx_seed_prompt or drafting.sx_learn


def open_learning(
    drafting: DraftSettings,
    context: Context,
    ids: list[int],
    whole: GgufFile,
    index: SemanticIndex | None,
) -> Learning:
    """Return what makes a vocabulary grow.

    Args:
        drafting: Says what does.
        context: Of the pruned draft.
        ids: What each of its rows stands for.
        whole: The draft that it was cut from.
        index: Of ``open_index``.
    """
    embedding = Rows(whole, whole.names[EMBEDDING])
    head = Rows(whole, whole.names[HEAD]) if HEAD in whole.names else embedding
    vocabulary = Dynamic(context, ids, embedding, head, finishers(whole.metadata), _CAP)
    return Learning(vocabulary, index, seed_prompt=drafting.sx_seed_prompt, learn=drafting.sx_learn)


def open_index(runner: Runner, drafting: DraftSettings) -> SemanticIndex | None:
    """Return what finds the ids like an unknown one; None where nothing is searched for."""
    if drafting.sx_quant_embd is None:
        return None
    assert drafting.sx_scales is not None
    target = runner.header.file
    table = Rows(target, target.names[EMBEDDING])
    return semantic_index.SemanticIndex(
        semantic_index.read(drafting.sx_quant_embd, drafting.sx_scales, table), table,
        top_k=drafting.sx_topk, threshold=drafting.sx_threshold,
    )  # fmt: skip
