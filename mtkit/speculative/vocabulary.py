"""The vocabulary of a draft model: which ids it knows, how they enter, and which its logits mean.

``Learner`` adds ids to a dynamic vocabulary, from ShenXing's search, the prompt and the text. The
search has a double condition: the first drafted token of a round was rejected, and the target's
most likely id there is not in the static vocabulary. That id is added, with those like it. An id
that triggers it again is not searched again: the result would be the same.
"""

from __future__ import annotations

import time

from mtkit.errors import UnsupportedError
from mtkit.gguf.values import EMBEDDING, HEAD, Rows
from mtkit.speculative import semantic_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.gguf import GgufFile
    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.settings import DraftSettings
    from mtkit.speculative.semantic_index import SemanticIndex
    from mtkit.speculative.verification import Outcome


_ALIKE = 1e-4
"""Relative difference of logits up to which an id and its embedding count as the same."""
_ROUNDED = 0.02
"""The same for llama.cpp's head, which may round its input, and ours in 32-bit floats."""


class WholeVocabulary:
    """The ids of the model itself.

    Attributes:
        ids: Logit -> id; None where they are the same.
    """

    ids: Any = None

    def __init__(self, context: Context, most: int | None = None) -> None:
        """Take a model.

        Args:
            most: Propose only ids below this: a vocabulary can be padded beyond the target's.
        """
        self._context, self._most = context, most

    def knows(self, ids: Sequence[int]) -> bool:
        """Whether all these ids can enter."""
        return max(ids) < self._context.model.n_vocab

    def feed(self, ids: Sequence[int]) -> None:
        """Compute tokens, and the logits of the last."""
        if len(ids) == 1:
            self._context.step(ids[0])
        else:
            self._context.decode(ids)

    def logits(self) -> Any:
        """Return the logits behind the last token; a view, or a copy."""
        return self._context.logits()[: self._most]


class SharedVocabulary(WholeVocabulary):
    """The ids with a meaning in a target of another vocabulary; all can enter."""

    def __init__(self, context: Context, ids: Sequence[int]) -> None:
        """Take a model, and the ids that it proposes."""
        import numpy as np

        super().__init__(context)
        self.ids = np.array(sorted(ids), np.int64)

    def logits(self) -> Any:
        """Return the logits of the shared ids; a copy."""
        return self._context.logits()[self.ids]


class StaticVocabulary(WholeVocabulary):
    """A part of the ids; all others enter as embeddings, and are never proposed."""

    def __init__(self, context: Context, ids: Sequence[int], embedding: Rows) -> None:
        """Take a pruned draft."""
        import numpy as np

        super().__init__(context)
        self.ids = np.array(ids, np.int64)
        self._embedding, self._scale = embedding, 1.0
        self._row = np.full(embedding.count, -1, np.int32)
        self._row[self.ids] = np.arange(len(ids), dtype=np.int32)
        self._find_scale()

    def _find_scale(self) -> None:
        """Find the scale of embeddings: some graphs multiply only those that they look up."""
        context, width = self._context, self._embedding.width
        few = list(range(min(3, len(self.ids), context.n_ctx)))
        context.clear()
        context.decode(few)
        expected = context.logits().copy()
        for scale in (1.0, width**0.5):
            self._scale = scale
            context.clear()
            context.decode_embeddings(self._values([int(self.ids[row]) for row in few]))
            difference = abs(context.logits() - expected).max()
            if difference <= _ALIKE * max(float(abs(expected).max()), 1.0):
                context.clear()
                return
        raise UnsupportedError(
            "takes embeddings in a way that is not known: no static vocabulary",
            source=context.model.path,
        )

    def _values(self, ids: Sequence[int]) -> Any:
        import numpy as np

        return self._embedding.values(list(ids)) * np.float32(self._scale)

    def knows(self, ids: Sequence[int]) -> bool:
        """Whether all these ids can enter."""
        return max(ids) < self._embedding.count

    def feed(self, ids: Sequence[int]) -> None:
        """Compute tokens: as ids if all are static, else as embeddings."""
        rows = self._row[list(ids)]
        if (rows >= 0).all():
            super().feed(rows.tolist())
        else:
            self._context.decode_embeddings(self._values(ids))

    def __contains__(self, token_id: object) -> bool:
        """Whether an id is one of the static ones."""
        return (
            isinstance(token_id, int)
            and 0 <= token_id < len(self._row)
            and bool(self._row[token_id] >= 0)
        )


