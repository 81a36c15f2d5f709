"""A difference between two GGUF files in words, and as a JSON document."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.inspection.value_text import shortened, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.inspection.difference import Difference, KeyChange, TensorChange


def verdict(done: Difference) -> str:
    """Return in a few words what the two files are to each other."""
    if done.equal:
        return "no difference"
    if done.only_metadata:
        return "only the metadata differs, all tensors are the same"
    if done.is_quantisation:
        return "the same tensors in other types: one can be a quantisation of the other"
    if not done.tensors:
        return "the metadata differs"
    return "tensors differ"


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
    keys = [
        {"key": printable(key.key), "change": key.change, "types": list(key.types),
         "before": texts(key)[0], "after": texts(key)[1], "different": key.different}
        for key in done.keys
    ]  # fmt: skip
    tensors = [
        {"name": printable(one.name), "change": one.change,
         "shapes": [list(shape) for shape in one.shapes], "types": list(one.types),
         "errors": one.errors and {"largest": one.errors.largest, "rmse": one.errors.rmse,
                                   "cosine": one.errors.cosine}}
        for one in done.tensors
    ]  # fmt: skip
    return {
        "schema": "mtkit.diff/1",
        "equal": done.equal,
        "only_metadata": done.only_metadata,
        "is_quantisation": done.is_quantisation,
        "metadata": keys,
        "tensors": tensors,
    }
