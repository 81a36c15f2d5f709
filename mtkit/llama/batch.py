"""The batches that a context hands to llama.cpp: one for all calls, its arrays numpy's."""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Batch:
    """Room for a number of tokens, each with its position and whether its logits count.

    Its tokens are those of the first sequence, or what ``fill_parts`` put behind each other.

    Attributes:
        outputs: 1 where logits count; int8 of shape (size,).
        embeddings: What enters in the place of ids; float32 of shape (size, width).
    """

    def __init__(self, lib: Any, size: int, width: int = 0, sequences: int = 1) -> None:
        """Make room.

        Args:
            width: Of an embedding, for a batch that takes embeddings instead of ids.
        """
        import numpy as np

        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._counts = np.ones(size, np.int32)
        self._sequences = np.arange(sequences, dtype=np.int32)
        # For every token a list of sequences; here always of one, the first but for parts.
        self._first = self._sequences.ctypes.data
        self._lists = np.full(size, self._first, np.uintp)
        self.outputs = np.zeros(size, np.int8)
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

    def fill_embeddings(self, rows: Any, position: int) -> None:
        """Set what enters, float32 of shape (n, width); the logits of the last row count."""
        self.embeddings[: len(rows)] = rows
        self._place(len(rows), position, False)
        self.outputs[len(rows) - 1] = 1

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
        tokens: list[int] = []
        positions: list[int] = []
        lists: list[int] = []
        outputs: list[int] = []
        ends = []
        width = self._sequences.itemsize
        for sequence, position, ids, count in parts:
            size = len(ids)
            tokens += ids
            positions += range(position, position + size)
            lists += [self._first + sequence * width] * size
            outputs += [0] * (size - count) + [1] * count
            ends.append(len(tokens) - 1)
        # An assignment to an array takes longer than the rest: one for all parts.
        size = self.struct.n_tokens = len(tokens)
        self._tokens[:size] = tokens
        self._positions[:size] = positions
        self._lists[:size] = lists
        self.outputs[:size] = outputs
        return ends

    def fill_token(self, token_id: int, position: int) -> Any:
        """Set one token whose logits count; returns the struct."""
        self._tokens[0] = token_id
        self._positions[0] = position
        self.outputs[0] = 1
        self.struct.n_tokens = 1
        return self.struct
