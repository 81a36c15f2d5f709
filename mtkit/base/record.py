"""Frozen records: what ``dataclasses.dataclass(frozen=True)`` gives, built without ``exec``.

A specification has some seventy small classes. The standard decorator compiles source for each
of them (0.5 ms a class, 35 ms for all, measured on CPython 3.11), more than mtkit needs to
load a tokenizer and encode a text. A record takes its fields from the annotations and shares one
``__init__``; type checkers see a frozen dataclass.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from typing_extensions import dataclass_transform

    R = TypeVar("R", bound="Record")
else:

    def dataclass_transform(**_):
        """Stand in for the marker that only type checkers read."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Record:
    """Base of all records: fields in the order of the annotations, compared by type and value."""

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, hidden: tuple[str, ...] = ()) -> None: ...

    else:
        __match_args__ = ()
        __hidden__ = frozenset()

        def __init_subclass__(cls, *, hidden=(), **kwargs):
            """Collect the fields; those named in ``hidden`` do not count for equality."""
            super().__init_subclass__(**kwargs)
            own = cls.__annotations__
            cls.__match_args__ = cls.__match_args__ + tuple(
                name for name in own if name not in cls.__match_args__
            )
            cls.__defaults__ = {n: getattr(cls, n) for n in cls.__match_args__ if hasattr(cls, n)}
            cls.__hidden__ = cls.__hidden__ | frozenset(hidden)

        def __init__(self, *args, **kwargs):
            names = self.__match_args__
            if len(args) == len(names) and not kwargs:
                self.__dict__.update(zip(names, args, strict=True))
                self.__post_init__()
                return
            if len(args) > len(names):
                raise TypeError(f"{type(self).__name__} takes {len(names)} fields")
            values = dict(zip(names, args, strict=False))
            for name in kwargs:
                if name not in names or name in values:
                    raise TypeError(f"{type(self).__name__} has no free field {name!r}")
            values = self.__defaults__ | values | kwargs
            if len(values) < len(names):
                name = next(name for name in names if name not in values)
                raise TypeError(f"{type(self).__name__} lacks field {name!r}")
            self.__dict__.update(values)
            self.__post_init__()

        def __post_init__(self):
            """Check the fields; subclasses override it."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields(self))
        return f"{type(self).__name__}({inside})"

    def _key(self) -> tuple[object, ...]:
        hidden: frozenset[str] = getattr(type(self), "__hidden__", frozenset())
        return tuple(getattr(self, name) for name in fields(self) if name not in hidden)


def fields(record: Record | type[Record]) -> tuple[str, ...]:
    """Names of a record's fields, in order."""
    names: tuple[str, ...] = record.__match_args__  # type: ignore[union-attr]  # every record has it
    return names


def replace(record: R, **changes: Any) -> R:
    """Return a copy of a record with some fields changed."""
    own = record.__dict__
    return type(record)(**({name: own[name] for name in fields(record)} | changes))


class _Idiomatic(type):
    def __getattr__(cls, name: str) -> object:
        from mtkit.base.idioms import missing

        raise missing(cls.__name__, name, f"type object {cls.__name__!r}")


class Idioms(metaclass=_Idiomatic):
    """A class whose missing names say what to type."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            from mtkit.base.idioms import missing

            raise missing(type(self).__name__, name)

        def __getitem__(self, key: object) -> object:
            """Raise: its values are attributes."""
            from mtkit.base.idioms import INSTEAD

            owner = type(self).__name__
            is_own = isinstance(key, str) and (key in vars(self) or hasattr(type(self), key))
            name = key if isinstance(key, str) else "[]"
            instead = f".{key}" if is_own else INSTEAD.get(owner, {}).get(name)
            what = f"{owner!r} object is not subscriptable"
            raise TypeError(f"{what}; here: {instead}" if instead else what)

        def __call__(self, *_: object, **__: object) -> object:
            """Raise: it is no function."""
            from mtkit.base.idioms import INSTEAD

            owner = type(self).__name__
            instead = INSTEAD.get(owner, {}).get("()")
            what = f"{owner!r} object is not callable"
            raise TypeError(f"{what}; here: {instead}" if instead else what)
