"""A context in llama.cpp: batches, logits, hidden states, memory, state; or one vector of a text.

Logits and hidden states are numpy views of llama.cpp's own buffers, valid until the next call that
computes and until the context is closed: copy what must live longer.

The memory of a context is what it keeps of the tokens it has computed: mostly keys and values,
which can be cut at any place; a recurrent state cannot be cut.
"""

from __future__ import annotations

import ctypes
import weakref

from mtkit.base.process import Closeable
from mtkit.base.record import replace
from mtkit.base.watch import Calling
from mtkit.errors import (
    MtkitError,
    ResourceError,
    UnsupportedError,
    UsageError,
    format_count,
    wording,
)
from mtkit.llama.shared_library import Interrupts, call_uninterrupted, library, log
from mtkit.memory_plan.cache import element_type
from mtkit.settings import MOST_THREADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal

    from mtkit.llama.media import Chunk
    from mtkit.llama.model import Model
    from mtkit.settings import ContextSettings


_ID_BYTES = 4
"""Of a token, and of a sequence's number."""
_POOLING = {"mean": 1, "cls": 2, "last": 3, "rank": 4}
_FLASH = {"auto": -1, "off": 0, "on": 1}
_DEFAULT_TOKENS, _DEFAULT_THREADS = 512, 1
"""Where settings leave them open; llama.cpp would take 4 threads on any machine."""


def check_threads(*counts: int) -> None:
    """Check numbers of threads: llama.cpp's arrays are made for so many and no more."""
    for count in counts:
        if not 1 <= count <= MOST_THREADS:
            what = f"is {count}, not in the range 1 to {MOST_THREADS}"
            raise UsageError(what, field="threads")


def resolve_settings(settings: ContextSettings) -> ContextSettings:
    """Return settings with defaults for what they leave open."""
    n_ctx, threads = settings.n_ctx or _DEFAULT_TOKENS, settings.threads or _DEFAULT_THREADS
    return replace(settings, n_ctx=n_ctx, threads=threads)


def context_parameters(lib: Any, settings: ContextSettings) -> Any:
    """Return llama.cpp's parameters of a context, of settings that leave nothing open."""
    params = lib.llama_context_default_params()
    params.n_ctx = settings.n_ctx
    params.n_seq_max = settings.n_seq
    params.n_batch = min(settings.n_batch, params.n_ctx)
    params.n_ubatch = min(settings.n_ubatch, params.n_batch)
    params.n_threads = params.n_threads_batch = settings.threads
    params.type_k = params.type_v = element_type(settings.kv_type).number
    params.flash_attn_type = _FLASH[settings.flash_attention]
    params.embeddings = settings.embeddings
    if settings.pooling is not None:
        params.pooling_type = _POOLING[settings.pooling]
    params.swa_full = settings.swa_full
    params.kv_unified = settings.kv_unified
    params.no_perf = False
    return params


