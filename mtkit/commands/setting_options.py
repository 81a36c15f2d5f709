"""Settings as options of a command, made from their declarations (mtkit/settings/__init__.py).

``command`` registers a function that takes a record of settings: every setting that has a spelling
becomes an option, at the place of the parameter ``settings``, and the function gets the record. The
help shows the options by heading, in mtkit's spelling; llama.cpp's are taken as well.
"""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from operator import not_
from typing import Annotated, get_args

import typer

from mtkit.commands.application import Command, parse_whole
from mtkit.commands.arguments import SETTING_READERS
from mtkit.errors import UsageError
from mtkit.settings import HEADINGS
from mtkit.settings.declaration import settings_of, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from mtkit.commands.application import Application
    from mtkit.settings.declaration import Setting, Settings

    S = TypeVar("S", bound=Settings)

_METAVARS: dict[Any, str] = {int: "N", int | None: "N", float: "X"}


class _Command(Command):
    """A command whose options are settings."""

    headings = HEADINGS


def settings_command(
    app: Application, kind: type[Settings], *, also: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function whose parameter ``settings`` is a record of settings.

    Args:
        also: Parameter -> further spellings of options of the command's own.
    """
    known = {name: setting for name, setting in table(kind).items() if setting.options}
    spellings = {name: " ".join(setting.also) for name, setting in known.items()} | dict(also or {})

    def register(function: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            settings = {name: given.pop(name) for name in known}
            function(settings=_record(kind, known, settings), **given)

        parameters: list[Parameter] = []
        for parameter in signature(function, eval_str=True).parameters.values():
            if parameter.name == "settings":
                parameters += map(_parameter, known.values())
            else:
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
        run.__name__, run.__doc__, run.__annotations__ = function.__name__, function.__doc__, {}
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        app.command(cls=_Command, also=spellings)(run)
        return function

    return register


def _reader(setting: Setting) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Return type and default of an option, and what makes the setting of what is given."""
    if setting.name in SETTING_READERS:
        return SETTING_READERS[setting.name]
    if setting.negates:
        return bool, False, not_
    if get_args(setting.hint)[1:] == (...,):
        return list[str] | None, None, tuple
    return setting.hint, setting.default, lambda given: given


def _parameter(setting: Setting) -> Parameter:
    hint, default, _ = _reader(setting)
    is_whole = hint in (int, int | None)
    option = typer.Option(
        *setting.options,
        metavar=setting.metavar or _METAVARS.get(hint),
        help=setting.off if setting.negates else setting.help,
        show_default="efault:" not in setting.help,
        parser=_PARSERS.get(setting.metavar or setting.name, parse_whole) if is_whole else None,
        rich_help_panel=setting.heading or None,
    )
    annotation = Annotated[hint, option]  # type: ignore[valid-type]  # of the setting's own type
    return Parameter(setting.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _threads(text: str | int) -> int:
    try:
        return parse_whole(text)
    except typer.BadParameter as error:
        what = f"{error.message}; -t is the number of threads here, for the model's own tokenizer"
        raise typer.BadParameter(what) from None


def _whole_or_auto(text: str | int) -> int | None:
    return None if text in ("auto", "0") else parse_whole(text)


_PARSERS: dict[str, Callable[[str | int], int | None]] = {
    "threads": _threads, "N|auto": _whole_or_auto,
}  # fmt: skip


def _record(kind: type[S], known: Mapping[str, Setting], given: Mapping[str, Any]) -> S:
    """Make the record; errors name the options."""
    try:
        values = {
            name: _reader(known[name])[2](value)
            for name, value in given.items()
            if value is not None and value != []
        }
        return settings_of(kind, values)
    except UsageError as error:
        if error.field in known:
            error.field = known[error.field].options[-1]
        raise
