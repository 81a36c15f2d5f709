"""Which tensors of a folder become which tensors of a GGUF, and the other way round.

Every tensor must belong to a row, every row that is not optional must have its tensors, and every
shape must be the one that the metadata say: else an error names the tensor. ``every_match`` yields
the rows of an architecture in each layer, whether or not their tensors are there; ``match_names``
those of a few tensors without the others; ``recognize`` finds the architecture of a GGUF, where
several share its name, by the fewest faults.
"""

from __future__ import annotations

from mtkit.architectures import architectures_of_name
from mtkit.architectures.table import ANY_EXPERT, ANY_LAYER, ANY_NEXT_LAYER, COUNTS
from mtkit.base.escape import quoted
from mtkit.base.record import Record, replace
from mtkit.errors import FormatError, UnsupportedError, format_count, format_first
from mtkit.gguf.arrays import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Literal

    from mtkit.architectures.changes import Shape
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Architecture, Row
    from mtkit.gguf.file import Metadata


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
    """Return a row in a layer; more than ``most`` experts are refused."""
    behind = str(layer - dims["hidden_layers"])
    folder = tuple(
        name.replace(ANY_LAYER, str(layer)).replace(ANY_NEXT_LAYER, behind)
        for pattern in row.folder
        for name in _each_name(pattern, dims, most)
    )
    gguf = tuple(name.replace(ANY_LAYER, str(layer)) for name in row.gguf)
    shapes = tuple(dims.shape(axes) for axes in row.axes)
    sources = row.change.sources(shapes, len(folder), dims)
    return Match(row, dims, folder, gguf, tuple(sources), shapes)


def _each_name(name: str, dims: Dims, most: int) -> list[str]:
    """Return the names of all experts, or heads, where a name stands for several."""
    for part, (key, sharing) in COUNTS.items():
        if part in name:
            count = _bounded_count(dims, key, most * sharing) // sharing
            return [name.replace(part, str(number)) for number in range(count)]
    return [name]


def layer_count(dims: Dims, most: int) -> int:
    """Return the number of layers, the larger one of encoder and decoder."""
    decoder = "decoder_block_count"
    layers = _bounded_count(dims, "block_count", most)
    return max(layers, _bounded_count(dims, decoder, most)) if decoder in dims.keys else layers


def _bounded_count(dims: Dims, key: str, most: int) -> int:
    """Return a count; one above the number of tensors cannot be true."""
    count = dims.key(key)
    if count > most:
        what = f"is {count}, but the model has {format_count(most, 'tensor')}"
        raise FormatError(what, field=key)
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
    """A fault of the tensors of a model.

    Attributes:
        kind: Tensors of a row are missing, one has another shape than the metadata say, or tensors
            belong to no row.
        shape: Of a tensor with the wrong shape, slowest axis first.
    """

    kind: Literal["missing", "shape", "unknown"]
    names: tuple[str, ...]
    shape: Shape = ()
    expected: Shape = ()

    def in_file_order(self) -> Fault:
        """Return it with shapes that have the fastest axis first, as in a GGUF."""
        return replace(self, shape=self.shape[::-1], expected=self.expected[::-1])


class TensorMatches(Record):
    """Matches of tensors, and faults.

    Attributes:
        matches: Rows whose tensors are all there, with the right shapes.
        faults: In the order of the rows, unknown tensors last; where there are very many, not all.
    """

    matches: tuple[Match, ...]
    faults: tuple[Fault, ...]


def folder_matches(
    architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]
) -> list[Match]:
    """Return the matches of the tensors of a folder, in the order of the folder.

    Args:
        shapes: Name of a tensor -> its shape, slowest axis first; in the order of the files.
    """
    tensors = match_folder(architecture, dims, shapes)
    refuse_faults(tensors, architecture, "config.json says")
    place = {name: number for number, name in enumerate(shapes)}
    return sorted(tensors.matches, key=lambda match: max(place[name] for name in match.folder))


def refuse_faults(tensors: TensorMatches, architecture: Architecture, claim: str) -> None:
    """Raise the first fault.

    Args:
        claim: What says the right shapes, as "config.json says".
    """
    for fault in tensors.faults:
        raise _fault_error(fault, architecture, claim)


