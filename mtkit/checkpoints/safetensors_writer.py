"""Writing safetensors: a header of names, types, shapes and places, then the data.

Source: huggingface/safetensors, tensor.rs (``prepare``): data in the order of the header, which is
filled with spaces to a multiple of eight bytes.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.checkpoints.safetensors import ALIGNED_BYTES, LENGTH_BYTES, METADATA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mtkit.base.binary import Buffer


class NewWeight(Record):
    """A tensor to write.

    Attributes:
        name: Its name.
        type: As safetensors spells it.
        shape: Slowest axis first.
        n_bytes: Size of the data.
        pieces: Makes the data, little-endian, piece by piece.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    n_bytes: int
    pieces: Callable[[], Iterator[Buffer]]


def chunks(weights: Sequence[NewWeight]) -> Iterator[Buffer]:
    """Give the bytes of a file, piece by piece, as transformers writes it."""
    import json

    header: dict[str, object] = {METADATA: {"format": "pt"}}
    at = 0
    for one in weights:
        place = [at, at + one.n_bytes]
        header[one.name] = {"dtype": one.type, "shape": list(one.shape), "data_offsets": place}
        at += one.n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED_BYTES)
    yield len(text).to_bytes(LENGTH_BYTES, "little") + text
    for one in weights:
        yield from one.pieces()
