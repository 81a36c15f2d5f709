"""Vectors of texts: the context that pools them, their norm, and a question beside a text."""

from __future__ import annotations

from mtkit.base.process import Closeable
from mtkit.errors import UnsupportedError
from mtkit.llama.context import Embedder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from mtkit.gguf.file import Tensor
    from mtkit.llama import ContextSettings, Model
    from mtkit.settings import Pooling

EUCLIDEAN, GREATEST = 2, 0
"""Norms as llama-server's ``embd_normalize`` names them: p for a p-norm; 0: the greatest part, to
fill 16 bits; -1: none."""
_GREATEST_WHOLE = 32760.0
_RANK_TENSOR = "cls.output.weight"
"""The tensor of a head that says how well a text answers a question."""


def own_pooling(tensors: Iterable[Tensor]) -> Pooling | None:
    """Return how a model pools because of its head; None: as its metadata say."""
    return "rank" if any(tensor.name == _RANK_TENSOR for tensor in tensors) else None


class Pooler(Closeable):
    """Makes vectors of texts, one by one; its context is made for the first of them.

    Attributes:
        most: Tokens that a text may have.
    """

    def __init__(
        self,
        model: Model,
        settings: Callable[[], ContextSettings],
        most: int,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare.

        Args:
            settings: Those of the context, with ``pooling`` where it is not the model's own.
            note: Called once where the model does not say how it pools.
        """
        self._model, self._settings, self.most = model, settings, most
        self._note = note
        self._has_noted = False
        self._embedder: Embedder | None = None
        self._own: str | None = None  # its pooling, once there was a context

    def open(self, count: int = 0, pooling: str | None = None) -> Embedder:
        """Return what pools texts of so many tokens; a longer one than before gets more room.

        Args:
            pooling: What the caller needs: "rank"; None: a vector.

        Raises:
            UnsupportedError: The model pools in another way.
        """
        embedder = self._embedder
        self._check(pooling)
        if embedder is None or embedder.most < min(count, self.most):
            self.close()
            settings = self._settings()
            size = min(1 << (count - 1).bit_length(), self.most) if count else 0
            self._embedder = embedder = Embedder(self._model, settings, size)
            if not embedder.is_own and settings.pooling is None and not self._has_noted:
                self._has_noted = True
                self._note("the model does not say how it embeds: the mean is taken")
        if self._own is None:
            self._own = embedder.pooling
            try:
                self._check(pooling)
            except UnsupportedError:  # nobody needs the context
                self.close()
                raise
        return embedder

    def _check(self, pooling: str | None) -> None:
        own = self._own
        if own is not None and ((pooling or own) != own or (pooling is None and own == "rank")):
            raise UnsupportedError(f"this model cannot do that: its pooling is {own}")

    def vector(self, ids: Sequence[int], pooling: str | None = None) -> Any:
        """Return the vector of a text: float32 of shape (width,); of a pair, its score."""
        return self.open(len(ids), pooling).vector(ids)

    def close(self) -> None:
        """Free the context."""
        embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()


def pair_ids(model: Model, query: str, text: str) -> list[int]:
    """Return the tokens of a question and a text.

    Source: llama.cpp, tools/server/server-common.cpp (``format_prompt_rerank``).
    """

    def plain(text: str) -> list[int]:
        return model.tokenize(text, add_special=False, parse_special=False)

    template = model.meta("tokenizer.chat_template.rerank")
    if template:
        text = template.replace("{query}", query).replace("{document}", text)
        return model.tokenize(text, add_special=False)
    begin, end, between = model.around
    return [*begin, *plain(query), *end, *between, *plain(text), *end]


def normalize(vector: Any, norm: int = EUCLIDEAN) -> Any:
    """Return a vector divided by its norm.

    Source: llama.cpp, common/common.cpp (``common_embd_normalize``).
    """
    import numpy as np

    if norm < 0:
        return vector
    if norm == GREATEST:
        size = float(np.abs(vector).max()) / _GREATEST_WHOLE
    else:
        size = float((np.abs(vector, dtype=np.float64) ** norm).sum() ** (1 / norm))
    return (vector / size).astype(np.float32) if size > 0 else vector * 0
