"""Which tensors of a folder become which tensors of a GGUF, and the other way round.

Every tensor that is there has its row, every row that a model must have its tensors, and every
shape is the one that the metadata say: else it is an error that names the tensor.
"""

from __future__ import annotations

from mtkit.architectures.table import COUNTS, LAYER
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.errors import FormatError, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, Literal

    from mtkit.architectures.changes import Shape
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.table import Architecture, Row

_BUFFERS = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")
"""Ends of names of what older checkpoints hold though it is computed.

Source: llama.cpp, conversion/base.py (``prepare_tensors``)."""
_NAMED = 3
"""How many tensors a message names."""
_MOST = 1 << 16
_MOST_FAULTS = 1000
"""A file of garbage lacks tensors in every layer that it claims to have."""


class Match(Record):
    """A row in a layer.

    Attributes:
        row: The row.
        dims: Sizes in its layer.
        folder: Names in the folder, with what stands in front of them there.
        gguf: Names in the GGUF.
        folder_shapes: Slowest axis first.
        gguf_shapes: Slowest axis first.
    """

    row: Row
    dims: Dims
    folder: tuple[str, ...]
    gguf: tuple[str, ...]
    folder_shapes: tuple[Shape, ...]
    gguf_shapes: tuple[Shape, ...]

    def forward(self, arrays: list[Any]) -> list[Any]:
        """Return the arrays of the GGUF."""
        return self.row.change.forward(arrays, self.gguf_shapes, self.dims)

    def back(self, arrays: list[Any]) -> list[Any]:
        """Return the arrays of the folder."""
        return self.row.change.back(arrays, self.folder_shapes, self.dims)


class Fault(Record):
    """What is wrong with the tensors of a model.

    Attributes:
        kind: Tensors of a row are missing, one has another shape than the metadata say, or those
            that are there belong to no row.
        names: Of the tensors.
        shape: Of the one with another shape, slowest axis first.
        wanted: The shape that it should have.
    """

    kind: Literal["missing", "shape", "unknown"]
    names: tuple[str, ...]
    shape: Shape = ()
    wanted: Shape = ()


class Matched(Record):
    """What belongs together, and what is wrong.

    Attributes:
        matches: Rows whose tensors are all there, with the shapes that they should have.
        faults: In the order of the rows, unknown tensors last; where there are very many, not all.
    """

    matches: tuple[Match, ...]
    faults: tuple[Fault, ...]


def of_folder(architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]) -> list[Match]:
    """Return what becomes of the tensors of a folder, in their order there.

    Args:
        architecture: Of the model.
        dims: Its sizes.
        shapes: Name of a tensor -> its shape, slowest axis first; in the order of the files.

    Raises:
        FormatError: A tensor is missing, has another shape, or belongs to none of the rows.
    """
    found = match_folder(architecture, dims, shapes)
    for fault in found.faults:
        raise _error(fault, architecture, "config.json says")
    place = {name: number for number, name in enumerate(shapes)}
    return sorted(found.matches, key=lambda one: max(place[name] for name in one.folder))


def of_gguf(architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]) -> list[Match]:
    """Return where the tensors of a GGUF come from, in the order of the rows.

    Raises:
        FormatError: A tensor is missing, has another shape, or belongs to none of the rows.
    """
    found = match_gguf(architecture, dims, shapes)
    for fault in found.faults:
        raise _error(fault, architecture, "the metadata say")
    return list(found.matches)


def match_folder(architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]) -> Matched:
    """Return what becomes of the tensors of a folder, in the order of the rows, and all faults.

    Raises:
        FormatError: The metadata do not say the sizes.
    """
    prefix = architecture.prefix
    names: dict[str, str] = {}
    for name in shapes:
        names.setdefault(architecture.renamed(name) if architecture.renamed else name, name)
    # A model without its head is published without the name of the part that it is.
    if prefix:
        names.update({prefix + n: one for n, one in names.items() if prefix + n not in names})
    dims = dims.among({name: shapes[one] for name, one in names.items()})
    found = _Found(shapes)
    found.used.update(_held(architecture, _layers(dims, len(shapes))))
    found.has_faults(tuple(sorted(found.used - shapes.keys())), ())
    for match in found.until_too_many(every_match(architecture, dims, len(shapes), len(shapes))):
        there = tuple(names[name] for name in match.folder if name in names)
        if there or not match.row.optional:
            missing = tuple(name for name in match.folder if name not in names)
            if not found.has_faults(missing, zip(there, match.folder_shapes, strict=False)):
                found.matches.append(Match(match.row, match.dims, there, *_rest(match)))
    return found.matched(architecture.drops + architecture.zeros)


def match_gguf(architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]) -> Matched:
    """Return where the tensors of a GGUF come from, in the order of the rows, and all faults.

    Raises:
        FormatError: The metadata do not say the sizes.
    """
    dims = dims.among(shapes)
    found = _Found(shapes)
    found.used.update(one.name for one in architecture.generated)
    longest = max((max(shape, default=0) for shape in shapes.values()), default=0)
    for match in found.until_too_many(every_match(architecture, dims, len(shapes), longest)):
        there = [name for name in match.gguf if name in shapes]
        if there or not match.row.optional:
            missing = tuple(name for name in match.gguf if name not in shapes)
            pairs = zip(match.gguf, match.gguf_shapes, strict=True)
            if not found.has_faults(missing, pairs):
                found.matches.append(match)
    return found.matched(())


