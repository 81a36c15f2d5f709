"""Which tensors of a folder become which tensors of a GGUF, and the other way round.

Every tensor that is there has its row, every row that a model must have its tensors, and every
shape is the one that the metadata say: else it is an error that names the tensor.

``every_match`` are the rows of an architecture in each layer, whether or not they are there;
``match_names`` those of a few tensors without the others.
"""

from __future__ import annotations

from mtkit.architectures.table import ANY_EXPERT, ANY_LAYER, COUNTS
from mtkit.base.escape import quoted
from mtkit.base.record import Record, replace
from mtkit.errors import FormatError, format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Literal

    from mtkit.architectures.changes import Shape
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Architecture, Row


_MOST_LAYERS = 1 << 16


class Match(Record):
    """A row in a layer."""

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


def every_match(
    architecture: Architecture,
    dims: Dims,
    most_layers: int = _MOST_LAYERS,
    most_experts: int = _MOST_LAYERS,
) -> Iterator[Match]:
    """Yield the rows of an architecture in each layer, the optional ones as well."""
    layers = layer_count(dims, most_layers)
    for row in architecture.rows:
        is_of_layer = any(ANY_LAYER in name for name in row.gguf)
        for layer in range(layers if is_of_layer else 1):
            at = dims.at(layer)
            if row.layers is None or row.layers(at):
                yield match_of(row, at, layer, most_experts)


def match_of(row: Row, dims: Dims, layer: int, most: int) -> Match:
    """Return a row in a layer; a model with more than so many experts cannot be meant."""
    folder = tuple(
        name.replace(ANY_LAYER, str(layer))
        for pattern in row.folder
        for name in _each_name(pattern, dims, most)
    )
    gguf = tuple(name.replace(ANY_LAYER, str(layer)) for name in row.gguf)
    shapes = tuple(dims.shape(axes) for axes in row.axes)
    sources = row.change.sources(shapes, len(folder), dims)
    return Match(row, dims, folder, gguf, tuple(sources), shapes)


def _each_name(name: str, dims: Dims, most: int) -> list[str]:
    """Return the names of all experts, or heads, where a name stands for several."""
    for part, key in COUNTS.items():
        if part in name:
            return [name.replace(part, str(one)) for one in range(_bounded_count(dims, key, most))]
    return [name]


def layer_count(dims: Dims, most: int) -> int:
    """Return how many layers there are; a decoder beside an encoder has a number of its own."""
    decoder = "decoder_block_count"
    layers = _bounded_count(dims, "block_count", most)
    return max(layers, _bounded_count(dims, decoder, most)) if decoder in dims.keys else layers


def _bounded_count(dims: Dims, key: str, most: int) -> int:
    """Return a count; one above the number of tensors cannot be true."""
    count = dims.key(key)
    if count > most:
        raise FormatError(
            f"is {count}, but the model has {format_count(most, 'tensor')}", field=key
        )
    return count


_BUFFERS = (
    ".attention.masked_bias", ".attention.bias", ".attn.masked_bias", ".attn.bias",
    ".rotary_emb.inv_freq",
)  # fmt: skip
"""Ends of names of what older checkpoints hold though it is computed.

Source: llama.cpp, conversion/base.py (``prepare_tensors``)."""
_NAMED = 3
"""How many tensors a message names."""
_MOST_FAULTS = 1000
"""A file of garbage lacks tensors in every layer that it claims to have."""


class Fault(Record):
    """What is wrong with the tensors of a model.

    Attributes:
        kind: Tensors of a row are missing, one has another shape than the metadata say, or those
            that are there belong to no row.
        shape: Of the one with another shape, slowest axis first.
        wanted: The shape that it should have.
    """

    kind: Literal["missing", "shape", "unknown"]
    names: tuple[str, ...]
    shape: Shape = ()
    wanted: Shape = ()


class TensorMatches(Record):
    """What belongs together, and what is wrong.

    Attributes:
        matches: Rows whose tensors are all there, with the shapes that they should have.
        faults: In the order of the rows, unknown tensors last; where there are very many, not all.
    """

    matches: tuple[Match, ...]
    faults: tuple[Fault, ...]


def folder_matches(
    architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]
) -> list[Match]:
    """Return what becomes of the tensors of a folder, in their order there.

    Args:
        shapes: Name of a tensor -> its shape, slowest axis first; in the order of the files.
    """
    found = match_folder(architecture, dims, shapes)
    refuse_faults(found, architecture, "config.json says")
    place = {name: number for number, name in enumerate(shapes)}
    return sorted(found.matches, key=lambda one: max(place[name] for name in one.folder))


def refuse_faults(found: TensorMatches, architecture: Architecture, said: str) -> None:
    """Refuse a model that is not whole.

    Args:
        said: Who says the shapes that they should have, with the verb.
    """
    for fault in found.faults:
        raise _fault_error(fault, architecture, said)


