"""A model folder as what is compared: with the names and the order that a GGUF has.

Its metadata are those that conversion would give. A tensor's data is made as conversion makes it,
in whichever type the other side has, so that a converted file is equal to the byte.
"""

from __future__ import annotations

from math import prod

from mtkit.conversion.folder_report import header_source
from mtkit.conversion.model_tensors import PACKED, TYPES, Values, made_of
from mtkit.conversion.whole_model import prepare
from mtkit.formats.contract import LOSS_CODES
from mtkit.gguf import open_gguf
from mtkit.gguf.values import F32
from mtkit.inspection.sides import STEP, Side

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from mtkit.architectures.in_layers import Match
    from mtkit.base.binary import Buffer
    from mtkit.checkpoints.folder_files import Stored
    from mtkit.gguf.writer import NewTensor

_BY_NAME = {kind.name: kind for kind in TYPES.values()}


class GeneratedTensor:
    """A tensor that config.json gives."""

    def __init__(self, tensor: NewTensor) -> None:
        self._tensor = tensor
        self.name, self.shape, self.n_bytes = tensor.name, tensor.shape, tensor.n_bytes
        self.type = tensor.type.name

    def data_as(self, kind: str) -> Iterator[Buffer] | None:
        """Give its data in the type that it has."""
        return self._tensor.pieces() if kind == self.type else None

    def values(self) -> Iterator[Any] | None:
        """Give its elements as float32."""
        return _floats(self._tensor.pieces())


class FolderTensor:
    """A tensor that those of a folder become."""

    def __init__(self, match: Match, number: int, tensors: Mapping[str, Stored]) -> None:
        self._match, self._number = match, number
        found = [tensors[name] for name in match.folder]
        self._sources = [*map(Values.of, found)]
        self.name = match.gguf[number]
        self.shape = tuple(reversed(match.gguf_shapes[number]))
        self._stores = match.row.change.stores
        self.type = self._stores or found[0].weight.type
        many, whole = (sum(map(prod, shapes)) for shapes in (match.gguf_shapes, [self.shape]))
        self.n_bytes = sum(one.weight.n_bytes for one in found) * whole // max(many, 1)

    def data_as(self, kind: str) -> Iterator[Buffer] | None:
        """Give its data in a type that conversion writes."""
        wanted = PACKED[kind] if kind == self._stores else _BY_NAME.get(kind)
        if wanted is None or (self.shape and self.shape[0] % wanted.block):
            return None
        match = self._match
        made = made_of(
            self._sources, match.row.change, match.forward, self._number, wanted, lambda _: None
        )
        return made()

    def values(self) -> Iterator[Any] | None:
        """Give its elements as float32."""
        data = self.data_as(F32.name)
        return None if data is None else _floats(data)


def _floats(parts: Iterable[Buffer]) -> Iterator[Any]:
    import numpy as np

    from mtkit.base.binary import pieces

    for part in parts:
        for piece in pieces(memoryview(part).cast("B"), STEP * F32.block_bytes):
            yield np.frombuffer(piece, "<f4")


def folder_side(path: str) -> Side:
    """Return a folder as a side.

    Raises:
        MtkitError: It cannot become a GGUF.
    """
    made = prepare(path, allow_loss=LOSS_CODES)
    metadata = open_gguf(header_source(path, made.draft)).metadata
    plan = made.plan
    found: list[GeneratedTensor | FolderTensor] = [*map(GeneratedTensor, plan.generated)]
    for match in plan.matches:
        numbers = range(len(match.gguf))
        found += (FolderTensor(match, number, plan.folder.tensors) for number in numbers)
    return Side(path, metadata, {one.name: one for one in found}, is_file=False)