def match_folder(
    architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]
) -> TensorMatches:
    """Match the tensors of a folder; return matches in the order of the rows, and all faults."""
    prefix = architecture.prefix
    names: dict[str, str] = {}
    copies = architecture.copies
    for name in shapes:
        new = architecture.renamed(name) if architecture.renamed else name
        names.setdefault(copies[0] if new in copies else new, name)
    # A model published without its head has no prefix in front of its names.
    if prefix:
        names.update({prefix + n: real for n, real in names.items() if prefix + n not in names})
    dims = dims.among({name: shapes[real] for name, real in names.items()})
    collector = _MatchCollector(shapes)
    collector.used.update(layer_number_names(architecture, layer_count(dims, len(shapes))))
    collector.add_faults(tuple(sorted(collector.used - shapes.keys())), ())
    for match in collector.until_too_many(
        every_match(architecture, dims, len(shapes), len(shapes))
    ):
        present = tuple(names[name] for name in match.folder if name in names)
        if present or not match.row.optional:
            missing = tuple(name for name in match.folder if name not in names)
            if not collector.add_faults(missing, zip(present, match.folder_shapes, strict=False)):
                collector.matches.append(replace(match, folder=present))
    collector.used.update(copies)
    return collector.result((*_BUFFERS, *architecture.zeros))


def match_gguf(
    architecture: Architecture, dims: Dims, shapes: Mapping[str, Shape]
) -> TensorMatches:
    """Match the tensors of a GGUF; return matches in the order of the rows, and all faults."""
    dims = dims.among(shapes)
    collector = _MatchCollector(shapes)
    for tensor in architecture.generated:
        collector.add_faults(
            (), [(tensor.name, dims.shape(tensor.axes))] if tensor.name in shapes else ()
        )
    longest = max((max(shape, default=0) for shape in shapes.values()), default=0)
    for match in collector.until_too_many(every_match(architecture, dims, len(shapes), longest)):
        present = [name for name in match.gguf if name in shapes]
        if present or not match.row.optional:
            missing = tuple(name for name in match.gguf if name not in shapes)
            pairs = zip(match.gguf, match.gguf_shapes, strict=True)
            if not collector.add_faults(missing, pairs):
                collector.matches.append(match)
    return collector.result()


class _MatchCollector:
    """Matches and faults of a model, while its tensors are matched."""

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.matches: list[Match] = []
        self.used: set[str] = set()
        self._shapes = shapes
        self._faults: list[Fault] = []

    def until_too_many(self, matches: Iterable[Match]) -> Iterator[Match]:
        """Yield matches until there are ``_MOST_FAULTS``."""
        for match in matches:
            if len(self._faults) >= _MOST_FAULTS:
                return
            yield match

    def add_faults(self, missing: tuple[str, ...], expected: Iterable[tuple[str, Shape]]) -> bool:
        """Add what is wrong with the tensors of a row; return whether anything is."""
        before = len(self._faults)
        if missing:
            self._faults.append(Fault("missing", missing))
        for name, shape in expected:
            self.used.add(name)
            is_there = name in self._shapes
            # If tensors of a row are missing, names and expected shapes cannot be paired.
            if is_there and not missing and self._shapes[name] != shape:
                self._faults.append(Fault("shape", (name,), self._shapes[name], shape))
        return len(self._faults) > before

    def result(self, ends: tuple[str, ...] = ()) -> TensorMatches:
        """Return all; tensors that belong to no row are a fault, but for some endings."""
        if len(self._faults) >= _MOST_FAULTS:
            return TensorMatches(tuple(self.matches), tuple(self._faults))
        left = (name for name in self._shapes if name not in self.used)
        unknown = tuple(name for name in left if not name.endswith(ends))
        faults = (*self._faults, *(Fault("unknown", unknown),) * bool(unknown))
        return TensorMatches(tuple(self.matches), faults)


def layer_number_names(architecture: Architecture, layers: int) -> set[str]:
    """Return the names of the tensors that become numbers of the metadata."""
    return {
        row.folder.replace(ANY_LAYER, str(layer))
        for row in architecture.layer_numbers
        for layer in range(layers)
    }


def _fault_error(fault: Fault, architecture: Architecture, claim: str) -> FormatError:
    if fault.kind == "missing":
        return FormatError(f"there is no tensor {format_names(fault.names)}")
    if fault.kind == "shape":
        what = f"has the shape {list(fault.shape)}, but {claim} {list(fault.expected)}"
        return FormatError(what, field=f"tensor {quoted(fault.names[0])}")
    what = f"{architecture.classes[0]} has no tensor {format_names(fault.names)}"
    return FormatError(what, hint="they belong to another class, or were used only in training")


