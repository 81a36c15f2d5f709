"""Values of metadata as text: whole, or shortened with their true length; and shapes."""

from __future__ import annotations

import struct

from mtkit.base.escape import escape
from mtkit.gguf import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.gguf import Tensor

_F32 = struct.Struct("<f")
FIRST = 6
"""Elements shown of a long array."""


def whole(value: object, type_name: str = "") -> str:
    """Return a value as one line: ``3``, ``text``, ``[1, 2]``, ``["a", "b"]``."""
    if isinstance(value, GgufArray):
        return f"[{', '.join(_elements(value, value.element.name))}]"
    if isinstance(value, list):
        return f"[{', '.join(_elements(value, type_name.removesuffix('[]')))}]"
    if type_name == "f32" and isinstance(value, float):
        return float32_text(value)
    return _scalar(value)


def shortened(value: object, type_name: str = "") -> str:
    """Return a value as one line; of a long array its true length and the first elements."""
    if not isinstance(value, (GgufArray, list)) or len(value) <= FIRST:
        return whole(value, type_name)
    from itertools import islice

    kind = value.element.name if isinstance(value, GgufArray) else type_name.removesuffix("[]")
    elements = _elements(value, kind)
    return f"{len(value)}: {' '.join(islice(elements, FIRST))} …"


def _elements(values: Iterable[Any], kind: str) -> Iterable[str]:
    if kind == "string":
        return (f'"{escape(text).replace(chr(34), chr(92) + chr(34))}"' for text in values)
    if kind == "array":
        return map(whole, values)
    return map(float32_text if kind == "f32" else _scalar, values)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return escape(value)
    return "" if value is None else str(value)


def float32_text(value: float) -> str:
    """Return the shortest decimal that is read back as the same 32-bit float: 1e-06."""
    if value.is_integer():
        return repr(value)
    exact = _F32.pack(value)
    for digits in (6, 7, 8):
        text = f"{value:.{digits}g}"
        if _F32.pack(float(text)) == exact:
            return text
    return f"{value:.9g}"


def shape_text(tensor: Tensor, times: str = "x") -> str:
    """Return a shape, fastest axis first: ``256x512``; ``1`` without an axis."""
    return times.join(map(str, tensor.shape)) or "1"
