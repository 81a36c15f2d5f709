"""The types that llama.cpp stores keys and values in."""

from __future__ import annotations

from typing import Literal, get_args  # at run time: settings read their choices from it

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf.types import TensorType

KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]


def element_type(kv_type: str) -> TensorType:
    """Return the type of the elements.

    Raises:
        UsageError: Keys and values are not stored so.
    """
    from mtkit.gguf.types import TENSOR_TYPES

    for kind in TENSOR_TYPES.values():
        if kind.name.lower() == kv_type and kv_type in get_args(KvType):
            return kind
    raise UsageError(f"--kv-type: {kv_type!r} is not one of {', '.join(get_args(KvType))}")


def stored_bytes(elements: int, kv_type: str) -> int:
    """Return the bytes that so many elements take."""
    kind = element_type(kv_type)
    return elements * kind.block_bytes // kind.block
