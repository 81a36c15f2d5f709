"""Which known class an unknown one resembles, by its config.json and the tensors of its folder.

Every architecture of the table is tried on them; the one with the fewest tensors that are missing,
unknown or of another shape is named, with what would add the class where there are none.
"""

from __future__ import annotations

from mtkit.architectures import architectures
from mtkit.architectures.config import Config, class_of
from mtkit.architectures.metadata import keys_of
from mtkit.architectures.tensor_match import match_folder
from mtkit.errors import MtkitError, UnsupportedError, format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.architectures.table import Architecture

    Shape = tuple[int, ...]

_FAMILIES = "mtkit/architectures/families"


def _faults(
    architecture: Architecture, document: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> int | None:
    """Return how many tensors are not those of an architecture; None: config.json is of another."""
    try:
        config = architecture.filled(Config(document))
        keys = keys_of(architecture.name, architecture.keys, config)
        dims = architecture.sizes({key.name: key.value for key in keys}, config.count("vocab_size"))
        kept = {n: s for n, s in shapes.items() if not (architecture.skips or _keep)(n, config)}
        faults = match_folder(architecture, dims, kept).faults
    except (MtkitError, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # a field that this class needs is missing, or says something else
    return sum(len(fault.names) for fault in faults)


def _keep(name: str, config: Config) -> bool:
    return False


def _place(architecture: Architecture) -> tuple[str, str]:
    """Return the module of a family, and the name of an architecture in it."""
    from importlib import import_module
    from inspect import getsource
    from pkgutil import iter_modules

    from mtkit.architectures import families

    for module in iter_modules(families.__path__):
        family = import_module(f"{families.__name__}.{module.name}")
        for name, value in vars(family).items():
            is_it = getattr(value, "classes", None) == architecture.classes
            if is_it and f"\n{name} = " in getsource(family):  # other families import it
                return module.name, name
    raise LookupError(architecture.name)


def resemblance(document: Mapping[str, Any], shapes: Mapping[str, Shape]) -> str:
    """Return what to say of an unknown class: which one it resembles; "" where it is like none."""
    distinct = {id(known): known for known in architectures().values()}.values()
    counted = [(_faults(known, document, shapes), known) for known in distinct]
    near = [(count, known) for count, known in counted if count is not None]
    count, architecture = min(near, key=lambda pair: pair[0], default=(len(shapes), None))
    if architecture is None or count >= len(shapes) / 2:
        return ""
    known = architecture.classes[0]
    if count:
        tensors = format_count(count, "tensor")
        return f"it resembles {known} most, except for {tensors} that only one of the two has"
    module, name = _place(architecture)
    row = f'replace({name}, classes=("{class_of(document)}",))'
    return (
        f"config.json and all tensors are those of {known}: if it computes the same, add {row} to "
        f"{_FAMILIES}/{module}.py, or write {known} to config.json"
    )


def with_resemblance(
    error: UnsupportedError, document: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> UnsupportedError:
    """Return the error of an unknown class with what it resembles as its hint."""
    if error.field == "architectures":
        error.hint = resemblance(document, shapes) or error.hint
    return error
