"""Which tensors of a folder become which tensors of a GGUF, and the other way round.

Every tensor that is there has its row, every row that a model must have its tensors, and every
shape is the one that the metadata say: else it is an error that names the tensor.
"""

from __future__ import annotations

from mtkit.architectures.in_layers import every_match, layer_count
from mtkit.architectures.table import ANY_LAYER
from mtkit.base.escape import quoted
from mtkit.base.record import Record, replace
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Literal

    from mtkit.architectures.changes import Shape
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.in_layers import Match
    from mtkit.architectures.table import Architecture

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
    refuse_faults(found, architecture, "config.json says")
    place = {name: number for number, name in enumerate(shapes)}
    return sorted(found.matches, key=lambda one: max(place[name] for name in one.folder))


def refuse_faults(found: Matched, architecture: Architecture, said: str) -> None:
    """Refuse a model that is not whole.

    Args:
        found: Its tensors.
        architecture: Of the model.
        said: Who says the shapes that they should have, with the verb.

    Raises:
        FormatError: A tensor is missing, has another shape, or belongs to none of the rows.
    """
    for fault in found.faults:
        raise _error(fault, architecture, said)


def match_folder(architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]) -> Matched:
    """Return what becomes of the tensors of a folder, in the order of the rows, and all faults.

    Raises:
        FormatError: The metadata do not say the sizes.
    """
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
    found = _Found(shapes)
    found.used.update(_numbered(architecture, layer_count(dims, len(shapes))))
    found.has_faults(tuple(sorted(found.used - shapes.keys())), ())
    for match in found.until_too_many(every_match(architecture, dims, len(shapes), len(shapes))):
        there = tuple(names[name] for name in match.folder if name in names)
        if there or not match.row.optional:
            missing = tuple(name for name in match.folder if name not in names)
            if not found.has_faults(missing, zip(there, match.folder_shapes, strict=False)):
                found.matches.append(replace(match, folder=there))
    found.used.update(copies)
    return found.matched((*_BUFFERS, *architecture.zeros))


def match_gguf(architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]) -> Matched:
    """Return where the tensors of a GGUF come from, in the order of the rows, and all faults.

    Raises:
        FormatError: The metadata do not say the sizes.
    """
    dims = dims.among(shapes)
    found = _Found(shapes)
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
            # If tensors of a row are missing, names and wanted shapes cannot be paired.
            if is_there and not missing and self._shapes[name] != shape:
                self._faults.append(Fault("shape", (name,), self._shapes[name], shape))
        return len(self._faults) > before

    def matched(self, ends: tuple[str, ...] = ()) -> Matched:
        """Return what was found; tensors that belong to no row are a fault, but for some ends."""
        if len(self._faults) >= _MOST_FAULTS:
            return Matched(tuple(self.matches), tuple(self._faults))
        left = (name for name in self._shapes if name not in self.used)
        unknown = tuple(name for name in left if not name.endswith(ends))
        faults = (*self._faults, *(Fault("unknown", unknown),) * bool(unknown))
        return Matched(tuple(self.matches), faults)


def _numbered(architecture: Architecture, layers: int) -> set[str]:
    return {
        one.folder.replace(ANY_LAYER, str(layer))
        for one in architecture.layer_numbers
        for layer in range(layers)
    }


def _error(fault: Fault, architecture: Architecture, said: str) -> FormatError:
    if fault.kind == "missing":
        return FormatError(f"there is no tensor {listed(fault.names)}")
    if fault.kind == "shape":
        what = f"has the shape {list(fault.shape)}, but {said} {list(fault.wanted)}"
        return FormatError(what, field=f"tensor {quoted(fault.names[0])}")
    what = f"{architecture.classes[0]} has no tensor {listed(fault.names)}"
    return FormatError(what, hint="the weights belong to a different architecture")


def listed(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    text = ", ".join(quoted(name) for name in names[:_NAMED])
    return text + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
