"""Any record of a specification as plain JSON data, and strictly back.

A record is ``{"type": "Split", field: value, …}``; where a field takes one class only, the type is
left out. Fields with their default are left out on request (``brief``): the defaults of records
are part of every file that was written so, and a test pins them. A byte string is its text where it
is UTF-8, else ``{"base64": …}``; ``Numbers`` are ``{"code", "base64"}``, ``Pieces`` ``{"ends",
"base64"}``. In ``extras``, which hold JSON of other formats, what JSON lacks is marked by a key
that begins with ``$``.

Long byte columns can be kept elsewhere: ``keep`` gets each column and its path on the way out and
may return a reference, which comes back to ``fetch`` as the value of ``{"ref": …}``.

Which type every field has is read from the annotations. They are strings (they cost nothing at
start-up); this module understands the few forms that records use: plain names, ``X | None``,
``Literal[…]``, ``tuple[X, …]`` and the names of the closed unions. Python's own parser would take
4 ms of looking up a token. A test holds ``UNIONS`` equal to the unions that type checkers
see.

``fingerprint`` is one hash of what a tokenizer does: equal for equal specifications of any file.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record, fields, replace
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Union

    from mtkit.spec import TokenizerSpec

    Column = Union[Numbers, Pieces, bytes]

    Keep = Callable[[Column, str], object]

    Fetch = Callable[[object, str], Column]


UNIONS = {
    "Normalizer": ("mtkit.spec.normalizers", frozenset[str]()),
    "PreTokenizer": ("mtkit.spec.pre_tokenizers", frozenset[str]()),
    "Model": ("mtkit.spec.models", frozenset({"Merges"})),
    "PostProcessor": ("mtkit.spec.post_processors", frozenset({"Slot"})),
    "Decoder": ("mtkit.spec.decoders", frozenset[str]()),
    "Pattern": ("mtkit.spec.text", frozenset[str]()),
}
"""Name of a union -> module, and the records there that are not members of it."""

TYPE_ALIASES = {
    "Behavior": 'Literal["removed", "isolated", "merged_with_previous", "merged_with_next", '
    '"contiguous", "glued_to_previous"]',
}
"""Other names that exist for type checkers only."""

PLAIN_TYPES = frozenset({"bool", "int", "float", "str", "bytes", "object", "Numbers", "Pieces"})


class FieldType(Record):
    """The type of a field; exactly one of name, choices, classes, item and items says which.

    Attributes:
        name: One of ``PLAIN_TYPES``.
        choices: Strings that are allowed.
        classes: Records that are allowed.
        item: Type of each member of a tuple of any length.
        items: Types of the members of a tuple of fixed length.
        optional: None is allowed.
    """

    name: str = ""
    choices: frozenset[str] = frozenset()
    classes: tuple[type[Record], ...] = ()
    item: FieldType | None = None
    items: tuple[FieldType, ...] = ()
    optional: bool = False


def field_types(cls: type[Record]) -> dict[str, FieldType]:
    """Return the type of each field of a record class, in order."""
    types = _FIELD_TYPES.get(cls)
    if types is None:
        annotations = cls.__annotations__
        types = _FIELD_TYPES[cls] = {
            name: _read_type(annotations[name], cls) for name in fields(cls)
        }
    return types


_FIELD_TYPES: dict[type[Record], dict[str, FieldType]] = {}


def has_default(cls: type[Record], name: str) -> bool:
    """Tell whether a field may be left out."""
    return hasattr(cls, name)


@cache
def union_members(union: str) -> tuple[type[Record], ...]:
    """Return the records of a closed union."""
    module, others = UNIONS[union]
    return tuple(
        value
        for name, value in vars(import_module(module)).items()
        if isinstance(value, type)
        and issubclass(value, Record)
        and value.__module__ == module
        and name not in others
    )


def class_named(name: object, classes: tuple[type[Record], ...], path: str) -> type[Record]:
    """Return the record class called ``name``."""
    if not isinstance(name, str):
        raise FormatError("does not say its type", field=path)
    for cls in classes:
        if cls.__name__ == name:
            return cls
    raise UnsupportedError(
        f"unknown component {name!r}", field=path, hint="a newer mtkit wrote the file"
    )


def _record_named(name: str, cls: type[Record]) -> type[Record]:
    """Find a record by the name that a class of the same or another stage uses for it."""
    for module in (cls.__module__, *(place for place, _ in UNIONS.values())):
        record = getattr(import_module(module), name, None)
        if isinstance(record, type) and issubclass(record, Record):
            return record
    raise AssertionError(f"{cls.__name__} has a field of the unknown class {name}")


def _read_type(annotation: str, cls: type[Record]) -> FieldType:
    if annotation.endswith(" | None"):
        return replace(_read_type(annotation.removesuffix(" | None"), cls), optional=True)
    if annotation in PLAIN_TYPES:
        return FieldType(annotation)
    if annotation in UNIONS:
        return FieldType(classes=union_members(annotation))
    if annotation in TYPE_ALIASES:
        return _read_type(TYPE_ALIASES[annotation], cls)
    kind, _, inside = annotation.removesuffix("]").partition("[")
    if kind == "Literal":
        return FieldType(choices=frozenset(word.strip("'\"") for word in inside.split(", ")))
    if kind == "tuple" and inside.endswith(", ..."):
        return FieldType(item=_read_type(inside.removesuffix(", ..."), cls))
    if kind == "tuple":
        return FieldType(items=tuple(_read_type(item, cls) for item in inside.split(", ")))
    return FieldType(classes=(_record_named(annotation, cls),))


DEPTH_LIMIT = 64
NUMBER_CODES = "BbHhIiQqfd"


def encode(record: Record, *, brief: bool = False, keep: Keep | None = None) -> dict[str, Any]:
    """Give a record as JSON data.

    Args:
        keep: Returns a reference for a column that is kept elsewhere, or None to write it here.
    """
    return _Encoder(brief, keep).record(record, typed=True, path="")


def decode(data: object, cls: type[Record], *, fetch: Fetch | None = None) -> Record:
    """Make a record of class ``cls`` from JSON data.

    Args:
        fetch: Returns the column of a reference; the second argument is the path of the field.
    """
    record: Record = _Decoder(fetch).record(data, (cls,), "", 0)
    return record


class _Encoder:
    def __init__(self, brief: bool, keep: Keep | None) -> None:
        self.brief = brief
        self.keep = keep

    def record(self, record: Record, *, typed: bool, path: str) -> dict[str, Any]:
        cls = type(record)
        out: dict[str, Any] = {"type": cls.__name__} if typed else {}
        for name, kind in field_types(cls).items():
            value = getattr(record, name)
            if self.brief and has_default(cls, name) and value == getattr(cls, name):
                continue
            out[name] = self.value(value, kind, f"{path}.{name}" if path else name)
        return out

    def value(self, value: Any, kind: FieldType, path: str) -> Any:
        if value is None:
            return None
        if kind.classes:
            return self.record(value, typed=len(kind.classes) > 1, path=path)
        if kind.item is not None:
            return [self.value(each, kind.item, path) for each in value]
        if kind.items:
            return [self.value(e, k, path) for e, k in zip(value, kind.items, strict=True)]
        if kind.name in {"bytes", "Numbers", "Pieces"}:
            reference = None if self.keep is None else self.keep(value, path)
            return _column(value) if reference is None else {"ref": reference}
        return _write_free(value, path) if kind.name == "object" else value


def _column(value: Column) -> object:
    if isinstance(value, Numbers):
        return {"code": value.code, "base64": _base64(value.data)}
    if isinstance(value, Pieces):
        return {"ends": _base64(value.ends.data), "base64": _base64(value.blob)}
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": _base64(value)}


def _base64(data: bytes | memoryview) -> str:
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode("ascii")


def _write_free(value: object, path: str) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, memoryview)):
        return {"$bytes": _base64(value)}
    if isinstance(value, tuple):
        return {"$tuple": [_write_free(each, path) for each in value]}
    if isinstance(value, list):
        return [_write_free(each, path) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        inside = {key: _write_free(each, path) for key, each in value.items()}
        return {"$dict": inside} if any(key.startswith("$") for key in value) else inside
    raise UnsupportedError(f"{type(value).__name__} has no form in JSON", field=path)


class _Decoder:
    def __init__(self, fetch: Fetch | None) -> None:
        self.fetch = fetch

    def record(self, data: object, classes: tuple[type[Record], ...], path: str, depth: int) -> Any:
        if depth > DEPTH_LIMIT:
            raise FormatError(f"nests deeper than {DEPTH_LIMIT}", field=path)
        if not isinstance(data, dict):
            raise _wrong_type(data, "an object", path)
        cls = classes[0]
        if len(classes) > 1 or "type" in data:
            cls = class_named(data.get("type"), classes, path)
        kinds = field_types(cls)
        for name in data:
            if name != "type" and name not in kinds:
                raise UnsupportedError(
                    f"{cls.__name__} has no field {name!r} here",
                    field=path,
                    hint="a newer mtkit wrote the file",
                )
        values = {}
        for name, kind in kinds.items():
            where = f"{path}.{name}" if path else name
            if name in data:
                values[name] = self.value(data[name], kind, where, depth + 1)
            elif not has_default(cls, name):
                raise FormatError("is missing", field=where)
        return cls(**values)

    def value(self, data: Any, kind: FieldType, path: str, depth: int) -> Any:
        if data is None and kind.optional:
            return None
        if kind.classes:
            return self.record(data, kind.classes, path, depth)
        if kind.item is not None or kind.items:
            return self.sequence(data, kind, path, depth)
        if kind.choices:
            if not isinstance(data, str) or data not in kind.choices:
                raise UnsupportedError(
                    f"{_printable(data)} is none of {sorted(kind.choices)}", field=path
                )
            return data
        if kind.name in {"bytes", "Numbers", "Pieces"}:
            return self.column(data, kind.name, path)
        if kind.name == "object":
            return _read_free(data, path, depth)
        cls = {"bool": bool, "int": int, "float": float, "str": str}[kind.name]
        if cls is float and type(data) is int:
            return float(data)
        if type(data) is not cls:
            raise _wrong_type(data, kind.name, path)
        return data

    def sequence(self, data: Any, kind: FieldType, path: str, depth: int) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise _wrong_type(data, "an array", path)
        if kind.item is not None:
            return tuple(self.value(each, kind.item, path, depth + 1) for each in data)
        if len(data) != len(kind.items):
            raise _wrong_type(data, f"an array of {len(kind.items)}", path)
        pairs = zip(data, kind.items, strict=True)
        return tuple(self.value(each, item, path, depth + 1) for each, item in pairs)

    def column(self, data: Any, name: str, path: str) -> Column:
        if isinstance(data, dict) and set(data) == {"ref"} and self.fetch is not None:
            column = self.fetch(data["ref"], path)
            if type(column).__name__ != name:
                raise FormatError(f"refers to {type(column).__name__}, not {name}", field=path)
            return column
        if name == "bytes" and isinstance(data, str):
            try:
                return data.encode("utf-8")
            except UnicodeEncodeError:
                raise _wrong_type(data, "UTF-8 text", path) from None
        keys = {"bytes": {"base64"}, "Numbers": {"code", "base64"}, "Pieces": {"ends", "base64"}}
        if not isinstance(data, dict) or set(data) != keys[name]:
            raise _wrong_type(data, name, path)
        raw = _from_base64(data["base64"], path)
        if name == "bytes":
            return raw
        if name == "Numbers":
            return read_numbers(data["code"], raw, path)
        return read_pieces(raw, _from_base64(data["ends"], path), path)


def read_numbers(code: object, data: bytes | memoryview, path: str) -> Numbers:
    """Make a checked column of numbers."""
    if not isinstance(code, str) or len(code) != 1 or code not in NUMBER_CODES:
        raise FormatError(f"{code!r} is not a type of number", field=path)
    try:
        return Numbers(code, data)
    except TypeError:
        raise FormatError(f"{len(data)} bytes are not an array of {code!r}", field=path) from None


def read_pieces(blob: bytes | memoryview, ends: bytes | memoryview, path: str) -> Pieces:
    """Make a checked column of byte strings from their bytes and u32 ends."""
    column = read_numbers("I", ends, path)
    places = column.view.tolist()
    if (places[-1] if places else 0) != len(blob) or places != sorted(places):
        raise FormatError("the ends do not fit the bytes", field=path)
    return Pieces(blob, column)


def _from_base64(data: Any, path: str) -> bytes:
    from base64 import b64decode

    try:
        return b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise FormatError("is not base64", field=path) from None


def _read_free(data: Any, path: str, depth: int) -> object:
    if depth > DEPTH_LIMIT:
        raise FormatError(f"nests deeper than {DEPTH_LIMIT}", field=path)
    if isinstance(data, list):
        return [_read_free(each, path, depth + 1) for each in data]
    if not isinstance(data, dict):
        return data
    mark = next(iter(data)) if len(data) == 1 else ""
    if mark == "$bytes":
        return _from_base64(data[mark], path)
    if mark == "$tuple" and isinstance(data[mark], list):
        return tuple(_read_free(each, path, depth + 1) for each in data[mark])
    if mark == "$dict" and isinstance(data[mark], dict):
        data = data[mark]
    return {key: _read_free(each, path, depth + 1) for key, each in data.items()}


def _wrong_type(data: object, expected: str, path: str) -> FormatError:
    return FormatError(f"is {_printable(data)}, not {expected}", field=path)


def _printable(data: object) -> str:
    text = repr(data)
    return text if len(text) < 60 else type(data).__name__


def fingerprint(spec: TokenizerSpec) -> str:
    """Return the SHA-256 of a specification, in hexadecimal.

    Names, chat templates, what is asked of texts of other lengths, and what one format alone
    understands do not count: they give no text other ids.
    """
    import hashlib
    import json

    bare = replace(spec, name="", extras=(), chat_templates=(), truncation=None, padding=None)
    data = json.dumps(encode(bare, brief=True), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode()).hexdigest()
