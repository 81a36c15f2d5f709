"""A context in llama.cpp: batches, logits, hidden states, memory, state.

Logits and hidden states are numpy views of llama.cpp's own buffers, valid until the next call that
computes, and until the context is closed: copy what must live longer. A view is made anew only when
the buffer has moved, which keeps the cost of a step below a microsecond (measured 0.4 against 2.4).
"""

from __future__ import annotations

import ctypes
import weakref

from mtkit.errors import MtkitError, ResourceError, UnsupportedError, UsageError
from mtkit.llama.batch import Batch
from mtkit.llama.interrupts import Interrupts, held_back
from mtkit.llama.memory import Memory
from mtkit.llama.settings import check_threads, parameters, resolved
from mtkit.llama.shared_library import library, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal

    from mtkit.llama.model import Model
    from mtkit.settings import ContextSettings

_NO_ROOM, _ABORTED = 1, 2
_WHOLE = ("f16", "bf16", "f32")
"""Types of keys and values; where there is an encoder, it writes beyond its memory with others."""
_FEW = 16
"""Tokens of a batch that cannot be interrupted: it is over soon, and each look costs the GIL."""


class Interrupted(MtkitError):
    """A call was ended by ``Context.interrupt``."""

    exit_code = 130


class Context(Memory):
    """A context of a model; close it, or use it in ``with``.

    Attributes:
        model: Its model.
        settings: What it was made with.
        handle: llama.cpp's pointer.
        n_ctx: Tokens that fit, as asked for (llama.cpp's own number is a multiple of 256).
        n_batch: Most tokens in one call.
        n_past: Tokens in the memory.
    """

    def __init__(self, model: Model, settings: ContextSettings, *, watched_by: Any = None) -> None:
        """Make a context.

        Args:
            model: The model.
            settings: How.
            watched_by: llama.cpp's callback that is shown every node of the graph.

        Raises:
            UsageError: The settings make no sense.
            UnsupportedError: Keys and values cannot be kept in that type.
            ResourceError: llama.cpp cannot make it, mostly for want of memory.
        """
        self._library = lib = library()
        self.model = model
        self.settings = settings = resolved(settings)
        self._views: dict[tuple[int, int], Any] = {}  # first: an interrupt can close it half made
        self._address = 0
        self._view: Any = None
        if not model.is_open:
            raise UsageError("the model is closed")
        if model.has_encoder and settings.kv_type not in _WHOLE:
            raise UnsupportedError(
                f"has an encoder, for which llama.cpp keeps nothing in {settings.kv_type}",
                source=model.path,
                hint=f"--kv-type {', '.join(_WHOLE[:-1])} or {_WHOLE[-1]}",
            )
        params = parameters(lib, settings)
        if watched_by is not None:
            params.cb_eval = self._watched_by = watched_by  # which has to live as long
        log.clear()
        self._interrupts = Interrupts()
        with self._interrupts:  # Ctrl-C inside the log's callback would be lost
            handle = lib.llama_init_from_model(model.handle, params)
            if handle:
                self._finalizer = weakref.finalize(self, held_back, lib.llama_free, handle)
        if not handle:
            raise ResourceError(
                f"no context of {settings.n_ctx} tokens can be made{log.reason()}",
                source=model.path,
            )
        self.handle: int = handle
        self._model_finalizer = model._finalizer  # noqa: SLF001  keeps the order when both go
        model.adopt(self)
        self.n_ctx: int = min(params.n_ctx, lib.llama_n_ctx(handle))
        self.n_batch: int = lib.llama_n_batch(handle)
        self.n_past = 0
        self._is_computed = False
        self._memory = lib.llama_get_memory(handle)
        self._abort = lib.ggml_abort_callback(lambda _: self._interrupts.asked)
        self._no_abort = lib.ggml_abort_callback(0)
        self._batch = Batch(lib, self.n_batch)
        self._embeddings: Batch | None = None
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        prototype = ctypes.CFUNCTYPE(pointer, pointer, number)
        dll = lib._lib  # noqa: SLF001  typed anew: a plain address costs a fifth of a pointer object
        self._logits_at = prototype(("llama_get_logits_ith", dll))
        self._hidden_at = prototype(("llama_get_embeddings_ith", dll))
        self._decode_call = lib.llama_decode

    # -- computing

    def decode(
        self,
        ids: Sequence[int],
        *,
        outputs: Literal["last", "all", "none"] = "last",
    ) -> None:
        """Compute tokens after those in the memory, in as many batches as it takes.

        Args:
            ids: The tokens.
            outputs: Which rows of logits are wanted; "all" only for as many as fit one batch.

        Raises:
            UsageError: An id is not in the vocabulary, or "all" is asked for too many.
            ResourceError: They do not fit the context.
            Interrupted: ``interrupt`` was called; what was computed before stays.
            KeyboardInterrupt: The user interrupted it; as before.
        """
        self.check_open()
        count = len(ids)
        if not count:
            return
        self.model.check_ids(ids)
        start = self.n_past
        if outputs == "all" and count > self.n_batch:
            raise UsageError(f"{count} rows of logits, a batch has {self.n_batch}")
        self._check_room(start + count)
        for at in range(0, count, self.n_batch):
            part = ids[at : at + self.n_batch]
            size = len(part)
            self._batch.fill(part, start + at, outputs == "all")
            if outputs == "last" and at + size == count:
                self._batch.outputs[size - 1] = 1
            self._run()
            self.n_past = start + at + size

    def decode_embeddings(self, rows: Any) -> None:
        """Compute what enters as embeddings instead of ids; the logits of the last row are wanted.

        Args:
            rows: float32 of shape (n, n_embd), as the graph takes them behind its table.

        Raises:
            ResourceError: They do not fit the context.
        """
        self.check_open()
        if self._embeddings is None:
            self._embeddings = Batch(self._library, self.n_batch, self.model.n_embd)
        self._check_room(self.n_past + len(rows))
        for at in range(0, len(rows), self.n_batch):
            part = rows[at : at + self.n_batch]
            self._embeddings.fill_embeddings(part, self.n_past)
            self._run(batch=self._embeddings)
            self.n_past += len(part)

    def step(self, token_id: int) -> None:
        """Compute one token; the path of every generated token."""
        past = self.n_past
        if past >= self.n_ctx or not 0 <= token_id < self.model.n_vocab:
            self.check_open()
            self.model.check_ids((token_id,))
            self._check_room(past + 1)
        code = self._decode_call(self.handle, self._batch.one(token_id, past))
        if code:
            self._fail(code)
        self.n_past = past + 1
        self._is_computed = True

    def encode(self, ids: Sequence[int]) -> None:
        """Run the encoder over a whole prompt.

        Raises:
            ResourceError: The prompt is longer than a batch; llama.cpp would end the process.
        """
        self.check_open()
        most = min(self.n_batch, self._library.llama_n_ubatch(self.handle))
        size = len(ids)
        if not 0 < size <= most:
            raise ResourceError(
                f"the encoder takes 1 to {most} tokens at once, but the prompt has {size}",
                hint="raise --ubatch and --batch",
            )
        self.model.check_ids(ids)
        self._batch.fill(ids, 0, True)
        self._run(self._library.llama_encode)

    def _run(self, call: Any = None, batch: Batch | None = None, few: int = _FEW) -> None:
        self.check_open()
        lib, struct = self._library, (batch or self._batch).struct
        call = call or self._decode_call
        log.clear()
        # The callback costs a microsecond for every node of the graph: nothing against a large
        # batch, a twentieth of a small model's few tokens.
        if struct.n_tokens <= few:
            code = call(self.handle, struct)
        else:
            with self._interrupts:
                lib.llama_set_abort_callback(self.handle, self._abort, None)
                try:
                    code = call(self.handle, struct)
                finally:
                    lib.llama_set_abort_callback(self.handle, self._no_abort, None)
        self._is_computed = not code
        if code:
            self._fail(code)

    def _fail(self, code: int) -> None:
        self.n_past = self.end()
        if code == _ABORTED:
            raise Interrupted("interrupted")
        if code == _NO_ROOM:
            raise ResourceError(
                f"no room for more tokens in a context of {self.n_ctx}", hint="raise --ctx"
            )
        raise UnsupportedError(f"llama.cpp fails with code {code}{log.reason()}")

    def interrupt(self) -> None:
        """End the call that computes now, from another thread."""
        self._interrupts.asked = True

    # -- results

    def logits(self, row: int = -1) -> Any:
        """Return a view of a row of logits: float32 of shape (n_vocab,); -1 is the last.

        Raises:
            UsageError: No logits were asked for at this place of the last batch.
        """
        if not self._is_computed:
            self.check_open()
            raise UsageError("nothing has been computed that logits belong to")
        address = self._logits_at(self.handle, row)
        if address == self._address:
            return self._view
        if not address:
            raise UsageError(f"there are no logits at row {row}{log.reason()}")
        self._view = self._array(address, self.model.n_vocab)
        self._address = address
        return self._view

    def hidden(self, row: int = -1) -> Any:
        """Return a view of a hidden state: float32 of shape (n_embd,), after the last norm.

        Raises:
            UsageError: The context was not asked to keep them.
        """
        self.check_open()
        address = self._hidden_at(self.handle, row)
        if not address:
            raise UsageError(f"there is no hidden state at row {row}{log.reason()}")
        return self._array(address, self._library.llama_model_n_embd_out(self.model.handle))

    def _array(self, address: int, size: int) -> Any:
        import numpy as np

        key = address, size
        found = self._views.get(key)
        if found is None:
            buffer: Any = (ctypes.c_float * size).from_address(address)
            found = self._views[key] = np.frombuffer(buffer, np.float32)
        return found

    def set_threads(self, threads: int, threads_batch: int) -> None:
        """Set the number of threads."""
        self.check_open()
        check_threads(threads, threads_batch)
        self._library.llama_set_n_threads(self.handle, threads, threads_batch)

    def performance(self) -> Any:
        """Return llama.cpp's counters: t_p_eval_ms, t_eval_ms, n_p_eval, n_eval."""
        self.check_open()
        return self._library.llama_perf_context(self.handle)

    # -- the end

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return self._finalizer.alive

    def close(self) -> None:
        """Free it; once is enough, twice does no harm."""
        self._views.clear()
        self._view, self._address = None, 0
        self._finalizer()
        self._is_computed = False
        self.handle, self.n_ctx = 0, -1  # no step passes its first test any more
