"""A context that makes one vector of a text."""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import ResourceError, UnsupportedError, UsageError, counted
from mtkit.llama.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llama.model import Model
    from mtkit.settings import ContextSettings

_NONE, _MEAN, _RANK = 0, 1, 4
"""Of llama_pooling_type."""
NAMES = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}


class Embedder(Context):
    """A context that pools; close it, or use it in ``with``.

    Attributes:
        pooling: How, by its name.
        is_own: The model says how; otherwise it is the mean.
        most: Tokens of a text at most: all are computed at once.
        width: Numbers of a vector.
    """

    def __init__(self, model: Model, settings: ContextSettings) -> None:
        """Make a context of ``settings.n_ubatch`` tokens; as ``Context``.

        Raises:
            UsageError: The settings make no sense.
            ResourceError: llama.cpp cannot make it, mostly for want of memory.
        """
        size = settings.n_ubatch
        settings = replace(
            settings, n_ctx=size, n_batch=size, embeddings=True, n_seq=1, kv_unified=False
        )
        super().__init__(model, settings)
        self.is_own = settings.pooling is None
        lib = self._library
        if lib.llama_pooling_type(self.handle) == _NONE:
            super().close()
            super().__init__(model, replace(settings, pooling="mean"))
            self.is_own = False
        kind: int = lib.llama_pooling_type(self.handle)
        self.pooling, self.most = NAMES.get(kind, str(kind)), min(size, self.n_batch)
        self.width: int = (
            lib.llama_model_n_cls_out(model.handle)
            if kind == _RANK
            else lib.llama_model_n_embd_out(model.handle)
        )

    def vector(self, ids: Sequence[int]) -> Any:
        """Return the vector of a text: float32 of shape (width,); a copy.

        Raises:
            UsageError: There is no token, or one that does not exist.
            ResourceError: They are too many.
        """
        self.check_open()
        if not ids:
            raise UsageError("the text is empty", hint="this model adds no BOS")
        if len(ids) > self.most:
            raise ResourceError(
                f"a text of {counted(len(ids), 'token')} is too long: an embedding takes "
                f"{self.most} at once",
                hint="start the server with a higher --ubatch",
            )
        self.model.check_ids(ids)
        self.clear()
        self._batch.fill(ids, 0, True)
        self._run()
        address = self._library.llama_get_embeddings_seq(self.handle, 0)
        if not address:
            raise UnsupportedError("gives no embedding", source=self.model.path)
        return self._array(_address(address), self.width).copy()


def _address(pointer: Any) -> int:
    import ctypes

    return ctypes.cast(pointer, ctypes.c_void_p).value or 0
