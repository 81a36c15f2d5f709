"""Settings that are declared once: type, default, range, help and spellings in one line each.

A record of settings is a ``Settings`` whose fields are made by ``setting``; a field that is such a
record itself is a part of it, and its settings count as the whole's. What else is said of settings
follows from the declarations: the options of the commands, the keywords of ``mtkit.generate``
(keywords.pyi), docs/settings.md, and ``settings_of``, which reads a mapping such as JSON gives.
"""

from __future__ import annotations

from mtkit.base.record import Record, fields
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from inspect import Signature
    from typing import Any, ClassVar, TypeVar

    T = TypeVar("T")
    S = TypeVar("S", bound="Settings")


class Setting:
    """The declaration of one setting.

    Attributes:
        name: The field's name.
        heading: What it is shown under.
        default: Its value where none is given.
        help: What it does, for people.
        off: What the option does that switches it off; empty for another kind of setting.
        low: Least number, of a tuple of every entry; None without a range.
        high: Greatest number.
        options: Its spellings on the command line; none where it is not offered there.
        also: Further spellings, llama.cpp's; in a mapping the long ones count as well.
        metavar: What stands for the value in the help.
        annotation: Its type as the source spells it.
        hint: Its type.
    """

    __slots__ = (
        "also", "annotation", "default", "heading", "help", "high", "hint", "low", "metavar",
        "name", "off", "options",
    )  # fmt: skip

    annotation: str
    hint: Any

    def __init__(self, default: Any, text: str) -> None:
        self.default, self.help = default, text
        self.low: float | None = None
        self.high: float | None = None
        self.name = self.heading = self.metavar = self.off = ""
        self.options: tuple[str, ...] = ()
        self.also: tuple[str, ...] = ()

    @property
    def negates(self) -> bool:
        """Whether its option only switches it off."""
        return self.default is True and not any("/" in one for one in self.options or ())

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called in a mapping, its own name first."""
        longs = [] if self.negates else [*self.options, *self.also]
        longs = [text.partition("/")[0] for text in longs]
        spelled = (text[2:].replace("-", "_") for text in longs if text.startswith("--"))
        return tuple(dict.fromkeys((self.name, *spelled)))

    def check(self, value: Any, field: str) -> None:
        """Check the range; what is outside would be nonsense or end the process in C.

        Raises:
            UsageError: It is outside; ``field`` is the name that the error gives.
        """
        if value is None or self.low is None or self.high is None:
            return
        for one in value if isinstance(value, tuple) else (value,):
            if not self.low <= one <= self.high:  # NaN is outside every range
                what = f"is {one}, not in the range {self.low} to {self.high}"
                raise UsageError(what, field=field)


def setting(
    default: T,
    text: str,
    low: float | None = None,
    high: float | None = None,
    *,
    off: str = "",
    option: str | None = "",
    also: str = "",
    metavar: str = "",
    heading: str = "",
) -> T:
    """Declare a field of a ``Settings``.

    Args:
        option: Its spellings on the command line, with spaces between; empty for ``--NAME`` or, of
            what is true by default, ``--no-NAME``; None where it is not offered there.
    """
    made: Any = Setting(default, text)
    made.low, made.high, made.off, made.metavar, made.heading = low, high, off, metavar, heading
    made.options = None if option == "" else tuple((option or "").split())
    made.also = tuple(also.split())
    return made  # type: ignore[no-any-return]  # the record puts the default in its place


class Settings(Record):
    """A record whose fields are declared by ``setting``, or are such records themselves."""

    if TYPE_CHECKING:
        declared: ClassVar[dict[str, Setting]]

        def __init_subclass__(cls, *, heading: str = "") -> None: ...

    else:
        declared = {}

        def __init_subclass__(cls, *, heading="", **kwargs):
            """Put the defaults in the place of the declarations, and keep these."""
            own = {}
            for name, annotation in cls.__annotations__.items():
                found = vars(cls).get(name)
                if not isinstance(found, Setting):
                    continue
                found.name, found.annotation = name, annotation
                found.heading = found.heading or heading
                if found.options is None:
                    prefix = "--no-" if found.negates else "--"
                    found.options = (prefix + name.replace("_", "-"),)
                own[name] = found
                setattr(cls, name, found.default)
            cls.declared = {**cls.declared, **own}
            super().__init_subclass__(**kwargs)

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, declared in self.declared.items():
            declared.check(getattr(self, name), name)


_TABLES: dict[type[Settings], dict[str, Setting]] = {}


def table(kind: type[Settings]) -> Mapping[str, Setting]:
    """Return name -> declaration of all settings of a record and its parts, in their order."""
    if kind in _TABLES:
        return _TABLES[kind]
    from typing import get_type_hints

    hints = get_type_hints(kind)
    found: dict[str, Setting] = {}
    for name in fields(kind):
        default = getattr(kind, name)
        if isinstance(default, Settings):
            found |= table(type(default))
        elif name in kind.declared:
            declared = kind.declared[name]
            declared.hint = hints[name]
            found[name] = declared
    _TABLES[kind] = found
    return found


def signature_with(function: Callable[..., Any], kind: type[Settings]) -> Signature:
    """Return the signature of a function with every setting of a record for its last ``**``."""
    from inspect import Parameter, signature

    plain = signature(function)
    own = [one for one in plain.parameters.values() if one.kind is not one.VAR_KEYWORD]
    given = [
        Parameter(
            declared.name,
            Parameter.KEYWORD_ONLY,
            default=declared.default,
            annotation=declared.annotation,
        )
        for declared in table(kind).values()
        if declared.name not in plain.parameters
    ]
    return plain.replace(parameters=[*own, *given])


def settings_of(kind: type[S], given: Mapping[str, object]) -> S:
    """Make a record from a mapping: JSON's, or the keywords of a call.

    Args:
        kind: The record; the settings of its parts stand beside its own.
        given: Name, or one of its other names -> value; lists count as tuples.
    """
    known = table(kind)
    values: dict[str, object] = {}
    for key, value in given.items():
        found = known.get(key) or next((one for one in known.values() if key in one.names), None)
        if found is None:
            raise UsageError(f"there is no setting {key!r}", hint=_suggest(key, known))
        if found.name in values:
            raise UsageError(f"is given twice, as {found.name} too", field=key)
        values[found.name] = coerce(value, found.hint, key)
        found.check(values[found.name], key)
    return _build(kind, values)


def _suggest(key: str, known: Mapping[str, Setting]) -> str:
    from difflib import get_close_matches

    option = f"--{key.replace('_', '-')}"
    for one in known.values():
        if one.negates and option in (*one.options, *one.also):
            return f"{one.name}=False"
    close = get_close_matches(key, known, 1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(known))}"


def _build(kind: type[S], values: Mapping[str, object]) -> S:
    own: dict[str, Any] = {}
    for name in fields(kind):
        default = getattr(kind, name)
        if isinstance(default, Settings):
            own[name] = _build(type(default), values)
        elif name in values:
            own[name] = values[name]
    return kind(**own)


_TYPE_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def coerce(value: Any, hint: Any, field: str) -> Any:
    """Return a value as its type has it."""
    from typing import Literal, get_args, get_origin

    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value not in inner:
            raise UsageError(f"is {value!r}, not one of {', '.join(inner)}", field=field)
        return value
    if origin is tuple:
        return _coerce_tuple(value, inner, field)
    if inner:  # a union
        if value is None and type(None) in inner:
            return None
        kinds = [kind for kind in inner if kind is not type(None)]
        for kind in kinds[:-1]:
            try:
                return coerce(value, kind, field)
            except UsageError:
                continue
        return coerce(value, kinds[-1], field)
    if hint is str and hasattr(value, "__fspath__"):
        value = value.__fspath__()
    if hint is int and hasattr(value, "__index__") and not isinstance(value, bool):
        return value.__index__()  # numpy's whole numbers, too
    if hint is float and hasattr(value, "__float__") and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return float("inf") if value > 0 else float("-inf")
    if hint in (bool, str) and isinstance(value, hint):
        return value
    raise UsageError(f"is {value!r}, not {_TYPE_WORDS[hint]}", field=field)


def _coerce_tuple(value: Any, inner: tuple[Any, ...], field: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise UsageError(f"is {value!r}, not a list", field=field)
    if inner[-1] is ...:
        return tuple(coerce(one, inner[0], f"{field}[{at}]") for at, one in enumerate(value))
    if len(value) != len(inner):
        raise UsageError(f"has {len(value)} entries, not {len(inner)}", field=field)
    pairs = zip(value, inner, strict=True)
    return tuple(coerce(one, kind, f"{field}[{at}]") for at, (one, kind) in enumerate(pairs))
