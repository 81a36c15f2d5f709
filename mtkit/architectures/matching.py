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
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from mtkit.architectures.changes import Shape
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.table import Architecture, Row

_NAMED = 3
"""How many tensors a message names."""


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


def of_folder(architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]) -> list[Match]:
    """Return what becomes of the tensors of a folder, in their order there.

    Args:
        architecture: Of the model.
        dims: Its sizes.
        shapes: Name of a tensor -> its shape, slowest axis first; in the order of the files.

    Raises:
        FormatError: A tensor is missing, has another shape, or belongs to none of the rows.
    """
    place = {name: number for number, name in enumerate(shapes)}
    prefix = architecture.prefix
    names: dict[str, str] = {}
    for name in shapes:
        names.setdefault(architecture.renamed(name) if architecture.renamed else name, name)
    # A model without its head is published without the name of the part that it is.
    names.update({prefix + name: name for name in shapes if prefix and prefix + name not in shapes})
    layers = _layers(dims, len(shapes))
    dims = dims.among({name: shapes[one] for name, one in names.items()})
    found: list[Match] = []
    used = _held(architecture, layers)
    if not used <= shapes.keys():
        raise _missing(sorted(used - shapes.keys()))
    for match in _matches(architecture, dims, layers, len(shapes)):
        there = tuple(names[name] for name in match.folder if name in names)
        if not there and match.row.optional:
            continue
        if len(there) < len(match.folder):
            raise _missing([name for name in match.folder if name not in names])
        for name, wanted in zip(there, match.folder_shapes, strict=True):
            if shapes[name] != wanted:
                raise _contradiction(name, shapes[name], wanted, "config.json says")
        used.update(there)
        found.append(Match(match.row, match.dims, there, *_rest(match)))
    _refuse_left([name for name in shapes if name not in used], architecture)
    return sorted(found, key=lambda one: max(place[name] for name in one.folder))


def of_gguf(architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]) -> list[Match]:
    """Return where the tensors of a GGUF come from, in the order of the rows.

    Raises:
        FormatError: A tensor is missing, has another shape, or belongs to none of the rows.
    """
    layers = _layers(dims, len(shapes))
    dims = dims.among(shapes)
    found: list[Match] = []
    used: set[str] = set()
    for match in _matches(
        architecture,
        dims,
        layers,
        max((max(shape, default=0) for shape in shapes.values()), default=0),
    ):
        there = [name for name in match.gguf if name in shapes]
        if not there and match.row.optional:
            continue
        if len(there) < len(match.gguf):
            raise _missing([name for name in match.gguf if name not in shapes])
        for name, wanted in zip(match.gguf, match.gguf_shapes, strict=True):
            if shapes[name] != wanted:
                raise _contradiction(name, shapes[name], wanted, "the metadata say")
        used.update(there)
        found.append(match)
    used.update(one.name for one in architecture.generated)
    _refuse_left([name for name in shapes if name not in used], architecture)
    return found


def _matches(architecture: Architecture, dims: Dims, layers: int, most: int) -> Iterator[Match]:
    for row in architecture.rows:
        is_of_layer = any(LAYER in name for name in row.gguf)
        for layer in range(layers if is_of_layer else 1):
            at = dims.at(layer)
            if row.layers is None or row.layers(at):
                yield _match(row, at, layer, most)


def _match(row: Row, dims: Dims, layer: int, most: int) -> Match:
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


def _missing(names: list[str]) -> FormatError:
    return FormatError(f"there is no tensor {_listed(names)}")


def _contradiction(name: str, shape: Shape, wanted: Shape, said: str) -> FormatError:
    what = f"has the shape {list(shape)}, {said} {list(wanted)}"
    return FormatError(what, field=f"tensor {quoted(name)}")


def _refuse_left(left: Iterable[str], architecture: Architecture) -> None:
    names = [name for name in left if not name.endswith(architecture.drops + architecture.zeros)]
    if names:
        what = f"{architecture.classes[0]} has no tensor {_listed(names)}"
        raise FormatError(what, hint="the folder is of another architecture than it says")


def _listed(names: list[str]) -> str:
    text = ", ".join(quoted(name) for name in names[:_NAMED])
    return text + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
