"""The commands: one module each, with a typer ``app``; imported only when it runs.

A command parses its options, makes one call of the library and renders the answer. It never
parses bytes and holds no algorithm.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any


def command_tree(commands: Mapping[str, tuple[str, str]], named: Collection[str]) -> Any:
    """Return one typer application with every command, as shell completion needs it.

    Args:
        commands: Name -> (module, one-line help).
        named: Words of the line; only the commands among them are imported, since a shell waits
            for every Tab.
    """
    from importlib import import_module

    import typer

    root = typer.Typer(add_completion=True, rich_markup_mode=None)
    for name, (module_name, text) in commands.items():
        if name not in named:
            root.command(name, help=text)(_unread)
            continue
        app = import_module(module_name).app
        if len(app.registered_commands) == 1 and app.registered_callback is None:
            own = app.registered_commands[0]
            root.command(name, cls=own.cls, help=text)(own.callback)
        else:
            root.add_typer(app, name=name, help=text)

    def subjects() -> list[str]:
        from mtkit.commands.help import TOPICS

        return [*commands, "topics", *TOPICS]

    def explained(about: str = typer.Argument("", autocompletion=subjects)) -> None:
        """Take what ``mtkit help`` takes."""

    root.command("help", help="Describe a command or a topic.")(explained)
    return root


def _unread() -> None:
    """Stand for a command of which only the name is wanted."""