def match_folder(
    architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]
) -> TensorMatches:
    """Return what becomes of the tensors of a folder, in the order of the rows, and all faults."""
    prefix = architecture.prefix
    names: dict[str, str] = {}
    copies = architecture.copies
    for name in shapes:
        new = architecture.renamed(name) if architecture.renamed else name
        names.setdefault(copies[0] if new in copies else new, name)
    # A model without its head is published without the name of the part that it is.
    if prefix:
        names.update({prefix + n: one for n, one in names.items() if prefix + n not in names})
    dims = dims.among({name: shapes[one] for name, one in names.items()})
    found = _MatchCollector(shapes)
    found.used.update(_tensor_names(architecture, layer_count(dims, len(shapes))))
    found.has_faults(tuple(sorted(found.used - shapes.keys())), ())
    for match in found.until_too_many(every_match(architecture, dims, len(shapes), len(shapes))):
        there = tuple(names[name] for name in match.folder if name in names)
        if there or not match.row.optional:
            missing = tuple(name for name in match.folder if name not in names)
            if not found.has_faults(missing, zip(there, match.folder_shapes, strict=False)):
                found.matches.append(replace(match, folder=there))
    found.used.update(copies)
    return found.matched((*_BUFFERS, *architecture.zeros))


def match_gguf(
    architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]
) -> TensorMatches:
    """Return where the tensors of a GGUF come from, in the order of the rows, and all faults."""
    dims = dims.among(shapes)
    found = _MatchCollector(shapes)
    for one in architecture.generated:
        found.has_faults((), [(one.name, dims.shape(one.axes))] if one.name in shapes else ())
    longest = max((max(shape, default=0) for shape in shapes.values()), default=0)
    for match in found.until_too_many(every_match(architecture, dims, len(shapes), longest)):
        there = [name for name in match.gguf if name in shapes]
        if there or not match.row.optional:
            missing = tuple(name for name in match.gguf if name not in shapes)
            pairs = zip(match.gguf, match.gguf_shapes, strict=True)
            if not found.has_faults(missing, pairs):
                found.matches.append(match)
    return found.matched()


class _MatchCollector:
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
            # If tensors of a row are missing, names and wanted shapes cannot be paired.
            if is_there and not missing and self._shapes[name] != shape:
                self._faults.append(Fault("shape", (name,), self._shapes[name], shape))
        return len(self._faults) > before

    def matched(self, ends: tuple[str, ...] = ()) -> TensorMatches:
        """Return what was found; tensors that belong to no row are a fault, but for some ends."""
        if len(self._faults) >= _MOST_FAULTS:
            return TensorMatches(tuple(self.matches), tuple(self._faults))
        left = (name for name in self._shapes if name not in self.used)
        unknown = tuple(name for name in left if not name.endswith(ends))
        faults = (*self._faults, *(Fault("unknown", unknown),) * bool(unknown))
        return TensorMatches(tuple(self.matches), faults)


def _tensor_names(architecture: Architecture, layers: int) -> set[str]:
    return {
        one.folder.replace(ANY_LAYER, str(layer))
        for one in architecture.layer_numbers
        for layer in range(layers)
    }


def _fault_error(fault: Fault, architecture: Architecture, said: str) -> FormatError:
    if fault.kind == "missing":
        return FormatError(f"there is no tensor {format_names(fault.names)}")
    if fault.kind == "shape":
        what = f"has the shape {list(fault.shape)}, but {said} {list(fault.wanted)}"
        return FormatError(what, field=f"tensor {quoted(fault.names[0])}")
    what = f"{architecture.classes[0]} has no tensor {format_names(fault.names)}"
    return FormatError(what, hint="the weights belong to a different architecture")


def format_names(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    text = ", ".join(quoted(name) for name in names[:_NAMED])
    return text + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


_DIGITS = 9
"""Of the number of a layer; more are none."""


def match_names(architecture: Architecture, dims: Dims, names: Collection[str]) -> list[Match]:
    """Return the rows of some tensors in their layers, in the order of the names."""
    forms: dict[str, list[Row]] = {}
    for row in architecture.rows:
        for form in row.folder:
            forms.setdefault(form, []).append(row)
    prefix, layers = architecture.prefix, max(dims.key("block_count"), 1)
    real = {prefix + name: name for name in names} | {name: name for name in names}
    found: dict[tuple[int, int], Match] = {}
    for name in names:
        form, layer = _row_name(name)
        at = dims.at(layer)
        rows = forms.get(form) or forms.get(prefix + form) or []
        known = [row for row in rows if row.layers is None or row.layers(at)]
        if not known or layer >= layers:
            what = f"{architecture.classes[0]} has no tensor {format_names([name])}"
            raise FormatError(what, hint="check that this is its base model")
        for row in known:
            if (id(row), layer) in found:
                continue
            match = match_of(row, at, layer, len(names))
            missing = [one for one in match.folder if one not in real]
            if missing:
                raise FormatError(f"there is no tensor {format_names(missing)}")
            folder = tuple(real[one] for one in match.folder)
            found[id(row), layer] = replace(match, folder=folder)
    return list(found.values())


def _row_name(name: str) -> tuple[str, int]:
    """Return a name as the rows have it, and the number of its layer."""
    parts = name.split(".")
    at = [place for place, part in enumerate(parts) if part.isascii() and part.isdigit()]
    layer = int(parts[at[0]][:_DIGITS]) if at else 0
    for place, stands in zip(at, (ANY_LAYER, ANY_EXPERT), strict=False):
        parts[place] = stands
    return ".".join(parts), layer
