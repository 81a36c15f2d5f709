"""A difference between two models in words, and as a JSON document."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.inspection.document import json_number
from mtkit.inspection.value_text import shortened, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.inspection.difference import Difference, KeyChange, TensorChange
    from mtkit.inspection.errors_of import Errors


def verdict(done: Difference) -> str:
    """Return in a few words what the two models are to each other."""
    if done.is_made:
        return "the file is what conversion of the folder gives"
    if done.equal:
        return "no difference"
    if done.only_metadata:
        return "only the metadata differs; all tensors are the same"
    if done.foreign:
        many = f"{len(done.foreign)} of {len(done.measured)}"
        return f"{many} tensors are not made of the other's weights"
    if done.same_names and done.sums is not None and len(done.measured) >= len(done.tensors):
        return f"the same weights, less exact by {percent(done.sums.relative)}"
    if done.is_quantization:
        return "the same tensors in other types: one can be a quantization of the other"
    if not done.tensors:
        return "the metadata differs"
    return "tensors differ"


def percent(part: float) -> str:
    """Return a share with two digits that count: 12%, 1.2%, 0.012%."""
    from math import isfinite

    return f"{float(f'{part * 100:.2g}'):g}%" if isfinite(part) else "–"


def texts(change: KeyChange) -> tuple[str, str]:
    """Return the value before and after: of arrays only what differs, of types both."""
    if change.elements:
        pairs = [
            (f"[{place}] {whole(before)}", f"[{place}] {whole(after)}")
            for place, before, after in change.elements
        ]
        more = f" … {change.different} differ" if change.different > len(pairs) else ""
        return tuple(", ".join(texts) + more for texts in zip(*pairs, strict=True))  # type: ignore[return-value]
    sizes = [value for value in change.values if hasattr(value, "element")]
    if change.different and len(sizes) == 2:
        return f"{len(sizes[0])} elements", f"{len(sizes[1])} elements"
    shown = [
        shortened(value, kind) if kind else ""
        for value, kind in zip(change.values, change.types, strict=True)
    ]
    if all(change.types) and change.types[0] != change.types[1]:
        shown = [f"{kind}: {text}" for kind, text in zip(change.types, shown, strict=True)]
    return shown[0], shown[1]


def sides(change: TensorChange) -> tuple[str, str]:
    """Return type and shape before and after."""
    return tuple(  # type: ignore[return-value]
        f"{kind} {' × '.join(map(str, shape))}".strip() if kind else ""
        for kind, shape in zip(change.types, change.shapes, strict=True)
    )


def document(done: Difference) -> dict[str, object]:
    """Return a difference as a JSON document, schema ``mtkit.diff/1``."""
    keys, naming = (
        [
            {"key": printable(key.key), "change": key.change, "types": list(key.types),
             "before": texts(key)[0], "after": texts(key)[1], "different": key.different}
            for key in found
        ]
        for found in (done.keys, done.naming)
    )  # fmt: skip
    tensors, converted = (
        [
            {"name": printable(one.name), "change": one.change,
             "shapes": [list(shape) for shape in one.shapes], "types": list(one.types),
             "errors": one.errors and _errors(one.errors)}
            for one in found
        ]
        for found in (done.tensors, [one for one in done.measured if one.change == "same"])
    )  # fmt: skip
    return {
        "schema": "mtkit.diff/1",
        "equal": done.equal,
        "only_metadata": done.only_metadata,
        "is_quantization": done.is_quantization,
        "is_conversion": done.is_made,
        "metadata": keys,
        "naming": naming,
        "tensors": tensors,
        "converted": converted,
        "sums": done.sums
        and {
            "elements": done.sums.elements,
            "bytes": list(done.sums.n_bytes),
            "rmse": json_number(done.sums.rmse),
            "relative": json_number(done.sums.relative),
            "foreign": len(done.foreign),
        },
    }


def _errors(found: Errors) -> dict[str, object]:
    numbers = {
        "largest": found.largest, "rmse": found.rmse, "cosine": found.cosine,
        "deviation": found.deviation, "relative": found.relative,
        "worst_row": found.worst_row, "worst_relative": found.worst_relative,
    }  # fmt: skip
    return {name: json_number(number) for name, number in numbers.items()}