class Batch:
    """Room for a number of tokens, each with its position and whether its logits count.

    One batch serves all calls, since its arrays are numpy's. Its tokens are those of the first
    sequence, or those of several that ``fill_parts`` puts behind each other.

    Attributes:
        outputs: 1 where logits count; int8 of shape (size,).
        embeddings: What enters in the place of ids; float32 of shape (size, width).
    """

    def __init__(
        self, lib: Any, size: int, width: int = 0, sequences: int = 1, sections: int = 1
    ) -> None:
        """Make room; with a ``width`` for embeddings, whose positions have ``sections`` numbers."""
        import numpy as np

        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size * sections, np.int32)
        self._counts = np.ones(size, np.int32)
        self._sequences = np.arange(sequences, dtype=np.int32)
        # llama.cpp wants a list of sequences for every token; here always of one.
        self._first = self._sequences.ctypes.data
        self._lists = np.full(size, self._first, np.uintp)
        self.outputs = np.zeros(size, np.int8)
        # for single numbers: each assignment to an array takes longer than four to these
        arrays: tuple[Any, ...] = (self._tokens, self._positions, self._lists, self.outputs)
        self._cells = [memoryview(array) for array in arrays]
        self.embeddings = np.zeros((size if width else 0, width), np.float32)

        def pointer(array: Any, kind: Any) -> Any:
            return ctypes.cast(array.ctypes.data, ctypes.POINTER(kind))

        self.struct = lib.llama_batch(
            n_tokens=0,
            token=None if width else pointer(self._tokens, ctypes.c_int32),
            embd=pointer(self.embeddings, ctypes.c_float) if width else None,
            pos=pointer(self._positions, ctypes.c_int32),
            n_seq_id=pointer(self._counts, ctypes.c_int32),
            seq_id=pointer(self._lists, ctypes.POINTER(ctypes.c_int32)),
            logits=pointer(self.outputs, ctypes.c_int8),
        )

    def fill(self, ids: Sequence[int], position: int, outputs: bool) -> None:
        """Set the tokens, whose positions follow each other, and whether their logits count."""
        self._tokens[: len(ids)] = ids
        self._place(len(ids), position, outputs)

    def fill_embeddings(
        self, rows: Any, positions: Any, sequence: int = 0, *, is_last: bool = True
    ) -> None:
        """Set what enters a sequence, and whether the logits of the last row count.

        Args:
            rows: float32 of shape (n, width).
            positions: int32 of shape (sections, n).
        """
        size = self.struct.n_tokens = len(rows)
        self.embeddings[:size] = rows
        self._positions[: positions.size] = positions.ravel()
        self._lists[:size] = self._first + sequence * _ID_BYTES
        self.outputs[:size] = 0
        self.outputs[size - 1] = is_last

    def _place(self, size: int, position: int, outputs: bool) -> None:
        self._positions[:size] = range(position, position + size)
        self.outputs[:size] = outputs
        self.struct.n_tokens = size

    def fill_parts(self, parts: Sequence[tuple[int, int, Sequence[int], int]]) -> list[int]:
        """Set tokens of several sequences; returns the row of each part's last token.

        Args:
            parts: Sequence, position of the first token, the tokens, and of how many of the last
                the logits count.
        """
        ends, end = [], 0
        for sequence, position, ids, count in parts:
            start, size, address = end, len(ids), self._first + sequence * _ID_BYTES
            end += size
            if size == 1:
                tokens, positions, lists, outputs = self._cells
                tokens[start], positions[start] = ids[0], position
                lists[start], outputs[start] = address, count
            else:
                self._tokens[start:end] = ids
                self._positions[start:end] = range(position, position + size)
                self._lists[start:end] = address
                self.outputs[start : end - count] = 0
                self.outputs[end - count : end] = 1
            ends.append(end - 1)
        self.struct.n_tokens = end
        return ends

    def fill_token(self, token_id: int, position: int) -> Any:
        """Set one token whose logits count; returns the struct."""
        self._tokens[0] = token_id
        self._positions[0] = position
        self.outputs[0] = 1
        self.struct.n_tokens = 1
        return self.struct


class Memory(Closeable):
    """The memory of a context.

    Attributes:
        n_ctx: Tokens that fit, as set (llama.cpp rounds up to a multiple of 256).
        n_past: Tokens in it.
        lag: How many more they are than the positions that they take: those of a picture share
            some.
    """

    model: Model
    settings: ContextSettings
    handle: int
    n_ctx: int
    n_past: int
    lag: int = 0
    _library: Any
    _memory: int | None
    _is_computed: bool

    def end(self) -> int:
        """Return the position after the last token."""
        self.check_open()
        if not self._memory:
            return 0
        last: int = self._library.llama_memory_seq_pos_max(self._memory, 0)
        return last + 1

    def clear(self) -> None:
        """Forget all tokens."""
        self.check_open()
        if self._memory:
            self._library.llama_memory_clear(self._memory, True)
        self._is_computed = False
        self.n_past = self.lag = 0

    def truncate(self, end: int, lag: int = 0) -> bool:
        """Forget the tokens from a place on.

        Args:
            lag: That of the tokens before it.

        Returns:
            False where the memory cannot do that (recurrent layers, or a sliding window that has
            dropped what would be needed); it is as before then.
        """
        position = end - lag
        if position >= self.end():
            return True
        if not self.settings.swa_full and self._has_hole(position):
            return False
        if not self._library.llama_memory_seq_rm(self._memory, 0, position, -1):
            return False
        self.n_past, self.lag = end, lag
        return True

    def _has_hole(self, end: int, sequence: int = 0) -> bool:
        """Whether tokens are gone that a window before ``end`` would need."""
        first = self._library.llama_memory_seq_pos_min(self._memory, sequence)
        window = self._library.llama_model_n_swa(self.model.handle)
        return bool(window and first > max(0, end - window))

    # -- state

    def state(self) -> bytearray:
        """Return the memory as bytes; logits are not part of it."""
        self.check_open()
        lib = self._library
        size = call_uninterrupted(lib.llama_state_get_size, self.handle)
        data = bytearray(size)
        buffer = (ctypes.c_uint8 * size).from_buffer(data)
        count = call_uninterrupted(lib.llama_state_get_data, self.handle, buffer, size)
        if not count:
            raise UnsupportedError(f"the state cannot be saved{log.reason()}")
        del buffer
        return data[:count]

    def restore(self, data: bytes | bytearray | memoryview) -> None:
        """Set the memory to what ``state`` gave; there are logits once a token is computed."""
        self.check_open()
        lib = self._library
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        log.clear()
        set_data = lib.llama_state_set_data
        if not len(data) or call_uninterrupted(set_data, self.handle, buffer, len(data)) != len(
            data
        ):
            self.clear()
            raise UnsupportedError(f"the state does not fit this context{log.reason()}")
        self.n_past = self.end()
        self._is_computed = False  # what the buffer holds belongs to the time before

    def check_open(self) -> None:
        """Check that it has not been closed."""
        if not self.handle:
            raise UsageError("the context is closed")

    def _check_room(self, end: int) -> None:
        if end > self.n_ctx:
            raise ResourceError(
                f"the context holds {self.n_ctx} tokens, {end} are needed",
                hint=wording(
                    "raise --ctx, or shorten the prompt or -n",
                    "raise n_ctx, or shorten the prompt or n_predict",
                ),
            )


