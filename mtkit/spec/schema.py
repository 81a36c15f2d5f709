"""What type every field of every record has, read from the annotations.

The annotations are strings (they cost nothing at start-up); this module understands the few forms
that records use: plain names, ``X | None``, ``Literal[…]``, ``tuple[X, …]`` and the names of the
closed unions. A test holds ``UNIONS`` equal to the unions that type checkers see.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from mtkit.base.record import Record, fields
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast

UNIONS = {
    "Normalizer": ("mtkit.spec.normalizers", frozenset[str]()),
    "PreTokenizer": ("mtkit.spec.pre_tokenizers", frozenset[str]()),
    "Model": ("mtkit.spec.models", frozenset({"Merges"})),
    "PostProcessor": ("mtkit.spec.post_processors", frozenset({"Slot"})),
    "Decoder": ("mtkit.spec.decoders", frozenset[str]()),
    "Pattern": ("mtkit.spec.text", frozenset[str]()),
}
"""Name of a union -> module, and the records there that are not members of it."""

ALIASES = {
    "Behavior": 'Literal["removed", "isolated", "merged_with_previous", "merged_with_next", '
    '"contiguous", "glued_to_previous"]',
}
"""Other names that exist for type checkers only."""

PLAIN = frozenset({"bool", "int", "float", "str", "bytes", "object", "Numbers", "Pieces"})


class Type(Record):
    """The type of a field; exactly one of name, choices, classes, item and items says which.

    Attributes:
        name: One of ``PLAIN``.
        choices: Strings that are allowed.
        classes: Records that are allowed.
        item: Type of each member of a tuple of any length.
        items: Types of the members of a tuple of fixed length.
        optional: None is allowed.
    """

    name: str = ""
    choices: frozenset[str] = frozenset()
    classes: tuple[type[Record], ...] = ()
    item: Type | None = None
    items: tuple[Type, ...] = ()
    optional: bool = False


def field_types(cls: type[Record]) -> dict[str, Type]:
    """Return the type of each field of a record class, in order."""
    found = _FIELD_TYPES.get(cls)
    if found is None:
        import ast

        annotations = cls.__annotations__
        found = _FIELD_TYPES[cls] = {
            name: _type(ast.parse(annotations[name], mode="eval").body, cls) for name in fields(cls)
        }
    return found


_FIELD_TYPES: dict[type[Record], dict[str, Type]] = {}


def has_default(cls: type[Record], name: str) -> bool:
    """Tell whether a field may be left out."""
    return hasattr(cls, name)


@cache
def members(union: str) -> tuple[type[Record], ...]:
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
    """Return the record class called ``name``.

    Raises:
        FormatError: It is not a name.
        UnsupportedError: No component is called so.
    """
    if not isinstance(name, str):
        raise FormatError("does not say its type", field=path)
    for cls in classes:
        if cls.__name__ == name:
            return cls
    raise UnsupportedError(
        f"unknown component {name!r}", field=path, hint="a newer mtkit wrote the file"
    )


def _record(name: str, cls: type[Record]) -> type[Record]:
    """Find a record by the name that a class of the same or another stage uses for it."""
    for module in (cls.__module__, *(place for place, _ in UNIONS.values())):
        found = getattr(import_module(module), name, None)
        if isinstance(found, type) and issubclass(found, Record):
            return found
    raise AssertionError(f"{cls.__name__} has a field of the unknown class {name}")


def _type(node: ast.expr, cls: type[Record]) -> Type:
    import ast

    match node:
        case ast.BinOp(left=left, right=ast.Constant(value=None)):
            inner = _type(left, cls)
            return Type(
                inner.name, inner.choices, inner.classes, inner.item, inner.items, optional=True
            )
        case ast.Name(id=name) if name in PLAIN:
            return Type(name)
        case ast.Name(id=name) if name in UNIONS:
            return Type(classes=members(name))
        case ast.Name(id=name) if name in ALIASES:
            return _type(ast.parse(ALIASES[name], mode="eval").body, cls)
        case ast.Name(id=name):
            return Type(classes=(_record(name, cls),))
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inside):
            nodes = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            return Type(choices=frozenset(ast.literal_eval(each) for each in nodes))
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=nodes)):
            if isinstance(nodes[-1], ast.Constant) and nodes[-1].value is ...:
                return Type(item=_type(nodes[0], cls))
            return Type(items=tuple(_type(each, cls) for each in nodes))
        case _:
            raise AssertionError(f"{cls.__name__} has a field of a type that no codec knows")
