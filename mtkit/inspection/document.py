"""Values of a GGUF for people and for JSON: metadata, shapes, and schema ``mtkit.inspect/1``.

As text a value is whole, or shortened with its true length. In JSON metadata is
``{key: {"type": …, "value": …}}`` with whole arrays (and their ``count``). JSON has no NaN and no
bytes: not-a-number and the infinities are the strings "NaN", "Infinity", "-Infinity"; a string that
is not UTF-8 has its bad bytes as hexadecimal escapes and stands in hexadecimal under ``bytes``
beside (for an array of strings: index -> hexadecimal, of the bad ones alone).
"""

from __future__ import annotations

import struct
from math import isfinite

from mtkit.base.escape import byte_escapes, is_utf8, printable
from mtkit.gguf import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.gguf import GgufFile, Metadata, Tensor
    from mtkit.gguf.shards import ShardSet
    from mtkit.inspection.gguf import GgufReport, Vocabulary


_F32 = struct.Struct("<f")
FIRST = 6
"""Elements shown of a long array."""


def format_whole(value: object, type_name: str = "") -> str:
    """Return a value as one line: ``3``, ``text``, ``[1, 2]``, ``["a", "b"]``."""
    if isinstance(value, GgufArray):
        return f"[{', '.join(_elements(value, value.element.name))}]"
    if isinstance(value, list):
        return f"[{', '.join(_elements(value, type_name.removesuffix('[]')))}]"
    if type_name == "f32" and isinstance(value, float):
        return float32_text(value)
    return _scalar(value)


def format_short(value: object, type_name: str = "") -> str:
    """Return a value as one line; of a long array its true length and the first elements."""
    if not isinstance(value, (GgufArray, list)) or len(value) <= FIRST:
        return format_whole(value, type_name)
    from itertools import islice

    kind = value.element.name if isinstance(value, GgufArray) else type_name.removesuffix("[]")
    elements = _elements(value, kind)
    return f"{len(value)}: {' '.join(islice(elements, FIRST))} …"


def _elements(values: Iterable[Any], kind: str) -> Iterable[str]:
    if kind == "string":
        return (
            f'"{printable(text.replace(chr(92), 2 * chr(92)).replace(chr(34), chr(92) + chr(34)))}"'
            for text in values
        )
    if kind == "array":
        return map(format_whole, values)
    return map(float32_text if kind == "f32" else _scalar, values)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return printable(value)
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


SCHEMA = "mtkit.inspect/1"


def gguf_document(
    report: GgufReport,
    keys: Iterable[str] | None = None,
    tensors: Iterable[Tensor] | None = None,
) -> dict[str, Any]:
    """Return what is known of a GGUF file, ready for JSON; of some keys and tensors, or all."""
    return {
        "schema": SCHEMA,
        "kind": "gguf",
        "path": byte_escapes(report.file.name),
        **header(report.file),
        "content": {
            "kind": report.content.kind,
            "facts": {
                byte_escapes(name): _plain_fact(value) for name, value in report.content.facts
            },
        },
        "name": byte_escapes(report.name),
        "architecture": byte_escapes(report.architecture),
        "file_type": report.file_type,
        "parameters": report.parameters,
        "bits_per_weight": report.bits_per_weight,
        "quantization": [
            {
                "type": item.type,
                "tensors": item.tensors,
                "parameters": item.parameters,
                "bytes": item.n_bytes,
            }
            for item in report.mix
        ],
        "hyperparameters": {item.name: plain_value(item.value) for item in report.hyperparameters},
        "tokenizer": vocabulary_document(report.vocabulary),
        "layers": [
            {
                "name": byte_escapes(group.name),
                "kind": group.kind,
                "tensors": [byte_escapes(tensor.name) for tensor in group.tensors],
                "parameters": group.parameters,
                "bytes": group.n_bytes,
            }
            for group in report.layers
        ],
        "places": dict(report.places),
        "memory": {
            "weights": report.weights,
            "cache_per_token": report.cache_per_token,
            "context": report.n_ctx_train,
        },
        "shards": _shards(report.shards),
        "warnings": [
            {
                "code": item.rule.code,
                "severity": item.rule.severity,
                "field": item.field,
                "offset": item.offset,
                "what": item.what,
            }
            for item in report.findings
        ],
        "metadata": metadata_document(report.file.metadata, keys),
        "tensors": tensors_document(report.file.tensors if tensors is None else tensors),
    }


