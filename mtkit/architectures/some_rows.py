"""Which rows a few tensors of a folder belong to, without the others."""

from __future__ import annotations

from mtkit.architectures.in_layers import match_of
from mtkit.architectures.matching import listed
from mtkit.architectures.table import ANY_EXPERT, ANY_LAYER
from mtkit.base.record import replace
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from mtkit.architectures.dims import Dims
    from mtkit.architectures.in_layers import Match
    from mtkit.architectures.table import Architecture, Row

_DIGITS = 9
"""Of the number of a layer; more are none."""


def match_names(architecture: Architecture, dims: Dims, names: Collection[str]) -> list[Match]:
    """Return the rows of some tensors in their layers, in the order of the names.

    Raises:
        FormatError: A name belongs to none of the rows, or others of its row are missing.
    """
    forms: dict[str, list[Row]] = {}
    for row in architecture.rows:
        for form in row.folder:
            forms.setdefault(form, []).append(row)
    prefix, layers = architecture.prefix, max(dims.key("block_count"), 1)
    real = {prefix + name: name for name in names} | {name: name for name in names}
    found: dict[tuple[int, int], Match] = {}
    for name in names:
        form, layer = _form(name)
        at = dims.at(layer)
        rows = forms.get(form) or forms.get(prefix + form) or []
        known = [row for row in rows if row.layers is None or row.layers(at)]
        if not known or layer >= layers:
            what = f"{architecture.classes[0]} has no tensor {listed([name])}"
            raise FormatError(what, hint="check that this is its base model")
        for row in known:
            if (id(row), layer) in found:
                continue
            match = match_of(row, at, layer, len(names))
            missing = [one for one in match.folder if one not in real]
            if missing:
                raise FormatError(f"there is no tensor {listed(missing)}")
            folder = tuple(real[one] for one in match.folder)
            found[id(row), layer] = replace(match, folder=folder)
    return list(found.values())


def _form(name: str) -> tuple[str, int]:
    """Return a name as the rows have it, and the number of its layer."""
    parts = name.split(".")
    at = [place for place, part in enumerate(parts) if part.isascii() and part.isdigit()]
    layer = int(parts[at[0]][:_DIGITS]) if at else 0
    for place, stands in zip(at, (ANY_LAYER, ANY_EXPERT), strict=False):
        parts[place] = stands
    return ".".join(parts), layer