_NO_ROOM, _ABORTED = 1, 2
_WHOLE = ("f16", "bf16", "f32")
"""Types of keys and values; with others an encoder writes beyond its memory."""
_FEW = 16
"""Tokens of a batch that is over too soon to be interrupted: each check takes the GIL."""


class Interrupted(MtkitError):
    """A call was ended by ``Context.interrupt``."""

    exit_code = 130


class Context(Memory):
    """A context of a model; close it, or use it in ``with``.

    Attributes:
        adapter_scales: The scale of each adapter with which it computes.
    """

    adapter_scales: tuple[float, ...] = ()

    def __init__(self, model: Model, settings: ContextSettings, *, watched_by: Any = None) -> None:
        """Make a context."""
        self._library = lib = library()
        self.model = model
        self.settings = settings = resolve_settings(settings)
        self._calling = Calling()
        self._views: dict[tuple[int, int], Any] = {}  # first: an interrupt can close it half made
        self._address = 0
        self._view: Any = None
        if not model.is_open:
            raise UsageError("the model is closed")
        if model.has_encoder and settings.kv_type not in _WHOLE:
            raise UnsupportedError(
                f"has an encoder, for which llama.cpp keeps nothing in {settings.kv_type}",
                source=model.path,
                hint=f"use {wording('--kv-type', 'kv_type')} "
                f"{', '.join(_WHOLE[:-1])} or {_WHOLE[-1]}",
            )
        params = context_parameters(lib, settings)
        if watched_by is not None:
            params.cb_eval = self._watched_by = watched_by  # which has to live as long
        log.clear()
        self._interrupts = Interrupts()
        with self._interrupts:  # Ctrl-C inside the log's callback would be lost
            handle = lib.llama_init_from_model(model.handle, params)
            if handle:
                self._finalizer = weakref.finalize(self, call_uninterrupted, lib.llama_free, handle)
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
        self._abort = lib.ggml_abort_callback(lambda _: self._interrupts.is_set)
        self._no_abort = lib.ggml_abort_callback(0)
        self._batch = Batch(lib, self.n_batch)
        self._embeddings: Batch | None = None
        self._media: Batch | None = None
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        # a device is waited for here; without one, the lock of Python is not worth giving away
        has_device = lib.llama_supports_gpu_offload()
        kind = ctypes.CFUNCTYPE if has_device else ctypes.PYFUNCTYPE
        prototype = kind(pointer, pointer, number)
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
        """Compute tokens after those in the memory, in as many batches as it takes."""
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
            self._batch.fill(part, start + at - self.lag, outputs == "all")
            if outputs == "last" and at + size == count:
                self._batch.outputs[size - 1] = 1
            self._run()
            self.n_past = start + at + size

    def decode_embeddings(self, rows: Any) -> None:
        """Compute embeddings instead of ids; the logits of the last row count.

        Args:
            rows: float32 of shape (n, n_embd), as the graph takes them behind its table.
        """
        self.check_open()
        if self._embeddings is None:
            self._embeddings = Batch(self._library, self.n_batch, self.model.n_embd)
        self._check_room(self.n_past + len(rows))
        import numpy as np

        for at in range(0, len(rows), self.n_batch):
            part = rows[at : at + self.n_batch]
            places = np.arange(self.n_past, self.n_past + len(part), dtype=np.int32)
            self._embeddings.fill_embeddings(part, places)
            self._run(batch=self._embeddings)
            self.n_past += len(part)

    def compute_chunk(
        self,
        chunk: Chunk,
        part: range,
        position: int,
        sections: int,
        slot: int = 0,
        *,
        is_last: bool,
    ) -> None:
        """Compute rows of a picture or sound, which has been encoded.

        Args:
            position: That of the chunk's first row.
            is_last: The logits of the last row count.
        """
        self.check_open()
        lib = self._library
        if self._media is None:
            width = lib.llama_model_n_embd_inp(self.model.handle)
            self._media = Batch(lib, self.n_batch, width, self.settings.n_seq, sections)
        places = chunk.positions(position, sections)[:, part.start : part.stop]
        rows = chunk.rows[part.start : part.stop]
        self._media.fill_embeddings(rows, places, slot, is_last=is_last)
        if not chunk.is_causal:
            lib.llama_set_causal_attn(self.handle, False)
        try:
            self._run(batch=self._media)
        finally:
            if not chunk.is_causal:
                lib.llama_set_causal_attn(self.handle, True)

    def decode_chunk(self, chunk: Chunk, sections: int, *, is_last: bool) -> None:
        """Compute all rows of a picture or sound after what is in the memory."""
        size, position = len(chunk.ids), self.n_past - self.lag
        self._check_room(self.n_past + size)
        for at in range(0, size, self.n_batch):
            part = range(at, min(at + self.n_batch, size))
            ends = is_last and part.stop == size
            self.compute_chunk(chunk, part, position, sections, is_last=ends)
            self.n_past += len(part)
        self.lag += chunk.lag

    def step(self, token_id: int) -> None:
        """Compute one token; the path of every generated token."""
        past = self.n_past
        if past >= self.n_ctx or not 0 <= token_id < self.model.n_vocab:
            self.check_open()
            self.model.check_ids((token_id,))
            self._check_room(past + 1)
        with self._calling:
            batch = self._batch.fill_token(token_id, past - self.lag)
            code = self._decode_call(self.handle, batch)
        if code:
            self._fail(code)
        self.n_past = past + 1
        self._is_computed = True

    def encode(self, ids: Sequence[int]) -> None:
        """Run the encoder over a whole prompt."""
        self.check_open()
        most = min(self.n_batch, self._library.llama_n_ubatch(self.handle))
        size = len(ids)
        if not 0 < size <= most:
            raise ResourceError(
                f"the encoder takes 1 to {most} tokens at once, but the prompt has {size}",
                hint=wording("raise --ubatch and --batch", "raise n_ubatch and n_batch"),
            )
        self.model.check_ids(ids)
        self._batch.fill(ids, 0, True)
        self._run(self._library.llama_encode)

    def _run(self, call: Any = None, batch: Batch | None = None, few: int = _FEW) -> None:
        self.check_open()
        lib, struct = self._library, (batch or self._batch).struct
        call = call or self._decode_call
        log.clear()
        # The callback costs a microsecond a node of the graph: nothing beside a large batch, a
        # twentieth of the time of a small model's few tokens.
        with self._calling:
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
        self.n_past = self.end() + self.lag
        if code == _ABORTED:
            raise Interrupted("interrupted")
        if code == _NO_ROOM:
            raise ResourceError(
                f"no room for more tokens in a context of {self.n_ctx}",
                hint=wording("raise --ctx", "raise n_ctx"),
            )
        raise UnsupportedError(f"llama.cpp fails with code {code}{log.reason()}")

    def interrupt(self) -> None:
        """End the call that computes now, from another thread."""
        self._interrupts.is_set = True

    # -- results

    def logits(self, row: int = -1) -> Any:
        """Return a view of a row of logits: float32 of shape (n_vocab,); -1 is the last."""
        if not self._is_computed:
            self.check_open()
            raise UsageError("nothing has been computed that logits belong to")
        address = self._logits_at(self.handle, row)
        if address == self._address:
            self._refuse_nan(self._view[0])
            return self._view
        if not address:
            raise UsageError(f"there are no logits at row {row}{log.reason()}")
        self._view = self._array(address, self.model.n_vocab)
        self._address = address
        return self._view

    def hidden(self, row: int = -1) -> Any:
        """Return a view of a hidden state: float32 of shape (n_embd,), after the last norm."""
        self.check_open()
        address = self._hidden_at(self.handle, row)
        if not address:
            raise UsageError(f"there is no hidden state at row {row}{log.reason()}")
        return self._array(address, self._library.llama_model_n_embd_out(self.model.handle))

    def _array(self, address: int, size: int) -> Any:
        import numpy as np

        # A view anew for every step would cost 2.4 us; while the buffer stays where it is, 0.4.
        key = address, size
        array = self._views.get(key)
        if array is None:
            buffer: Any = (ctypes.c_float * size).from_address(address)
            array = np.frombuffer(buffer, np.float32)
            self._refuse_nan(array.max())  # of rows of the output matrix, too
            self._views[key] = array
        self._refuse_nan(array[0])
        return array

    def _refuse_nan(self, number: float) -> None:
        """Check a logit: a hidden state that is NaN makes all of them NaN. It takes 0.1 us."""
        if number != number:  # noqa: PLR0124  as only NaN does
            hint = "mtkit check --deep looks for NaN in weights, also in those of an adapter"
            raise UnsupportedError("computes NaN", source=self.model.path, hint=hint)

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
        """Free it; a second time does nothing."""
        self._views.clear()
        self._view, self._address = None, 0
        self._finalizer()
        self._is_computed = False
        self.handle, self.n_ctx = 0, -1  # no step passes its first test any more


