"""Mutations of the tensors of a model file: shapes, types, names, offsets, values."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from odd_values import ADDED_TENSORS, ODD_TEXTS

from mtkit.gguf.types import TENSOR_TYPES

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from gguf_draft import Draft


def _any_tensor(chance: random.Random, draft: Draft) -> list[Any]:
    return chance.choice(draft.tensors) if draft.tensors else [b"", [], 0, b"", None]


def _sized(shape: Sequence[int], number: int, limit: int = 1 << 24) -> int:
    kind = TENSOR_TYPES.get(number)
    count = 1
    for axis in shape:
        count *= axis
    size = count // kind.block * kind.block_bytes if kind else 0
    return min(max(size, 0), limit)


def tensor_shape(chance: random.Random, draft: Draft) -> None:
    """Change a shape; mostly the data grows or shrinks with it."""
    tensor = _any_tensor(chance, draft)
    shape = tensor[1]
    way = chance.randrange(7)
    if not shape or way == 0:
        tensor[1] = [chance.choice((1, 2, 32, 64, 256)) for _ in range(chance.randrange(5))]
    elif way == 1:
        shape.reverse()
    elif way == 2:
        shape.append(chance.choice((1, 1, 2)))
    elif way == 3 and len(shape) > 1:
        shape[:2] = [shape[0] * shape[1]]
    elif way == 4 and shape[0] % 2 == 0:
        shape[:1] = [2, shape[0] // 2]
    else:
        at = chance.randrange(len(shape))
        old = shape[at]
        shape[at] = chance.choice((old * 2, old // 2, old + 32, old - 32, old + 1, 0, 1, 1 << 40))
    if chance.random() < 0.8:
        size = _sized(tensor[1], tensor[2])
        tensor[3] = (tensor[3] * (size // max(len(tensor[3]), 1) + 1))[:size]


def tensor_type(chance: random.Random, draft: Draft) -> None:
    """Change the type of a tensor; mostly its data goes with it."""
    tensor = _any_tensor(chance, draft)
    tensor[2] = chance.choice((*TENSOR_TYPES, 4, 5, 31, 99, (1 << 32) - 1))
    if chance.random() < 0.8:
        tensor[3] = chance.randbytes(_sized(tensor[1], tensor[2], 1 << 20))


def tensor_name(chance: random.Random, draft: Draft) -> None:
    """Rename a tensor, leave it out, or have it twice."""
    tensor = _any_tensor(chance, draft)
    way = chance.randrange(5)
    if way == 0:
        tensor[0] = chance.choice((*ODD_TEXTS, b"x" * 64, tensor[0] + b".x"))
    elif way == 1 and tensor in draft.tensors:
        draft.tensors.remove(tensor)
    elif way == 2:
        draft.tensors.insert(chance.randrange(len(draft.tensors) + 1), list(tensor))
    elif way == 3:
        other = _any_tensor(chance, draft)
        tensor[0], other[0] = other[0], tensor[0]
    else:
        added = list(tensor)
        added[0] = chance.choice(ADDED_TENSORS).encode()
        draft.tensors.append(added)


def tensor_offset(chance: random.Random, draft: Draft) -> None:
    """Let the data of a tensor begin elsewhere."""
    odd = (0, 1, 32, 64, 4096, 1 << 20, 1 << 40, (1 << 64) - 32, (1 << 64) - 1)
    _any_tensor(chance, draft)[4] = chance.choice(odd)


def tensor_data(chance: random.Random, draft: Draft) -> None:
    """Fill one tensor or all with values that are not numbers, or any bytes."""
    chosen = draft.tensors if chance.random() < 0.3 else [_any_tensor(chance, draft)]
    way = chance.randrange(5)
    for tensor in chosen:
        size = len(tensor[3])
        if way == 4:
            tensor[3] = chance.randbytes(size)
            continue
        value = (float("nan"), float("inf"), 3e38, 0.0)[way]
        piece = (
            struct.pack("<f", value) if tensor[2] == 0 else (b"\xff", b"\x7f", b"\xf7", b"\0")[way]
        )
        if chance.random() < 0.5 and tensor[2] == 0 and size > 8:
            at = chance.randrange(size // 4) * 4
            tensor[3] = tensor[3][:at] + piece + tensor[3][at + 4 :]
        else:
            tensor[3] = (piece * size)[:size]