class DynamicVocabulary(StaticVocabulary):
    """A part of the ids, and some more that come and go, whose logits are computed here.

    llama.cpp gives the hidden state behind the last norm, so a logit is its product with a row of
    the head, and then whatever the graph does behind the head (``finishers``).
    """

    def __init__(
        self,
        context: Context,
        ids: Sequence[int],
        embedding: Rows,
        head: Rows,
        finishers: Sequence[Callable[[Any], Any]],
        cap: int,
    ) -> None:
        """Take a pruned draft whose context gives hidden states."""
        super().__init__(context, ids, embedding)
        self._static = self.ids
        self._head, self._cap = head, cap
        self.clear()
        self._finish = self._find_finisher(finishers)

    def _find_finisher(self, finishers: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        context = self._context
        context.clear()
        context.decode([0])
        rows = range(min(64, len(self._static)))
        expected = context.logits()[: len(rows)]
        products = self._head.values(self._static[: len(rows)]) @ context.hidden()
        bound = _ROUNDED * max(float(abs(expected).max()), 1e-3)
        for finish in finishers:
            if abs(finish(products) - expected).max() <= bound:
                context.clear()
                return finish
        raise UnsupportedError(
            "does something behind its head that is not known: no dynamic vocabulary",
            source=context.model.path,
        )

    @property
    def size(self) -> int:
        """How many ids there are besides the static ones."""
        return len(self._dynamic)

    def clear(self) -> None:
        """Remove all but the static ids."""
        import numpy as np

        self._matrix = np.zeros((0, self._head.width), np.float32)
        self._dynamic: dict[int, None] = {}  # the oldest first, a row of the matrix each
        self.ids = self._static

    def add(self, ids: Sequence[int]) -> int:
        """Add ids; returns how many were new."""
        import numpy as np

        new = [
            token_id
            for token_id in dict.fromkeys(ids)
            if token_id not in self and token_id not in self._dynamic
            and token_id < self._head.count
        ]  # fmt: skip
        if not new or not self._cap:
            return 0
        # Dequantize rows only once: thousands of them take longer than a small draft.
        rows = self._head.values(new[-self._cap :])
        self._matrix = np.concatenate((self._matrix, rows))[-self._cap :]
        self._dynamic = dict.fromkeys([*self._dynamic, *new][-self._cap :])
        self.ids = np.concatenate((self._static, np.array(list(self._dynamic), np.int64)))
        return len(new)

    def logits(self) -> Any:
        """Return the logits of the static ids, then of the others; a copy."""
        import numpy as np

        static = self._context.logits()
        if not self._dynamic:
            return static
        return np.concatenate((static, self._finish(self._matrix @ self._context.hidden())))


def logit_finishers(metadata: Mapping[str, Any]) -> list[Callable[[Any], Any]]:
    """Return what graphs of llama.cpp may do behind the head, with the numbers of this file."""
    import numpy as np

    architecture = metadata.get("general.architecture")
    finishers: list[Callable[[Any], Any]] = [lambda x: x]
    scale = metadata.get(f"{architecture}.logit_scale")
    if isinstance(scale, float) and scale:  # Cohere multiplies, Granite and MiniCPM divide
        finishers += [lambda x: x * np.float32(scale), lambda x: x / np.float32(scale)]
    width = metadata.get(f"{architecture}.embedding_length")
    if isinstance(width, int) and width:  # MiniCPM without the key
        finishers.append(lambda x: x / np.float32(256 / width))
    cap = metadata.get(f"{architecture}.final_logit_softcapping", 30.0)
    if isinstance(cap, float) and cap:  # Gemma
        finishers.append(lambda x: np.float32(cap) * np.tanh(x / np.float32(cap)))
    return finishers


_CAP = 4096
"""Most ids besides the static ones; the oldest leave first."""


class Learner:
    """Changes a dynamic vocabulary between rounds.

    Attributes:
        unknown: Rounds whose target's most likely id at the end is not in the static vocabulary.
        largest: Most dynamic ids at once.
    """

    def __init__(
        self,
        vocabulary: DynamicVocabulary,
        index: SemanticIndex | None = None,
        *,
        seed_prompt: bool = False,
        learn: bool = False,
    ) -> None:
        """Begin with an empty dynamic vocabulary.

        Args:
            index: To search when both conditions hold; None for no search.
        """
        self.vocabulary, self._index = vocabulary, index
        self._seed_prompt, self._learn = seed_prompt, learn
        self.reset()

    def reset(self) -> None:
        """Empty the dynamic vocabulary, and reset the counts."""
        self.search_seconds = 0.0
        self.first_rejected = self.unknown = self.triggers = 0
        self.neighbors = self.added = self.hits = self.largest = 0
        self._searches: set[int] = set()
        self._waiting: list[int] = []
        self.vocabulary.clear()

    def begin(self, ids: Sequence[int]) -> None:
        """Take a prompt."""
        if self._seed_prompt:
            self._waiting += dict.fromkeys(ids)

    def ready(self) -> None:
        """Add the waiting ids before a proposal: without one they cost nothing."""
        if self._waiting:
            self._add(self._waiting)
            self._waiting = []

    def saw(self, outcome: Outcome) -> None:
        """Learn from a round."""
        vocabulary = self.vocabulary
        self.hits += sum(i not in vocabulary for i in outcome.drafted[: outcome.accepted])
        if self._index is not None and outcome.drafted:
            self._look(outcome, self._index)
        if self._learn:
            self._waiting += [i for i in outcome.emitted if i >= 0]

    def _look(self, outcome: Outcome, index: SemanticIndex) -> None:
        """Search, if both conditions hold."""
        missing, rejected = outcome.most_likely, outcome.accepted == 0
        unknown = missing >= 0 and missing not in self.vocabulary
        self.first_rejected += rejected
        self.unknown += unknown
        if not (rejected and unknown):
            return
        self.triggers += 1
        if missing in self._searches:
            return
        self._searches.add(missing)
        start = time.perf_counter()
        neighbors = [token_id for token_id, _ in index.search(missing)]
        self._add([missing, *neighbors])
        self.neighbors += len(neighbors)
        self.search_seconds += time.perf_counter() - start

    def _add(self, ids: list[int]) -> None:
        self.added += self.vocabulary.add(ids)
        self.largest = max(self.largest, self.vocabulary.size)

    def document(self) -> dict[str, object]:
        """Return the counters for JSON."""
        counts: dict[str, object] = {
            "size": self.vocabulary.size,
            "largest": self.largest,
            "added": self.added,
            "hits": self.hits,
        }
        if self._index is not None:
            counts |= {
                "first_rejected": self.first_rejected,
                "unknown": self.unknown,
                "triggers": self.triggers,
                "searches": len(self._searches),
                "neighbors": self.neighbors,
                "search_seconds": self.search_seconds,
            }
        return counts


def is_dynamic(drafting: DraftSettings) -> bool:
    """Whether a draft's vocabulary is to grow."""
    return drafting.sx_quant_embd is not None or drafting.sx_seed_prompt or drafting.sx_learn


def open_learner(
    drafting: DraftSettings,
    context: Context,
    ids: list[int],
    whole: GgufFile,
    index: SemanticIndex | None,
) -> Learner:
    """Return the learner of a draft, with its vocabulary."""
    embedding = Rows(whole, whole.names[EMBEDDING])
    head = Rows(whole, whole.names[HEAD]) if HEAD in whole.names else embedding
    vocabulary = DynamicVocabulary(
        context, ids, embedding, head, logit_finishers(whole.metadata), _CAP
    )
    return Learner(vocabulary, index, seed_prompt=drafting.sx_seed_prompt, learn=drafting.sx_learn)


def open_index(runner: Runner, drafting: DraftSettings) -> SemanticIndex | None:
    """Return the index for the search; None where nothing is searched."""
    if drafting.sx_quant_embd is None:
        return None
    assert drafting.sx_scales is not None
    target = runner.header.file
    table = Rows(target, target.names[EMBEDDING])
    return semantic_index.SemanticIndex(
        semantic_index.read(drafting.sx_quant_embd, drafting.sx_scales, table), table,
        top_k=drafting.sx_topk, threshold=drafting.sx_threshold,
    )  # fmt: skip