_POOL_NONE, _POOL_RANK = 0, 4
"""Of llama_pooling_type."""
POOLING_NAMES = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}


class Embedder(Context):
    """A context that pools; close it, or use it in ``with``.

    A token of a causal model sees those before it alone, so a long text is computed in parts. Else
    all tokens see all, and are computed at once.

    Attributes:
        most: Tokens that a text may have.
    """

    def __init__(self, model: Model, settings: ContextSettings, size: int = 0) -> None:
        """Make a context for texts of ``size`` tokens, at least ``settings.n_ubatch``."""
        at_once, size = settings.n_ubatch, max(size, settings.n_ubatch)
        settings = replace(
            settings, n_ctx=size, n_batch=size, n_ubatch=size, embeddings=True, n_seq=1,
            kv_unified=False,
        )  # fmt: skip
        super().__init__(model, replace(settings, n_batch=at_once, n_ubatch=at_once))
        self.is_own = settings.pooling is None
        lib = self._library
        if lib.llama_pooling_type(self.handle) == _POOL_NONE:
            settings, self.is_own = replace(settings, pooling="mean"), False
        if self._memory and model.meta(f"{model.architecture}.attention.causal") != "false":
            settings = replace(settings, n_batch=at_once, n_ubatch=at_once)
        if settings.pooling != self.settings.pooling or settings.n_batch != self.n_batch:
            super().close()
            super().__init__(model, settings)
        kind: int = lib.llama_pooling_type(self.handle)
        self.pooling, self.most = POOLING_NAMES.get(kind, str(kind)), min(size, self.n_ctx)
        self.width: int = (
            lib.llama_model_n_cls_out(model.handle)
            if kind == _POOL_RANK
            else lib.llama_model_n_embd_out(model.handle)
        )

    def vector(self, ids: Sequence[int]) -> Any:
        """Return the vector of a text: float32 of shape (width,); a copy."""
        self.check_open()
        if not ids:
            raise UsageError("the text is empty", hint="this model adds no BOS")
        if len(ids) > self.most:
            raise ResourceError(
                f"a text of {format_count(len(ids), 'token')} is too long: an embedding takes "
                f"{self.most}",
                hint="shorten it",
            )
        self.model.check_ids(ids)
        self.clear()
        parts = [ids[at : at + self.n_batch] for at in range(0, len(ids), self.n_batch)]
        vectors = [self._part(part, at * self.n_batch) for at, part in enumerate(parts)]
        if self.pooling == "mean" and len(parts) > 1:
            weighted = (vector * len(part) for vector, part in zip(vectors, parts, strict=True))
            return sum(weighted) / len(ids)
        return vectors[0 if self.pooling == "cls" else -1]

    def _part(self, ids: Sequence[int], position: int) -> Any:
        """Compute a part of a text; returns the vector of its tokens."""
        self._batch.fill(ids, position, True)
        self._run()
        pointer = self._library.llama_get_embeddings_seq(self.handle, 0)
        if not pointer:
            raise UnsupportedError("gives no embedding", source=self.model.path)
        return self._array(ctypes.cast(pointer, ctypes.c_void_p).value or 0, self.width).copy()
