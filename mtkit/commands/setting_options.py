"""Settings as options of a command, made from their declarations (mtkit/settings/__init__.py).

Every setting that has a spelling is an option at the place of the parameter ``settings``, and the
function gets the record. The help shows the options by heading, in mtkit's spelling; llama.cpp's
are taken as well.
"""

from __future__ import annotations

from operator import not_
from typing import Literal, get_args, get_origin

from mtkit.commands.arguments import SETTING_READERS
from mtkit.commands.options import Option, Parameter, parse_whole
from mtkit.errors import UsageError
from mtkit.settings.declaration import settings_of, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, TypeVar

    from mtkit.settings.declaration import Setting, Settings

    S = TypeVar("S", bound=Settings)

_METAVARS = {"int": "N", "int | None": "N", "float": "X"}


def setting_parameters(kind: type[Settings]) -> list[Parameter]:
    """Return a parameter for each setting that has a spelling."""
    return [_parameter(setting) for setting in table(kind).values() if setting.options]


def take_settings(kind: type[S], values: dict[str, Any], explicit: Collection[str]) -> S:
    """Move the settings out of a command's values into their record; errors name the options."""
    options = {name: setting for name, setting in table(kind).items() if setting.options}
    arguments = {name: values.pop(name) for name in options if name in values}
    try:
        return settings_of(
            kind,
            {
                name: _reader(options[name])[2](value)
                for name, value in arguments.items()
                if name in explicit and value is not None and value != []
            },
        )
    except UsageError as error:
        if error.field in options:
            error.field = options[error.field].options[-1]
        raise


def _reader(setting: Setting) -> tuple[str, Any, Callable[[Any], Any]]:
    """Return type and default of an option, and what makes the setting of its value."""
    if setting.name in SETTING_READERS:
        return SETTING_READERS[setting.name]
    if setting.negates:
        return "bool", False, not_
    if get_args(setting.hint)[1:] == (...,):
        return "list[str] | None", None, tuple
    return setting.annotation, setting.default, lambda value: value


def _parameter(setting: Setting) -> Parameter:
    annotation, default, _ = _reader(setting)
    choices, is_optional = setting.hint, False
    if type(None) in get_args(choices):
        choices, is_optional = get_args(choices)[0], True
    choices = get_args(choices) if get_origin(choices) is Literal else ()
    if choices:
        annotation = "str | None" if is_optional else "str"
    is_whole = annotation in ("int", "int | None")
    option = Option(
        " ".join(setting.options),
        setting.off if setting.negates else setting.help,
        setting.metavar or _METAVARS.get(annotation, ""),
        " ".join(setting.also),
        reads=_PARSERS.get(setting.metavar or setting.name, parse_whole) if is_whole else None,
        heading=setting.heading,
        choices=choices,
        shows_default="efault:" not in setting.help,
    )
    return Parameter(setting.name, option, annotation, default)


def _threads(text: str | int) -> int:
    try:
        return parse_whole(text)
    except ValueError as error:
        what = f"{error}; -t is the number of threads here, for the model's own tokenizer"
        raise ValueError(what) from None


def _whole_or_auto(text: str | int) -> int | None:
    return None if text in ("auto", "0") else parse_whole(text)


def _layers(text: str | int) -> int:
    return -1 if text in ("all", "auto") else parse_whole(text)


_PARSERS: dict[str, Callable[[str | int], int | None]] = {
    "threads": _threads, "N|auto": _whole_or_auto, "gpu_layers": _layers,
}  # fmt: skip
