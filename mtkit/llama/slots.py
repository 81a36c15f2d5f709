"""A context of several sequences, whose tokens are computed in one batch.

Each sequence, a slot, has cells of its own unless ``kv_unified`` is set: the order in which
attention adds up a slot's tokens is that of their positions, whatever the others do, which keeps an
answer the same to the bit. llama.cpp computes neighboring slots together, so parts go in by slot
number.
"""

from __future__ import annotations

import ctypes
import struct

from mtkit.errors import FormatError, MtkitError, ResourceError, UsageError
from mtkit.llama.context import Batch, Context
from mtkit.llama.shared_library import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llama.model import Model
    from mtkit.settings import ContextSettings

MOST_SLOTS = 256
"""llama.cpp's LLAMA_MAX_SEQ."""
_PACKED = -1, 1
"""Start of the tokens in llama-server's files of slots; their number, they and a 0 follow.

Source: server-common.cpp, ``server_tokens::serialize``.
"""
_FEW = 64
"""Tokens of a batch that is over too soon to be interrupted: each check takes the GIL."""


class SlotContext(Context):
    """A context of ``settings.n_seq`` slots; close it, or use it in ``with``."""

    def __init__(self, model: Model, settings: ContextSettings, *, watched_by: Any = None) -> None:
        """Make a context; as ``Context``."""
        if not 1 <= settings.n_seq <= MOST_SLOTS:
            what = f"is {settings.n_seq}, not in the range 1 to {MOST_SLOTS}"
            raise UsageError(what, field="slots")
        super().__init__(model, settings, watched_by=watched_by)
        self.n_slots = settings.n_seq
        self.n_cells: int = self.n_ctx
        share = self.n_ctx // self.n_slots
        if settings.kv_unified:
            share = min(self.n_ctx, model.n_ctx_train or self.n_ctx)
        self.n_slot: int = min(share, self._library.llama_n_ctx_seq(self.handle))
        self.n_ctx = self.n_slot  # what is not computed in parts goes into the first slot
        self._parts = Batch(self._library, self.n_batch, sequences=self.n_slots)

    def use_adapters(self, scales: tuple[float, ...]) -> None:
        """Compute with these scales of the model's adapters from now on."""
        if scales != self.adapter_scales:
            self.model.give_adapters(self, scales)

    def compute(self, parts: Sequence[tuple[int, int, Sequence[int], int]]) -> list[int]:
        """Compute tokens of several slots together.

        Args:
            parts: Slot, position of the first token, the tokens, and of how many of the last the
                logits count; sorted by slot, each slot once.

        Returns:
            The row of each part's last token, as ``logits`` takes it.
        """
        size, check_ids = 0, self.model.check_ids
        for slot, position, ids, _ in parts:
            if not 0 <= slot < self.n_slots:
                self._check_slot(slot)
            check_ids(ids)
            size += len(ids)
            if position + len(ids) > self.n_slot:
                raise ResourceError(f"a slot holds {self.n_slot} tokens", hint="raise --ctx")
        if not 0 < size <= self.n_batch:
            raise UsageError(f"{size} tokens, a batch takes 1 to {self.n_batch}")
        rows = self._parts.fill_parts(parts)
        self._run(batch=self._parts, few=_FEW)
        return rows

    def clear_slot(self, slot: int) -> None:
        """Forget all tokens of a slot."""
        self._check_slot(slot)
        self._library.llama_memory_seq_rm(self._memory, slot, -1, -1)

    def cut(self, slot: int, end: int) -> bool:
        """Forget the tokens of a slot from a position on.

        Returns:
            False where the memory cannot do that, as in ``truncate``; the slot is as before then.
        """
        self._check_slot(slot)
        if not self.settings.swa_full and self._has_hole(end, slot):
            return False
        return bool(self._library.llama_memory_seq_rm(self._memory, slot, end, -1))

    @property
    def can_shift(self) -> bool:
        """Whether ``shift`` works."""
        if self.model.is_recurrent or not self._memory:
            return False
        return bool(self._library.llama_memory_can_shift(self._memory))

    def shift(self, slot: int, start: int, count: int) -> None:
        """Forget tokens in the middle of a slot; those behind them move up."""
        self._check_slot(slot)
        lib, end = self._library, start + count
        lib.llama_memory_seq_rm(self._memory, slot, start, end)
        lib.llama_memory_seq_add(self._memory, slot, end, -1, -count)

    def save_slot(self, slot: int, ids: Sequence[int]) -> tuple[bytes, memoryview]:
        """Return what a slot remembers as llama-server's file has it: a head, and the state."""
        packed = (*_PACKED, len(ids), *ids, 0)
        lib = self._library
        words = (lib.LLAMA_STATE_SEQ_MAGIC, lib.LLAMA_STATE_SEQ_VERSION, len(packed))
        return struct.pack(f"=3I{len(packed)}i", *words, *packed), memoryview(self._state(slot))

    def restore_slot(self, slot: int, data: memoryview) -> list[int]:
        """Set a slot to what ``save_slot`` gave; returns its tokens.

        Where that fails, the slot holds what it held.
        """
        ids, state = self._unpack(data)
        before = self._state(slot)
        self.clear_slot(slot)
        log.clear()
        array = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        set_state = self._library.llama_state_seq_set_data
        size = set_state(self.handle, array, len(state), slot) if len(state) else 0
        last = self._library.llama_memory_seq_pos_max(self._memory, slot) if size else -1
        try:
            if size != len(state) or last + 1 != len(ids):
                raise FormatError(f"does not fit this model and its slots{log.reason()}")
        except MtkitError:
            self.clear_slot(slot)
            if before:
                self._library.llama_state_seq_set_data(self.handle, before, len(before), slot)
            raise
        return ids

    def _unpack(self, data: memoryview) -> tuple[list[int], memoryview]:
        """Return tokens and state of what ``save_slot`` gave."""
        lib, head = self._library, struct.calcsize("=3I")
        start = len(_PACKED) + 1
        if len(data) >= head:
            magic, version, count = struct.unpack_from("=3I", data)
            is_known = (magic, version) == (lib.LLAMA_STATE_SEQ_MAGIC, lib.LLAMA_STATE_SEQ_VERSION)
            if is_known and start < count <= min(self.n_slot + start + 1, (len(data) - head) // 4):
                packed = struct.unpack_from(f"={count}i", data, head)
                ids = list(packed[start:-1])
                if packed[:start] == (*_PACKED, len(ids)):
                    self.model.check_ids(ids)
                    return ids, data[head + 4 * count :]
        raise FormatError("does not fit this model and its slots")

    def _state(self, slot: int) -> Any:
        """Return what a slot holds, as llama.cpp writes it; nothing of an empty one."""
        self._check_slot(slot)
        lib = self._library
        if lib.llama_memory_seq_pos_max(self._memory, slot) < 0:
            return b""
        data = (ctypes.c_uint8 * lib.llama_state_seq_get_size(self.handle, slot))()
        lib.llama_state_seq_get_data(self.handle, data, len(data), slot)
        return data

    def _check_slot(self, slot: int) -> None:
        self.check_open()
        if not 0 <= slot < self.n_slots:
            raise UsageError(f"no slot {slot}: there are {self.n_slots}")