def header(file: GgufFile) -> dict[str, Any]:
    """Return the header of a file, with its counts and sizes."""
    return {
        "version": file.version,
        "byte_order": file.byte_order,
        "alignment": file.alignment,
        "data_offset": file.data_offset,
        "bytes": len(file.data),
        "trailing_bytes": file.trailing_bytes,
        "tensor_count": len(file.tensors),
        "metadata_count": len(file.metadata),
    }


def metadata_document(metadata: Metadata, keys: Iterable[str] | None = None) -> dict[str, Any]:
    """Return metadata with types and whole values; ``keys`` chooses some."""
    document: dict[str, Any] = {}
    for key in metadata if keys is None else keys:
        entry: dict[str, Any] = {"type": metadata.type_name(key)}
        value = metadata[key]
        if isinstance(value, GgufArray):
            entry["count"] = len(value)
        entry.update(_value(value))
        name = byte_escapes(key)
        if not is_utf8(key):
            entry["key_bytes"] = _hexadecimal(key)
        while name in document:  # another key spells out the escapes of this one
            name += "'"
        document[name] = entry
    return document


def tensors_document(tensors: Iterable[Tensor]) -> list[dict[str, Any]]:
    """Return the rows of a tensor table; ``offset`` is relative to ``data_offset``."""
    rows = []
    for tensor in tensors:
        row: dict[str, Any] = {
            "name": byte_escapes(tensor.name),
            "shape": list(tensor.shape),
            "type": tensor.type.name,
            "type_number": tensor.type.number,
            "offset": tensor.offset,
            "bytes": tensor.n_bytes,
            "parameters": tensor.n_elements,
        }
        if not is_utf8(tensor.name):
            row["name_bytes"] = _hexadecimal(tensor.name)
        rows.append(row)
    return rows


def _plain_fact(value: Any) -> Any:
    """Return a fact as JSON can hold it."""
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return plain_value(value)


def plain_value(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    return _value(value)["value"]


def _value(value: Any) -> dict[str, Any]:
    """Return ``value``, and ``bytes`` where it has bytes that are not UTF-8."""
    if isinstance(value, str):
        if is_utf8(value):
            return {"value": value}
        return {"value": byte_escapes(value), "bytes": _hexadecimal(value)}
    if isinstance(value, list):
        return {"value": [plain_value(item) for item in value]}
    if not isinstance(value, GgufArray):
        return {"value": json_number(value)}
    if value.element.name == "array":
        inner = [{"type": f"{array.element.name}[]", **_value(array)} for array in value]
        return {"value": inner}
    if value.element.name == "string":
        return _strings([str(raw, "utf-8", "surrogateescape") for raw in value.raws()])
    values = list(value)
    if value.element.name in _FLOATS and not isfinite(sum(values)):  # the sum shows any odd one
        values = [json_number(item) for item in values]
    return {"value": values}


def _strings(texts: list[str]) -> dict[str, Any]:
    if is_utf8("".join(texts)):
        return {"value": texts}
    bad = {str(i): _hexadecimal(text) for i, text in enumerate(texts) if not is_utf8(text)}
    return {"value": [byte_escapes(text) for text in texts], "bytes": bad}


_FLOATS = {"f32", "f64"}
_NOT_JSON = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_number(value: Any) -> Any:
    """Return a number as JSON can hold it: not-a-number and the infinities by their names."""
    if isinstance(value, float):
        return _NOT_JSON.get(str(value), value)
    return value


def _hexadecimal(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").hex()


def vocabulary_document(vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    """Return a tokenizer in short."""
    if vocabulary is None:
        return None
    return {
        "model": byte_escapes(vocabulary.model),
        "pre": byte_escapes(vocabulary.pre),
        "tokens": vocabulary.tokens,
        "merges": vocabulary.merges,
        "types": dict(vocabulary.types),
        "special_ids": {
            byte_escapes(item.role): {
                "id": item.token_id,
                "text": None if item.text is None else byte_escapes(item.text),
            }
            for item in vocabulary.special_ids
        },
        "flags": dict(vocabulary.flags),
        "chat_templates": [byte_escapes(name) for name in vocabulary.chat_templates],
    }


def _shards(shards: ShardSet | None) -> dict[str, Any] | None:
    if shards is None:
        return None
    return {
        "number": shards.number,
        "count": shards.count,
        "tensor_count": shards.tensor_count,
        "files": [
            {
                "path": byte_escapes(shard.path),
                "is_present": shard.file is not None,
                "bytes": len(shard.file.data) if shard.file else None,
                "tensor_count": len(shard.file.tensors) if shard.file else None,
            }
            for shard in shards.shards
        ],
    }
