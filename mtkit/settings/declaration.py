"""Settings declared once: type, default, range, help and option names in one call each.

A record of settings is a ``Settings`` whose fields are made by ``setting``; a field that is such a
record itself is a part of it, and its settings count as the whole's. From the declarations follow
the options of the commands, the keywords of ``mtkit.generate`` (keywords.pyi), docs/settings.md,
and ``settings_of``, which reads a mapping such as JSON gives.
"""

from __future__ import annotations

from mtkit.base.record import Record, fields
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping
    from inspect import Signature
    from typing import Any, ClassVar, TypeVar

    T = TypeVar("T")
    S = TypeVar("S", bound="Settings")


class Setting:
    """The declaration of one setting.

    Attributes:
        name: The field's name.
        heading: The section of help and docs that lists it.
        help: What it does, for people.
        off: Help of the option that switches it off; empty for other settings.
        low: Least number, of every entry of a tuple; None without a range.
        options: Its names on the command line; none where it is not offered there.
        also: Further names, llama.cpp's; in a mapping the long ones count as well.
        metavar: What stands for the value in the help.
        annotation: Its type as the source spells it.
        hint: Its type; set by ``table``.
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
        return self.default is True and not any("/" in option for option in self.options or ())

    @property
    def names(self) -> tuple[str, ...]:
        """Its names in a mapping, the field's first."""
        longs = [] if self.negates else [*self.options, *self.also]
        longs = [text.partition("/")[0] for text in longs]
        names = (text[2:].replace("-", "_") for text in longs if text.startswith("--"))
        return tuple(dict.fromkeys((self.name, *names)))

    def check(self, value: Any, field: str) -> None:
        """Check the range: values outside are nonsense, or end the process in C."""
        if value is None or self.low is None or self.high is None:
            return
        for entry in value if isinstance(value, tuple) else (value,):
            if not self.low <= entry <= self.high:  # NaN is outside every range
                what = f"is {entry}, not in the range {self.low} to {self.high}"
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
        option: Its names on the command line, separated by spaces; empty for ``--NAME`` or, if it
            is true by default, ``--no-NAME``; None where it is not offered there.
    """
    declared: Any = Setting(default, text)
    declared.low, declared.high = low, high
    declared.off, declared.metavar, declared.heading = off, metavar, heading
    declared.options = None if option == "" else tuple((option or "").split())
    declared.also = tuple(also.split())
    return declared  # type: ignore[no-any-return]  # the record puts the default in its place


class Settings(Record):
    """A record whose fields are declared by ``setting``, or are such records themselves."""

    if TYPE_CHECKING:
        declared: ClassVar[dict[str, Setting]]

        def __init_subclass__(cls, *, heading: str = "") -> None: ...

    else:
        declared = {}

        def __init_subclass__(cls, *, heading="", **kwargs):
            """Replace the declarations by their defaults, and collect them in ``declared``."""
            own = {}
            for name, annotation in cls.__annotations__.items():
                declared = vars(cls).get(name)
                if not isinstance(declared, Setting):
                    continue
                declared.name, declared.annotation = name, annotation
                declared.heading = declared.heading or heading
                if declared.options is None:
                    prefix = "--no-" if declared.negates else "--"
                    declared.options = (prefix + name.replace("_", "-"),)
                own[name] = declared
                setattr(cls, name, declared.default)
            cls.declared = {**cls.declared, **own}
            super().__init_subclass__(**kwargs)

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, declared in self.declared.items():
            if declared.low is not None:
                declared.check(getattr(self, name), name)


_TABLES: dict[type[Settings], dict[str, Setting]] = {}


def table(kind: type[Settings]) -> Mapping[str, Setting]:
    """Return name -> declaration of all settings of a record and its parts, in their order."""
    if kind in _TABLES:
        return _TABLES[kind]
    from typing import get_type_hints

    hints = get_type_hints(kind)
    settings: dict[str, Setting] = {}
    for name in fields(kind):
        default = getattr(kind, name)
        if isinstance(default, Settings):
            settings |= table(type(default))
        elif name in kind.declared:
            declared = kind.declared[name]
            declared.hint = hints[name]
            settings[name] = declared
    _TABLES[kind] = settings  # evaluating the annotations takes 1 to 3 ms
    return settings


def signature_with(
    function: Callable[..., Any], kind: type[Settings], names: Container[str] | None = None
) -> Signature:
    """Return the signature of a function with settings of a record in place of its ``**``.

    Args:
        names: Those that it takes; None: all.
    """
    from inspect import Parameter, signature

    plain = signature(function)
    own = [p for p in plain.parameters.values() if p.kind is not p.VAR_KEYWORD]
    keywords = [
        Parameter(
            declared.name,
            Parameter.KEYWORD_ONLY,
            default=declared.default,
            annotation=declared.annotation,
        )
        for declared in table(kind).values()
        if declared.name not in plain.parameters and (names is None or declared.name in names)
    ]
    return plain.replace(parameters=[*own, *keywords])


def settings_of(kind: type[S], mapping: Mapping[str, object]) -> S:
    """Make a record from a mapping: JSON's, or the keywords of a call.

    Args:
        mapping: Any of the names of a setting -> value; lists count as tuples.
    """
    declarations = table(kind)
    values: dict[str, object] = {}
    for key, value in mapping.items():
        declared = _declared(declarations, key)
        if declared.name in values:
            raise UsageError(f"is given twice, as {declared.name} too", field=key)
        values[declared.name] = coerce(value, declared.hint, key)
        declared.check(values[declared.name], key)
    return _build(kind, values)


def _declared(declarations: Mapping[str, Setting], key: str) -> Setting:
    """Return the declaration of a setting by any of its names."""
    declared = declarations.get(key) or next(
        (setting for setting in declarations.values() if key in setting.names), None
    )
    if declared is None:
        raise UsageError(f"there is no setting {key!r}", hint=_suggest(key, declarations))
    return declared


def with_changes(settings: S, mapping: Mapping[str, object], changeable: Collection[str]) -> S:
    """Return settings with some of them changed, as ``settings_of`` reads a mapping.

    Raises:
        UsageError: A setting is not among those that can be changed.
    """
    changes = settings_of(type(settings), mapping)
    names = [_declared(table(type(settings)), key).name for key in mapping]
    for key, name in zip(mapping, names, strict=True):
        if name not in changeable:
            raise UsageError("is set where the model is opened, for all its answers", field=key)
    values = _values_of(settings)
    new = _values_of(changes)
    return _build(type(settings), {**values, **{name: new[name] for name in names}})


def _values_of(settings: Settings) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in fields(type(settings)):
        value = getattr(settings, name)
        values |= _values_of(value) if isinstance(value, Settings) else {name: value}
    return values


def _suggest(key: str, declarations: Mapping[str, Setting]) -> str:
    from difflib import get_close_matches

    from mtkit.base.idioms import SETTINGS

    if key in SETTINGS:
        return f"here: {SETTINGS[key]}"
    option = f"--{key.replace('_', '-')}"
    for declared in declarations.values():
        if declared.negates and option in (*declared.options, *declared.also):
            return f"{declared.name}=False"
    close = get_close_matches(key, declarations, 1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(declarations))}"


def _build(kind: type[S], values: Mapping[str, object]) -> S:
    own: dict[str, Any] = {}
    for name in fields(kind):
        default = getattr(kind, name)
        if isinstance(default, Settings):
            own[name] = _build(type(default), values)
        elif name in values:
            own[name] = values[name]
    if "explicit" in kind.declared:
        own.setdefault("explicit", tuple(own))
    return kind(**own)


_TYPE_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def coerce(value: Any, hint: Any, field: str) -> Any:
    """Convert a value to a type, as far as nothing is lost."""
    from typing import Literal, get_args, get_origin

    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value not in inner:
            raise UsageError(f"is {value!r}, not one of {', '.join(inner)}", field=field)
        return value
    if origin is tuple:
        return _coerce_tuple(value, inner, field)
    if inner:
        return _coerce_union(value, inner, field)
    if hint is str and hasattr(value, "__fspath__"):
        value = value.__fspath__()
    if hint is int and hasattr(value, "__index__") and not isinstance(value, bool):
        return value.__index__()  # numpy's integers, too
    if hint is float and hasattr(value, "__float__") and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return float("inf") if value > 0 else float("-inf")
    if hint in (bool, str) and isinstance(value, hint):
        return value
    raise UsageError(f"is {value!r}, not {_TYPE_WORDS[hint]}", field=field)


def _coerce_union(value: Any, inner: tuple[Any, ...], field: str) -> Any:
    if value is None and type(None) in inner:
        return None
    kinds = [kind for kind in inner if kind is not type(None)]
    for kind in kinds[:-1]:
        try:
            return coerce(value, kind, field)
        except UsageError:
            continue
    return coerce(value, kinds[-1], field)


def _coerce_tuple(value: Any, inner: tuple[Any, ...], field: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise UsageError(f"is {value!r}, not a list", field=field)
    if inner[-1] is ...:
        return tuple(coerce(entry, inner[0], f"{field}[{at}]") for at, entry in enumerate(value))
    if len(value) != len(inner):
        raise UsageError(f"has {len(value)} entries, not {len(inner)}", field=field)
    pairs = zip(value, inner, strict=True)
    return tuple(coerce(entry, kind, f"{field}[{at}]") for at, (entry, kind) in enumerate(pairs))