class _Found:
    """What was found so far in the tensors of a model."""

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.matches: list[Match] = []
        self.used: set[str] = set()
        self._shapes = shapes
        self._faults: list[Fault] = []

    def until_too_many(self, matches: Iterable[Match]) -> Iterator[Match]:
        """Yield matches as long as there are not very many faults."""
        for match in matches:
            if len(self._faults) >= _MOST_FAULTS:
                return
            yield match

    def has_faults(self, missing: tuple[str, ...], wanted: Iterable[tuple[str, Shape]]) -> bool:
        """Keep what is wrong with the tensors of a row."""
        before = len(self._faults)
        if missing:
            self._faults.append(Fault("missing", missing))
        for name, shape in wanted:
            self.used.add(name)
            is_there = name in self._shapes
            # Of what is not whole, a folder does not say which shape belongs to which name.
            if is_there and not missing and self._shapes[name] != shape:
                self._faults.append(Fault("shape", (name,), self._shapes[name], shape))
        return len(self._faults) > before

    def matched(self, drops: tuple[str, ...]) -> Matched:
        """Return what was found; tensors that belong to no row are a fault, too."""
        if len(self._faults) >= _MOST_FAULTS:
            return Matched(tuple(self.matches), tuple(self._faults))
        left = (name for name in self._shapes if name not in self.used)
        unknown = tuple(name for name in left if not name.endswith((*_BUFFERS, *drops)))
        faults = (*self._faults, *(Fault("unknown", unknown),) * bool(unknown))
        return Matched(tuple(self.matches), faults)


def every_match(
    architecture: Architecture, dims: Dims, most_layers: int = _MOST, most_experts: int = _MOST
) -> Iterator[Match]:
    """Yield the rows of an architecture in each layer, the optional ones as well.

    Args:
        architecture: Of the model.
        dims: Its sizes.
        most_layers: A model with more cannot be meant.
        most_experts: Likewise.

    Raises:
        FormatError: The metadata do not say the sizes, or say one that cannot be meant.
    """
    layers = _layers(dims, most_layers)
    for row in architecture.rows:
        is_of_layer = any(LAYER in name for name in row.gguf)
        for layer in range(layers if is_of_layer else 1):
            at = dims.at(layer)
            if row.layers is None or row.layers(at):
                yield match_of(row, at, layer, most_experts)


def match_of(row: Row, dims: Dims, layer: int, most: int) -> Match:
    """Return a row in a layer; a model with more than so many experts cannot be meant."""
    folder = tuple(
        name.replace(LAYER, str(layer))
        for pattern in row.folder
        for name in _each(pattern, dims, most)
    )
    gguf = tuple(name.replace(LAYER, str(layer)) for name in row.gguf)
    shapes = tuple(dims.shape(axes) for axes in row.axes)
    sources = row.change.sources(shapes, len(folder), dims)
    return Match(row, dims, folder, gguf, tuple(sources), shapes)


def _each(name: str, dims: Dims, most: int) -> list[str]:
    """Return the names of all experts, or heads, where a name stands for several."""
    for part, key in COUNTS.items():
        if part in name:
            return [name.replace(part, str(one)) for one in range(_bounded(dims, key, most))]
    return [name]


def _layers(dims: Dims, most: int) -> int:
    """Return how many layers there are; a decoder beside an encoder has a number of its own."""
    decoder = "decoder_block_count"
    layers = _bounded(dims, "block_count", most)
    return max(layers, _bounded(dims, decoder, most)) if decoder in dims.keys else layers


def _held(architecture: Architecture, layers: int) -> set[str]:
    return {
        one.folder.replace(LAYER, str(layer))
        for one in architecture.held
        for layer in range(layers)
    }


def _rest(match: Match) -> tuple[tuple[str, ...], tuple[Shape, ...], tuple[Shape, ...]]:
    return match.gguf, match.folder_shapes, match.gguf_shapes


def _bounded(dims: Dims, key: str, most: int) -> int:
    """Return a count; one above the number of tensors cannot be true."""
    count = dims.key(key)
    if count > most:
        raise FormatError(f"is {count}, the model has {counted(most, 'tensor')}", field=key)
    return count


def _error(fault: Fault, architecture: Architecture, said: str) -> FormatError:
    if fault.kind == "missing":
        return FormatError(f"there is no tensor {listed(fault.names)}")
    if fault.kind == "shape":
        what = f"has the shape {list(fault.shape)}, {said} {list(fault.wanted)}"
        return FormatError(what, field=f"tensor {quoted(fault.names[0])}")
    what = f"{architecture.classes[0]} has no tensor {listed(fault.names)}"
    return FormatError(what, hint="the folder is of another architecture than it says")


def listed(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    text = ", ".join(quoted(name) for name in names[:_NAMED])
    return text + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
