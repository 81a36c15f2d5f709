"""A command: a function, the options of its parameters, and the reader of its plain lines.

``mtkit config`` takes 90 ms of a CPU with typer and 32 without it, and a shell's loop pays for it
each time: a line that says plainly what it means is read here. It is plain where every option is
spelled out and its value is the next word. Help is read from the same table
(``commands.help_page``). Whatever else there is (a mistake, ``--option=value``), typer reads it
(``commands.application``).
``tests/commands/test_plain_lines.py`` holds that both read a plain line alike.
"""

from __future__ import annotations

import os

from mtkit.commands.options import REQUIRED, SHARED, Option, Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from mtkit.settings.declaration import Settings


class Command:
    """A function as a command: its parameters are options and arguments.

    A parameter ``settings`` is a record of settings: each setting that has a spelling is an option
    in its place.
    """

    def __init__(
        self,
        run: Callable[..., object],
        options: Mapping[str, Option] | None = None,
        settings: type[Settings] | None = None,
    ) -> None:
        self.run = run
        self.options = options or {}
        self.settings = settings

    def parameters(self) -> list[Parameter]:
        """Return the parameters in the order of the help, those of the settings among them."""
        code, annotations = self.run.__code__, self.run.__annotations__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = dict(self.run.__kwdefaults__ or {})
        positional = reversed(names[: code.co_argcount])  # the last ones have the defaults
        defaults |= zip(positional, reversed(self.run.__defaults__ or ()), strict=False)
        parameters: list[Parameter] = []
        for name in names:
            if name == "settings" and self.settings is not None:
                from mtkit.commands.setting_options import setting_parameters

                parameters += setting_parameters(self.settings)
            else:
                option = self.options.get(name) or SHARED[name]
                default = defaults.get(name, REQUIRED)
                parameters.append(Parameter(name, option, annotations[name], default))
        return parameters

    def call(self, values: dict[str, Any], explicit: Collection[str]) -> object:
        """Run the function with the values of its parameters.

        Args:
            explicit: Names of those that are not defaults.
        """
        if self.settings is not None:
            from mtkit.commands.setting_options import take_settings

            values["settings"] = take_settings(self.settings, values, explicit)
        return self.run(**values)

    def parse_plain(self, args: Sequence[str]) -> dict[str, Any] | None:
        """Return parameter -> value of a plain line, or None where typer has to read it."""
        options: dict[str, tuple[Parameter, bool]] = {}
        arguments: list[Parameter] = []
        parameters = self.parameters()
        for parameter in parameters:
            if parameter.option.names:
                options |= {name: (parameter, on) for name, on in parameter.spellings()}
            else:
                arguments.append(parameter)
        values: dict[str, Any] = {}
        words = iter(args)
        for word in words:
            if word in options:
                parameter, is_on = options[word]
                if parameter.is_flag:
                    values[parameter.name] = is_on
                    continue
                if parameter.words > 1:
                    pair = tuple(next(words, "-?") for _ in range(parameter.words))
                    if any(text.startswith("-") for text in pair):
                        return None
                    values.setdefault(parameter.name, []).append(pair)
                    continue
                text = next(words, "-?")
            elif arguments:
                parameter, text = arguments[0], word
                if not parameter.is_list:
                    del arguments[0]
            else:
                return None
            if text.startswith("-") and text != "-":
                return None
            try:
                value = parameter.parse(text)
            except ValueError:
                return None
            if parameter.is_list:
                values.setdefault(parameter.name, []).append(value)
            else:
                values[parameter.name] = value
        absent = [parameter for parameter in parameters if parameter.name not in values]
        if any(p.default is REQUIRED or p.option.variable in os.environ for p in absent):
            return None
        return values

    def plain_call(self, args: Sequence[str]) -> Callable[[], object] | None:
        """Return what runs a plain line, or None where typer has to read it."""
        values = self.parse_plain(args)
        return None if values is None else lambda: self.call(values, {*values})


class Group:
    """Several commands that share the first word of their lines."""

    def __init__(self, text: str, commands: Mapping[str, Command]) -> None:
        self.text = text
        self.commands = commands

    def plain_call(self, args: Sequence[str]) -> Callable[[], object] | None:
        """Return what runs a plain line, or None where typer has to read it."""
        command = self.commands.get(args[0]) if args else None
        return command.plain_call(args[1:]) if command else None
