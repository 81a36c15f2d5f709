"""What typer makes of commands: the reader of lines that are not plain, help and completion."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter as PythonParameter
from inspect import Signature
from typing import Annotated, Literal

import typer
from typer.core import TyperCommand

from mtkit.commands.command import Command, Group
from mtkit.commands.options import REQUIRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from mtkit.commands.options import Option, Parameter

_TYPES = {"bool": bool, "int": int, "float": float, "str": str, "list[str]": list[str]}


def application(command: Command | Group) -> typer.Typer:
    """Return typer's frame of a command: errors are shown by ``mtkit.cli``, help is plain."""
    frame = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    if isinstance(command, Command):
        add_command(frame, command)
        return frame
    frame.callback(help=command.text)(_do_nothing)
    for name, part in command.commands.items():
        add_command(frame, part, name=name)
    return frame


def _do_nothing() -> None:
    """Stand for a group of commands, and for a command of which only the name is wanted."""


def add_command(frame: typer.Typer, command: Command, **more: Any) -> None:
    """Register a command."""

    def run(context: typer.Context, **values: Any) -> object:
        return command.call(values, {name for name in values if _is_explicit(context, name)})

    parameters = command.parameters()
    run.__name__, run.__doc__ = command.run.__name__, command.run.__doc__
    run.__annotations__ = {}
    run.__signature__ = Signature(  # type: ignore[attr-defined]  # typer reads it
        [
            PythonParameter("context", PythonParameter.KEYWORD_ONLY, annotation=typer.Context),
            *map(_typer_parameter, parameters),
        ]
    )
    also = {parameter.name: tuple(parameter.option.also.split()) for parameter in parameters}
    pairs = {parameter.name for parameter in parameters if parameter.words > 1}
    own = {"own": command, "also": also, "pairs": pairs}
    frame.command(cls=type("Command", (_TyperCommand,), own), **more)(run)


def _typer_parameter(parameter: Parameter) -> PythonParameter:
    option = parameter.option
    word, _, optional = parameter.annotation.partition(" | ")
    word = "list[str]" if parameter.words > 1 else word
    kind: Any = Literal[option.choices] if option.choices else _TYPES[word]
    default = PythonParameter.empty if parameter.default is REQUIRED else parameter.default
    return PythonParameter(
        parameter.name,
        PythonParameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind | None if optional else kind, _typer_option(option)],
    )


def _typer_option(option: Option) -> Any:
    keywords: dict[str, Any] = {"metavar": option.metavar or None, "help": option.help}
    if option.values:
        values = option.values
        keywords["autocompletion"] = values if callable(values) else lambda: [*values]
    if not option.names:
        return typer.Argument(**keywords)
    return typer.Option(
        *option.names.split(),
        min=option.low,
        max=option.high,
        parser=option.reads and _typer_reader(option.reads),
        envvar=option.variable or None,
        hidden=option.is_hidden,
        **keywords,
    )


def _typer_reader(reads: Callable[[str | int], Any]) -> Callable[[str | int], Any]:
    """Return a reader whose errors typer shows as they are."""

    def read(value: str | int) -> Any:
        try:
            return reads(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return read


class _TyperCommand(TyperCommand):
    """A command whose options have further spellings, which help does not show."""

    own: Command
    also: Mapping[str, tuple[str, ...]]
    pairs: Collection[str]
    """Names of parameters whose values are two words each, which typer cannot say of a list."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        for param in self.params:
            if param.name in self.pairs:
                # typer has a click of its own since 0.26.
                types = import_module(type(param.type).__module__)
                param.nargs, param.type = 2, types.Tuple([str, str])

    def get_help(self, ctx: Any) -> str:
        """Return the same help as where the line begins with ``--help``."""
        from mtkit.commands.help_page import help_page

        name = ctx.command_path.removeprefix("mtkit ")
        return help_page(self.own, name, ctx.terminal_width).rstrip("\n")

    def make_parser(self, ctx: Any) -> Any:
        """Let the parser know the further spellings."""
        parser = super().make_parser(ctx)
        for param in self.params:
            spellings = self.also.get(param.name or "")
            if spellings:
                own = param.opts, param.secondary_opts
                param.opts, param.secondary_opts = list(spellings), []
                param.add_to_parser(parser, ctx)
                param.opts, param.secondary_opts = own
        return parser


def _is_explicit(context: typer.Context, parameter: str) -> bool:
    source = context.get_parameter_source(parameter)
    return source is not None and source.name != "DEFAULT"


def command_tree(commands: Mapping[str, tuple[str, str]], words: list[str]) -> typer.Typer:
    """Return one typer application with every command, as shell completion needs it.

    Args:
        commands: Name -> (module, one-line help).
        words: Those of the line; only the commands among them are imported, since a shell waits
            for every Tab.
    """
    from mtkit.commands import load_command

    root = typer.Typer(add_completion=True, rich_markup_mode=None)
    for name, (module, text) in commands.items():
        if name not in words:
            root.command(name, help=text)(_do_nothing)
            continue
        command = load_command(module)
        if isinstance(command, Command):
            add_command(root, command, name=name, help=text)
        else:
            root.add_typer(application(command), name=name, help=text)

    def subjects() -> list[str]:
        from mtkit.commands.help import TOPICS

        return [*commands, "topics", *TOPICS]

    def explained(about: str = typer.Argument("", autocompletion=subjects)) -> None:
        """Take what ``mtkit help`` takes."""

    root.command("help", help="Describe a command or a topic.")(explained)
    return root
