"""Samplers of llama.cpp; one without candidates would end the process."""

from __future__ import annotations

import ctypes
import weakref

from mtkit.base.process import Closeable
from mtkit.errors import UsageError
from mtkit.llama.shared_library import library, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.llama.context import Context


class Chain(Closeable):
    """A chain of samplers; close it, or use it in ``with``."""

    def __init__(self) -> None:
        self._library = lib = library()
        params = lib.llama_sampler_chain_default_params()
        params.no_perf = True
        self.handle = lib.llama_sampler_chain_init(params)
        self._finalizer = weakref.finalize(self, lib.llama_sampler_free, self.handle)
        self._candidates: _Candidates | None = None

    def add(self, name: str, *arguments: Any) -> None:
        """Add the sampler ``llama_sampler_init_NAME``; the chain owns it."""
        log.clear()
        sampler = getattr(self._library, f"llama_sampler_init_{name}")(*arguments)
        if not sampler:  # a NULL pointer object is not None, and kills the process in a chain
            raise UsageError(f"the sampler {name} cannot be made{log.reason()}")
        self._library.llama_sampler_chain_add(self.handle, sampler)

    def sample(self, context: Context, row: int = -1) -> int:
        """Choose a token from a row of logits and remember it."""
        if not self._finalizer.alive:
            raise UsageError("the sampler is closed")
        context.logits(row)  # llama.cpp ends the process where there are none
        token: int = self._library.llama_sampler_sample(self.handle, context.handle, row)
        return token

    def choose(self, logits: Any) -> int:
        """Choose a token from logits of shape (n_vocab,) without remembering it."""
        if self._candidates is None:
            self._candidates = _Candidates(len(logits), self._library)
        self._candidates.fill(logits)
        return self._candidates.apply(self.handle)

    def cut(self, logits: Any) -> tuple[Any, Any]:
        """Return the logits that are left by a chain that chooses no token itself.

        Returns:
            Ids, int32 of shape (n,), in any order, and their logits, float32; copies.
        """
        if self._candidates is None or len(self._candidates.rows) != len(logits):
            self._candidates = _Candidates(len(logits), self._library)
        self._candidates.fill(logits)
        self._candidates.apply(self.handle)
        return self._candidates.left()

    def accept(self, token_id: int) -> None:
        """Remember a token, for penalties."""
        self._library.llama_sampler_accept(self.handle, token_id)

    def reset(self) -> None:
        """Forget the tokens and restart the random numbers."""
        self._library.llama_sampler_reset(self.handle)

    def close(self) -> None:
        """Free it."""
        self._finalizer()


class _Candidates:
    """llama.cpp's array of (id, logit, probability), with numpy views of its columns."""

    def __init__(self, size: int, lib: Any) -> None:
        import numpy as np

        self._library = lib
        layout = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        self._ids = np.arange(size, dtype=np.int32)
        self.rows = np.zeros(size, layout)
        self._data = ctypes.cast(self.rows.ctypes.data, ctypes.POINTER(lib.llama_token_data))
        self._array = lib.llama_token_data_array()

    def fill(self, logits: Any) -> None:
        self.rows["id"] = self._ids[: len(self.rows)]
        self.rows["logit"] = logits
        self._begin(len(self.rows))

    def _begin(self, size: int) -> None:
        self._array.data = self._data  # XTC moves it past what it removes
        self._array.size = size
        self._array.selected = -1
        self._array.sorted = False

    def apply(self, handle: Any) -> int:
        self._library.llama_sampler_apply(handle, ctypes.byref(self._array))
        selected = self._array.selected
        return int(self._array.data[selected].id) if selected >= 0 else -1

    def left(self) -> tuple[Any, Any]:
        at = ctypes.addressof(self._array.data.contents) - self.rows.ctypes.data
        first = at // self.rows.itemsize
        rows = self.rows[first : first + self._array.size]
        return rows["id"].copy(), rows["logit"].copy()
