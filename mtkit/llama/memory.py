"""The memory of a context: what it keeps of the tokens it has computed.

Mostly keys and values, which can be cut at any place; a recurrent state cannot be cut.
"""

from __future__ import annotations

import ctypes

from mtkit.base.closing import Closing
from mtkit.errors import ResourceError, UnsupportedError, UsageError
from mtkit.llama.interrupts import held_back
from mtkit.llama.shared_library import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.llama.model import Model
    from mtkit.settings import ContextSettings


class Memory(Closing):
    """The part of a context that remembers.

    Attributes:
        n_ctx: Tokens that fit, as asked for (llama.cpp's own number is a multiple of 256).
        n_past: Tokens in the memory.
    """

    model: Model
    settings: ContextSettings
    handle: int
    n_ctx: int
    n_past: int
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
        self.n_past = 0

    def truncate(self, end: int) -> bool:
        """Forget the tokens from a position on.

        Returns:
            False where the memory cannot do that (recurrent layers, or a sliding window that has
            dropped what would be needed); it is as before then.
        """
        if end >= self.end():
            return True
        if not self.settings.swa_full and self._has_hole(end):
            return False
        if not self._library.llama_memory_seq_rm(self._memory, 0, end, -1):
            return False
        self.n_past = end
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
        size = held_back(lib.llama_state_get_size, self.handle)
        data = bytearray(size)
        buffer = (ctypes.c_uint8 * size).from_buffer(data)
        written = held_back(lib.llama_state_get_data, self.handle, buffer, size)
        if not written:
            raise UnsupportedError(f"the state cannot be saved{log.reason()}")
        del buffer
        return data[:written]

    def restore(self, data: bytes | bytearray | memoryview) -> None:
        """Set the memory to what ``state`` gave; a token must be computed before there are logits.

        Raises:
            UnsupportedError: It comes from a context or model of another kind.
        """
        self.check_open()
        lib = self._library
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        log.clear()
        set_data = lib.llama_state_set_data
        if not len(data) or held_back(set_data, self.handle, buffer, len(data)) != len(data):
            self.clear()
            raise UnsupportedError(f"the state does not fit this context{log.reason()}")
        self.n_past = self.end()
        self._is_computed = False  # what the buffer holds belongs to the time before

    def check_open(self) -> None:
        """Check that it has not been closed.

        Raises:
            UsageError: It has.
        """
        if not self.handle:
            raise UsageError("the context is closed")

    def _check_room(self, end: int) -> None:
        if end > self.n_ctx:
            raise ResourceError(
                f"the context holds {self.n_ctx} tokens, {end} are needed",
                hint="raise --ctx, or shorten the prompt or -n",
            )