def format_names(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    return format_first([quoted(name) for name in names], _NAMED)


_DIGITS = 9
"""Digits of the number of a layer that count."""


def match_names(architecture: Architecture, dims: Dims, names: Collection[str]) -> list[Match]:
    """Return the rows of some tensors in their layers, in the order of the names."""
    forms: dict[str, list[Row]] = {}
    for row in architecture.rows:
        for form in row.folder:
            forms.setdefault(form, []).append(row)
    prefix, layers = architecture.prefix, max(dims.key("block_count"), 1)
    real = {prefix + name: name for name in names} | {name: name for name in names}
    matches: dict[tuple[int, int], Match] = {}
    for name in names:
        form, layer = _row_name(name)
        at = dims.at(layer)
        rows = forms.get(form) or forms.get(prefix + form) or []
        rows_of_layer = [row for row in rows if row.layers is None or row.layers(at)]
        if not rows_of_layer or layer >= layers:
            what = f"{architecture.classes[0]} has no tensor {format_names([name])}"
            raise FormatError(what, hint="check that this is its base model")
        for row in rows_of_layer:
            if (id(row), layer) in matches:
                continue
            match = match_of(row, at, layer, len(names))
            missing = [part for part in match.folder if part not in real]
            if missing:
                raise FormatError(f"there is no tensor {format_names(missing)}")
            folder = tuple(real[part] for part in match.folder)
            matches[id(row), layer] = replace(match, folder=folder)
    return list(matches.values())


def _row_name(name: str) -> tuple[str, int]:
    parts = name.split(".")
    at = [place for place, part in enumerate(parts) if part.isascii() and part.isdigit()]
    layer = int(parts[at[0]][:_DIGITS]) if at else 0
    for place, stands in zip(at, (ANY_LAYER, ANY_EXPERT), strict=False):
        parts[place] = stands
    return ".".join(parts), layer


ARCHITECTURE = "general.architecture"
TOKENS = "tokenizer.ggml.tokens"
EMBEDDING = "token_embd.weight"


class Recognition(Record):
    """A GGUF as one of an architecture."""

    architecture: Architecture
    dims: Dims
    tensors: TensorMatches


def recognize(metadata: Metadata, shapes: Mapping[str, Shape]) -> Recognition:
    """Return the architecture of a GGUF: among those of its name the one with the fewest faults.

    One whose ``fits`` refuses the metadata is left out; one that has a ``fits`` comes before those
    without. Of classes that a GGUF does not tell apart it is the first of the table.

    Args:
        shapes: Name of a tensor -> its shape, slowest axis first.
    """
    name = metadata.get(ARCHITECTURE)
    namesakes = architectures_of_name(name) if isinstance(name, str) else []
    if not namesakes:
        what = f"{quoted(str(name))} is an architecture that mtkit does not convert"
        what = "is missing" if name is None else what
        raise UnsupportedError(what, field=ARCHITECTURE)
    vocab = _count_tokens(metadata, shapes)
    candidates: list[Recognition] = []
    errors: list[FormatError] = []
    for architecture in namesakes:
        dims = architecture.sizes(metadata, vocab).among(shapes)
        try:
            if architecture.fits is None or architecture.fits(dims):
                candidates.append(
                    Recognition(architecture, dims, match_gguf(architecture, dims, shapes))
                )
        except FormatError as error:
            errors.append(error)
    if candidates:
        return min(candidates, key=_rank)
    if errors:
        raise errors[0]
    raise UnsupportedError(f"is none of the {name} models that mtkit knows", field=ARCHITECTURE)


def _rank(candidate: Recognition) -> tuple[int, int, bool]:
    counts = dict.fromkeys(("missing", "shape", "unknown"), 0)
    for fault in candidate.tensors.faults:
        counts[fault.kind] += len(fault.names)
    return sum(counts.values()), counts["unknown"], candidate.architecture.fits is None


def _count_tokens(metadata: Metadata, shapes: Mapping[str, Shape]) -> int:
    """Return the number of tokens; without a tokenizer, of rows of the embedding."""
    tokens = metadata.get(TOKENS)
    table = shapes.get(EMBEDDING) or (0,)
    return len(tokens) if isinstance(tokens, GgufArray) else table[0]
